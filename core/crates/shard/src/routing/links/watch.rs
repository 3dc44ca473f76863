//! A watch of a partition on another node.

use crate::calls::Peer;
use headrace_link::WatchedState;
use headrace_model::Timestamp;

/// A partition to be watched at a node.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) seen: Option<WatchedState>,
    /// Shard of the node that will notify.
    pub(super) at: Option<Peer>,
    /// Set after a refusal: the catalog version of the refusal, and the earliest time of the next attempt.
    pub(super) refused: Option<(u64, Timestamp)>,
}
