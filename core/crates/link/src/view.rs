//! State of a partition for watchers.

use headrace_model::Offset;

/// Externally visible state of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchedState {
    /// Incarnation, which distinguishes the partition from an earlier one with the same ids.
    pub incarnation: u64,
    /// Purge epoch, which grows with every purge.
    pub purge_epoch: u64,
    /// First retained offset.
    pub first: Offset,
    /// Offset after the last message that can be polled.
    pub end: Offset,
}
