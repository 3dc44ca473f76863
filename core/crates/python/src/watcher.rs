//! The blocking client that receives notifications about partitions.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use headrace_client::{ClientError, Watcher as NativeWatcher};
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    client::INTERRUPTION_CHECK,
    codec::{TopicPartitions, WatchedPartition, watch},
    errors::{ConnectionLost, client_error},
    forked::Home,
};

/// A connection that receives notifications about partitions.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct Watcher {
    watcher: Mutex<Option<NativeWatcher>>,
    home: Home,
}

impl Watcher {
    pub(crate) fn new(watcher: NativeWatcher) -> Self {
        Self {
            watcher: Mutex::new(Some(watcher)),
            home: Home::here(),
        }
    }

    fn with<T: Send>(
        &self,
        python: Python<'_>,
        call: impl FnOnce(&mut NativeWatcher) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        self.home.check()?;
        let called = python.detach(|| self.lock().as_mut().map(call));
        // Converted without the lock: an exception needs the GIL, and its holder may want the lock.
        called
            .ok_or_else(|| ConnectionLost::new_err("the watcher is closed"))?
            .map_err(|error| client_error(&error))
    }

    fn lock(&self) -> MutexGuard<'_, Option<NativeWatcher>> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Watcher {
    /// Watch partitions, given as stream, topic and partitions of each topic: all or nothing.
    ///
    /// The state of each partition is reported at once.
    fn add(&self, python: Python<'_>, topics: Vec<TopicPartitions>) -> PyResult<()> {
        self.with(python, |watcher| watcher.change(&watch(&topics, false)))
    }

    /// Watch these partitions no longer, given as in `add`.
    fn remove(&self, python: Python<'_>, topics: Vec<TopicPartitions>) -> PyResult<()> {
        self.with(python, |watcher| watcher.change(&watch(&topics, true)))
    }

    /// Check that the server answers.
    fn ping(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, NativeWatcher::ping)
    }

    /// Receive notifications, the newest of each partition last; empty after a timeout.
    fn next(&self, python: Python<'_>, timeout_seconds: f64) -> PyResult<Vec<WatchedPartition>> {
        let timeout = Duration::try_from_secs_f64(timeout_seconds)
            .map_err(|error| PyValueError::new_err(format!("timeout_seconds: {error}")))?;
        #[expect(clippy::disallowed_methods, reason = "this is a client: it waits")]
        let begin = Instant::now();
        loop {
            let rest = timeout.saturating_sub(begin.elapsed());
            let notifications =
                self.with(python, |watcher| watcher.next(rest.min(INTERRUPTION_CHECK)))?;
            if !notifications.is_empty() || rest <= INTERRUPTION_CHECK {
                return Ok(notifications
                    .into_iter()
                    .map(WatchedPartition::from)
                    .collect());
            }
            python.check_signals()?;
        }
    }

    /// Close the connection. Later calls raise `ConnectionLost`.
    fn close(&self, python: Python<'_>) {
        python.detach(|| *self.lock() = None);
    }
}
