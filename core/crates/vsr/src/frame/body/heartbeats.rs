//! Heartbeats of many groups in one body.

use alloc::vec::Vec;

use crate::frame::Reject;
use crate::frame::field::{Field, number};

const ENTRY_BYTES: usize = 40;

/// Heartbeat of one group: the content of a [`Commit`](crate::frame::Command::Commit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Group number.
    pub group: u64,
    /// View.
    pub view: u32,
    /// Epoch, with flags in the highest bits.
    pub epoch_flags: u32,
    /// Highest op that is committed.
    pub commit: u64,
    /// Checksum of the prepare `commit`.
    pub commit_checksum: u128,
}

/// Encode a list of heartbeats.
pub fn encode(heartbeats: &[Heartbeat]) -> Vec<u8> {
    let mut body = Vec::with_capacity(heartbeats.len() * ENTRY_BYTES);
    for heartbeat in heartbeats {
        let mut entry = [0; ENTRY_BYTES];
        heartbeat.group.put(&mut entry[0..]);
        heartbeat.view.put(&mut entry[8..]);
        heartbeat.epoch_flags.put(&mut entry[12..]);
        heartbeat.commit.put(&mut entry[16..]);
        heartbeat.commit_checksum.put(&mut entry[24..]);
        body.extend_from_slice(&entry);
    }
    body
}

/// Decode a list of heartbeats.
///
/// # Errors
/// [`Reject::Body`] if the length is not that of a list.
pub fn decode(body: &[u8]) -> Result<Vec<Heartbeat>, Reject> {
    let (entries, rest) = body.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(Reject::Body);
    }
    Ok(entries
        .iter()
        .map(|entry| Heartbeat {
            group: number(entry, 0),
            view: number(entry, 8),
            epoch_flags: number(entry, 12),
            commit: number(entry, 16),
            commit_checksum: number(entry, 24),
        })
        .collect())
}
