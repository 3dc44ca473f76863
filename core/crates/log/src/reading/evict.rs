//! Eviction of memory that only speeds up reads, oldest data first.

use headrace_model::Timestamp;

use crate::reading::Reader;
use crate::state::LogState;

impl Reader {
    /// Time at which the data that [`evict_oldest`](Self::evict_oldest) would evict was appended or read. None if
    /// nothing is cached.
    pub(crate) fn oldest_cached(&self, state: &LogState) -> Option<Timestamp> {
        let ages = [oldest_of_tail(state), self.cursors.oldest_ahead()];
        ages.into_iter().flatten().min()
    }

    /// Evict the oldest cached data. Returns the memory it occupied; a response being sent may keep that memory a
    /// little longer.
    pub(crate) fn evict_oldest(&mut self, state: &mut LogState) -> u64 {
        let (tail, ahead) = (oldest_of_tail(state), self.cursors.oldest_ahead());
        let freed = match (tail, ahead) {
            (Some(tail), Some(ahead)) if ahead < tail => self.cursors.evict_oldest_ahead(),
            (Some(_), _) => state.tail.evict_front(),
            (None, Some(_)) => self.cursors.evict_oldest_ahead(),
            (None, None) => 0,
        };
        state.count_memory(self.memory_bytes());
        freed
    }

    /// Evict indexes that can be loaded again, except the entries needed to look up messages in memory.
    pub(crate) fn unload_indexes(&self, state: &mut LogState) {
        state.segments.unload_all();
        state.evict_saved_entries();
        state.accounts.indexes_changed();
        state.count_memory(self.memory_bytes());
    }
}

fn oldest_of_tail(state: &LogState) -> Option<Timestamp> {
    let front = state.tail.front()?;
    state
        .segments
        .is_written(front)
        .then_some(front.appended_at)
}
