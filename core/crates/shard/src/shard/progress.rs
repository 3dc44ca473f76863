//! Progress of a shard's startup and shutdown, as queried by the host.

use headrace_model::Namespace;

use super::Shard;
use crate::progress::Progress;

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
        self.sessions.is_starved()
            || self.routing.links.is_starved()
            || self.memory.waits_for_memory()
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
