//! Which request, and which partition.

use headrace_model::Namespace;

/// A request of a gateway's shard, as its answer names it: chosen by that shard, and not used again as long as an
/// answer may come, over whichever connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

/// The partition that the asker means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Stream, topic and partition.
    pub namespace: Namespace,
    /// Tells it from another of the same numbers.
    pub incarnation: u64,
    /// Purges of its topic that the asker knows of: what they remove is gone before it is asked.
    pub purge_epoch: u64,
}
