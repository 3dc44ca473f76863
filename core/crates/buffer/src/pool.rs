//! Buffer pool: recycled memory within one budget.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::buffer::Buffer;
use crate::classes::{CLASS_COUNT, class_for, class_size_bytes};
use crate::holding::{Purpose, Purposes};
use crate::memory::Memory;

/// Maximum number of free buffers kept per class.
const FREE_BUFFERS_PER_CLASS_MAX: u64 = 512;
/// Divisor of the budget for the free buffers of one class.
const FREE_BYTES_PER_CLASS_DIVISOR: u64 = 8;

/// Minimum size of free buffers that are released when idle. Smaller ones are not worth it.
const IDLE_SIZE_BYTES_MIN: usize = 64 * 1024;

/// Divisor of the budget for the reserve that large requests leave to small buffers and writes. Without a reserve, work
/// that waits for memory could never proceed.
const RESERVE_DIVISOR: u64 = 8;
/// Divisor of the budget for the part of that reserve that answers of other processes leave, too.
const ANSWERS_RESERVE_DIVISOR: u64 = 16;
/// Divisor of the budget for caches.
const CACHES_DIVISOR: u64 = 2;
/// Divisor of the budget for reads, including data being sent to slow consumers.
const READS_DIVISOR: u64 = 2;
/// Maximum size of a read that may exceed the share of reads.
const SMALL_READ_BYTES_MAX: usize = 16 * 1024;
/// Divisor of the budget for indexes; beyond this share they are unloaded.
const INDEXES_DIVISOR: u64 = 8;
/// Divisor of the budget for the maximum amount that memory outside buffers counts for.
const OUTSIDE_DIVISOR: u64 = 4;

/// Pool of recycled memory within one budget, shared by threads without a lock.
///
/// The first use of memory is expensive (the kernel finds and clears the pages), so buffers of 32 size classes are kept
/// for reuse. When the budget is exhausted, a request is refused and the caller has to wait: memory pressure becomes
/// back-pressure.
///
/// A refusal is remembered as [wanted](Self::take_wanted), so that owners of caches release memory. Requests that can
/// wait get less of the budget than those that cannot: receiving a large batch and reading leave a reserve. Reads have
/// a separate share, so that slow consumers cannot block producers.
#[derive(Clone)]
pub struct BufferPool(Arc<Shared>);

/// The budget does not allow another buffer of this size, or no class holds it. Wait and retry, or request less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {requested_bytes} B: {in_use_bytes} B of {capacity_bytes} B are in use")]
pub struct PoolExhausted {
    /// Requested size.
    pub requested_bytes: usize,
    /// Memory of buffers in use.
    pub in_use_bytes: u64,
    /// Budget of the pool.
    pub capacity_bytes: u64,
}

/// Memory that was idle for a while. Dropping it releases it to the system, which takes about a millisecond for some
/// MiB; do not drop it on a latency-sensitive thread.
#[derive(Default)]
pub struct IdleMemory(Vec<Memory>);

impl IdleMemory {
    /// Return whether there is no idle memory.
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

/// Counters since the pool was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Memory of buffers in use.
    pub in_use_bytes: u64,
    /// Memory of free buffers.
    pub cached_bytes: u64,
    /// Budget of both together.
    pub capacity_bytes: u64,
    /// Number of requests served with recycled memory.
    pub hits: u64,
    /// Number of requests served with new memory.
    pub misses: u64,
    /// Number of refused requests.
    pub refusals: u64,
    /// Memory of buffers in use for reads.
    pub reads_bytes: u64,
    /// Memory outside buffers that counts as part of the budget.
    pub outside_bytes: u64,
}

impl BufferPool {
    /// Make an empty pool with this budget.
    pub fn new(capacity_bytes: u64) -> Self {
        Self(Arc::new(Shared {
            capacity_bytes,
            in_use_bytes: AtomicU64::new(0),
            cached_bytes: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            reads_bytes: AtomicU64::new(0),
            wanted_bytes: AtomicU64::new(0),
            promised_bytes: AtomicU64::new(0),
            purposes: Purposes::default(),
            idle: [const { AtomicU64::new(0) }; CLASS_COUNT],
            free: core::array::from_fn(|class| {
                let bytes_max = capacity_bytes / FREE_BYTES_PER_CLASS_DIVISOR;
                let buffers = (bytes_max / class_size_bytes(class) as u64)
                    .clamp(1, FREE_BUFFERS_PER_CLASS_MAX);
                ArrayQueue::new(usize::try_from(buffers).expect("at most 512"))
            }),
        }))
    }

    /// Acquire a buffer of this length. Its content is unspecified but initialised; its capacity is that of its size
    /// class.
    pub fn acquire(&self, len_bytes: usize) -> Result<Buffer, PoolExhausted> {
        self.acquire_within(len_bytes, self.0.capacity_bytes, false)
    }

    /// Acquire a buffer for receiving a large batch. Leaves a reserve.
    pub fn acquire_to_receive(&self, len_bytes: usize) -> Result<Buffer, PoolExhausted> {
        self.acquire_within(len_bytes, self.receive_limit_bytes(), false)
    }

    /// Acquire a buffer for the read of a poll. Leaves a reserve and the promised memory, within a separate share. A
    /// small read leaves only a part of the reserve, whatever others hold: no large ones keep it out.
    pub fn acquire_to_read(&self, len_bytes: usize) -> Result<Buffer, PoolExhausted> {
        if len_bytes <= SMALL_READ_BYTES_MAX {
            let capacity = self.0.capacity_bytes;
            let limit = capacity - capacity / ANSWERS_RESERVE_DIVISOR;
            return self.acquire_read_within(len_bytes, u64::MAX, limit);
        }
        self.acquire_read_within(
            len_bytes,
            self.reads_share_bytes(),
            self.receive_limit_bytes(),
        )
    }

    /// Acquire a buffer for the answer of another process to a poll, within the share of reads. Leaves only a part of
    /// the reserve: answers that release the memory of batches may follow.
    pub fn acquire_answer(&self, len_bytes: usize) -> Result<Buffer, PoolExhausted> {
        let capacity = self.0.capacity_bytes;
        let limit = capacity - capacity / ANSWERS_RESERVE_DIVISOR;
        self.acquire_read_within(len_bytes, self.reads_share_bytes(), limit)
    }

    /// Acquire a buffer for such an answer beyond the share of reads, in turn with large batches. Leaves a reserve.
    pub fn acquire_answer_in_turn(&self, len_bytes: usize) -> Result<Buffer, PoolExhausted> {
        self.acquire_read_within(len_bytes, u64::MAX, self.receive_limit_bytes())
    }

    fn acquire_read_within(
        &self,
        len_bytes: usize,
        share_bytes: u64,
        limit_bytes: u64,
    ) -> Result<Buffer, PoolExhausted> {
        let pool = &*self.0;
        let Some(class) = class_for(len_bytes) else {
            return Err(pool.refuse(len_bytes));
        };
        let size = class_size_bytes(class) as u64;
        let reads = pool.reads_bytes.fetch_add(size, Ordering::Relaxed) + size;
        // A single read may exceed the share: otherwise a large message could never be read with a small share.
        if reads > share_bytes && reads > size {
            pool.reads_bytes.fetch_sub(size, Ordering::Relaxed);
            return Err(pool.refuse(len_bytes));
        }
        let buffer = self.acquire_within(len_bytes, limit_bytes, true);
        if buffer.is_err() {
            pool.reads_bytes.fetch_sub(size, Ordering::Relaxed);
        }
        buffer
    }

    fn acquire_within(
        &self,
        len_bytes: usize,
        limit_bytes: u64,
        is_read: bool,
    ) -> Result<Buffer, PoolExhausted> {
        let pool = &*self.0;
        let Some(class) = class_for(len_bytes) else {
            return Err(pool.refuse(len_bytes));
        };
        let size = class_size_bytes(class) as u64;
        let in_use = pool.in_use_bytes.fetch_add(size, Ordering::Relaxed) + size;
        if in_use + pool.unpooled_bytes() > limit_bytes {
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
            pool.trim(
                pool.capacity_bytes
                    .saturating_sub(in_use + pool.unpooled_bytes()),
            );
            Memory::zeroed(class_size_bytes(class))
        };
        let home = PoolReturn {
            pool: self.clone(),
            class: u8::try_from(class).expect("below 32"),
            is_read,
        };
        Ok(Buffer::pooled(memory, len_bytes, home))
    }

    /// Limit of the memory in use for large batches.
    fn receive_limit_bytes(&self) -> u64 {
        let capacity = self.0.capacity_bytes;
        capacity - capacity / RESERVE_DIVISOR
    }

    /// Share of reads, which leave the promised memory.
    fn reads_share_bytes(&self) -> u64 {
        let promised = self.0.promised_bytes.load(Ordering::Relaxed);
        let left = self.receive_limit_bytes().saturating_sub(promised);
        (self.0.capacity_bytes / READS_DIVISOR).min(left)
    }

    /// Maximum size of a batch that can ever be received: memory that is never released, such as buffers of idle
    /// connections and memory outside buffers, leaves room for it.
    pub fn receivable_bytes_max(&self) -> usize {
        let sizes = (0..CLASS_COUNT).map(class_size_bytes);
        let fitting = sizes.take_while(|size| *size as u64 <= self.0.capacity_bytes / 2);
        fitting.last().unwrap_or(0)
    }

    /// Return true if [`acquire_to_receive`](Self::acquire_to_receive) would succeed now.
    pub fn has_room_to_receive(&self, len_bytes: usize) -> bool {
        self.has_room_within(len_bytes, self.receive_limit_bytes())
    }

    /// Return true if [`acquire`](Self::acquire) would succeed now.
    pub fn has_room(&self, len_bytes: usize) -> bool {
        self.has_room_within(len_bytes, self.0.capacity_bytes)
    }

    fn has_room_within(&self, len_bytes: usize, limit_bytes: u64) -> bool {
        let pool = &*self.0;
        let in_use = pool.in_use_bytes.load(Ordering::Relaxed) + pool.unpooled_bytes();
        class_for(len_bytes)
            .is_some_and(|class| in_use + class_size_bytes(class) as u64 <= limit_bytes)
    }

    /// Reserve that much memory against reads, for a batch that waits for it. 0 clears the reservation.
    pub fn reserve_against_reads(&self, len_bytes: usize) {
        let size = match len_bytes {
            0 => 0,
            _ => class_for(len_bytes).map_or(0, class_size_bytes),
        };
        self.0.promised_bytes.store(size as u64, Ordering::Relaxed);
    }

    /// Request that caches release that much memory.
    pub fn request_eviction(&self, len_bytes: usize) {
        if let Some(class) = class_for(len_bytes) {
            let size = class_size_bytes(class) as u64;
            self.0.wanted_bytes.fetch_max(size, Ordering::Relaxed);
        }
    }

    /// Return true if a request was refused since [`take_wanted`](Self::take_wanted).
    #[inline]
    pub fn is_eviction_requested(&self) -> bool {
        self.0.wanted_bytes.load(Ordering::Relaxed) > 0
    }

    /// Take the size of the largest request refused since the last call. Intended for a single caller, which evicts
    /// caches.
    pub fn take_eviction_request(&self) -> u64 {
        self.0.wanted_bytes.swap(0, Ordering::Relaxed)
    }

    /// Number of bytes held for a purpose.
    pub fn held_bytes(&self, purpose: Purpose) -> u64 {
        self.0.purposes.of(purpose)
    }

    /// Number of bytes in caches: the tails of logs and read-ahead.
    #[inline]
    pub fn caches_bytes(&self) -> u64 {
        self.held_bytes(Purpose::Tail) + self.held_bytes(Purpose::ReadAhead)
    }

    /// Number of bytes in caches beyond their share.
    #[inline]
    pub fn caches_excess_bytes(&self) -> u64 {
        let share = self.0.capacity_bytes / CACHES_DIVISOR;
        self.caches_bytes().saturating_sub(share)
    }

    /// Return true if indexes hold more than their share.
    #[inline]
    pub fn has_too_many_indexes(&self) -> bool {
        self.held_bytes(Purpose::Index) > self.0.capacity_bytes / INDEXES_DIVISOR
    }

    /// Part of the budget in bytes that a buffer of this length takes.
    pub fn size_bytes(len_bytes: usize) -> u64 {
        class_for(len_bytes).map_or(len_bytes, class_size_bytes) as u64
    }

    /// Budget of the pool.
    pub fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes
    }

    pub(crate) fn purposes(&self) -> &Purposes {
        &self.0.purposes
    }

    /// Release free memory beyond `keep_bytes` to the system, the largest buffers first.
    pub fn trim(&self, keep_bytes: u64) {
        self.0.trim(keep_bytes);
    }

    /// Take the large free buffers that were never used since the last call. Called periodically, this shrinks memory
    /// after a peak and keeps buffers in regular use.
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

    /// Return the current counters. Each is consistent by itself; two of them may be one request apart.
    pub fn statistics(&self) -> PoolStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolStatistics {
            in_use_bytes: load(&self.0.in_use_bytes),
            cached_bytes: load(&self.0.cached_bytes),
            capacity_bytes: self.0.capacity_bytes,
            hits: load(&self.0.hits),
            misses: load(&self.0.misses),
            refusals: load(&self.0.refusals),
            reads_bytes: load(&self.0.reads_bytes),
            outside_bytes: self.0.purposes.outside(),
        }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statistics().fmt(formatter)
    }
}

/// Pool and class to which a buffer's memory returns.
pub(crate) struct PoolReturn {
    pool: BufferPool,
    class: u8,
    is_read: bool,
}

impl PoolReturn {
    pub(crate) fn release(self, memory: Memory) {
        let pool = &*self.pool.0;
        let class = usize::from(self.class);
        let size = class_size_bytes(class) as u64;
        if self.is_read {
            pool.reads_bytes.fetch_sub(size, Ordering::Relaxed);
        }
        let in_use = pool.in_use_bytes.fetch_sub(size, Ordering::Relaxed) - size;
        // Counted before the push, so that `cached_bytes` never falls below what a concurrent `acquire` takes out.
        let cached = pool.cached_bytes.fetch_add(size, Ordering::Relaxed) + size;
        if in_use + cached + pool.unpooled_bytes() > pool.capacity_bytes
            || pool.free[class].push(memory).is_err()
        {
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
    reads_bytes: AtomicU64,
    wanted_bytes: AtomicU64,
    promised_bytes: AtomicU64,
    purposes: Purposes,
    free: [ArrayQueue<Memory>; CLASS_COUNT],
    /// Minimum number of free buffers of each class since idle ones were taken.
    idle: [AtomicU64; CLASS_COUNT],
}

impl Shared {
    /// Number of bytes outside buffers that count against the budget, limited because they cannot be released on
    /// demand.
    fn unpooled_bytes(&self) -> u64 {
        let outside = self.purposes.outside();
        outside.min(self.capacity_bytes / OUTSIDE_DIVISOR)
    }

    fn refuse(&self, requested_bytes: usize) -> PoolExhausted {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        if let Some(class) = class_for(requested_bytes) {
            let size = class_size_bytes(class) as u64;
            self.wanted_bytes.fetch_max(size, Ordering::Relaxed);
        }
        PoolExhausted {
            requested_bytes,
            in_use_bytes: self.in_use_bytes.load(Ordering::Relaxed),
            capacity_bytes: self.capacity_bytes,
        }
    }

    /// Update the idle minimum when a buffer of this class is requested.
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
mod tests;
