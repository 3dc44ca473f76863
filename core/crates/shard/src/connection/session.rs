//! Who uses a connection, and where its batches go.

use std::{cell::Cell, sync::Arc};

use crate::{arrival::Arrival, catching_up::CatchingUp, dispatch::Holder, memory::Share};
use headrace_catalog::{Catalog, Credential, Topic};
use headrace_model::{ClientId, ShardId, Timestamp, UserId};

/// The state that requests of one connection share.
pub(crate) struct Session {
    pub(crate) client: ClientId,
    pub(crate) arrival: Arrival,
    /// Who is logged in, and by what; checked at every request, and ended when it does not hold any more.
    pub(crate) login: Option<Login>,
    /// Logged in with this ticket; no user then.
    pub(crate) ticket: Option<Holder>,
    /// The control plane is changing the password of the login: until it has answered, a new one is this session's doing.
    pub(crate) changes_password: bool,
    /// While nobody is logged in: when the connection ends unless somebody is.
    pub(crate) login_until: Timestamp,
    pub(crate) last_heartbeat: Timestamp,
    pub(crate) standing: Standing,
    pub(crate) route: Option<SendRoute>,
    pub(crate) affinity: Affinity,
    /// It has asked to join a consumer group: the control plane wants to know when it closes.
    pub(crate) may_be_member: bool,
    /// It is notified of what happens to partitions, and is good for nothing else meanwhile.
    pub(crate) is_watching: bool,
    pub(crate) catching_up: CatchingUp,
    /// The share of the user's large requests, from the first of this connection on.
    pub(crate) share: Option<Share>,
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

/// A user who has logged in.
pub(crate) struct Login {
    credential: Credential,
    /// The version of the catalogue that has accepted the credential last; 0: none yet.
    accepted: Cell<u64>,
}

impl Login {
    pub(crate) fn new(credential: Credential) -> Self {
        Self {
            credential,
            accepted: Cell::new(0),
        }
    }

    pub(crate) fn user(&self) -> UserId {
        self.credential.user
    }

    pub(crate) fn credential(&self) -> Credential {
        self.credential
    }

    /// Whether the login goes on. Costs two comparisons as long as the catalogue stays the same.
    pub(crate) fn holds(&self, catalog: &Catalog, now: Timestamp) -> bool {
        if self.accepted.get() != catalog.version() {
            if !catalog.accepts(&self.credential) {
                return false;
            }
            self.accepted.set(catalog.version());
        }
        !self.credential.has_expired(now)
    }
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
        self.login.is_some() || self.ticket.is_some()
    }

    /// The user who is logged in.
    pub(crate) fn user(&self) -> Option<UserId> {
        self.login.as_ref().map(Login::user)
    }

    /// The user for whom the connection is used: the one who is logged in, or who has had the ticket made.
    pub(crate) fn principal(&self) -> Option<UserId> {
        let issuer = || self.ticket.as_ref().and_then(Holder::issuer);
        self.user().or_else(issuer)
    }

    /// When the login is over whatever happens; `None`: never.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        (self.login.as_ref()).and_then(|login| login.credential.expires_at)
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
