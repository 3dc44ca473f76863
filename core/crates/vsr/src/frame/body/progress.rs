//! Progress of the groups of a node: the optional body of pings and pongs.

use alloc::vec::Vec;

use crate::frame::Reject;
use crate::frame::field::{Field, number};

const ENTRY_BYTES: usize = 24;

/// Progress of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Group number.
    pub group: u64,
    /// Op of the group's durable checkpoint.
    pub checkpoint_op: u64,
    /// Highest op that survives a power failure.
    pub synced_op: u64,
}

/// Encode the progress of these groups.
pub fn encode(groups: &[Progress]) -> Vec<u8> {
    let mut body = Vec::with_capacity(groups.len() * ENTRY_BYTES);
    for progress in groups {
        let mut entry = [0; ENTRY_BYTES];
        progress.group.put(&mut entry[0..]);
        progress.checkpoint_op.put(&mut entry[8..]);
        progress.synced_op.put(&mut entry[16..]);
        body.extend_from_slice(&entry);
    }
    body
}

/// Decode a list of groups.
///
/// # Errors
/// [`Reject::Body`] if the length is not that of a list.
pub fn decode(body: &[u8]) -> Result<Vec<Progress>, Reject> {
    let (entries, rest) = body.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(Reject::Body);
    }
    Ok(entries
        .iter()
        .map(|entry| Progress {
            group: number(entry, 0),
            checkpoint_op: number(entry, 8),
            synced_op: number(entry, 16),
        })
        .collect())
}
