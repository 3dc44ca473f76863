//! Batches as sent by a client, and messages as received by a consumer.

use headrace_buffer::Slice;
use headrace_partition::{Batch, CLOCK_SETBACK_MICROS_MAX, Polled};
use headrace_wire::message::{HEADER_BYTES, HeaderMut, Messages};

/// Fields of a message that a client sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub id: u128,
    pub payload: Vec<u8>,
}

/// A polled message; its checksum was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub offset: u64,
    pub timestamp: u64,
    pub id: u128,
    pub payload: Vec<u8>,
}

/// A message with a unique payload: `number`, repeated to `length` bytes.
pub fn sent(number: u64, length: usize) -> Sent {
    let mut payload: Vec<u8> = number.to_le_bytes().to_vec();
    payload.resize(length.max(8), number.to_le_bytes()[0]);
    Sent {
        id: u128::from(number % 3),
        payload,
    }
}

pub fn packed(messages: &[Sent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        let mut header = [0; HEADER_BYTES];
        let mut fields = HeaderMut(&mut header);
        fields.set_id(message.id);
        fields.set_payload_length(u32::try_from(message.payload.len()).expect("short"));
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&message.payload);
    }
    bytes
}

pub fn batch(messages: &[Sent]) -> Batch {
    let count = u32::try_from(messages.len()).expect("few");
    Batch::copied(&packed(messages), count)
}

/// Messages of a poll. Fails the test if they are not whole and valid, or if their number is not the stated one.
pub fn got(polled: &Polled) -> Vec<Got> {
    let bytes: Vec<u8> = polled
        .slices
        .iter()
        .flat_map(|slice: &Slice| slice.to_vec())
        .collect();
    assert_eq!(bytes.len() as u64, polled.size_bytes);
    let messages: Vec<Got> = Messages::new(&bytes)
        .map(|message| {
            let message = message.expect("a whole message");
            assert!(message.checksum_matches(), "damage was served");
            let header = message.header();
            Got {
                offset: header.offset(),
                timestamp: header.timestamp(),
                id: header.id(),
                payload: message.payload().to_vec(),
            }
        })
        .collect();
    assert_eq!(messages.len(), polled.messages_count as usize);
    for pair in messages.windows(2) {
        assert_eq!(pair[0].offset + 1, pair[1].offset, "a gap");
        let setback = pair[0].timestamp.saturating_sub(pair[1].timestamp);
        assert!(setback == 0 || setback > CLOCK_SETBACK_MICROS_MAX);
    }
    messages
}

pub fn offsets(polled: &Polled) -> Vec<u64> {
    got(polled).iter().map(|message| message.offset).collect()
}
