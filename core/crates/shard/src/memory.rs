//! Memory shortage: the queue of waiting receivers, and the reclaiming of cache memory.
//!
//! All shards of a process share one pool. Receivers of large batches wait in one queue across all shards, so that a
//! small batch that comes later takes no memory from a large one that came before. Caches release memory, oldest
//! entries first, each shard in proportion to the size of its caches.

mod shares;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use headrace_buffer::{Buffer, BufferPool, MemoryAccount, PoolExhausted, Purpose};
use headrace_catalog::{Catalog, Partition, Stream, Topic, User};
use headrace_model::{ShardId, Timestamp};

use crate::{
    api::{ConnectionKey, Effect, Mail},
    routing::links::Peer,
};

pub(crate) use shares::{Claim, Share};
use shares::{Excess, Shares};

/// Divisor of the budget: at least this fraction is reclaimed in addition to what is missing.
const RECLAIM_DIVISOR: u64 = 16;
/// Minimum interval between two reclaims. Memory from the previous one may still be in use by sends.
const RECLAIM_PAUSE_MICROS: u64 = 2_000;
/// Minimum interval between two counts of memory outside buffers, and between two unloadings of indexes.
const COUNT_PAUSE_MICROS: u64 = 1_000_000;
/// Approximate memory at both ends of a request that waits for messages of a partition, or that watches one.
const SUBSCRIPTION_BYTES: usize = 512;

/// Memory of a process, shared by its shards.
#[derive(Debug, Clone)]
pub struct Memory {
    pool: BufferPool,
    line: Arc<Line>,
    shares: Arc<Shares>,
}

/// Waiting receivers in order of arrival.
#[derive(Debug, Default)]
struct Line {
    /// Number of waiting receivers. Shows without a lock that the queue is empty.
    count: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    last_number: u64,
    waiters: VecDeque<Waiter>,
}

/// A receiver that waits for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) number: u64,
    pub(crate) place: Place,
    pub(crate) bytes: usize,
}

/// Location of a waiting receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shard: ShardId,
    pub(crate) receiver: Receiver,
}

impl Place {
    /// Location of a connection.
    pub(crate) fn of(shard: ShardId, key: ConnectionKey) -> Self {
        Self {
            shard,
            receiver: Receiver::Connection(key),
        }
    }
}

/// Connection or link that receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Connection(ConnectionKey),
    Link(Peer),
}

/// A place in the queue. Dropping this leaves the queue.
#[derive(Debug)]
pub(crate) struct Turn {
    memory: Memory,
    number: u64,
}

impl Memory {
    /// Memory of this pool, with an empty queue.
    pub fn new(pool: BufferPool) -> Self {
        Self {
            pool,
            line: Arc::default(),
            shares: Arc::default(),
        }
    }

    /// Pool of the buffers.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Acquire a buffer for a large batch, in turn. On failure, `turn` is a place in the queue, to be passed to the
    /// next call. The answer of a node needs no turn within the share of reads: acknowledgements behind it on its link
    /// may release the memory for which batches in the queue wait.
    pub(crate) fn acquire_in_turn(
        &self,
        len_bytes: usize,
        turn: &mut Option<Turn>,
        place: Place,
    ) -> Result<Buffer, PoolExhausted> {
        let is_answer = matches!(place.receiver, Receiver::Link(_));
        if is_answer && let Ok(buffer) = self.pool.acquire_answer(len_bytes) {
            *turn = None;
            return Ok(buffer);
        }
        if len_bytes > self.pool.receivable_bytes_max() {
            // Such a size may never become available, and must not block others. Batches of clients are smaller.
            return self.pool.acquire(len_bytes);
        }
        let before = turn.as_ref().and_then(|turn| self.find(turn.number, place));
        if before.is_none() {
            *turn = None;
        }
        let is_first = before.map_or_else(|| !self.is_waiting(), |before| before == 0);
        if is_first {
            let result = if is_answer {
                self.pool.acquire_answer_in_turn(len_bytes)
            } else {
                self.pool.acquire_to_receive(len_bytes)
            };
            if result.is_ok() {
                *turn = None;
                return result;
            }
        }
        if turn.is_none() {
            *turn = Some(self.join(place, len_bytes));
        }
        let statistics = self.pool.statistics();
        Err(PoolExhausted {
            requested_bytes: len_bytes,
            in_use_bytes: statistics.in_use_bytes,
            capacity_bytes: statistics.capacity_bytes,
        })
    }

    /// Returns true when a receiver waits.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.line.count.load(Ordering::Acquire) > 0
    }

    /// Return the first receiver in the queue.
    pub(crate) fn first(&self) -> Option<Waiter> {
        if !self.is_waiting() {
            return None;
        }
        self.lock().waiters.front().copied()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Every change is one insert or remove, so a panic leaves the queue consistent.
        let queue = self.line.queue.lock();
        queue.unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, place: Place, bytes: usize) -> Turn {
        let mut queue = self.lock();
        queue.last_number += 1;
        let number = queue.last_number;
        queue.waiters.push_back(Waiter {
            number,
            place,
            bytes,
        });
        self.changed(&queue);
        Turn {
            memory: self.clone(),
            number,
        }
    }

    /// Return the number of receivers in front of a turn, and update its location to `place`.
    fn find(&self, number: u64, place: Place) -> Option<usize> {
        let mut queue = self.lock();
        let waiters = &mut queue.waiters;
        let index = waiters.binary_search_by_key(&number, |waiter| waiter.number);
        let index = index.ok()?;
        waiters[index].place = place;
        Some(index)
    }

    fn leave(&self, number: u64) {
        let mut queue = self.lock();
        queue.waiters.retain(|waiter| waiter.number != number);
        self.changed(&queue);
    }

    fn changed(&self, queue: &Queue) {
        let first = queue.waiters.front().map_or(0, |first| first.bytes);
        self.pool.reserve_against_reads(first);
        self.line
            .count
            .store(queue.waiters.len(), Ordering::Release);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.memory.leave(self.number);
    }
}

/// State of a shard's periodic work on memory.
#[derive(Debug)]
struct MemoryWork {
    reclaim_at: Timestamp,
    count_at: Timestamp,
    catalog: MemoryAccount,
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
        &self.shared.pool
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
        if first.place.shard != shard {
            if self.work.called != first.number {
                self.work.called = first.number;
                let to = first.place.shard;
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
        if let Some(catalog) = catalog {
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

#[cfg(test)]
mod tests {
    use headrace_model::NodeId;

    use super::*;

    const CLASS: usize = 64 << 10;

    fn place(index: u32) -> Place {
        let key = ConnectionKey {
            index,
            generation: 1,
        };
        Place {
            shard: ShardId(0),
            receiver: Receiver::Connection(key),
        }
    }

    /// SHARD-12: receivers are served in order of arrival, however much less later ones need.
    #[test]
    fn a_small_request_does_not_overtake_a_large_one() {
        let memory = Memory::new(BufferPool::new(16 * CLASS as u64));
        let mut held: Vec<_> = (0..13)
            .map(|_| memory.pool().acquire_to_receive(CLASS).expect("room"))
            .collect();
        let (mut large, mut small) = (None, None);
        let ask = |bytes, turn: &mut Option<Turn>, index| {
            memory.acquire_in_turn(bytes, turn, place(index)).is_ok()
        };
        assert!(!ask(4 * CLASS, &mut large, 1));
        assert!(
            !ask(CLASS, &mut small, 2),
            "there is room, and it is not its turn"
        );
        held.truncate(11);
        assert!(!ask(4 * CLASS, &mut large, 1));
        held.truncate(10);
        assert!(!ask(CLASS, &mut small, 2));
        assert!(ask(4 * CLASS, &mut large, 1));
        assert!(large.is_none() && memory.first().expect("one").bytes == CLASS);
        assert!(ask(CLASS, &mut small, 2));
        assert!(!memory.is_waiting());
    }

    /// SHARD-12: the answer of a node is received although batches wait, which its link may have to acknowledge first.
    #[test]
    fn an_answer_does_not_wait_behind_batches() {
        let memory = Memory::new(BufferPool::new(16 * CLASS as u64));
        let _held: Vec<_> = (0..14)
            .map(|_| memory.pool().acquire_to_receive(CLASS).expect("room"))
            .collect();
        let (mut batch, mut turn) = (None, None);
        let result = memory.acquire_in_turn(CLASS, &mut batch, place(1));
        assert!(result.is_err() && batch.is_some());
        let peer = Peer {
            node: NodeId(1),
            shard: ShardId(0),
        };
        let link = Place {
            shard: ShardId(0),
            receiver: Receiver::Link(peer),
        };
        let answer = memory.acquire_in_turn(CLASS, &mut turn, link);
        assert!(answer.is_ok() && turn.is_none());
        assert_eq!(memory.pool().statistics().reads_bytes, CLASS as u64);
        // Small buffers have the rest.
        assert!(memory.acquire_in_turn(CLASS, &mut turn, link).is_err());
        assert!(turn.is_some());
        drop(answer);
        assert!(memory.acquire_in_turn(CLASS, &mut turn, link).is_ok());
        assert!(turn.is_none());
        assert_eq!(memory.first().map(|first| first.place), Some(place(1)));
    }

    /// A receiver that is gone does not block others.
    #[test]
    fn a_turn_that_is_dropped_is_over() {
        let memory = Memory::new(BufferPool::new(4 * CLASS as u64));
        let _held = memory.pool().acquire(3 * CLASS);
        let mut turns: Vec<_> = (0..3)
            .map(|index| {
                let mut turn = None;
                let result = memory.acquire_in_turn(2 * CLASS, &mut turn, place(index));
                assert!(result.is_err());
                turn
            })
            .collect();
        let first = |memory: &Memory| memory.first().map(|waiter| waiter.place);
        turns.remove(1);
        assert_eq!(first(&memory), Some(place(0)));
        turns.remove(0);
        assert_eq!(first(&memory), Some(place(2)));
        turns.clear();
        assert_eq!(first(&memory), None);
    }
}
