//! Return of memory to the operating system after a peak.

use headrace_buffer::BufferPool;
use headrace_model::Timestamp;

use crate::driver::{Operation, TaskOutput};

/// Monitors the pool of all shards; exactly one shard has this value.
pub(crate) struct GivingBack {
    pool: BufferPool,
    idle_micros: u64,
    again_at: Timestamp,
    under_way: bool,
}

impl GivingBack {
    /// Release memory that was not needed for `idle_micros`.
    pub(crate) fn new(pool: BufferPool, idle_micros: u64) -> Self {
        Self {
            pool,
            idle_micros,
            again_at: Timestamp(0),
            under_way: false,
        }
    }

    /// Return the task to run now, if it is due and memory is unused. The kernel takes long to unmap large memory, so a
    /// worker thread runs it.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<Operation> {
        if self.under_way || now < self.again_at {
            return None;
        }
        self.again_at = Timestamp(now.0 + self.idle_micros);
        let idle = self.pool.take_idle();
        if idle.is_empty() {
            return None;
        }
        self.under_way = true;
        Some(Operation::Task(Box::new(move || {
            drop(idle);
            Ok(TaskOutput::nothing())
        })))
    }

    /// Note that the task has completed.
    pub(crate) fn done(&mut self) {
        self.under_way = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GW-2: a peak is over after two checks of the pool, and one task at a time releases its memory.
    #[test]
    fn a_peak_is_over_in_time() {
        const PEAK_BYTES: u64 = 64 << 20;
        let pool = BufferPool::new(1 << 30);
        let mut giving_back = GivingBack::new(pool.clone(), 10_000_000);
        let seconds = |seconds: u64| Timestamp(1_700_000_000_000_000 + seconds * 1_000_000);
        drop(pool.acquire(64 << 20));
        assert!(giving_back.due(seconds(0)).is_none(), "used a moment ago");
        assert!(giving_back.due(seconds(5)).is_none(), "not yet");
        assert_eq!(pool.statistics().cached_bytes, PEAK_BYTES);
        let task = giving_back.due(seconds(10)).expect("idle for 10 s");
        assert_eq!(pool.statistics().cached_bytes, 0);
        drop(pool.acquire(64 << 20));
        assert!(giving_back.due(seconds(40)).is_none(), "one at a time");
        drop(task);
        giving_back.done();
        assert!(giving_back.due(seconds(40)).is_none());
        assert!(giving_back.due(seconds(50)).is_some());
    }
}
