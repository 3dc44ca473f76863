use headrace_websocket::{Opcode, apply_mask, encode_header};
use proptest::prelude::*;

use super::*;
use crate::{calls::ConnectionKey, config::WebSocketConfig, memory::Receiver};

const RECEIVER: ReceiverId = ReceiverId {
    shard: headrace_model::ShardId(0),
    receiver: Receiver::Connection(ConnectionKey {
        index: 0,
        generation: 1,
    }),
};

fn frame(code: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 4).expect("short");
    [&length.to_le_bytes()[..], &code.to_le_bytes(), payload].concat()
}

/// Feed `stream` in pieces of the given sizes and collect the frames that come out.
fn assemble(mut inbox: Inbox, stream: &[u8], pieces: &[usize]) -> Vec<(u32, Vec<u8>)> {
    let pool = BufferPool::new(64 * 1024 * 1024);
    let mut frames = Vec::new();
    let mut position = 0;
    let mut pieces = pieces.iter().cycle();
    loop {
        if let Some((code, payload)) = inbox.take_large() {
            frames.push((code, payload.to_vec()));
            continue;
        }
        if let Head::Request {
            code,
            payload_bytes,
        } = inbox.head()
        {
            if payload_bytes > SMALL_PAYLOAD_BYTES_MAX {
                inbox
                    .begin_large(code, payload_bytes, &Memory::new(pool.clone()), RECEIVER)
                    .expect("the pool is large");
                continue;
            }
            if let Some(payload) = inbox.payload_mut(payload_bytes) {
                frames.push((code, payload.to_vec()));
                inbox.consume(REQUEST_HEADER_BYTES + payload_bytes);
                continue;
            }
        }
        let Some(mut receive) = inbox.next_receive(&pool, true).expect("the pool is large") else {
            continue;
        };
        let room = receive.buffer.len() - receive.start;
        assert!(room >= receive.minimum, "room for what is waited for");
        let piece = if receive.minimum > 1 {
            receive.minimum
        } else {
            *pieces.next().expect("cycles")
        };
        let count = piece.min(room).min(stream.len() - position);
        if count == 0 {
            return frames;
        }
        receive.buffer[receive.start..receive.start + count]
            .copy_from_slice(&stream[position..position + count]);
        position += count;
        inbox.received(receive.buffer, count);
    }
}

/// Requests of these payload sizes, and the expected frames.
fn requests(sizes: &[usize]) -> (Vec<u8>, Vec<(u32, Vec<u8>)>) {
    let mut stream = Vec::new();
    let mut expected = Vec::new();
    for (code, size) in (0_u32..).zip(sizes) {
        let payload: Vec<u8> = (0..*size)
            .map(|byte| (byte * 31 + code as usize).to_le_bytes()[0])
            .collect();
        stream.extend(frame(code, &payload));
        expected.push((code, payload));
    }
    (stream, expected)
}

fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![0_usize..300, 15_000..40_000_usize], 1..12)
}

/// The stream as client messages of these payload sizes, each in one or two frames, with pings, pongs and texts between
/// them.
fn in_messages(stream: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut wrapped, _) = headrace_websocket::request("localhost", "/", [1; 16]);
    let mut key = [1, 2, 3, 4];
    let mut rest = stream;
    for (index, size) in sizes.iter().cycle().enumerate() {
        let (message, back) = rest.split_at((*size).min(rest.len()));
        let (first, second) =
            message.split_at(if index % 3 == 0 { size / 3 } else { 0 }.min(message.len()));
        if !first.is_empty() {
            masked(&mut wrapped, 0x02, first, key);
            masked(&mut wrapped, 0x89, b"are you there?", key);
        }
        let last = if first.is_empty() { 0x82 } else { 0x80 };
        masked(&mut wrapped, last, second, key);
        if index % 4 == 1 {
            masked(
                &mut wrapped,
                0x81,
                "nothing of import\u{e4}nce".as_bytes(),
                key,
            );
            masked(&mut wrapped, 0x8a, b"", key);
        }
        key = key.map(|byte: u8| byte.wrapping_mul(31).wrapping_add(7));
        rest = back;
        if rest.is_empty() {
            break;
        }
    }
    wrapped
}

fn masked(out: &mut Vec<u8>, first: u8, payload: &[u8], key: [u8; 4]) {
    let start = out.len();
    out.extend_from_slice(encode_header(Opcode::Binary, payload.len(), Some(key)).as_slice());
    out[start] = first;
    let start = out.len();
    out.extend_from_slice(payload);
    apply_mask(&mut out[start..], key, 0);
}

fn on_websocket() -> Inbox {
    let websocket = WebSocket::new(&WebSocketConfig::default());
    Inbox::new(Some(Box::new(websocket)), false)
}

proptest! {
    /// GW-1: the same frames result, small and large, in order, however the bytes are split.
    #[test]
    fn frames_survive_any_segmentation(
        sizes in any_sizes(),
        pieces in prop::collection::vec(1_usize..70_000, 1..6),
    ) {
        let (stream, expected) = requests(&sizes);
        prop_assert_eq!(assemble(Inbox::new(None, false), &stream, &pieces), expected);
    }

    /// GW-2: the same frames result however the bytes are divided into messages.
    #[test]
    fn frames_survive_any_division_into_messages(
        sizes in any_sizes(),
        messages in prop::collection::vec(prop_oneof![1_usize..40, 1..300_usize, 5_000..90_000_usize], 1..6),
        pieces in prop::collection::vec(1_usize..70_000, 1..6),
    ) {
        let (stream, expected) = requests(&sizes);
        let stream = in_messages(&stream, &messages);
        prop_assert_eq!(assemble(on_websocket(), &stream, &pieces), expected);
    }
}

/// GW-2: a batch in one message is received into its own buffer, except for the bytes that came with its header.
/// Afterwards the idle connection keeps only a small buffer again.
#[test]
fn a_large_payload_is_received_where_it_stays() {
    let pool = BufferPool::new(64 * 1024 * 1024);
    let mut inbox = on_websocket();
    let (stream, expected) = requests(&[1_000_000]);
    let stream = in_messages(&stream, &[2_000_000]);
    let mut position = 0;
    let mut receives = Vec::new();
    while position < stream.len() {
        if let Head::Request {
            code,
            payload_bytes,
        } = inbox.head()
        {
            inbox
                .begin_large(code, payload_bytes, &Memory::new(pool.clone()), RECEIVER)
                .expect("room");
        }
        let mut receive = inbox
            .next_receive(&pool, true)
            .expect("room")
            .expect("wanted");
        let room = receive.buffer.len() - receive.start;
        let count = room.min(stream.len() - position);
        receive.buffer[receive.start..receive.start + count]
            .copy_from_slice(&stream[position..position + count]);
        position += count;
        receives.push(count);
        inbox.received(receive.buffer, count);
    }
    // Two frames of the message, each with the bytes that came with its header.
    assert!(receives.len() <= 6, "{receives:?}");
    let apart: usize = receives.iter().filter(|count| **count > 100_000).sum();
    assert!(apart > 990_000, "{receives:?}");
    let (code, payload) = inbox.take_large().expect("whole");
    assert_eq!((code, payload.to_vec()), expected[0]);
    drop(payload);
    assert!(pool.statistics().in_use_bytes <= 4096, "{pool:?}");
}

#[test]
fn discarded_bytes_may_still_be_on_their_way() {
    let pool = BufferPool::new(64 * 1024 * 1024);
    let mut inbox = Inbox::new(None, false);
    inbox.discard(100);
    let mut receive = inbox
        .next_receive(&pool, true)
        .expect("room")
        .expect("wanted");
    let bytes = [&[7_u8; 100][..], &frame(1, b"")].concat();
    receive.buffer[..bytes.len()].copy_from_slice(&bytes);
    inbox.received(receive.buffer, bytes.len());
    assert_eq!(
        inbox.head(),
        Head::Request {
            code: 1,
            payload_bytes: 0
        }
    );
}

#[test]
fn a_length_below_four_is_reported() {
    let pool = BufferPool::new(64 * 1024 * 1024);
    let mut inbox = Inbox::new(None, false);
    let mut receive = inbox
        .next_receive(&pool, true)
        .expect("room")
        .expect("wanted");
    receive.buffer[..8].copy_from_slice(&[3, 0, 0, 0, 1, 0, 0, 0]);
    inbox.received(receive.buffer, 8);
    assert_eq!(inbox.head(), Head::TooShort);
}
