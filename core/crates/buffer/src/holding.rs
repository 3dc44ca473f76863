//! Accounting of the budget's memory by purpose.

use core::fmt;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::pool::BufferPool;

/// Purpose of memory that outlives a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Newest messages of logs, in buffers.
    Tail,
    /// Bytes read ahead for sequential readers, in buffers.
    ReadAhead,
    /// Indexes of segments.
    Index,
    /// Stored offsets of consumers.
    Offsets,
    /// Catalog of streams, topics and users.
    Catalog,
    /// Links to other nodes: connections and calls in flight.
    Links,
    /// Requests that wait for messages, and watched partitions.
    Subscriptions,
}

impl Purpose {
    /// All purposes.
    pub const ALL: [Self; 7] = [
        Self::Tail,
        Self::ReadAhead,
        Self::Index,
        Self::Offsets,
        Self::Catalog,
        Self::Links,
        Self::Subscriptions,
    ];

    /// Name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::ReadAhead => "read_ahead",
            Self::Index => "index",
            Self::Offsets => "offsets",
            Self::Catalog => "catalog",
            Self::Links => "links",
            Self::Subscriptions => "subscriptions",
        }
    }

    /// Return true if the memory is in pool buffers, which are counted as in use already.
    const fn is_in_buffers(self) -> bool {
        matches!(self, Self::Tail | Self::ReadAhead)
    }
}

/// Number of bytes by purpose.
#[derive(Debug, Default)]
pub(crate) struct Purposes {
    bytes: [AtomicU64; Purpose::ALL.len()],
    /// Sum over the purposes outside buffers.
    outside: AtomicU64,
}

impl Purposes {
    pub(crate) fn of(&self, purpose: Purpose) -> u64 {
        self.bytes[purpose as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn outside(&self) -> u64 {
        self.outside.load(Ordering::Relaxed)
    }

    fn change(&self, purpose: Purpose, before: u64, after: u64) {
        let change = after.wrapping_sub(before);
        self.bytes[purpose as usize].fetch_add(change, Ordering::Relaxed);
        if !purpose.is_in_buffers() {
            self.outside.fetch_add(change, Ordering::Relaxed);
        }
    }
}

/// Memory held by one owner for one purpose. It is counted in the pool until this value is dropped.
pub struct MemoryAccount {
    pool: BufferPool,
    purpose: Purpose,
    bytes: u64,
}

impl MemoryAccount {
    /// Make a holding of zero bytes.
    pub const fn new(pool: BufferPool, purpose: Purpose) -> Self {
        Self {
            pool,
            purpose,
            bytes: 0,
        }
    }

    /// Set the number of bytes held.
    #[inline]
    pub fn set(&mut self, bytes: u64) {
        if bytes != self.bytes {
            let before = mem::replace(&mut self.bytes, bytes);
            self.pool.purposes().change(self.purpose, before, bytes);
        }
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for MemoryAccount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {} B", self.purpose, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHARD-12: held memory is counted until its owner is dropped.
    #[test]
    fn what_is_held_is_counted_by_purpose() {
        let pool = BufferPool::new(1 << 20);
        let mut index = MemoryAccount::new(pool.clone(), Purpose::Index);
        let mut more = MemoryAccount::new(pool.clone(), Purpose::Index);
        index.set(1000);
        more.set(500);
        index.set(300);
        assert_eq!(pool.held_bytes(Purpose::Index), 800);
        drop(index);
        assert_eq!(pool.held_bytes(Purpose::Index), 500);
        drop(more);
        for purpose in Purpose::ALL {
            assert_eq!(pool.held_bytes(purpose), 0, "{}", purpose.name());
        }
    }
}
