//! Counters of a listener.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Counters of one listener.
#[derive(Debug, Default)]
pub(crate) struct ListenerCounters {
    pub(crate) accepted: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    failures: Mutex<BTreeMap<&'static str, u64>>,
}

/// A snapshot of one listener's counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ListenerReport {
    /// Number of accepted peers, including those whose handshake failed.
    pub accepted: u64,
    /// Number of completed handshakes.
    pub handshakes: u64,
    /// Number of open connections.
    pub open: u64,
    /// Decrypted bytes of the protocol received from clients.
    pub bytes_in: u64,
    /// Bytes of the protocol sent to clients, before encryption.
    pub bytes_out: u64,
    /// Number of failed handshakes, by reason.
    pub failures: BTreeMap<&'static str, u64>,
}

/// Reports of all listeners, by name.
pub type EdgeReport = BTreeMap<&'static str, ListenerReport>;

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl ListenerCounters {
    /// Count a failed handshake.
    pub(crate) fn failed(&self, reason: &'static str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(reason).or_default() += 1;
    }

    /// Count an open connection until the guard is dropped.
    pub(crate) fn opened(&self) -> OpenConnection<'_> {
        add(&self.open, 1);
        OpenConnection(self)
    }

    pub(crate) fn report(&self) -> ListenerReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        ListenerReport {
            accepted: read(&self.accepted),
            handshakes: read(&self.handshakes),
            open: read(&self.open),
            bytes_in: read(&self.bytes_in),
            bytes_out: read(&self.bytes_out),
            failures: failures.clone(),
        }
    }
}

/// Counts a connection as open while it lives.
pub(crate) struct OpenConnection<'a>(&'a ListenerCounters);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
