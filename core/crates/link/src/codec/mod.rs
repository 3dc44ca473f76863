//! Frames: what is said, as bytes. `docs/link-protocol.md` has the layout.
//!
//! A frame has the shape of a request of the classic protocol, so that both ends receive it as they receive those: a
//! small one in the receive buffer, a large one in a buffer of its own. Messages are not copied on their way in or
//! out of a large one. Decoding never panics, whatever the bytes hold, and allocates by no count that they do not back.

mod error;
mod fields;
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

/// Of what is said over a link; a node refuses any other.
pub const VERSION: u16 = 1;

/// What a node says when it refuses a link or takes leave of one: the header of a response, read as that of a frame, none
/// of which has the code 0.
pub fn refusal(header: RequestHeader) -> Option<Status> {
    (header.code == 0).then_some(Status(header.length))
}

/// Put the header in front of a payload, the last `behind` bytes of which follow in slices of their own.
///
/// # Panics
/// When the payload has 4 GiB or more. Messages of a batch and of an answer are limited far below.
fn finish(code: u32, mut head: Vec<u8>, behind: usize) -> Slice {
    let payload_bytes = head.len() - REQUEST_HEADER_BYTES + behind;
    let header = RequestHeader::new(code, payload_bytes).expect("messages are far below 4 GiB");
    head[..REQUEST_HEADER_BYTES].copy_from_slice(&header.encode());
    Slice::from_vec(head)
}

/// Room for the header, to be followed by a payload of about so many bytes.
fn begin(payload_bytes: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(REQUEST_HEADER_BYTES + payload_bytes);
    head.resize(REQUEST_HEADER_BYTES, 0);
    head
}
