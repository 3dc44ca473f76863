//! File format of the log of a metadata group.
//!
//! The journal is a sequence of files that are filled with zeros before use. A record is a head of 32 bytes and the
//! frame of a prepare. The records of one group commit are adjacent and 8-aligned, and each group commit starts at a
//! multiple of 4 KiB, so that no write touches a block that was synced before. Records of repaired operations are
//! written late: of several records of one operation the last one counts.
//!
//! | offset | bytes | field of the head |
//! | --- | --- | --- |
//! | 0 | 4 | magic |
//! | 4 | 4 | bytes of the frame behind the head; 0 in a seal |
//! | 8 | 8 | operation; 0 in a seal |
//! | 16 | 8 | highest operation whose sync had completed when the head was written |
//! | 24 | 4 | log view of the newest durable superblock at that time |
//! | 28 | 4 | lower half of XXH3-64 over the 28 bytes before |
//!
//! The synced operation lets a scan distinguish an append torn by a crash, which was never acknowledged, from a durable
//! record that was damaged later; only the former may be forgotten. A later record proves nothing about an earlier one:
//! both may belong to one write, whose blocks reach the disk in any combination before a power loss. A *seal* is a head
//! without a record. It states the synced operation for records that no other record follows yet. The log view is
//! needed because a log is cut when a view begins: the statement of an older head about operations above the cut no
//! longer holds. A seal that is synced with the cut takes its place.
//!
//! Duties of a host: fill a file with zeros before giving it the name of a journal file; [`erase()`] the records in
//! [`Scan::erase`] before any append; append at [`Scan::position`]; write a seal when the journal has been idle for a
//! moment, without waiting for its sync; cut the journal with a [`Cut`], and write a seal behind it, with a sync. If the
//! last file is full, begin one for the seal.

mod erase;
mod evidence;
mod head;
mod layout;
mod recorded;
mod scan;
mod write;

#[cfg(test)]
mod tests;

pub use erase::{Cut, EraseStep, Span, erase};
pub use head::{HEAD_BYTES, RecordHeader};
pub use layout::{BLOCK_BYTES, FILE_BYTES, RECORD_ALIGNMENT};
pub use recorded::RecordedLog;
pub use scan::{Place, Scan, Scanner};
pub use write::{GroupCommit, encode_seal};
