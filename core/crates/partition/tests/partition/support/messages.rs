//! Batches as a client sends them, and messages as a consumer gets them.

use headrace_buffer::Slice;
use headrace_partition::{Batch, CLOCK_SETBACK_MICROS_MAX, Polled};
use headrace_wire::message::{HEADER_BYTES, HeaderMut, Messages};

/// What a client puts into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub id: u128,
    pub payload: Vec<u8>,
}

/// A message as it was polled, with its checksum verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub offset: u64,
    pub timestamp: u64,
    pub id: u128,
    pub payload: Vec<u8>,
}

/// A message the payload of which tells them apart: `number`, repeated to `length` bytes.
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

/// The messages of a poll. Fails the test when they are not whole, valid and as many as the poll says.
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
