//! Encoding of frames. `docs/link-protocol.md` has the layout.
//!
//! A frame has the shape of a request of the Iggy protocol, so that both ends receive it like such a request: a small
//! one in the receive buffer, a large one in a buffer of its own. Messages in large frames are not copied, neither on
//! receipt nor on sending. Decoding never panics, whatever the input, and an announced count never causes an allocation
//! beyond the bytes that are present.

mod error;
mod fields;
mod layouts;
mod reader;
mod refusals;
mod to_gateway;
mod to_node;

pub use error::DecodeError;
pub use to_node::{MESSAGES_HEAD_BYTES_MAX, SmallToNode};

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_wire::Status;
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader};

/// Version of the link protocol. A node refuses a later one.
pub const VERSION: u16 = 2;
/// Oldest version that a node accepts: its polls have no limit of size, it names no users of stored offsets,
/// and its watches ask for no openings.
pub const OLDEST_VERSION: u16 = 1;

/// Status with which a node refuses or closes a link. The node sends a response header, which the gateway reads as a
/// frame header; no frame has the code 0.
pub fn refusal(header: RequestHeader) -> Option<Status> {
    (header.code == 0).then_some(Status(header.length))
}

/// Put the header in front of a payload, the last `behind` bytes of which follow in separate slices.
///
/// # Panics
/// If the payload has 4 GiB or more. The limits on messages of a batch and of a response are far lower.
fn finish(code: u32, mut head: Vec<u8>, behind: usize) -> Slice {
    let payload_bytes = head.len() - REQUEST_HEADER_BYTES + behind;
    let header = RequestHeader::new(code, payload_bytes).expect("messages are far below 4 GiB");
    head[..REQUEST_HEADER_BYTES].copy_from_slice(&header.encode());
    Slice::from_vec(head)
}

/// Allocate a buffer for the header and a payload of about `payload_bytes`.
fn begin(payload_bytes: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(REQUEST_HEADER_BYTES + payload_bytes);
    head.resize(REQUEST_HEADER_BYTES, 0);
    head
}
