//! What a host asks of a shard: how far it has come with starting and with stopping.

use headrace_model::Namespace;

use crate::Shard;

/// How far a shard has come with opening its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Partitions that it owns.
    pub partitions: usize,
    /// Those that still recover.
    pub recovering: usize,
    /// Stages of transactions in them, complete or not.
    pub stages: usize,
    /// Bytes of their files.
    pub staged_bytes: u64,
}

impl Shard {
    /// How far the partitions have come.
    pub fn progress(&self) -> Progress {
        let (partitions, recovering) = self.partitions.progress();
        let (stages, staged_bytes) = self.partitions.staged();
        Progress {
            partitions,
            recovering,
            stages,
            staged_bytes,
        }
    }

    /// Partitions that failed, with the reason.
    pub fn failures(&self) -> Vec<(Namespace, String)> {
        self.partitions.failures()
    }

    /// Whether a connection waits for memory.
    pub fn is_starved(&self) -> bool {
        self.retry_at.is_some() || self.links.is_starved() || self.waits_for_memory()
    }

    /// Live connections.
    pub fn connections_count(&self) -> usize {
        self.connections_count
    }

    /// Whether the first step of a shutdown has ended: nothing is connected.
    pub fn is_drained(&self) -> bool {
        self.shutting_down && self.connections_count == 0
    }

    /// Whether a shutdown has ended: nothing is connected and every partition is closed.
    pub fn is_stopped(&self) -> bool {
        self.is_drained() && self.partitions.all_closed()
    }
}
