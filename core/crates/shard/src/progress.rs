//! Progress of a shard's startup and shutdown, as queried by the host.

use headrace_model::Namespace;

use crate::Shard;

/// Progress of opening the partitions of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of partitions owned.
    pub partitions: usize,
    /// Number of partitions that still recover.
    pub recovering: usize,
    /// Number of staged batches of transactions, complete or not.
    pub stages: usize,
    /// Bytes of the staged batches' files.
    pub staged_bytes: u64,
    /// Partitions that need an operator.
    pub troubles: Troubles,
}

/// Counts of the partitions that need an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Troubles {
    /// Number of partitions that are read-only or out of service for another reason than `foreign`.
    pub failed: usize,
    /// Number of other partitions with a file beside the log that cannot be written or read at present.
    pub failing_files: usize,
    /// Number of partitions that are out of service because their directory is another's.
    pub foreign: usize,
    /// Number of files that were set aside in the directories of partitions.
    pub set_aside_files: usize,
}

impl Shard {
    /// Return the progress of opening the partitions.
    pub fn progress(&self) -> Progress {
        let (partitions, recovering) = self.partitions.progress();
        let (stages, staged_bytes) = self.partitions.staged();
        Progress {
            partitions,
            recovering,
            stages,
            staged_bytes,
            troubles: self.partitions.troubles(),
        }
    }

    /// Partitions that failed, with the reason.
    pub fn failures(&self) -> Vec<(Namespace, String)> {
        self.partitions.failures()
    }

    /// Return whether a connection waits for memory.
    pub fn is_starved(&self) -> bool {
        self.sessions.is_starved() || self.routing.links.is_starved() || self.waits_for_memory()
    }

    /// Number of live connections.
    pub fn connections_count(&self) -> usize {
        self.sessions.count()
    }

    /// Return whether the first step of shutdown is complete: no connection is left.
    pub fn is_drained(&self) -> bool {
        self.sessions.is_drained()
    }

    /// Return whether shutdown is complete: no connection is left and every partition is closed.
    pub fn is_stopped(&self) -> bool {
        self.is_drained() && self.partitions.all_closed()
    }
}
