//! Who uses a connection, and where its batches go.

use std::sync::Arc;

use headrace_catalog::Topic;
use headrace_model::{ClientId, ShardId, Timestamp, UserId};
use headrace_ticket::Scope;

use crate::{arrival::Arrival, catching_up::CatchingUp};

/// The state that requests of one connection share.
pub(crate) struct Session {
    pub(crate) client: ClientId,
    pub(crate) arrival: Arrival,
    /// Logged in as; checked against the catalogue at every request, so that a deleted user is out at once.
    pub(crate) user: Option<UserId>,
    /// Logged in with a ticket for this; no user then.
    pub(crate) ticket: Option<Scope>,
    pub(crate) last_heartbeat: Timestamp,
    pub(crate) standing: Standing,
    pub(crate) route: Option<SendRoute>,
    pub(crate) affinity: Affinity,
    /// It has asked to join a consumer group: the control plane wants to know when it closes.
    pub(crate) may_be_member: bool,
    /// It is notified of what happens to partitions, and is good for nothing else meanwhile.
    pub(crate) is_watching: bool,
    pub(crate) catching_up: CatchingUp,
}

/// Whether the registry of clients knows a connection (`heartbeat.enabled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It does.
    Registered,
    /// It was silent for too long, and was taken out of the registry and of its groups until its next command.
    Silent {
        /// It was in groups, as far as is known.
        was_member: bool,
    },
    /// It is registered again, under another number. What it asks as a member is refused until it has joined again.
    Stale,
}

/// Requests in a row for partitions of one other shard after which the connection moves there (SHARD-6).
const MOVE_AFTER: u32 = 32;

/// Which shard the last requests were for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Affinity {
    shard: ShardId,
    streak: u32,
}

impl Session {
    /// Whether it is known who uses the connection.
    pub(crate) fn is_anybody(&self) -> bool {
        self.user.is_some() || self.ticket.is_some()
    }
}

impl Affinity {
    /// A request for a partition of `owner`. Returns whether a connection of `home` should move there.
    pub(crate) fn count(&mut self, owner: ShardId, home: ShardId) -> bool {
        if owner == home || owner != self.shard {
            *self = Self {
                shard: owner,
                streak: 0,
            };
        }
        self.streak += 1;
        owner != home && self.streak >= MOVE_AFTER
    }
}

/// The outcome of resolving and authorising the last batch's destination.
///
/// Producers send to the same place again and again: equal metadata bytes under the same catalogue version
/// and user need no look-up.
pub(crate) struct SendRoute {
    /// Stream, topic and partitioning as they came, without the messages count.
    pub(crate) metadata: Vec<u8>,
    pub(crate) catalog_version: u64,
    pub(crate) user: UserId,
    pub(crate) topic: Arc<Topic>,
}

impl SendRoute {
    pub(crate) fn matches(&self, metadata: &[u8], catalog_version: u64, user: UserId) -> bool {
        self.catalog_version == catalog_version && self.user == user && self.metadata == metadata
    }
}
