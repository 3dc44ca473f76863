//! Erasure of records: of those that a view has cut from the log, and of those that a crash has torn.
//!
//! Hosts carry out these steps as they are. A seal takes the place of every record, because there may be no space for one
//! behind the records: the nacks of a replica rest on the statement that the operations are gone. Without it an older
//! head would vouch for them, and for the operations that replaced them and may never have been stored here.
//!
//! Frames are erased, durably, before the seals replace the heads. A power loss leaves any sectors of an unsynced write, and
//! a scan that finds neither the old head nor the whole seal looks for the next head among the bytes that follow. These must
//! not be the body of a prepare: clients choose it, and could forge heads.

use alloc::vec;
use alloc::vec::Vec;

use super::{HEAD_BYTES, RecordHeader};

/// Record to overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the file.
    pub file: u64,
    /// Offset of the record.
    pub offset: u64,
    /// Length of the record in bytes, up to the end of the file.
    pub len: u64,
    /// Head that takes the place of the record's.
    seal: RecordHeader,
}

/// Operation on a journal file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EraseStep {
    /// Write these bytes.
    Write {
        /// Number of the file.
        file: u64,
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Sync this file.
    Sync {
        /// Number of the file.
        file: u64,
    },
}

/// Cut of the log: all records of an operation and above are erased.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    from_op: u64,
    seal: RecordHeader,
}

impl Span {
    /// Record at `offset` whose head states `frame_bytes`, in a file of `file_bytes`. The length in the head of a torn or
    /// damaged record may exceed the file.
    pub(super) fn new(
        file: u64,
        offset: u64,
        frame_bytes: u32,
        file_bytes: u64,
        seal: RecordHeader,
    ) -> Self {
        let len = HEAD_BYTES as u64 + u64::from(frame_bytes);
        Self {
            file,
            offset,
            len: len.min(file_bytes.saturating_sub(offset)),
            seal,
        }
    }

    fn write(&self, at: usize, bytes: Vec<u8>) -> EraseStep {
        EraseStep::Write {
            file: self.file,
            offset: self.offset + at as u64,
            bytes,
        }
    }

    fn erase_frame(&self) -> EraseStep {
        let len = usize::try_from(self.len).expect("a record fits into memory");
        self.write(HEAD_BYTES, vec![0; len.saturating_sub(HEAD_BYTES)])
    }

    fn replace_head(&self) -> EraseStep {
        self.write(0, self.seal.encode().to_vec())
    }
}

impl Cut {
    /// Cut of all records of `from_op` and above. `synced` is the highest operation whose sync has completed, `log_view`
    /// that of the newest durable superblock.
    pub fn new(from_op: u64, synced: u64, log_view: u32) -> Self {
        Self {
            from_op,
            seal: RecordHeader::seal(synced.min(from_op.saturating_sub(1)), log_view),
        }
    }

    /// Highest operation whose sync has completed, after the cut.
    pub const fn synced(&self) -> u64 {
        self.seal.synced
    }

    /// Return whether the records of this operation are cut.
    pub const fn includes(&self, op: u64) -> bool {
        op >= self.from_op
    }

    /// Erasure of a record that is cut. The parameters are those of its [`Place`](super::Place), and the length of the
    /// file.
    pub fn span(&self, file: u64, offset: u64, frame_bytes: u32, file_bytes: u64) -> Span {
        Span::new(file, offset, frame_bytes, file_bytes, self.seal)
    }
}

/// Steps that erase these records, in order. Afterwards no start finds the records.
pub fn erase(spans: &[Span]) -> impl Iterator<Item = EraseStep> {
    let frames = spans.iter().map(Span::erase_frame).chain(syncs(spans));
    frames
        .chain(spans.iter().map(Span::replace_head))
        .chain(syncs(spans))
}

/// A sync of each file with a record to erase.
fn syncs(spans: &[Span]) -> impl Iterator<Item = EraseStep> {
    let mut files: Vec<u64> = spans.iter().map(|span| span.file).collect();
    files.sort_unstable();
    files.dedup();
    files.into_iter().map(|file| EraseStep::Sync { file })
}
