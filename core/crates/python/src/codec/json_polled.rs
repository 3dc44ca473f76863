//! Polled messages as JSON, in the form of the HTTP API, which the push to browsers shares.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use headrace_wire::{
    Malformed,
    headers::Field,
    message::MessageView,
    response::{Polled, ReadAnswer, ReadGap},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};

use super::{
    error::malformed,
    headers::{kind_name, readable},
};

/// Approximate number of characters for the numbers and names of one message.
const PER_MESSAGE_CHARACTERS: usize = 320;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(polled_json, module)?)?;
    module.add_function(wrap_pyfunction!(polled_events, module)?)
}

/// Format of numbers beyond 53 bits.
#[derive(Clone, Copy)]
struct Style {
    quote: &'static str,
}

#[pyfunction]
#[pyo3(signature = (payload, *, numbers_as_text = false, names_gap = false))]
fn polled_json(
    python: Python<'_>,
    payload: PyBackedBytes,
    numbers_as_text: bool,
    names_gap: bool,
) -> PyResult<Bound<'_, PyBytes>> {
    let style = Style {
        quote: if numbers_as_text { "\"" } else { "" },
    };
    let json = python
        .detach(|| polled(read(&payload, names_gap)?, style))
        .map_err(malformed)?;
    Ok(PyBytes::new(python, json.as_bytes()))
}

/// Encode each message as a server-sent event whose id is its offset. Returns the events and the last offset.
#[pyfunction]
#[pyo3(signature = (payload, *, numbers_as_text = false, names_gap = false))]
fn polled_events(
    python: Python<'_>,
    payload: PyBackedBytes,
    numbers_as_text: bool,
    names_gap: bool,
) -> PyResult<(Bound<'_, PyBytes>, Option<u64>)> {
    let style = Style {
        quote: if numbers_as_text { "\"" } else { "" },
    };
    let (text, last_offset) = python
        .detach(|| events(read(&payload, names_gap)?, style))
        .map_err(malformed)?;
    Ok((PyBytes::new(python, text.as_bytes()), last_offset))
}

/// Decode the answer to `ReadMessages` if `names_gap`, otherwise to one of the commands that do not report gaps.
pub(super) fn read(payload: &[u8], names_gap: bool) -> Result<ReadAnswer<'_>, Malformed> {
    let answer = if names_gap {
        ReadAnswer::decode(payload)?
    } else {
        ReadAnswer {
            gap: ReadGap::default(),
            polled: Polled::decode(payload)?,
        }
    };
    answer.polled.check()?;
    Ok(answer)
}

/// Encode a gap, for example `{"from":1,"to":5}`; `None` if no messages are missing.
fn gap_json(gap: ReadGap, Style { quote }: Style) -> Option<String> {
    let ReadGap { from, to } = gap;
    (from < to).then(|| format!("{{\"from\":{quote}{from}{quote},\"to\":{quote}{to}{quote}}}"))
}

fn events(
    ReadAnswer { gap, polled }: ReadAnswer<'_>,
    style: Style,
) -> Result<(String, Option<u64>), Malformed> {
    let count = polled.header.messages_count as usize;
    let mut out =
        String::with_capacity(polled.message_bytes.len() / 3 * 4 + count * PER_MESSAGE_CHARACTERS);
    let mut last_offset = None;
    if let Some(gap) = gap_json(gap, style) {
        put(&mut out, format_args!("event: gap\ndata: {gap}\n\n"));
    }
    for view in polled.messages() {
        let view = view?;
        let offset = view.header().offset();
        // The encoder writes no line breaks, so one line of data holds a message.
        put(&mut out, format_args!("id: {offset}\ndata: "));
        message(&mut out, &view, style);
        out.push_str("\n\n");
        last_offset = Some(offset);
    }
    Ok((out, last_offset))
}

fn polled(ReadAnswer { gap, polled }: ReadAnswer<'_>, style: Style) -> Result<String, Malformed> {
    let count = polled.header.messages_count;
    let mut out = String::with_capacity(
        polled.message_bytes.len() / 3 * 4 + 128 + count as usize * PER_MESSAGE_CHARACTERS,
    );
    let Style { quote } = style;
    put(
        &mut out,
        format_args!(
            "{{\"partition_id\":{},\"current_offset\":{quote}{}{quote},\"count\":{count},",
            polled.header.partition_id, polled.header.current_offset
        ),
    );
    if let Some(gap) = gap_json(gap, style) {
        put(&mut out, format_args!("\"gap\":{gap},"));
    }
    out.push_str("\"messages\":[");
    for (index, view) in polled.messages().enumerate() {
        if index > 0 {
            out.push(',');
        }
        message(&mut out, &view?, style);
    }
    out.push_str("]}");
    Ok(out)
}

fn message(out: &mut String, view: &MessageView<'_>, Style { quote }: Style) {
    let header = view.header();
    put(
        out,
        format_args!(
            "{{\"header\":{{\"checksum\":{quote}{}{quote},\"id\":{quote}{}{quote},\"offset\":{quote}{}{quote},\
             \"timestamp\":{quote}{}{quote},\"origin_timestamp\":{quote}{}{quote},\"user_headers_length\":{},\
             \"payload_length\":{},\"reserved\":0}},\"payload\":\"",
            header.checksum(),
            header.id(),
            header.offset(),
            header.timestamp(),
            header.origin_timestamp(),
            header.user_headers_length(),
            header.payload_length(),
        ),
    );
    STANDARD.encode_string(view.payload(), out);
    out.push_str("\",\"user_headers\":");
    user_headers(out, view.user_headers());
    out.push('}');
}

/// Write an array of pairs, or base64 if the headers cannot be decoded because clients have encrypted them.
fn user_headers(out: &mut String, encoded: &[u8]) {
    let Some(pairs) = readable(encoded) else {
        out.push('"');
        STANDARD.encode_string(encoded, out);
        out.push('"');
        return;
    };
    out.push('[');
    for (index, pair) in pairs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str("{\"key\":");
        field(out, pair.key);
        out.push_str(",\"value\":");
        field(out, pair.value);
        out.push('}');
    }
    out.push(']');
}

fn field(out: &mut String, field: Field<'_>) {
    let kind = kind_name(field.kind()).unwrap_or("raw");
    put(out, format_args!("{{\"kind\":\"{kind}\",\"value\":\""));
    STANDARD.encode_string(field.bytes(), out);
    out.push_str("\"}");
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments)
        .expect("a text in memory takes everything");
}
