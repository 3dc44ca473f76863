//! Test messages, and payloads as sent by a partition.

use std::ops::Range;

use headrace_columns::{Column, KEY_HEADER, decode::Settings};
use headrace_wire::headers::{self, Value};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, checksum};
use headrace_wire::response::PolledHeader;
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) const PARTITION: u32 = 3;

/// Contents of a message, without its offset.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) id: u128,
    pub(crate) timestamp: i64,
    pub(crate) origin_timestamp: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) key: Option<Vec<u8>>,
    /// Index of the key among the other headers.
    pub(crate) key_position: usize,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Said {
    pub(crate) fn user_headers(&self) -> Vec<u8> {
        let mut pairs: Vec<(&str, &[u8])> = self
            .headers
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_slice()))
            .collect();
        if let Some(key) = &self.key {
            pairs.insert(self.key_position.min(pairs.len()), (KEY_HEADER, key));
        }
        let mut out = Vec::new();
        for (key, value) in pairs {
            headers::push(Value::Text(key), Value::Raw(value), &mut out).expect("1 to 255 bytes");
        }
        out
    }

    pub(crate) fn message(&self, offset: u64) -> Vec<u8> {
        message(self, offset, &self.user_headers())
    }
}

/// Make a message with these user headers, valid or not.
pub(crate) fn message(said: &Said, offset: u64, user_headers: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER_BYTES];
    let mut fields = HeaderMut(&mut header);
    fields.set_id(said.id);
    fields.set_offset(offset);
    fields.set_timestamp(said.timestamp.unsigned_abs());
    fields.set_origin_timestamp(said.origin_timestamp);
    fields.set_payload_length(u32::try_from(said.payload.len()).expect("short"));
    fields.set_user_headers_length(u32::try_from(user_headers.len()).expect("short"));
    let mut bytes = [&header[..], &said.payload, user_headers].concat();
    seal(&mut bytes);
    bytes
}

/// Set the correct checksum of a message.
pub(crate) fn seal(message: &mut [u8]) {
    let sum = checksum(&message[CHECKSUM_BYTES..]);
    HeaderMut(
        message
            .first_chunk_mut()
            .expect("a message has a whole header"),
    )
    .set_checksum(sum);
}

/// Make a payload of these messages, which are back to back.
pub(crate) fn payload(count: usize, messages: &[u8]) -> Vec<u8> {
    let header = PolledHeader {
        partition_id: PARTITION,
        current_offset: 1_000_000,
        messages_count: u32::try_from(count).expect("few"),
    };
    [&header.to_bytes()[..], messages].concat()
}

/// Make a payload of some messages of a partition whose first message has the offset `base`.
pub(crate) fn part(said: &[Said], base: u64, range: Range<usize>) -> Vec<u8> {
    let messages: Vec<u8> = range
        .clone()
        .flat_map(|index| said[index].message(base + index as u64))
        .collect();
    payload(range.len(), &messages)
}

pub(crate) fn said() -> impl Strategy<Value = Said> {
    let header = ("[a-zé]{1,8}", vec(any::<u8>(), 1..12));
    (
        any::<u128>(),
        0..i64::MAX,
        prop_oneof![9 => 0..1_u64 << 63, 1 => any::<u64>()],
        vec(any::<u8>(), 0..60),
        proptest::option::of(vec(any::<u8>(), 1..20)),
        0..4_usize,
        vec(header, 0..4),
    )
        .prop_map(
            |(id, timestamp, origin_timestamp, payload, key, key_position, headers)| Said {
                id,
                timestamp,
                origin_timestamp,
                payload,
                key,
                key_position,
                headers,
            },
        )
}

/// Settings for a whole partition with all columns, in practically unbounded batches.
pub(crate) fn settings() -> Settings {
    Settings {
        columns: Column::ALL.to_vec(),
        start: 0,
        end: u64::MAX,
        verify: true,
        batch_rows: 1 << 20,
        batch_bytes: 1 << 30,
        stream: "shop".to_owned(),
        topic: "orders".to_owned(),
        partition: PARTITION,
    }
}
