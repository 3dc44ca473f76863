//! Memory of the process as one shard uses it: what is due by time, and the requests that wait for a part of a share.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use headrace_buffer::{BufferPool, MemoryAccount, Purpose};
use headrace_catalog::{Catalog, Partition, Stream, Topic, User};
use headrace_model::{ShardId, Timestamp, UserId};

use super::{
    Memory, Waiter,
    shares::{ANSWER_BYTES_MIN, Claim, Held, Share},
};
use crate::{
    api::Effect,
    calls::{ConnectionKey, Mail},
    sessions::{
        Sessions,
        connection::{Connection, Session},
    },
};

/// Divisor of the budget: at least this fraction is reclaimed in addition to what is missing.
const RECLAIM_DIVISOR: u64 = 16;

/// Minimum interval between two reclaims. Memory from the previous one may still be in use by sends.
const RECLAIM_PAUSE_MICROS: u64 = 2_000;

/// Minimum interval between two counts of memory outside buffers, and between two unloadings of indexes.
const COUNT_PAUSE_MICROS: u64 = 1_000_000;

/// Approximate memory at both ends of a request that waits for messages of a partition, or that watches one.
const SUBSCRIPTION_BYTES: usize = 512;

/// State of a shard's periodic work on memory.
#[derive(Debug)]
struct MemoryWork {
    reclaim_at: Timestamp,
    count_at: Timestamp,
    catalog: MemoryAccount,
    /// Version of the catalog that was counted.
    catalog_version: Option<u64>,
    links: MemoryAccount,
    subscriptions: MemoryAccount,
    /// Number of the receiver on another shard that was last notified of available memory.
    called: u64,
}

impl MemoryWork {
    fn new(pool: &BufferPool) -> Self {
        let holding = |purpose| MemoryAccount::new(pool.clone(), purpose);
        Self {
            reclaim_at: Timestamp(0),
            count_at: Timestamp(0),
            catalog: holding(Purpose::Catalog),
            catalog_version: None,
            links: holding(Purpose::Links),
            subscriptions: holding(Purpose::Subscriptions),
            called: 0,
        }
    }
}

/// Memory of the process as one shard uses it.
pub(crate) struct MemoryUse {
    shared: Memory,
    work: MemoryWork,
    /// Connections whose users have used up their memory share.
    excess: Excess,
}

impl MemoryUse {
    pub(crate) fn new(shared: Memory) -> Self {
        Self {
            work: MemoryWork::new(shared.pool()),
            shared,
            excess: Excess::default(),
        }
    }

    /// Memory that is shared with other shards.
    pub(crate) fn shared(&self) -> &Memory {
        &self.shared
    }

    /// Pool of the buffers.
    #[inline]
    pub(crate) fn pool(&self) -> &BufferPool {
        self.shared.pool()
    }
}

/// Approximate memory of a catalog. Names and permissions are short compared with the rest.
fn catalog_bytes(catalog: &Catalog) -> usize {
    let partitions: usize = (catalog.topics())
        .map(|topic| topic.partitions_count() as usize)
        .sum();
    catalog.streams().len() * size_of::<Stream>()
        + catalog.topics().count() * size_of::<Topic>()
        + partitions * size_of::<Partition>()
        + catalog.users().len() * size_of::<User>()
}

impl MemoryUse {
    /// Return whether caches are to release memory.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        let pool = self.pool();
        pool.is_eviction_requested() || pool.caches_excess_bytes() > 0
    }

    /// Return whether a request of this shard waits until its user holds less.
    #[inline]
    pub(crate) fn has_excess(&self) -> bool {
        !self.excess.is_empty()
    }

    /// Take the bytes that the caches of all shards are to release, and those that they hold: what is missing and a
    /// reserve, so that reclaiming is not needed for each request. `None` if it is too early for another reclaim.
    pub(crate) fn take_reclaim(&mut self, now: Timestamp) -> Option<(u64, u64)> {
        if now < self.work.reclaim_at {
            return None;
        }
        self.work.reclaim_at = Timestamp(now.0 + RECLAIM_PAUSE_MICROS);
        let pool = self.pool();
        let missing = pool.take_eviction_request().max(pool.caches_excess_bytes());
        let bytes = missing + pool.capacity_bytes() / RECLAIM_DIVISOR;
        let held_bytes = pool.caches_bytes();
        (held_bytes > 0).then_some((bytes, held_bytes))
    }

    /// Return the first receiver in the queue, if it is on this shard and there is memory for it. Another shard is
    /// notified.
    pub(crate) fn next_served(
        &mut self,
        shard: ShardId,
        effects: &mut Vec<Effect>,
    ) -> Option<Waiter> {
        let first = self.shared.first()?;
        let pool = self.pool();
        if !pool.has_room_to_receive(first.bytes) {
            pool.request_eviction(first.bytes);
            return None;
        }
        if first.id.shard != shard {
            if self.work.called != first.number {
                self.work.called = first.number;
                let to = first.id.shard;
                let mail = Mail::MemoryAvailable;
                effects.push(Effect::Mail { to, mail });
            }
            return None;
        }
        Some(first)
    }

    /// Have a receiver leave the queue that was served and does not need the memory now. It queues again when it does.
    pub(crate) fn end_served(&self, served: Waiter) {
        let is_first = |now: Waiter| now.number == served.number;
        if self.shared.first().is_some_and(is_first)
            && self.pool().has_room_to_receive(served.bytes)
        {
            self.shared.leave(served.number);
        }
    }

    /// Return whether memory outside buffers is to be counted, which is then done.
    pub(crate) fn is_count_due(&mut self, now: Timestamp) -> bool {
        let is_due = now >= self.work.count_at;
        if is_due {
            self.work.count_at = Timestamp(now.0 + COUNT_PAUSE_MICROS);
        }
        is_due
    }

    /// Count memory outside buffers: of the catalog, of links, and of requests that wait or watch.
    pub(crate) fn count(
        &mut self,
        catalog: Option<&Arc<Catalog>>,
        links_bytes: usize,
        subscriptions: usize,
    ) {
        let work = &mut self.work;
        // Counting walks all topics.
        if let Some(catalog) = catalog
            && work.catalog_version.replace(catalog.version()) != Some(catalog.version())
        {
            work.catalog.set(catalog_bytes(catalog) as u64);
        }
        work.links.set(links_bytes as u64);
        work.subscriptions
            .set((subscriptions * SUBSCRIPTION_BYTES) as u64);
    }

    /// Return whether something waits for memory, so that the next check must come soon.
    pub(crate) fn waits_for_memory(&self) -> bool {
        self.shared.is_waiting() || !self.excess.is_empty() || self.pool().is_eviction_requested()
    }
}

/// Connections of a shard that wait until their users hold less.
#[derive(Debug, Default)]
pub(crate) struct Excess {
    last_turn: u64,
    by_user: BTreeMap<(UserId, Held), Waiting>,
}

/// Waiting requests of one user, in order of arrival.
#[derive(Debug)]
struct Waiting {
    share: Share,
    requests: VecDeque<Request>,
}

/// A request that waits for a part of the share.
#[derive(Debug, Clone, Copy)]
struct Request {
    key: ConnectionKey,
    turn: u64,
    wants: Wants,
}

#[derive(Debug, Clone, Copy)]
enum Wants {
    /// The buffer of a large request.
    Buffer(u64),
    /// Room for the answer to a request that has not started.
    Start,
    /// Room for the answer to a request in flight that has waited for messages.
    Continue,
    /// Room for a message of this size, which the request in flight has found.
    Message(u64),
}

impl Excess {
    /// Return whether nothing waits.
    fn is_empty(&self) -> bool {
        self.by_user.is_empty()
    }
}

impl MemoryUse {
    /// Claim memory for a large payload on behalf of the session's user. Returns false if the request waits until
    /// others of the user are answered.
    pub(crate) fn claim_memory(&mut self, connection: &mut Connection, bytes: usize) -> bool {
        if connection.inbox.has_claim() {
            return true;
        }
        let wants = Wants::Buffer(BufferPool::size_bytes(bytes));
        self.claim_or_wait(connection, wants)
    }

    /// Claim memory for the answer to a request that is about to start. Returns false if it waits until the user's
    /// clients have taken others.
    pub(crate) fn claim_answer(&mut self, connection: &mut Connection) -> bool {
        connection.pipeline.has_answer_claim() || self.claim_or_wait(connection, Wants::Start)
    }

    /// Claim memory for the answer to the request in flight: for a message of this size that it has found, or for
    /// messages that have become available. Returns the maximum size of the answer. `None` if the request waits;
    /// its poll is repeated later.
    pub(crate) fn claim_again(
        &mut self,
        sessions: &mut Sessions,
        key: ConnectionKey,
        message: Option<u64>,
    ) -> Option<u32> {
        let mut connection = sessions.take(key)?;
        connection.pipeline.release_answer_claim();
        let wants = message.map_or(Wants::Continue, Wants::Message);
        let is_claimed = self.claim_or_wait(&mut connection, wants);
        let bytes_max = is_claimed.then(|| connection.pipeline.answer_bytes_max());
        sessions.put(connection);
        bytes_max
    }

    /// Count the answer to the request in flight, which was too small to need room before.
    pub(crate) fn count_answer(&mut self, sessions: &mut Sessions, key: ConnectionKey) {
        if let Some(connection) = sessions.get_mut(key)
            && let Some(share) = self.share_of(&mut connection.session)
        {
            connection
                .pipeline
                .hold_answer(Claim::empty(share, Held::Answers));
        }
    }

    /// Return the share of the session's user; `None` if the peer is a service.
    fn share_of(&self, session: &mut Session) -> Option<Share> {
        let user = session.principal()?;
        Some(self.shared.share_of(user, &mut session.share))
    }

    fn claim_or_wait(&mut self, connection: &mut Connection, wants: Wants) -> bool {
        if connection.share_turn > 0 {
            return false;
        }
        let Some(share) = self.share_of(&mut connection.session) else {
            return true;
        };
        let place = (share.user(), wants.kind());
        // Earlier requests of the user come first.
        if !self.excess.by_user.contains_key(&place)
            && let Some(claim) = wants.claim(&share)
        {
            hold(connection, claim);
            return true;
        }
        share.count_waiting(1);
        self.excess.last_turn += 1;
        connection.share_turn = self.excess.last_turn;
        let fresh = || Waiting {
            share,
            requests: VecDeque::new(),
        };
        let waiting = (self.excess.by_user.entry(place)).or_insert_with(fresh);
        waiting.requests.push_back(Request {
            key: connection.key,
            turn: connection.share_turn,
            wants,
        });
        false
    }

    /// Resume requests whose users have room in their shares again.
    /// Returns the connections whose requests are in flight: their polls are to be repeated.
    pub(crate) fn serve_excess(&mut self, sessions: &mut Sessions) -> Vec<ConnectionKey> {
        let mut by_user = core::mem::take(&mut self.excess.by_user);
        let mut repeated = Vec::new();
        by_user.retain(|_, waiting| {
            while let Some(first) = waiting.requests.front().copied() {
                let is_begun = matches!(first.wants, Wants::Continue | Wants::Message(_));
                let waits = |connection: &&mut Connection| {
                    connection.share_turn == first.turn && (is_begun || !connection.closing)
                };
                if let Some(connection) = sessions.get_mut(first.key).filter(waits) {
                    let Some(claim) = first.wants.claim(&waiting.share) else {
                        return true;
                    };
                    connection.share_turn = 0;
                    hold(connection, claim);
                    if is_begun {
                        repeated.push(first.key);
                    } else {
                        sessions.touch(first.key);
                    }
                }
                waiting.requests.pop_front();
                waiting.share.count_waiting(-1);
            }
            false
        });
        self.excess.by_user = by_user;
        repeated
    }
}

impl Wants {
    fn kind(self) -> Held {
        match self {
            Self::Buffer(_) => Held::Requests,
            Self::Start | Self::Continue | Self::Message(_) => Held::Answers,
        }
    }

    fn claim(self, share: &Share) -> Option<Claim> {
        match self {
            Self::Buffer(bytes) => share.claim(Held::Requests, bytes),
            Self::Start | Self::Continue => share.claim_answer(),
            // A little more than the message, for small ones behind it.
            Self::Message(bytes) => share.claim(Held::Answers, bytes + ANSWER_BYTES_MIN),
        }
    }
}

/// Have a connection hold a claim until its request, or its answer, is done.
fn hold(connection: &mut Connection, claim: Claim) {
    match claim.kind() {
        Held::Requests => connection.inbox.hold(Some(claim)),
        Held::Answers => connection.pipeline.hold_answer(claim),
    }
}
