//! View changes: votes, the merge of logs, and the adoption of the decided one.

mod adoption;
pub(super) mod evidence;
mod merge;
mod starting;
mod suffix;
mod view_change;
pub(super) mod votes;
mod voting;
