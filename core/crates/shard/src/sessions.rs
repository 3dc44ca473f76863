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
use crate::{api::ConnectionKey, dispatch::Refusals, sessions::served::Opening};

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
    /// Connections that found no buffer, and the time at which they try again.
    starved: Vec<ConnectionKey>,
    retry_at: Option<Timestamp>,
    /// Connections whose next request waits because of a quota, in the order in which they began to wait, with the user
    /// of those inside the process.
    delayed: Vec<(ConnectionKey, Option<UserId>)>,
    heartbeats_at: Timestamp,
    stale_members_at: Timestamp,
    slow_readers_at: Timestamp,
    /// Time from which connections without a login may be searched for again.
    unauthenticated_at: Timestamp,
    /// Earliest expiry of a login on this shard; possibly of a session that has already ended.
    logins_expire_at: Option<Timestamp>,
    /// Number of disconnect requests at the last check.
    disconnections_seen: u64,
    /// Addresses of newer clients that were reported.
    pub(crate) newer_clients: BTreeSet<IpAddr>,
    /// Rate limit of reported refusals.
    pub(crate) refusals: Refusals,
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
            starved: Vec::new(),
            retry_at: None,
            delayed: Vec::new(),
            heartbeats_at: Timestamp(0),
            stale_members_at: Timestamp(0),
            slow_readers_at: Timestamp(0),
            unauthenticated_at: Timestamp(0),
            newer_clients: BTreeSet::new(),
            logins_expire_at: None,
            disconnections_seen: 0,
            refusals: Refusals::default(),
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
        self.retry_at.is_some()
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
        if !self.starved.contains(&key) {
            self.starved.push(key);
        }
        self.retry_at
            .get_or_insert(Timestamp(now.0 + STARVED_RETRY_MICROS));
    }

    /// Resume the connections that found no buffer when that is due.
    pub(crate) fn retry_starved(&mut self, now: Timestamp) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            for key in core::mem::take(&mut self.starved) {
                self.touch(key);
            }
        }
    }
}
