//! The pool: recycled memory within one budget.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::buffer::Buffer;
use crate::classes::{CLASS_COUNT, class_for, class_size_bytes};
use crate::memory::Memory;

/// Free buffers kept per class, at most.
const FREE_BUFFERS_PER_CLASS_MAX: u64 = 512;
/// Of the budget, the part that free buffers of one class may hold.
const FREE_BYTES_PER_CLASS_DIVISOR: u64 = 8;

/// Free buffers from this size on are given back when nobody has needed them for a while. Smaller ones are not worth it.
const IDLE_SIZE_BYTES_MIN: usize = 64 * 1024;

/// Recycled memory within one budget, shared by threads without a lock.
///
/// First use of memory is what costs (the kernel finds and clears the pages), so buffers of 32 size classes are
/// kept for the next request. When the budget is spent a request is refused and the caller has to wait: memory
/// pressure becomes back-pressure.
#[derive(Clone)]
pub struct BufferPool(Arc<Shared>);

/// The budget does not allow another buffer of this size, or no class holds it. Wait and retry, or take less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {requested_bytes} B: {in_use_bytes} B of {capacity_bytes} B are in use")]
pub struct PoolExhausted {
    /// What was asked for.
    pub requested_bytes: usize,
    /// What buffers that are alive occupy.
    pub in_use_bytes: u64,
    /// The budget.
    pub capacity_bytes: u64,
}

/// Memory that nobody has needed for a while. To drop it gives it back to the system, which takes about a millisecond for
/// some MiB: not for a thread that others wait for.
#[derive(Default)]
pub struct IdleMemory(Vec<Memory>);

impl IdleMemory {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for IdleMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("IdleMemory")
            .field(&self.0.len())
            .finish()
    }
}

/// Counters since the pool was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Memory of buffers that are alive.
    pub in_use_bytes: u64,
    /// Memory of free buffers.
    pub cached_bytes: u64,
    /// The budget of both together.
    pub capacity_bytes: u64,
    /// Requests answered with recycled memory.
    pub hits: u64,
    /// Requests answered with new memory.
    pub misses: u64,
    /// Requests refused.
    pub refusals: u64,
}

impl BufferPool {
    /// An empty pool with this budget.
    pub fn new(capacity_bytes: u64) -> Self {
        Self(Arc::new(Shared {
            capacity_bytes,
            in_use_bytes: AtomicU64::new(0),
            cached_bytes: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            idle: [const { AtomicU64::new(0) }; CLASS_COUNT],
            free: core::array::from_fn(|class| {
                let bytes_max = capacity_bytes / FREE_BYTES_PER_CLASS_DIVISOR;
                let buffers = (bytes_max / class_size_bytes(class) as u64)
                    .clamp(1, FREE_BUFFERS_PER_CLASS_MAX);
                ArrayQueue::new(usize::try_from(buffers).expect("at most 512"))
            }),
        }))
    }

    /// A buffer of this length; its content is unspecified but initialised, its capacity that of its size class.
    pub fn acquire(&self, len_bytes: usize) -> Result<Buffer, PoolExhausted> {
        let pool = &*self.0;
        let Some(class) = class_for(len_bytes) else {
            return Err(pool.refuse(len_bytes));
        };
        let size = class_size_bytes(class) as u64;
        let in_use = pool.in_use_bytes.fetch_add(size, Ordering::Relaxed) + size;
        if in_use > pool.capacity_bytes {
            pool.in_use_bytes.fetch_sub(size, Ordering::Relaxed);
            return Err(pool.refuse(len_bytes));
        }
        let memory = if let Some(memory) = pool.free[class].pop() {
            pool.cached_bytes.fetch_sub(size, Ordering::Relaxed);
            pool.hits.fetch_add(1, Ordering::Relaxed);
            pool.note_free(class);
            memory
        } else {
            pool.note_free(class);
            pool.misses.fetch_add(1, Ordering::Relaxed);
            pool.trim(pool.capacity_bytes - in_use);
            Memory::zeroed(class_size_bytes(class))
        };
        let home = Home {
            pool: self.clone(),
            class: u8::try_from(class).expect("below 32"),
        };
        Ok(Buffer::pooled(memory, len_bytes, home))
    }

    /// Give free memory beyond `keep_bytes` back to the system, the largest buffers first.
    pub fn trim(&self, keep_bytes: u64) {
        self.0.trim(keep_bytes);
    }

    /// Take out the large free buffers that were free all the time since the last call. Called now and then, it lets memory
    /// shrink after a peak; what is in use again and again stays.
    pub fn take_idle(&self) -> IdleMemory {
        let pool = &*self.0;
        let mut taken = Vec::new();
        for (class, free) in pool.free.iter().enumerate() {
            let size = class_size_bytes(class);
            if size < IDLE_SIZE_BYTES_MIN {
                continue;
            }
            for _ in 0..pool.idle[class].load(Ordering::Relaxed) {
                let Some(memory) = free.pop() else {
                    break;
                };
                pool.cached_bytes.fetch_sub(size as u64, Ordering::Relaxed);
                taken.push(memory);
            }
            pool.idle[class].store(free.len() as u64, Ordering::Relaxed);
        }
        IdleMemory(taken)
    }

    /// The counters now. Each is right by itself; two of them may be one request apart.
    pub fn statistics(&self) -> PoolStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolStatistics {
            in_use_bytes: load(&self.0.in_use_bytes),
            cached_bytes: load(&self.0.cached_bytes),
            capacity_bytes: self.0.capacity_bytes,
            hits: load(&self.0.hits),
            misses: load(&self.0.misses),
            refusals: load(&self.0.refusals),
        }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statistics().fmt(formatter)
    }
}

/// Where a buffer's memory returns to.
pub(crate) struct Home {
    pool: BufferPool,
    class: u8,
}

impl Home {
    pub(crate) fn release(self, memory: Memory) {
        let pool = &*self.pool.0;
        let class = usize::from(self.class);
        let size = class_size_bytes(class) as u64;
        let in_use = pool.in_use_bytes.fetch_sub(size, Ordering::Relaxed) - size;
        // Counted before it is there, so that `cached_bytes` never falls below what a concurrent `acquire` takes out.
        let cached = pool.cached_bytes.fetch_add(size, Ordering::Relaxed) + size;
        if in_use + cached > pool.capacity_bytes || pool.free[class].push(memory).is_err() {
            pool.cached_bytes.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

struct Shared {
    capacity_bytes: u64,
    in_use_bytes: AtomicU64,
    cached_bytes: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    refusals: AtomicU64,
    free: [ArrayQueue<Memory>; CLASS_COUNT],
    /// The least number of free buffers of each class since idle ones were taken.
    idle: [AtomicU64; CLASS_COUNT],
}

impl Shared {
    fn refuse(&self, requested_bytes: usize) -> PoolExhausted {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        PoolExhausted {
            requested_bytes,
            in_use_bytes: self.in_use_bytes.load(Ordering::Relaxed),
            capacity_bytes: self.capacity_bytes,
        }
    }

    /// A buffer of this class was asked for.
    fn note_free(&self, class: usize) {
        if class_size_bytes(class) >= IDLE_SIZE_BYTES_MIN {
            self.idle[class].fetch_min(self.free[class].len() as u64, Ordering::Relaxed);
        }
    }

    fn trim(&self, keep_bytes: u64) {
        for (class, free) in self.free.iter().enumerate().rev() {
            while self.cached_bytes.load(Ordering::Relaxed) > keep_bytes {
                if free.pop().is_none() {
                    break;
                }
                self.cached_bytes
                    .fetch_sub(class_size_bytes(class) as u64, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_is_recycled_and_counted() {
        let pool = BufferPool::new(1 << 20);
        let buffer = pool.acquire(1000).expect("within the budget");
        assert_eq!((buffer.len(), buffer.capacity()), (1000, 1024));
        assert_eq!(pool.statistics().in_use_bytes, 1024);
        drop(buffer.freeze().slice(10..20));
        let statistics = pool.statistics();
        assert_eq!(
            (statistics.in_use_bytes, statistics.cached_bytes),
            (0, 1024)
        );
        drop(pool.acquire(600).expect("within the budget"));
        let statistics = pool.statistics();
        assert_eq!((statistics.hits, statistics.misses), (1, 1));
    }

    /// SHARD-8: page-aligned, at whatever class.
    #[test]
    fn whole_pages_are_aligned() {
        let pool = BufferPool::new(64 << 20);
        for length in [4096, 10_000, 70_000, 1_080_020] {
            let buffer = pool.acquire(length).expect("within the budget");
            assert_eq!(buffer.as_ptr().addr() % 4096, 0);
        }
    }

    /// SHARD-12: the budget refuses, it never grows.
    #[test]
    fn a_spent_budget_refuses_until_memory_returns() {
        let pool = BufferPool::new(8192);
        let first = pool.acquire(8192).expect("within the budget");
        let refusal = pool.acquire(1).expect_err("the budget is spent");
        assert_eq!(refusal.in_use_bytes, 8192);
        drop(first);
        assert!(pool.acquire(1).is_ok());
        assert!(pool.acquire(1 << 30).is_err());
        assert_eq!(pool.statistics().refusals, 2);
    }

    #[test]
    fn trimming_gives_free_memory_back() {
        let pool = BufferPool::new(1 << 20);
        let buffers: Vec<_> = (0..4).map(|_| pool.acquire(4096)).collect();
        drop(buffers);
        pool.trim(8192);
        assert_eq!(pool.statistics().cached_bytes, 8192);
        pool.trim(0);
        assert_eq!(pool.statistics().cached_bytes, 0);
    }

    /// GW-2: after a peak memory goes back to what is needed.
    #[test]
    fn what_nobody_has_needed_for_a_while_is_given_back() {
        let pool = BufferPool::new(1 << 30);
        let acquire = |count: usize| -> Vec<_> {
            (0..count)
                .map(|_| pool.acquire(16 << 20).expect("within the budget"))
                .collect()
        };
        drop(acquire(3));
        drop(pool.acquire(1000));
        // They were in use a moment ago.
        assert!(pool.take_idle().is_empty());
        drop(acquire(1));
        // Two were not needed, the third was.
        drop(pool.take_idle());
        assert_eq!(pool.statistics().cached_bytes, (16 << 20) + 1024);
        drop(pool.take_idle());
        // Small ones stay.
        assert_eq!(pool.statistics().cached_bytes, 1024);
        assert!(pool.take_idle().is_empty());
    }

    proptest! {
        /// SHARD-12: whatever is asked for and given back, memory in use and free memory stay within the budget.
        #[test]
        fn the_budget_holds(steps in proptest::collection::vec((0_usize..200_000, any::<bool>()), 1..200)) {
            let pool = BufferPool::new(1 << 20);
            let mut held = Vec::new();
            for (length, give_back) in steps {
                if give_back && !held.is_empty() {
                    held.swap_remove(length % held.len());
                } else if let Ok(buffer) = pool.acquire(length) {
                    prop_assert!(buffer.capacity() >= length);
                    held.push(buffer);
                }
                let statistics = pool.statistics();
                prop_assert!(statistics.in_use_bytes + statistics.cached_bytes <= statistics.capacity_bytes);
                let capacities: usize = held.iter().map(Buffer::capacity).sum();
                prop_assert_eq!(statistics.in_use_bytes, capacities as u64);
            }
            drop(held);
            prop_assert_eq!(pool.statistics().in_use_bytes, 0);
        }
    }
}
