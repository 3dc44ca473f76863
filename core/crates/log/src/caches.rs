//! Memory that only speeds up reads: what there is of it, and letting go of it, the oldest first.

use headrace_buffer::{BufferPool, Holding, Purpose};
use headrace_model::{Offset, Timestamp};

use crate::log::Log;
use crate::write::is_written;

/// A log's part of the memory that all logs share.
#[derive(Debug)]
pub(crate) struct Held {
    tail: Holding,
    ahead: Holding,
    index: Holding,
    /// Of the indexes of sealed segments.
    sealed_bytes: u64,
    /// The segments that those were summed up for: the first, and how many.
    sealed: Option<(Offset, usize)>,
}

impl Held {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        let holding = |purpose| Holding::new(pool.clone(), purpose);
        Self {
            tail: holding(Purpose::Tail),
            ahead: holding(Purpose::ReadAhead),
            index: holding(Purpose::Index),
            sealed_bytes: 0,
            sealed: None,
        }
    }

    /// An index of a sealed segment has changed.
    pub(crate) fn indexes_changed(&mut self) {
        self.sealed = None;
    }
}

impl Log {
    /// Count what is held now.
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

    /// The age of what [`Log::evict_oldest`] would let go of: when it was appended, or read. None: there is nothing.
    pub fn oldest_cached(&self) -> Option<Timestamp> {
        let ages = [self.oldest_of_tail(), self.reads.cursors.oldest_ahead()];
        ages.into_iter().flatten().min()
    }

    fn oldest_of_tail(&self) -> Option<Timestamp> {
        let front = self.tail.front()?;
        is_written(&self.segments, front).then_some(front.appended_at)
    }

    /// Let go of the oldest of what is in memory only to speed up reads. Returns how much memory that has kept; an
    /// answer that is being sent keeps it for a little longer.
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

    /// Let go of the indexes that can be loaded again, but for what the newest messages in memory are found by.
    pub fn unload_indexes(&mut self) {
        let last = self.segments.len().saturating_sub(1);
        for segment in self.segments.iter_mut().take(last) {
            if segment.is_settled() {
                segment.index.unload(segment.size);
            }
        }
        self.forget_saved_entries();
        self.held.indexes_changed();
        self.count_memory();
    }

    /// Let go of entries of the open segment that its index file holds.
    pub(crate) fn forget_saved_entries(&mut self) {
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
