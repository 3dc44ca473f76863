//! Sizes in the files of the journal.

/// Size of a journal file in bytes, unless one group commit needs more.
pub const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Alignment of records.
pub const RECORD_ALIGNMENT: usize = 8;

/// Alignment of group commits.
pub const BLOCK_BYTES: usize = 4096;
