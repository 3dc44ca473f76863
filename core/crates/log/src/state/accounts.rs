//! Accounting of the memory that one log holds.

use headrace_buffer::{BufferPool, MemoryAccount, Purpose};
use headrace_model::Offset;

use crate::state::segments::Segments;

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

    /// Recount the memory held.
    pub(crate) fn count(&mut self, tail_bytes: u64, ahead_bytes: u64, segments: &Segments) {
        self.tail.set(tail_bytes);
        self.ahead.set(ahead_bytes);
        let first = segments.front();
        let sealed = first.map(|first| (first.base, segments.len()));
        if self.sealed != sealed {
            let indexes = segments.iter().rev().skip(1);
            self.sealed_bytes = indexes.map(|segment| segment.index.memory_bytes()).sum();
            self.sealed = sealed;
        }
        let open = segments.back();
        let open = open.map_or(0, |open| open.index.memory_bytes());
        self.index.set(self.sealed_bytes + open);
    }
}
