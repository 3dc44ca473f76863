//! Several requests in one prepare: a table, then the requests' own bodies back to back.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::frame::Reject;
use crate::frame::field::{Field, number};

/// Requests of one prepare at most.
pub const REQUESTS_MAX: usize = 256;

/// Bytes of one request in the table.
pub const ENTRY_BYTES: usize = 48;

/// Bytes of the number of requests, with which the body starts.
pub const COUNT_BYTES: usize = 4;

/// One request of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubRequest {
    /// The client.
    pub client: u128,
    /// Its session.
    pub session: u64,
    /// Number of the request.
    pub request: u64,
    /// Commands, or messages, in it.
    pub count: u32,
    /// When to answer.
    pub ack_level: u8,
    /// Its body.
    pub body: Slice,
}

/// The body of a prepare with these requests.
///
/// # Panics
/// When there is none, or more than [`REQUESTS_MAX`], or a body has 4 GiB or more.
pub fn encode(requests: &[SubRequest]) -> Vec<u8> {
    assert!(
        (1..=REQUESTS_MAX).contains(&requests.len()),
        "a table has 1 to {REQUESTS_MAX} requests"
    );
    let count = u32::try_from(requests.len()).expect("at most REQUESTS_MAX");
    let payload: usize = requests.iter().map(|request| request.body.len()).sum();
    let mut body = Vec::with_capacity(COUNT_BYTES + requests.len() * ENTRY_BYTES + payload);
    body.extend_from_slice(&count.to_le_bytes());
    for request in requests {
        let len = u32::try_from(request.body.len()).expect("a body is far below 4 GiB");
        let mut entry = [0; ENTRY_BYTES];
        request.client.put(&mut entry[0..]);
        request.session.put(&mut entry[16..]);
        request.request.put(&mut entry[24..]);
        request.count.put(&mut entry[32..]);
        len.put(&mut entry[36..]);
        request.ack_level.put(&mut entry[40..]);
        body.extend_from_slice(&entry);
    }
    for request in requests {
        body.extend_from_slice(&request.body);
    }
    body
}

/// Reads the requests; their bodies share the memory of `body`.
///
/// # Errors
/// [`Reject::Body`] when the table or the lengths in it are not those of this body.
pub fn decode(body: &Slice) -> Result<Vec<SubRequest>, Reject> {
    let entries = check(body)?;
    let mut start = COUNT_BYTES + size_of_val(entries);
    let requests = entries.iter().map(|entry| {
        let end = start + number::<u32>(entry, 36) as usize;
        let request = SubRequest {
            client: number(entry, 0),
            session: number(entry, 16),
            request: number(entry, 24),
            count: number(entry, 32),
            ack_level: entry[40],
            body: body.slice(start..end),
        };
        start = end;
        request
    });
    Ok(requests.collect())
}

/// The table of `body`, when it and the lengths in it are those of this body.
pub(super) fn check(body: &[u8]) -> Result<&[[u8; ENTRY_BYTES]], Reject> {
    let (count, rest) = body.split_first_chunk().ok_or(Reject::Body)?;
    let count = u32::from_le_bytes(*count) as usize;
    if !(1..=REQUESTS_MAX).contains(&count) {
        return Err(Reject::Body);
    }
    let (table, payload) = rest
        .split_at_checked(count * ENTRY_BYTES)
        .ok_or(Reject::Body)?;
    let entries = table.as_chunks().0;
    let lengths = entries.iter().map(|entry| number::<u32>(entry, 36));
    let total: u64 = lengths.map(u64::from).sum();
    if total != payload.len() as u64 || entries.iter().any(|entry| entry[41..] != [0; 7]) {
        return Err(Reject::Body);
    }
    Ok(entries)
}
