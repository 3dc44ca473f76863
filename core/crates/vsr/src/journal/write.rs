//! Encoding of records.

use alloc::vec::Vec;

use super::{BLOCK_BYTES, RECORD_ALIGNMENT, RecordHeader};
use crate::frame::PrepareFrame;

/// Records of one write and one sync.
#[derive(Debug)]
pub struct GroupCommit {
    synced: u64,
    log_view: u32,
    bytes: Vec<u8>,
}

impl GroupCommit {
    /// Create an empty group. `synced` is the highest operation whose sync has completed, `log_view` that of the newest
    /// durable superblock.
    pub const fn new(synced: u64, log_view: u32) -> Self {
        Self {
            synced,
            log_view,
            bytes: Vec::new(),
        }
    }

    /// Add a record. Returns the offset of its head from the start of the group, in bytes.
    ///
    /// # Panics
    /// If the frame has 4 GiB or more, or is the root or blank.
    pub fn push(&mut self, frame: &PrepareFrame) -> usize {
        let head = RecordHeader {
            len: u32::try_from(frame.size_bytes()).expect("a frame is far below 4 GiB"),
            op: frame.header.op(),
            synced: self.synced,
            log_view: self.log_view,
        };
        assert!(head.op > 0, "the root is never stored");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&head.encode());
        frame.encode_to(&mut self.bytes);
        self.bytes
            .resize(self.bytes.len().next_multiple_of(RECORD_ALIGNMENT), 0);
        start
    }

    /// Return whether the group has no records.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Size of the finished group in bytes.
    pub const fn size_bytes(&self) -> usize {
        self.bytes.len().next_multiple_of(BLOCK_BYTES)
    }

    /// Bytes to write, padded to a multiple of [`BLOCK_BYTES`].
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.size_bytes(), 0);
        self.bytes
    }
}

/// Encode a seal in a block of its own. The parameters are those of [`GroupCommit::new`].
pub fn encode_seal(synced: u64, log_view: u32) -> Vec<u8> {
    let mut bytes = RecordHeader::seal(synced, log_view).encode().to_vec();
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}
