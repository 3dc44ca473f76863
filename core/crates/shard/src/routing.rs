//! Ways of calls and answers between sessions and partitions: on this shard, to other shards, and over links.

mod costs;
pub(crate) mod links;
pub(crate) mod mail;
pub(crate) mod waits;
pub(crate) mod watches;

use std::sync::Arc;

use headrace_catalog::{Catalog, Changes};
use headrace_model::{Timestamp, UserId};

use self::{links::Links, waits::Waits, watches::Watches};
use crate::calls::ConnectionKey;

/// Calls of this shard's connections that are under way, and what the connections wait for.
pub(crate) struct Routing {
    pub(crate) links: Links,
    pub(crate) waits: Waits,
    pub(crate) watches: Watches,
    /// Catalog of the last review of sessions, waits and watches, or an older one.
    reviewed: Arc<Catalog>,
}

impl Routing {
    /// Create the routing of a shard with these links.
    pub(crate) fn new(links: Links) -> Self {
        Self {
            links,
            waits: Waits::default(),
            watches: Watches::default(),
            reviewed: Arc::default(),
        }
    }

    /// Number of partitions that waiting requests and watches count against the limit.
    pub(crate) fn subscriptions_count(&self) -> usize {
        self.waits.cost() + self.watches.cost()
    }

    /// Return whether a user may wait for or watch this many more partitions. He may have half of what others leave, and
    /// one as long as there is one: no user ends the waits of others.
    pub(crate) fn may_subscribe(&self, user: UserId, count: usize, count_max: usize) -> bool {
        let held = self.waits.cost_of(user) + self.watches.cost_of(user);
        let all = self.subscriptions_count();
        let others = all - held;
        let is_first = held == 0 && count <= 1;
        all + count <= count_max
            && (is_first || held + count <= count_max.saturating_sub(others) / 2)
    }

    /// Earliest deadline of a waiting request.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.waits.next_deadline()
    }

    /// Return whether a request of a connection waits for messages.
    pub(crate) fn has_wait(&self, key: ConnectionKey) -> bool {
        self.waits.has(key)
    }

    /// Return the changes since the last review, which `catalog` is the reason for.
    pub(crate) fn changes_until(&mut self, catalog: Arc<Catalog>) -> Changes {
        let changes = catalog.changes_since(&self.reviewed);
        self.reviewed = catalog;
        changes
    }
}
