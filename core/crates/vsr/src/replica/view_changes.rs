//! View changes: votes, the merge of logs, and the adoption of the decided one.

pub(super) mod adoption;
pub(super) mod merge;
pub(super) mod suffix;
pub(super) mod view_change;
pub(super) mod votes;
