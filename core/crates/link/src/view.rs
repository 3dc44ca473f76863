//! What watchers see.

use headrace_model::Offset;

/// What can be seen of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// Tells it from an earlier one of the same numbers.
    pub incarnation: u64,
    /// Grows with every purge.
    pub purge_epoch: u64,
    /// The first offset retained.
    pub first: Offset,
    /// The offset behind the last message that can be polled.
    pub end: Offset,
}
