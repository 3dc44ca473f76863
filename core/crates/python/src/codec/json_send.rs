//! Direct conversion of the JSON form of a batch into a `SendMessages`.
//!
//! `{"partitioning": {"kind", "value"}, "messages": [{"id"?, "payload", "user_headers"?}]}`, binary values in base64.
//! Unknown fields are refused by name: a misspelt `user_headers` would silently lose the headers of every message.

use std::{borrow::Cow, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use headrace_wire::{
    Partitioning, Status,
    headers::{Pair, encode},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{error::Category, value::RawValue};

use super::{
    arguments::{Name, messages_key},
    batch::{BoundedBatch, sent},
    error::{Defect, Fault},
    headers::{key, kind_code, value},
};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_send_messages_json, module)?)
}

#[pyfunction]
#[pyo3(signature = (body, *, stream, topic, origin_timestamp_micros = 0, size_bytes_max = u32::MAX as usize))]
fn encode_send_messages_json(
    python: Python<'_>,
    body: PyBackedBytes,
    stream: Name,
    topic: Name,
    origin_timestamp_micros: u64,
    size_bytes_max: usize,
) -> PyResult<(u32, Bound<'_, PyBytes>)> {
    let (stream, topic) = (stream.checked("stream")?, topic.checked("topic")?);
    let payload = python.detach(|| {
        let mut reading = Reading {
            batch: BoundedBatch::new(origin_timestamp_micros, size_bytes_max),
            partitioning: None,
            payload: Vec::new(),
            user_headers: Vec::new(),
            field: None,
            fault: None,
        };
        let mut json = serde_json::Deserializer::from_slice(&body);
        let outcome = BodySeed(&mut reading)
            .deserialize(&mut json)
            .and_then(|()| json.end());
        if let Err(error) = outcome {
            return Err(reading.into_fault(&error, &body));
        }
        let Reading {
            batch,
            partitioning,
            ..
        } = reading;
        let (kind, value) = partitioning.unwrap_or_default();
        let partitioning = partitioning_of(&kind, &value)?;
        batch.finish(stream, topic, partitioning)
    });
    sent(python, payload)
}

/// State of the parser.
struct Reading {
    batch: BoundedBatch,
    partitioning: Option<(String, Vec<u8>)>,
    payload: Vec<u8>,
    user_headers: Vec<u8>,
    field: Option<String>,
    /// Error with more detail than the parser's errors can carry.
    fault: Option<Fault>,
}

impl Reading {
    fn into_fault(self, error: &serde_json::Error, body: &[u8]) -> Fault {
        let position = Some(position(body, error.line(), error.column()));
        if let Some(fault) = self.fault {
            return Fault { position, ..fault };
        }
        let (defect, status) = match error.classify() {
            Category::Data => (Defect::Shape, Status::INVALID_FORMAT),
            Category::Syntax | Category::Eof | Category::Io => {
                (Defect::Syntax, Status::INVALID_FORMAT)
            }
        };
        Fault {
            defect,
            status,
            field: self.field,
            position,
            text: error.to_string(),
        }
    }

    /// Keep the error, and return one that stops the parser.
    fn stop<E: Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }

    /// Decode one message and append it.
    fn push(&mut self, index: usize, message: &MessageJson<'_>) -> Result<(), Fault> {
        let at = |part: &str| format!("messages[{index}]{part}");
        // The decoded size is three quarters of the characters, less the padding.
        let decoded_bytes = (message.payload.len() / 4 * 3).saturating_sub(2);
        self.batch.reserve(decoded_bytes, || at(""))?;
        let id = message
            .id
            .map_or(Ok(0), |id| message_id(id.get(), &at(".id")))?;
        self.payload.clear();
        STANDARD
            .decode_vec(message.payload.as_bytes(), &mut self.payload)
            .map_err(|error| shape(at(".payload"), error))?;
        self.user_headers.clear();
        if let Some(json) = message.user_headers {
            read_user_headers(json.get(), &mut self.user_headers, &at(".user_headers"))?;
        }
        self.batch.push(id, &self.payload, &self.user_headers, at)
    }
}

/// Convert a parser's line and column, both counted from 1, to a byte offset.
fn position(body: &[u8], line: usize, column: usize) -> usize {
    let line_start = body
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(line.wrapping_sub(2))
        .map_or(0, |(index, _)| index + 1);
    (line_start + column.saturating_sub(1)).min(body.len())
}

fn shape(field: String, error: impl fmt::Display) -> Fault {
    Fault {
        defect: Defect::Shape,
        status: Status::INVALID_FORMAT,
        field: Some(field),
        position: None,
        text: error.to_string(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageJson<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Cow<'a, str>,
    /// Some existing clients write `headers`.
    #[serde(borrow, default, alias = "headers")]
    user_headers: Option<&'a RawValue>,
    /// Existing clients also send the header of polled messages; the server creates a new one.
    #[serde(default, rename = "header")]
    _header: IgnoredAny,
    /// Existing clients send the size that they computed.
    #[serde(default, rename = "size")]
    _size: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitioningJson<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Cow<'a, str>,
    /// Size that existing clients computed.
    #[serde(default, rename = "size")]
    _size: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairJson<'a> {
    #[serde(borrow)]
    key: FieldJson<'a>,
    #[serde(borrow)]
    value: FieldJson<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldJson<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

struct BodySeed<'r>(&'r mut Reading);

impl<'de> DeserializeSeed<'de> for BodySeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with partitioning and messages")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut has_messages = false;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            self.0.field = Some(name.to_string());
            match &*name {
                "partitioning" if self.0.partitioning.is_some() => {
                    return Err(Error::duplicate_field("partitioning"));
                }
                "partitioning" => {
                    let json = map.next_value::<PartitioningJson<'de>>()?;
                    let value = STANDARD.decode(json.value.as_bytes());
                    let value = value.map_err(|error| {
                        self.0.stop(shape("partitioning.value".to_owned(), error))
                    })?;
                    let kind = json.kind.into_owned();
                    if !["balanced", "partition_id", "messages_key"].contains(&&*kind) {
                        let text =
                            format!("{kind:?} is not balanced, partition_id or messages_key");
                        return Err(self.0.stop(shape("partitioning.kind".to_owned(), text)));
                    }
                    self.0.partitioning = Some((kind, value));
                }
                "messages" if has_messages => return Err(Error::duplicate_field("messages")),
                "messages" => {
                    map.next_value_seed(MessagesSeed(self.0))?;
                    has_messages = true;
                }
                other => return Err(Error::unknown_field(other, &["partitioning", "messages"])),
            }
        }
        self.0.field = None;
        if self.0.partitioning.is_none() {
            return Err(Error::missing_field("partitioning"));
        }
        if !has_messages {
            return Err(Error::missing_field("messages"));
        }
        Ok(())
    }
}

struct MessagesSeed<'r>(&'r mut Reading);

impl<'de> DeserializeSeed<'de> for MessagesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MessagesSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            self.0.field = Some(format!("messages[{index}]"));
            let Some(message) = sequence.next_element::<MessageJson<'de>>()? else {
                return Ok(());
            };
            if let Err(fault) = self.0.push(index, &message) {
                return Err(self.0.stop(fault));
            }
            index += 1;
        }
    }
}

fn partitioning_of<'a>(kind: &str, value: &'a [u8]) -> Result<Partitioning<'a>, Fault> {
    let refuse = |text: &str| Fault::value(Status::INVALID_COMMAND, "partitioning.value", text);
    match kind {
        "messages_key" => messages_key(value),
        "partition_id" => value
            .try_into()
            .map(|bytes| Partitioning::PartitionId(u32::from_le_bytes(bytes)))
            .map_err(|_| refuse("a partition has four bytes, little-endian")),
        _ if value.is_empty() => Ok(Partitioning::Balanced),
        _ => Err(refuse("it must be empty")),
    }
}

/// Parse a message id: an integer, a decimal text, or the 32 hexadecimal digits of a UUID, with or without dashes.
fn message_id(json: &str, field: &str) -> Result<u128, Fault> {
    let wrong = || {
        shape(
            field.to_owned(),
            "it is no integer of 128 bits, as a number or as a text, and no UUID",
        )
    };
    if !json.starts_with('"') {
        return json.parse().or_else(|_| whole(json).ok_or_else(wrong));
    }
    let text: Cow<'_, str> = serde_json::from_str::<Text<'_>>(json)
        .map(|text| text.0)
        .map_err(|_| wrong())?;
    // The parser would accept a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(id) = text.parse()
    {
        return Ok(id);
    }
    let mut digits = text.replace('-', "");
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    digits.make_ascii_lowercase();
    u128::from_str_radix(&digits, 16).map_err(|_| wrong())
}

/// Parse a whole number in fractional notation, `1.0` or `1e3`: JSON does not distinguish them.
fn whole(json: &str) -> Option<u128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number: f64 = json.parse().ok()?;
    if number.fract() != 0.0 || !(0.0..=EXACT).contains(&number) {
        return None;
    }
    // Converted as text, because a cast would silently saturate.
    format!("{number:.0}").trim_start_matches('-').parse().ok()
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Read an array of pairs, or base64 of headers that were encoded, and perhaps encrypted, by the client.
fn read_user_headers(json: &str, out: &mut Vec<u8>, field: &str) -> Result<(), Fault> {
    if json.starts_with('"') {
        let text = serde_json::from_str::<Text<'_>>(json)
            .map_err(|error| shape(field.to_owned(), error))?;
        return STANDARD
            .decode_vec(text.0.as_bytes(), out)
            .map_err(|error| shape(field.to_owned(), error));
    }
    let pairs: Vec<PairJson<'_>> =
        serde_json::from_str(json).map_err(|error| shape(field.to_owned(), error))?;
    for (index, pair) in pairs.iter().enumerate() {
        let at_key = || format!("{field}[{index}].key");
        let at_value = || format!("{field}[{index}].value");
        let (key_kind, key_bytes) = read_field(&pair.key, &at_key)?;
        let (value_kind, value_bytes) = read_field(&pair.value, &at_value)?;
        let pair = Pair {
            key: key(key_kind, &key_bytes, at_key)?,
            value: value(value_kind, &value_bytes, at_value)?,
        };
        encode([pair], out);
    }
    Ok(())
}

fn read_field(json: &FieldJson<'_>, at: &dyn Fn() -> String) -> Result<(u8, Vec<u8>), Fault> {
    let kind = kind_code(&json.kind)
        .ok_or_else(|| shape(at(), format!("{:?} is not a header kind", json.kind)))?;
    let bytes = STANDARD
        .decode(json.value.as_bytes())
        .map_err(|error| shape(at(), error))?;
    Ok((kind, bytes))
}
