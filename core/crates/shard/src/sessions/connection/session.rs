//! Session of a connection: its user, and the destination of its batches.

use std::{cell::Cell, sync::Arc};

use headrace_catalog::{Catalog, Credential, Topic};
use headrace_model::{ClientId, ShardId, Timestamp, UserId};

use super::{
    holder::{TICKET_HOLDER, TicketHolder},
    pace::Pace,
};
use crate::{memory::Share, moment::Moment, sessions::arrival::Arrival};

/// State shared by the requests of one connection.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent marks, each of one command"
)]
pub(crate) struct Session {
    pub(crate) client: ClientId,
    pub(crate) arrival: Arrival,
    /// Logged-in user and credential; checked at every request, and ended when no longer valid.
    pub(crate) login: Option<Login>,
    /// Ticket that authenticates the session; it then has no user.
    pub(crate) ticket: Option<TicketHolder>,
    /// True while the control plane changes the password of the login. A new password meanwhile comes from this
    /// session.
    pub(crate) changes_password: bool,
    /// Deadline for authentication; the connection is closed if it is missed.
    pub(crate) login_until: Timestamp,
    pub(crate) last_heartbeat: Timestamp,
    /// True after a request for a membership: such a client repeats it as long as it lives.
    pub(crate) repeats_membership: bool,
    pub(crate) registration: Registration,
    pub(crate) route: Option<SendRoute>,
    pub(crate) affinity: Affinity,
    /// True after a request to join a consumer group: the control plane must be notified when the connection closes.
    pub(crate) may_be_member: bool,
    /// True while the connection receives notifications about partitions; it accepts only pings and watch requests
    /// meanwhile.
    pub(crate) is_watching: bool,
    pub(crate) catching_up: CatchingUp,
    /// Memory share of the user's large requests; set at the first such request of the connection.
    pub(crate) share: Option<Share>,
    /// Rates of the user, and the delay of the next request.
    pub(crate) pace: Pace,
}

/// Registration of a connection in the registry of clients (`heartbeat.enabled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// The client is registered.
    Registered,
    /// The client was silent for too long, and was removed from the registry and its groups until its next command.
    Silent {
        /// True if the client may have been a group member.
        was_member: bool,
    },
    /// The client is registered again under another number. Its requests as a member are refused until it has joined
    /// again.
    Stale,
}

/// A user who has logged in.
pub(crate) struct Login {
    credential: Credential,
    /// Catalog version that last accepted the credential; 0 if there is none yet.
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

    /// Return whether the login is still valid. Costs two comparisons as long as the catalog is unchanged.
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

/// Number of requests in a row for partitions of one other shard after which the connection moves there (SHARD-6).
const MOVE_AFTER: u32 = 32;

/// Shard that the last requests were for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Affinity {
    shard: ShardId,
    streak: u32,
}

impl Session {
    /// Return whether the connection is authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.login.is_some() || self.ticket.is_some()
    }

    /// Return the user of a session that is still valid; with a ticket, a reserved number that no user has.
    pub(crate) fn current_user(&self, moment: Moment<'_>) -> Option<UserId> {
        let (catalog, now) = (moment.catalog, moment.wall);
        match (&self.login, &self.ticket) {
            (Some(login), _) => login.holds(catalog, now).then(|| login.user()),
            (None, Some(holder)) => holder.holds(catalog).then_some(TICKET_HOLDER),
            (None, None) => None,
        }
    }

    /// Return the user who is logged in.
    pub(crate) fn user(&self) -> Option<UserId> {
        self.login.as_ref().map(Login::user)
    }

    /// Return the user on whose behalf the connection is used: the one logged in, or the issuer of the ticket.
    pub(crate) fn principal(&self) -> Option<UserId> {
        let issuer = || self.ticket.as_ref().and_then(TicketHolder::issuer);
        self.user().or_else(issuer)
    }

    /// Return the time at which the login expires; `None`: never.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        (self.login.as_ref()).and_then(|login| login.credential.expires_at)
    }
}

impl Affinity {
    /// Count a request for a partition of `owner`. Returns whether a connection of `home` should move there.
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

/// Cached destination and authorisation of the last batch.
///
/// Producers send to the same place again and again: equal metadata bytes under the same catalog version and user need
/// no look-up.
pub(crate) struct SendRoute {
    /// Stream, topic and partitioning as received, without the messages count.
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

/// State of a connection's pending requests relative to the catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CatchingUp {
    /// No request has missed anything in the catalog so far.
    #[default]
    No,
    /// The first request misses something and the control plane was asked. Nothing more is received meanwhile.
    Asked,
    /// The catalog includes everything known when the control plane was asked: a missing entity does not exist.
    Done,
}
