//! Memory shortage: the queue of waiting receivers, and the reclaiming of cache memory.
//!
//! All shards of a process share one pool. Receivers of large batches wait in one queue across all shards, so that a
//! small batch that comes later takes no memory from a large one that came before. Caches release memory, oldest
//! entries first, each shard in proportion to the size of its caches.

mod shares;
pub(crate) mod usage;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use headrace_buffer::{Buffer, BufferPool, PoolExhausted};
use headrace_model::ShardId;

use crate::{calls::ConnectionKey, calls::Peer};

use shares::Shares;
pub(crate) use shares::{Claim, Share};

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
    pub(crate) id: ReceiverId,
    pub(crate) bytes: usize,
}

/// Identity of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiverId {
    pub(crate) shard: ShardId,
    pub(crate) receiver: Receiver,
}

impl ReceiverId {
    /// Identity of a connection.
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
        id: ReceiverId,
    ) -> Result<Buffer, PoolExhausted> {
        let is_answer = matches!(id.receiver, Receiver::Link(_));
        if is_answer && let Ok(buffer) = self.pool.acquire_answer(len_bytes) {
            *turn = None;
            return Ok(buffer);
        }
        if len_bytes > self.pool.receivable_bytes_max() {
            // Such a size may never become available, and must not block others. Batches of clients are smaller.
            return self.pool.acquire(len_bytes);
        }
        let before = turn.as_ref().and_then(|turn| self.find(turn.number, id));
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
            *turn = Some(self.join(id, len_bytes));
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

    fn join(&self, id: ReceiverId, bytes: usize) -> Turn {
        let mut queue = self.lock();
        queue.last_number += 1;
        let number = queue.last_number;
        queue.waiters.push_back(Waiter { number, id, bytes });
        self.changed(&queue);
        Turn {
            memory: self.clone(),
            number,
        }
    }

    /// Return the number of receivers in front of a turn, and update its receiver to `id`.
    fn find(&self, number: u64, id: ReceiverId) -> Option<usize> {
        let mut queue = self.lock();
        let waiters = &mut queue.waiters;
        let index = waiters.binary_search_by_key(&number, |waiter| waiter.number);
        let index = index.ok()?;
        waiters[index].id = id;
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

#[cfg(test)]
mod tests {
    use headrace_model::NodeId;

    use super::*;

    const CLASS: usize = 64 << 10;

    fn receiver(index: u32) -> ReceiverId {
        let key = ConnectionKey {
            index,
            generation: 1,
        };
        ReceiverId {
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
            memory.acquire_in_turn(bytes, turn, receiver(index)).is_ok()
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
        let result = memory.acquire_in_turn(CLASS, &mut batch, receiver(1));
        assert!(result.is_err() && batch.is_some());
        let peer = Peer {
            node: NodeId(1),
            shard: ShardId(0),
        };
        let link = ReceiverId {
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
        assert_eq!(memory.first().map(|first| first.id), Some(receiver(1)));
    }

    /// A receiver that is gone does not block others.
    #[test]
    fn a_turn_that_is_dropped_is_over() {
        let memory = Memory::new(BufferPool::new(4 * CLASS as u64));
        let _held = memory.pool().acquire(3 * CLASS);
        let mut turns: Vec<_> = (0..3)
            .map(|index| {
                let mut turn = None;
                let result = memory.acquire_in_turn(2 * CLASS, &mut turn, receiver(index));
                assert!(result.is_err());
                turn
            })
            .collect();
        let first = |memory: &Memory| memory.first().map(|waiter| waiter.id);
        turns.remove(1);
        assert_eq!(first(&memory), Some(receiver(0)));
        turns.remove(0);
        assert_eq!(first(&memory), Some(receiver(2)));
        turns.clear();
        assert_eq!(first(&memory), None);
    }
}
