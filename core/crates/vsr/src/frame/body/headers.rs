//! Lists of prepare headers: the suffix of a log, or the answer to a repair request.

use alloc::vec::Vec;

use crate::frame::HEADER_BYTES;
use crate::frame::PrepareHeader;
use crate::frame::Reject;

/// Encode a list of headers.
pub fn encode(headers: &[PrepareHeader]) -> Vec<u8> {
    let mut body = Vec::with_capacity(headers.len() * HEADER_BYTES);
    for header in headers {
        body.extend_from_slice(&header.encode());
    }
    body
}

/// Decode a list of headers and verify the checksum of each. A blank header is recognised by comparing all of its
/// bytes.
///
/// # Errors
/// [`Reject::Body`] if the body is not a list of prepare headers.
pub fn decode(body: &[u8]) -> Result<Vec<PrepareHeader>, Reject> {
    let (headers, rest) = body.as_chunks::<HEADER_BYTES>();
    if !rest.is_empty() {
        return Err(Reject::Body);
    }
    headers.iter().map(decode_one).collect()
}

fn decode_one(bytes: &[u8; HEADER_BYTES]) -> Result<PrepareHeader, Reject> {
    let header = PrepareHeader::decode(bytes).map_err(|_| Reject::Body)?;
    if header.is_blank() && header != PrepareHeader::blank(header.op()) {
        return Err(Reject::Body);
    }
    Ok(header)
}
