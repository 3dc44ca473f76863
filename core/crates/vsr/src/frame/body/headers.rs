//! Lists of prepares' headers: the suffix of a log, or what repair asked for.

use alloc::vec::Vec;

use crate::frame::{HEADER_BYTES, PrepareHeader, Reject};

/// The body of a list of headers.
pub fn encode(headers: &[PrepareHeader]) -> Vec<u8> {
    let mut body = Vec::with_capacity(headers.len() * HEADER_BYTES);
    for header in headers {
        body.extend_from_slice(&header.encode());
    }
    body
}

/// Reads a list of headers, each with its checksum. Blank ones are recognised by all of their bytes.
///
/// # Errors
/// [`Reject::Body`] when it is no list of prepares' headers.
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
