//! Log events of native threads: a bounded queue from which the embedding process writes its log.
//!
//! Shards never format a log line on the data path and never wait for a log; if events are not taken, the oldest are
//! dropped.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crossbeam_queue::ArrayQueue;
use headrace_model::Level;

/// Maximum number of events that wait to be logged.
const CAPACITY: usize = 1024;

/// A log event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Severity.
    pub level: Level,
    /// Message for the log.
    pub message: String,
}

/// Queue of log events. Clones share it.
#[derive(Debug, Clone)]
pub struct Events {
    queue: Arc<ArrayQueue<Event>>,
    dropped: Arc<AtomicU64>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            queue: Arc::new(ArrayQueue::new(CAPACITY)),
            dropped: Arc::default(),
        }
    }
}

impl Events {
    /// Add a log event.
    pub fn push(&self, level: Level, message: String) {
        if self.queue.force_push(Event { level, message }).is_some() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Take all waiting events, oldest first.
    pub fn take(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.queue.pop()).collect()
    }

    /// Number of events that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_are_dropped_when_none_are_taken() {
        let events = Events::default();
        for index in 0..=CAPACITY {
            events.push(Level::Info, index.to_string());
        }
        assert_eq!(events.dropped(), 1);
        let taken = events.take();
        assert_eq!(taken.len(), CAPACITY);
        assert_eq!(taken[0].message, "1");
    }
}
