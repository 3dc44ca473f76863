//! Simulated disk: durable data of a node, and writes in flight.

use std::collections::{BTreeMap, VecDeque};

use headrace_buffer::Slice;
use headrace_vsr::api::RecoveredEntry;
use headrace_vsr::frame::{PrepareFrame, digest};
use headrace_vsr::superblock::Superblock;

/// Durable data of a node.
#[derive(Debug)]
pub struct Disk {
    pub superblock: Superblock,
    /// Newest record per operation; `false` if its bytes are damaged.
    pub journal: BTreeMap<u64, (PrepareFrame, bool)>,
    /// Images by operation: client table and state.
    pub checkpoints: BTreeMap<u64, Image>,
    /// Bytes of an incoming state transfer.
    pub incoming: Vec<u8>,
}

/// Image of the state at one operation.
#[derive(Debug, Clone)]
pub struct Image {
    pub bytes: Vec<u8>,
}

impl Image {
    pub fn new(clients: &[u8], state: u128) -> Self {
        let mut bytes = (clients.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(clients);
        bytes.extend_from_slice(&state.to_le_bytes());
        Self { bytes }
    }

    pub fn digest(&self) -> u128 {
        digest(&self.bytes)
    }

    pub fn clients(&self) -> Slice {
        let length = usize::try_from(u64::from_le_bytes(self.bytes[..8].try_into().unwrap()));
        Slice::from_vec(self.bytes[8..8 + length.unwrap()].to_vec())
    }

    pub fn state(&self) -> u128 {
        u128::from_le_bytes(self.bytes[self.bytes.len() - 16..].try_into().unwrap())
    }
}

/// Write that has not reached the disk.
#[derive(Debug)]
pub enum Write {
    Append {
        token: u64,
        frames: Vec<PrepareFrame>,
    },
    Truncate {
        token: u64,
        from_op: u64,
    },
}

/// Writes in flight: the journal is one queue, the superblock another.
#[derive(Debug, Default)]
pub struct Writes {
    pub journal: VecDeque<Write>,
    pub superblock: Option<(u64, Superblock)>,
}

impl Disk {
    pub fn new(superblock: Superblock) -> Self {
        Self {
            superblock,
            journal: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            incoming: Vec::new(),
        }
    }

    pub fn append(&mut self, frames: &[PrepareFrame]) {
        for frame in frames {
            self.journal
                .insert(frame.header.op(), (frame.clone(), true));
        }
    }

    pub fn truncate(&mut self, from_op: u64) {
        self.journal.split_off(&from_op);
    }

    pub fn recovered(&self) -> Vec<RecoveredEntry> {
        self.journal
            .iter()
            .map(|(op, (frame, intact))| RecoveredEntry {
                op: *op,
                header: Some(frame.header),
                intact: *intact,
            })
            .collect()
    }
}
