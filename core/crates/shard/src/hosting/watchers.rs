//! Shards and gateways that watch partitions of this shard for changes (GW-7).
//!
//! A watch contains the view last seen, and ends with one notification once the current view differs. Until the watch
//! is repeated nothing more is sent: at most one message per watcher and partition is in flight, however much is
//! appended.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_link::WatchedState;
use headrace_model::{Namespace, ShardId};

use crate::calls::ConnectionKey;

/// Receiver of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationTarget {
    /// Shard of this process.
    Shard(ShardId),
    /// Gateway at the other end of a connection of this shard.
    Link(ConnectionKey),
}

/// One that watches a partition.
pub(crate) struct Watcher {
    pub(crate) target: NotificationTarget,
    pub(crate) seen: Option<WatchedState>,
    pub(crate) wants_openings: bool,
}

/// All watchers of this shard's partitions.
#[derive(Default)]
pub(super) struct Watchers {
    pub(super) at: HashMap<Namespace, Vec<Watcher>, FixedState>,
    /// Pending notifications; `None` if the partition is now elsewhere.
    pub(super) seen: Vec<(NotificationTarget, Namespace, Option<WatchedState>)>,
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub(super) fn has_seen(&self) -> bool {
        !self.seen.is_empty()
    }

    pub(super) fn forget(&mut self, namespace: Namespace) {
        self.at.remove(&namespace);
    }

    /// End the watches of a partition that is now elsewhere, and notify the watchers of that.
    pub(super) fn lose(&mut self, namespace: Namespace) {
        let watchers = self.at.remove(&namespace).into_iter().flatten();
        let lost = watchers.map(|watcher| (watcher.target, namespace, None));
        self.seen.extend(lost);
    }
}
