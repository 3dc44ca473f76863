//! Several requests in one prepare: a table, then the bodies of the requests back to back.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::frame::Reject;
use crate::frame::field::{Field, number};

/// Maximum number of requests in one prepare.
pub const REQUESTS_MAX: usize = 256;

/// Length of one table entry in bytes.
pub const ENTRY_BYTES: usize = 48;

/// Length of the request count at the start of the body, in bytes.
pub const COUNT_BYTES: usize = 4;

/// One of the requests in a prepare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubRequest {
    /// Client id.
    pub client: u128,
    /// Session of the client.
    pub session: u64,
    /// Number of the request.
    pub request: u64,
    /// Number of commands, or messages, in the request.
    pub count: u32,
    /// Acknowledgement level: when to answer.
    pub ack_level: u8,
    /// Body of the request.
    pub body: Slice,
}

/// Encode the body of a prepare with these requests.
///
/// # Panics
/// If there are no requests or more than [`REQUESTS_MAX`], or if a body has 4 GiB or more.
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

/// Decode the requests; their bodies share the memory of `body`.
///
/// # Errors
/// [`Reject::Body`] if the table or its lengths do not fit the body.
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

/// Table of `body`, if the table and its lengths fit the body.
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
