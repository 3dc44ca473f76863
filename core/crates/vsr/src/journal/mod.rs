//! The log of a metadata group in files.
//!
//! The journal is a row of files, filled with zeros before they are used. A record is a head of 32 bytes and the frame of a
//! prepare; the records of one group commit lie back to back, 8-aligned, and each group commit starts at a multiple of
//! 4 KiB, so that no write touches a block that was synced before. Records of repaired operations come late: of several
//! records of one operation the last one counts.
//!
//! | offset | bytes | field of the head |
//! | --- | --- | --- |
//! | 0 | 4 | magic |
//! | 4 | 4 | bytes of the frame behind the head; 0 in a seal |
//! | 8 | 8 | operation; 0 in a seal |
//! | 16 | 8 | the highest operation whose sync had completed when the head was written |
//! | 24 | 4 | the log view of the newest durable superblock at that time |
//! | 28 | 4 | lower half of XXH3-64 over the 28 bytes before |
//!
//! The synced operation is how a scan tells an append that a crash has torn, and that nobody was promised, from a
//! record that was durable and has been damaged since: only the former may be forgotten. That a record is followed by
//! another one proves nothing: both may be of one write, whose blocks a loss of power leaves in any combination. A
//! *seal* is a head of its own, which says so for the records that have none behind them yet. The log view is there
//! because a log is cut when a view begins: what a head from before says about operations above the cut is no longer
//! true.
//!
//! What a host has to do: fill a file with zeros before its name is one of the journal; overwrite what
//! [`Scan::erase`] names, and sync, before anything is appended; append at [`Scan::position`]; write a seal when nothing
//! has been appended for a moment, without waiting for its sync.

mod evidence;
mod head;
mod scan;
mod write;

#[cfg(test)]
mod tests;

pub use head::{HEAD_BYTES, RecordHead};
pub use scan::{Place, Scan, Scanner, Span};
pub use write::{GroupCommit, encode_seal};

/// Bytes of a journal file, unless a larger group commit needs more.
pub const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Records start at multiples of this.
pub const RECORD_ALIGNMENT: usize = 8;

/// Group commits start at multiples of this.
pub const BLOCK_BYTES: usize = 4096;

/// How far the journal is durable after the record of `op` is: `synced` is how far it was, `holds` says of which operations
/// it has an intact record.
///
/// Records above a hole that a crash has torn into a group commit count from when the hole is filled.
pub fn durable_through(synced: u64, op: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let mut through = synced.max(op);
    while holds(through + 1) {
        through += 1;
    }
    through
}
