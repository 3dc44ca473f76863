//! Accounting and eviction of memory that only speeds up reads, oldest data first.

use headrace_buffer::{BufferPool, MemoryAccount, Purpose};
use headrace_model::{Offset, Timestamp};

use crate::log::Log;
use crate::writing::write::is_written;

/// Memory held by one log out of the budget that all logs share.
#[derive(Debug)]
pub(crate) struct MemoryAccounts {
    tail: MemoryAccount,
    ahead: MemoryAccount,
    index: MemoryAccount,
    /// Memory of the indexes of sealed segments.
    sealed_bytes: u64,
    /// Base of the first segment and number of segments for which `sealed_bytes` was computed.
    sealed: Option<(Offset, usize)>,
}

impl MemoryAccounts {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        let holding = |purpose| MemoryAccount::new(pool.clone(), purpose);
        Self {
            tail: holding(Purpose::Tail),
            ahead: holding(Purpose::ReadAhead),
            index: holding(Purpose::Index),
            sealed_bytes: 0,
            sealed: None,
        }
    }

    /// Note a change of a sealed segment's index.
    pub(crate) fn indexes_changed(&mut self) {
        self.sealed = None;
    }
}

impl Log {
    /// Recount the memory held.
    pub(crate) fn count_memory(&mut self) {
        self.held.tail.set(self.tail.memory_bytes());
        self.held.ahead.set(self.reads.memory_bytes());
        let first = self.segments.front();
        let segments = first.map(|first| (first.base, self.segments.len()));
        if self.held.sealed != segments {
            let indexes = self.segments.iter().rev().skip(1);
            self.held.sealed_bytes = indexes.map(|segment| segment.index.memory_bytes()).sum();
            self.held.sealed = segments;
        }
        let open = self.segments.back();
        let open = open.map_or(0, |open| open.index.memory_bytes());
        self.held.index.set(self.held.sealed_bytes + open);
    }

    /// Time at which the data that [`Log::evict_oldest`] would evict was appended or read. None if nothing is cached.
    pub fn oldest_cached(&self) -> Option<Timestamp> {
        let ages = [self.oldest_of_tail(), self.reads.cursors.oldest_ahead()];
        ages.into_iter().flatten().min()
    }

    fn oldest_of_tail(&self) -> Option<Timestamp> {
        let front = self.tail.front()?;
        is_written(&self.segments, front).then_some(front.appended_at)
    }

    /// Evict the oldest cached data. Returns the memory it occupied; a response being sent may keep that memory a
    /// little longer.
    pub fn evict_oldest(&mut self) -> u64 {
        let (tail, ahead) = (self.oldest_of_tail(), self.reads.cursors.oldest_ahead());
        let freed = match (tail, ahead) {
            (Some(tail), Some(ahead)) if ahead < tail => self.reads.cursors.evict_oldest_ahead(),
            (Some(_), _) => self.tail.evict_front(),
            (None, Some(_)) => self.reads.cursors.evict_oldest_ahead(),
            (None, None) => 0,
        };
        self.count_memory();
        freed
    }

    /// Evict indexes that can be loaded again, except the entries needed to look up messages in memory.
    pub fn unload_indexes(&mut self) {
        let last = self.segments.len().saturating_sub(1);
        for segment in self.segments.iter_mut().take(last) {
            if segment.needs_no_storage() {
                segment.index.unload(segment.size);
            }
        }
        self.evict_saved_entries();
        self.held.indexes_changed();
        self.count_memory();
    }

    /// Evict entries of the open segment that its index file holds.
    pub(crate) fn evict_saved_entries(&mut self) {
        let front = self.tail.front();
        let front = front.map(|chunk| (chunk.segment, chunk.position));
        if let Some(open) = self.segments.back_mut() {
            let position = match front {
                Some((base, position)) if base == open.base => position,
                _ => open.written,
            };
            open.index.forget_saved_before(position);
        }
    }
}
