//! Tables that are sent, and messages as sent by a partition.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use headrace_columns::{
    Column,
    decode::{Batch, Decoder, Settings},
};
use headrace_tables::{ColumnError, Naming, Plan, Rows, rows::Error};
use headrace_wire::headers::{Value, pairs};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, checksum};
use headrace_wire::response::PolledHeader;

/// Make a table of columns, all of which may have nulls.
pub(crate) fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(schema), columns).expect("columns of one length")
}

pub(crate) fn planned(batch: &RecordBatch, naming: &Naming) -> Result<Plan, ColumnError> {
    Plan::new(batch.schema_ref(), naming)
}

/// Read a table of which rows before it were 100.
pub(crate) fn read(batch: &RecordBatch, naming: &Naming) -> Result<Rows, Error> {
    Rows::new(&planned(batch, naming)?, batch, 100, &[], true)
}

/// Names and values of user headers; a text begins with `t`, bytes with `b`.
pub(crate) fn header_pairs(user_headers: &[u8]) -> Vec<(String, String)> {
    let found = pairs(user_headers).map(|pair| {
        let pair = pair.expect("they are readable");
        let text = |value| match value {
            Value::Text(text) => format!("t{text}"),
            Value::Raw(bytes) => format!("b{}", String::from_utf8_lossy(bytes)),
            other => panic!("{other:?}"),
        };
        let (name, value) = (pair.key.value(), pair.value.value());
        let name = text(name.expect("readable"))[1..].to_owned();
        (name, text(value.expect("readable")))
    });
    found.collect()
}

/// Decode messages with these ids, payloads and user headers, from offset 7 of partition 3 on.
pub(crate) fn decoded(columns: &[Column], messages: &[(u128, &[u8], &[u8])]) -> Vec<Batch> {
    let mut bytes = Vec::new();
    for ((id, payload, user_headers), offset) in messages.iter().zip(7..) {
        let mut header = [0; HEADER_BYTES];
        let mut fields = HeaderMut(&mut header);
        fields.set_id(*id);
        fields.set_offset(offset);
        fields.set_timestamp(1_000_000 + offset);
        fields.set_origin_timestamp(5);
        fields.set_payload_length(u32::try_from(payload.len()).expect("short"));
        fields.set_user_headers_length(u32::try_from(user_headers.len()).expect("short"));
        let mut message = [&header[..], payload, user_headers].concat();
        let sum = checksum(&message[CHECKSUM_BYTES..]);
        HeaderMut(message.first_chunk_mut().expect("a header")).set_checksum(sum);
        bytes.extend(message);
    }
    let count = u32::try_from(messages.len()).expect("few");
    let header = PolledHeader {
        partition_id: 3,
        current_offset: 100,
        messages_count: count,
    };
    let polled = [&header.to_bytes()[..], &bytes].concat();
    let mut decoder = Decoder::new(Settings {
        columns: columns.to_vec(),
        start: 7,
        end: u64::MAX,
        verify: true,
        batch_rows: 1000,
        batch_bytes: 1 << 20,
        stream: "shop".to_owned(),
        topic: "orders".to_owned(),
        partition: 3,
    })
    .expect("they are valid");
    decoder.feed(&polled).expect("the messages are whole");
    decoder.finish()
}
