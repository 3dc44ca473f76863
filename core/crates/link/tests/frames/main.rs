//! Round trips of frames, and refusal of everything else.

#[allow(
    clippy::unwrap_used,
    reason = "what the tests rest on is their failure"
)]
mod samples;

use headrace_buffer::{Buffer, BufferPool, Slice};
use headrace_link::{
    CallHeader, DecodeError, MESSAGES_HEAD_BYTES_MAX, RequestId, SmallToNode, ToGateway, ToNode,
    refusal,
};
use headrace_partition::{Batch, Request, Response};
use headrace_wire::{
    Malformed, Status,
    frame::{REQUEST_HEADER_BYTES, RequestHeader},
    response::encode_frame,
};
use proptest::prelude::*;

use samples::{place, to_gateway, to_node};

/// Code and payload of a complete frame.
fn split(slices: &[Slice]) -> (u32, Vec<u8>) {
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    let (header, payload) = bytes
        .split_first_chunk::<REQUEST_HEADER_BYTES>()
        .expect("a frame has a header");
    let header = RequestHeader::parse(header);
    assert_eq!(header.payload_bytes(), u32::try_from(payload.len()).ok());
    (header.code, payload.to_vec())
}

/// Comparable form of a frame: its debug output, and the messages of a batch separately.
fn comparable(frame: ToNode) -> (String, Option<Vec<u8>>) {
    if let ToNode::Request {
        header:
            CallHeader {
                call,
                place,
                member,
                trace,
            },
        request,
    } = frame
    {
        let head = format!("{call:?} {place:?} {member:?} {trace:?}");
        return match request {
            Request::Append { batch } => {
                let count = batch.messages_count();
                (format!("{head} {count}"), Some(batch.freeze().to_vec()))
            }
            Request::Stage {
                stage,
                lifetime_micros,
                chunk,
                is_last,
                batch,
            } => {
                let count = batch.messages_count();
                let part = format!("{stage:?} {lifetime_micros} {chunk} {is_last}");
                let messages = batch.freeze().to_vec();
                (format!("{head} {part} {count}"), Some(messages))
            }
            request => (format!("{head} {request:?}"), None),
        };
    }
    (format!("{frame:?}"), None)
}

fn decode_small(code: u32, payload: &mut [u8]) -> Result<ToNode, DecodeError> {
    ToNode::decode(code, payload).map(SmallToNode::into_owned)
}

proptest! {
    /// Covers both ways to decode.
    #[test]
    fn a_gateway_is_understood(sample in to_node()) {
        let (code, mut payload) = split(&sample.clone().frame().encode());
        let expected = comparable(sample.frame());
        let owned = ToNode::decode_owned(code, Buffer::unpooled(payload.clone())).expect("well-formed");
        prop_assert_eq!(comparable(owned), expected.clone());
        let small = decode_small(code, &mut payload).expect("well-formed");
        prop_assert_eq!(comparable(small), expected);
        prop_assert!(ToGateway::decode(code, &payload) == Err(DecodeError::UnknownFrame(code)));
    }

    #[test]
    fn a_node_is_understood(frame in to_gateway()) {
        let (code, mut payload) = split(&frame.clone().encode());
        prop_assert_eq!(joined(ToGateway::decode(code, &payload).expect("well-formed")), joined(frame.clone()));
        let owned = ToGateway::decode_owned(code, Buffer::unpooled(payload.clone())).expect("well-formed");
        prop_assert_eq!(joined(owned), joined(frame));
        prop_assert_eq!(decode_small(code, &mut payload).expect_err("it is the other direction"), DecodeError::UnknownFrame(code));
    }

    /// A truncated frame is refused. Exceptions: truncated messages of a batch or a response, which their readers
    /// validate, and complete items of a list that extends to the end of its frame.
    #[test]
    fn truncated_frames_are_refused(sample in to_node(), frame in to_gateway(), cut in any::<prop::sample::Index>()) {
        let has_messages = sample.messages_bytes();
        let (code, mut payload) = split(&sample.frame().encode());
        let kept = cut.index(payload.len());
        let is_head = kept < payload.len() - has_messages;
        let result = decode_small(code, &mut payload[..kept]);
        prop_assert_eq!(result.is_err(), is_head, "{} of {} bytes", kept, payload.len());
        let owned = ToNode::decode_owned(code, Buffer::unpooled(&payload[..kept]));
        prop_assert_eq!(owned.is_err(), is_head);

        let may_be_shorter = match &frame {
            ToGateway::Answer { result: Ok(Response::Polled(_) | Response::Planned(_)), .. }
            | ToGateway::Statistics { .. } => true,
            // Without its openings the state is that for gateways that ask for none.
            ToGateway::StateChanged { view, .. } => !view.openings.is_empty(),
            _ => false,
        };
        let (code, payload) = split(&frame.encode());
        let kept = cut.index(payload.len());
        let result = ToGateway::decode(code, &payload[..kept]);
        prop_assert!(result.is_err() || may_be_shorter);
        prop_assert_eq!(ToGateway::decode_owned(code, Buffer::unpooled(&payload[..kept])).is_err(), result.is_err());
    }

    /// Trailing bytes are refused, except after messages.
    #[test]
    fn trailing_bytes_are_refused(sample in to_node(), frame in to_gateway()) {
        let is_batch = sample.is_batch();
        let (code, mut payload) = split(&sample.frame().encode());
        payload.push(0);
        prop_assert_eq!(decode_small(code, &mut payload).is_ok(), is_batch);

        let is_polled = matches!(&frame, ToGateway::Answer { result: Ok(Response::Polled(polled)), .. } if polled.messages_count > 0);
        let (code, mut payload) = split(&frame.encode());
        payload.push(0);
        prop_assert_eq!(ToGateway::decode(code, &payload).is_ok(), is_polled);
    }

    /// Arbitrary input never panics; what can be decoded encodes to the same bytes.
    #[test]
    fn noise_does_no_harm(index in 0_u32..7, mut payload in prop::collection::vec(0_u8..8, 0..160)) {
        if let Ok(frame) = decode_small(11_001 + index, &mut payload.clone()) {
            prop_assert_eq!(split(&frame.encode()), (11_001 + index, payload.clone()));
        }
        if let Ok(frame) = ToGateway::decode(11_101 + index, &payload) {
            prop_assert_eq!(split(&frame.encode()), (11_101 + index, payload.clone()));
        }
        prop_assert!(decode_small(index, &mut payload).is_err());
        prop_assert!(ToGateway::decode(index, &payload).is_err());
    }

    /// A flipped bit never panics, and both ways to decode agree on the result.
    #[test]
    fn damage_does_no_harm(sample in to_node(), frame in to_gateway(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let (code, mut payload) = split(&sample.frame().encode());
        let at_byte = at.index(payload.len());
        payload[at_byte] ^= 1 << bit;
        let owned = ToNode::decode_owned(code, Buffer::unpooled(payload.clone())).map(comparable);
        prop_assert_eq!(decode_small(code, &mut payload).map(comparable), owned);

        let (code, mut payload) = split(&frame.encode());
        let at_byte = at.index(payload.len());
        payload[at_byte] ^= 1 << bit;
        let owned = ToGateway::decode_owned(code, Buffer::unpooled(payload.clone()));
        prop_assert_eq!(ToGateway::decode(code, &payload), owned);
    }
}

/// Join the messages of a response into one slice.
fn joined(frame: ToGateway) -> ToGateway {
    let ToGateway::Answer {
        call,
        result: Ok(Response::Polled(mut polled)),
    } = frame
    else {
        return frame;
    };
    let bytes: Vec<u8> = polled
        .slices
        .iter()
        .flat_map(|slice| slice.to_vec())
        .collect();
    polled.slices = if bytes.is_empty() {
        Vec::new()
    } else {
        vec![Slice::from_vec(bytes)]
    };
    ToGateway::Answer {
        call,
        result: Ok(Response::Polled(polled)),
    }
}

/// Zero-copy: messages that arrived in a buffer of their own are sent from that buffer, in both directions.
#[test]
fn messages_are_not_copied() {
    let pool = BufferPool::new(1 << 20);
    let mut received = pool.acquire(70_000).expect("within the budget");
    received.fill(7);
    let address = received[500..].as_ptr();
    let batch = Batch::new(received, 500..69_000, 3);
    let frame = ToNode::Request {
        header: CallHeader {
            call: RequestId(1),
            place: place(),
            member: None,
            trace: None,
        },
        request: Request::Append { batch },
    };
    let slices = frame.encode();
    assert_eq!(slices.len(), 2);
    assert_eq!((slices[1].as_ptr(), slices[1].len()), (address, 68_500));

    let (code, payload) = split(&slices);
    let mut landed = pool.acquire(payload.len()).expect("within the budget");
    landed.copy_from_slice(&payload);
    let address = landed[payload.len() - 68_500..].as_ptr();
    let decoded = ToNode::decode_owned(code, landed).expect("well-formed");
    let ToNode::Request {
        request: Request::Append { batch },
        ..
    } = decoded
    else {
        panic!("it was a batch");
    };
    assert_eq!(batch.freeze().as_ptr(), address);
}

#[test]
fn small_batches_are_one_slice() {
    for (messages_bytes, slices) in [(0, 1), (4096, 1), (4097, 2)] {
        let frame = ToNode::Request {
            header: CallHeader {
                call: RequestId(8),
                place: place(),
                member: None,
                trace: None,
            },
            request: Request::Append {
                batch: Batch::copied(&vec![9; messages_bytes], 2),
            },
        };
        assert_eq!(frame.encode().len(), slices);
    }
}

/// The bytes before the messages stay within the limit that a node allows for them.
#[test]
fn the_longest_head_is_known() {
    let sample = samples::longest();
    let messages = sample.messages_bytes();
    let (_, payload) = split(&sample.frame().encode());
    assert_eq!(payload.len() - messages, MESSAGES_HEAD_BYTES_MAX);
}

/// A node refuses a request that it cannot receive by its first bytes.
#[test]
fn a_request_begins_with_its_call() {
    let call = RequestId(0x0102_0304);
    let frame = ToNode::Request {
        header: CallHeader {
            call,
            place: place(),
            member: None,
            trace: None,
        },
        request: Request::Append {
            batch: Batch::copied(&[9; 100], 2),
        },
    };
    let (code, payload) = split(&frame.encode());
    let beginning = &payload[..ToNode::CALL_BYTES];
    assert_eq!(ToNode::call_of(code, beginning), Ok(call));
    assert!(ToNode::call_of(code, &beginning[1..]).is_err());
    let (other, payload) = split(&ToNode::CatalogVersion(8).encode());
    assert!(ToNode::call_of(other, &payload).is_err());
}

/// A refusal in the Iggy protocol in place of the first frame is recognized by its header.
#[test]
fn a_refusal_is_no_frame() {
    let mut bytes = Status::INVALID_TICKET.0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    let header = bytes.first_chunk().expect("a header has eight bytes");
    let header = RequestHeader::parse(header);
    assert_eq!(refusal(header), Some(Status::INVALID_TICKET));
    let mut empty = Vec::new();
    encode_frame(&mut empty, |_| {});
    for code in (11_001..=11_007).chain(11_101..=11_107) {
        let header = RequestHeader::new(code, 0).expect("fits");
        assert_eq!(refusal(header), None);
    }
}

#[test]
fn errors_name_the_frame() {
    let (code, payload) = split(&ToGateway::PollReady { call: RequestId(1) }.encode());
    let error = ToGateway::decode(code, &payload[1..]).expect_err("a byte is missing");
    let reason = Malformed::Truncated;
    assert_eq!(error, DecodeError::Malformed { code, reason });
    assert_eq!(
        error.to_string(),
        "a frame of code 11103 is malformed: the bytes end inside a field"
    );
}
