//! State of a partition for watchers.

use alloc::sync::Arc;

use headrace_model::{Offset, Opening};

/// Externally visible state of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchedState {
    /// Incarnation, which distinguishes the partition from an earlier one with the same ids.
    pub incarnation: u64,
    /// Purge epoch, which grows with every purge.
    pub purge_epoch: u64,
    /// First retained offset.
    pub first: Offset,
    /// Offset after the last message that can be polled.
    pub end: Offset,
    /// Number of the opening of its log; 0 if the watcher does not ask for openings.
    pub epoch: u64,
    /// Openings of its log up to this one, by which a reader notices that it was cut. A state that was seen has none.
    pub openings: Arc<[Opening]>,
}

impl WatchedState {
    /// Return whether nothing has changed. The openings follow from the number of the last one.
    pub fn is_unchanged(&self, seen: &Self) -> bool {
        let fields = |state: &Self| {
            (
                (state.incarnation, state.purge_epoch, state.epoch),
                (state.first, state.end),
            )
        };
        fields(self) == fields(seen)
    }
}
