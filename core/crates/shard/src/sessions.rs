//! Client connections: from the bytes that arrive to whole requests, and from answers to the bytes that leave.

pub(crate) mod arrival;
pub(crate) mod catching_up;
pub(crate) mod closing;
pub(crate) mod connection;
mod connections;
mod driving;
mod expiry;
pub(crate) mod pacing;
pub mod proxy;
pub(crate) mod registry;
pub(crate) mod served;
pub(crate) mod serving;
pub(crate) mod turns;
mod unauthenticated;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    net::IpAddr,
};

use headrace_model::{ShardId, Timestamp, UserId};
use headrace_wire::Status;

use self::{closing::DeadlineKind, connection::Connection, registry::ClientRegistry, turns::Turns};
use crate::{calls::ConnectionKey, dispatch::notes::Refusals, sessions::served::Opening};

/// Interval between retries of connections that found the buffer pool empty.
const STARVED_RETRY_MICROS: u64 = 5_000;

/// Connections of a shard, and everything that is due for them.
pub(crate) struct Sessions {
    clients: ClientRegistry,
    connections: Vec<Option<Box<Connection>>>,
    counts: Counts,
    touched: Vec<ConnectionKey>,
    /// Shares of the present turn, and connections that wait for the next one.
    pub(crate) turns: Turns,
    /// Connections that wait for their peer to close.
    lingering: Vec<ConnectionKey>,
    /// Deadlines of connections, with the condition that each must meet.
    deadlines: BinaryHeap<Reverse<(Timestamp, ConnectionKey, DeadlineKind)>>,
    starved: Starved,
    /// Connections whose next request waits because of a quota, in the order in which they began to wait, with the user
    /// of those inside the process.
    delayed: Vec<(ConnectionKey, Option<UserId>)>,
    checks: Checks,
    /// Earliest expiry of a login on this shard; possibly of a session that has already ended.
    logins_expire_at: Option<Timestamp>,
    /// Number of disconnect requests at the last check.
    disconnections_seen: u64,
    pub(crate) reported: Reported,
    /// True while mail to other shards is blocked.
    congested: bool,
    shutting_down: bool,
    transition: Transition,
}

/// Numbers of connections.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// Connections that count against the limit: all but in-process ones and links.
    limited: usize,
    /// Connections that are links of gateways.
    links: usize,
}

/// Times of the next checks of all connections.
#[derive(Debug, Default)]
struct Checks {
    heartbeats: Timestamp,
    stale_members: Timestamp,
    slow_readers: Timestamp,
    /// Connections without a login are not searched for before.
    unauthenticated: Timestamp,
}

/// Connections that found no buffer.
#[derive(Debug, Default)]
struct Starved {
    keys: Vec<ConnectionKey>,
    /// Time at which they try again.
    retry_at: Option<Timestamp>,
}

/// Reports about clients, which are limited.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// Addresses of newer clients that were reported.
    newer_clients: BTreeSet<IpAddr>,
    /// Rate limit of reported refusals.
    pub(crate) refusals: Refusals,
}

/// Change of the connection whose request is being handled; it takes effect after the request.
#[derive(Debug, Default)]
struct Transition {
    /// Set if the connection should move.
    shard: Option<ShardId>,
    /// Set if the connection is to become a link.
    link: Option<Result<Opening, Status>>,
}

impl Sessions {
    /// Create a table without connections.
    pub(crate) fn new(clients: ClientRegistry) -> Self {
        Self {
            clients,
            connections: Vec::new(),
            counts: Counts::default(),
            touched: Vec::new(),
            turns: Turns::default(),
            lingering: Vec::new(),
            deadlines: BinaryHeap::new(),
            starved: Starved::default(),
            delayed: Vec::new(),
            checks: Checks::default(),
            reported: Reported::default(),
            logins_expire_at: None,
            disconnections_seen: 0,
            congested: false,
            shutting_down: false,
            transition: Transition::default(),
        }
    }

    /// Clients of all shards.
    pub(crate) fn clients(&self) -> &ClientRegistry {
        &self.clients
    }

    /// Number of live connections.
    pub(crate) fn count(&self) -> usize {
        self.counts.all
    }

    /// Number of connections that are links of gateways.
    pub(crate) fn links_count(&self) -> usize {
        self.counts.links
    }

    /// Return whether a connection waits for a buffer.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.retry_at.is_some()
    }

    /// Return whether the shard shuts down and no connection is left.
    pub(crate) fn is_drained(&self) -> bool {
        self.shutting_down && self.counts.all == 0
    }

    /// Return whether a connection has pending work.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Take the connections with pending work.
    pub(crate) fn take_touched(&mut self) -> Vec<ConnectionKey> {
        core::mem::take(&mut self.touched)
    }

    /// Stop or resume to start requests, because mail to other shards is blocked or flows again.
    pub(crate) fn set_congested(&mut self, congested: bool) {
        self.congested = congested;
        if !congested {
            self.touch_all();
        }
    }

    /// Return whether requests are not started, because mail to other shards is blocked.
    pub(crate) fn is_congested(&self) -> bool {
        self.congested
    }

    /// Take what becomes of the connection after its request: another shard, or a link.
    #[inline]
    pub(crate) fn take_transition(&mut self) -> (Option<ShardId>, Option<Result<Opening, Status>>) {
        (self.transition.shard.take(), self.transition.link.take())
    }

    /// Turn the connection of the current request into a link after the request.
    pub(crate) fn request_link(&mut self, opening: Result<Opening, Status>) {
        self.transition.link = Some(opening);
    }

    /// Have a connection that found no buffer try again soon.
    pub(crate) fn starve(&mut self, now: Timestamp, key: ConnectionKey) {
        if !self.starved.keys.contains(&key) {
            self.starved.keys.push(key);
        }
        self.starved
            .retry_at
            .get_or_insert(Timestamp(now.0 + STARVED_RETRY_MICROS));
    }

    /// Resume the connections that found no buffer when that is due.
    pub(crate) fn retry_starved(&mut self, now: Timestamp) {
        if self.starved.retry_at.is_some_and(|at| at <= now) {
            self.starved.retry_at = None;
            for key in core::mem::take(&mut self.starved.keys) {
                self.touch(key);
            }
        }
    }
}
