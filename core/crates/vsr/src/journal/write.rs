//! Records as bytes.

use alloc::vec::Vec;

use super::{BLOCK_BYTES, RECORD_ALIGNMENT, RecordHead};
use crate::frame::PrepareFrame;

/// The records that go to the journal with one write and one sync.
#[derive(Debug)]
pub struct GroupCommit {
    synced: u64,
    log_view: u32,
    bytes: Vec<u8>,
}

impl GroupCommit {
    /// An empty group. `synced` is the highest operation whose sync has completed, `log_view` that of the newest durable
    /// superblock.
    pub const fn new(synced: u64, log_view: u32) -> Self {
        Self {
            synced,
            log_view,
            bytes: Vec::new(),
        }
    }

    /// Adds a record. Returns where its head starts, in bytes from the start of the group.
    ///
    /// # Panics
    /// When the frame has 4 GiB or more, or is one without an operation.
    pub fn push(&mut self, frame: &PrepareFrame) -> usize {
        let head = RecordHead {
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

    /// Whether nothing was added.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of the group when it is finished.
    pub const fn size_bytes(&self) -> usize {
        self.bytes.len().next_multiple_of(BLOCK_BYTES)
    }

    /// The bytes to write, a multiple of [`BLOCK_BYTES`].
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.size_bytes(), 0);
        self.bytes
    }
}

/// The bytes of a seal, in a block of its own. The numbers are those of [`GroupCommit::new`].
pub fn encode_seal(synced: u64, log_view: u32) -> Vec<u8> {
    let mut bytes = RecordHead::seal(synced, log_view).encode().to_vec();
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}
