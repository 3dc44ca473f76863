//! Response payloads: encoding for servers, decoding for clients.
//!
//! Decoding is strict, as in the official clients: counts and items must agree and trailing bytes are an error. Lists
//! are plain concatenations. An empty payload is an empty list, and means "not found" for a query of one object.

mod extension;
mod group;
mod message;
mod part;
mod quota;
mod reply;
mod stats;
mod user;

use alloc::vec::Vec;

pub use extension::*;
pub use group::*;
pub use message::*;
pub use quota::*;
pub use reply::Response;
pub use stats::*;
pub use user::*;

use crate::frame::{RESPONSE_HEADER_BYTES, ResponseHeader};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Quota};
use part::{Part, payload};

include!(concat!(env!("OUT_DIR"), "/contents.rs"));

/// Decode a list: items back to back to the end of the payload.
pub fn decode_list<'a, T: Part<'a>>(payload: &'a [u8]) -> Result<Vec<T>, Malformed> {
    let mut reader = Reader::new(payload);
    let mut items = Vec::new();
    while !reader.is_empty() {
        items.push(T::read(&mut reader)?);
    }
    Ok(items)
}

/// Append a list: items back to back.
///
/// # Panics
/// On an item with a name of 0 or of more than 255 bytes, which neither the catalog nor decoding accepts.
pub fn encode_list<'a, T: Part<'a>>(items: &[T], out: &mut Vec<u8>) {
    part::encode(out, |writer| write_all(items, writer));
}

/// Append a successful response: the header of the frame and the payload that `encode_payload` appends.
///
/// # Panics
/// If the payload does not fit the 32-bit length.
pub fn encode_frame(out: &mut Vec<u8>, encode_payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&ResponseHeader::EMPTY.encode());
    let payload_start = out.len();
    encode_payload(out);
    let header = ResponseHeader {
        length: u32::try_from(out.len() - payload_start).expect("a response is below 4 GiB"),
        ..ResponseHeader::EMPTY
    };
    out[start..start + RESPONSE_HEADER_BYTES].copy_from_slice(&header.encode());
}

/// Read exactly `count` items.
///
/// The count is untrusted, so memory grows only with the items that are present.
fn read_counted<'a, T: Part<'a>>(reader: &mut Reader<'a>, count: u32) -> Result<Vec<T>, Malformed> {
    let mut items = Vec::new();
    for _ in 0..count {
        if reader.is_empty() {
            return Err(Malformed::CountMismatch);
        }
        items.push(T::read(reader)?);
    }
    Ok(items)
}

fn write_all<'a, T: Part<'a>>(items: &[T], out: &mut Writer<'_>) {
    for item in items {
        item.write(out);
    }
}

#[cfg(test)]
mod tests;
