//! Reports of delivered batches, for metrics.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::promise::Promise;

/// Number of reports that wait for a reader; beyond it the oldest are dropped.
const REPORTS_MAX: usize = 16 * 1024;

/// A batch with its result.
#[derive(Debug, Clone)]
pub struct Report {
    /// Number that the producer was given.
    pub producer: u64,
    /// Partition, as far as it is known.
    pub partition: Option<u32>,
    /// Number of messages.
    pub messages_count: u32,
    /// Bytes of the messages, headers included.
    pub bytes: usize,
    /// Time from its first message to the result.
    pub took: Duration,
    /// Failure; `None` if it was delivered.
    pub failure: Option<String>,
}

/// Queue of reports. The producers of a client fill it, and one reader empties it: its work costs neither of them time.
#[derive(Debug, Default)]
pub struct Reports {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Report>,
    dropped: u64,
    waits: Vec<Arc<Promise<()>>>,
    is_closed: bool,
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, report: Report) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        if state.waiting.len() == REPORTS_MAX {
            state.waiting.pop_front();
            state.dropped += 1;
        }
        state.waiting.push_back(report);
        let waits = std::mem::take(&mut state.waits);
        drop(state);
        for wait in waits {
            wait.fulfil(());
        }
    }

    /// A promise that is fulfilled when there are reports, or when the queue is closed.
    pub fn wait(&self) -> Arc<Promise<()>> {
        let promise = Arc::new(Promise::default());
        let mut state = self.lock();
        if state.is_closed || !state.waiting.is_empty() {
            promise.fulfil(());
        } else {
            state.waits.push(Arc::clone(&promise));
        }
        promise
    }

    /// Take all reports, and the number of those that were dropped. `None` if the queue is closed and empty.
    pub fn take(&self) -> Option<(Vec<Report>, u64)> {
        let mut state = self.lock();
        if state.is_closed && state.waiting.is_empty() {
            return None;
        }
        let reports = std::mem::take(&mut state.waiting).into();
        Some((reports, std::mem::take(&mut state.dropped)))
    }

    /// Take no more reports.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let waits = std::mem::take(&mut state.waits);
        drop(state);
        for wait in waits {
            wait.fulfil(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(messages_count: u32) -> Report {
        Report {
            producer: 1,
            partition: Some(0),
            messages_count,
            bytes: 100,
            took: Duration::from_millis(1),
            failure: None,
        }
    }

    #[test]
    fn the_oldest_reports_are_dropped_and_counted() {
        let reports = Reports::default();
        let wait = reports.wait();
        assert!(!wait.is_fulfilled());
        for number in 0..=u32::try_from(REPORTS_MAX).expect("it is small") {
            reports.push(report(number));
        }
        assert!(wait.is_fulfilled());
        let (taken, dropped) = reports.take().expect("it is open");
        assert_eq!((taken.len(), dropped), (REPORTS_MAX, 1));
        assert_eq!(taken[0].messages_count, 1);
        reports.push(report(7));
        reports.close();
        reports.push(report(8));
        assert_eq!(reports.take().map(|(taken, _)| taken.len()), Some(1));
        assert!(reports.take().is_none());
        assert!(reports.wait().is_fulfilled());
    }
}
