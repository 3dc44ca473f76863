//! Gauges of a shard: written by its thread periodically, read by any thread.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use headrace_model::Namespace;
use headrace_shard::{Meter, Progress};

use crate::driver::DriverCounters;

/// Gauges of one shard.
#[derive(Debug, Default)]
pub(crate) struct ShardGauges {
    partitions: AtomicUsize,
    recovering: AtomicUsize,
    connections: AtomicUsize,
    stages: AtomicUsize,
    staged_bytes: AtomicU64,
    failed_partitions: AtomicUsize,
    failing_files: AtomicUsize,
    foreign_partitions: AtomicUsize,
    set_aside_files: AtomicUsize,
    enters: AtomicU64,
    operations: AtomicU64,
    inline_sends: AtomicU64,
    clock_lead_micros: AtomicU64,
    drained: AtomicBool,
    failures: Mutex<Vec<(Namespace, String)>>,
    meter: OnceLock<Arc<Meter>>,
}

/// A snapshot of one shard's gauges.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShardReport {
    /// Number of partitions that the shard owns.
    pub partitions: usize,
    /// Number of partitions that still recover.
    pub recovering: usize,
    /// Number of client connections.
    pub connections: usize,
    /// Number of staged batches of transactions, complete or not.
    pub stages: usize,
    /// Size of the staged batches' files.
    pub staged_bytes: u64,
    /// Number of partitions that are read-only or out of service after a failure.
    pub failed_partitions: usize,
    /// Number of other partitions with a file beside the log that cannot be written or read at present.
    pub failing_files: usize,
    /// Number of partitions that are out of service because their directory is another's.
    pub foreign_partitions: usize,
    /// Number of files that were set aside in the directories of partitions, and are never read.
    pub set_aside_files: usize,
    /// System calls that submit or wait.
    pub driver_enters: u64,
    /// Operations submitted to the driver.
    pub driver_operations: u64,
    /// Sends that one system call finished.
    pub driver_inline_sends: u64,
    /// Microseconds by which the shard's time is ahead of the wall clock, which was set back.
    pub clock_lead_micros: u64,
}

impl ShardGauges {
    /// Initial state: one recovering partition, so that a shard that has not started does not count as ready.
    pub(crate) fn starting() -> Self {
        Self {
            recovering: AtomicUsize::new(1),
            ..Self::default()
        }
    }

    /// Set the meter that the shard counts in.
    pub(crate) fn set_meter(&self, meter: &Arc<Meter>) {
        let _ = self.meter.set(Arc::clone(meter));
    }

    /// Meter of the shard; `None` until its thread has begun.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.meter.get().map(|meter| &**meter)
    }

    pub(crate) fn publish(
        &self,
        progress: Progress,
        connections: usize,
        driver: DriverCounters,
        clock_lead_micros: u64,
    ) {
        self.partitions
            .store(progress.partitions, Ordering::Relaxed);
        self.connections.store(connections, Ordering::Relaxed);
        self.stages.store(progress.stages, Ordering::Relaxed);
        self.staged_bytes
            .store(progress.staged_bytes, Ordering::Relaxed);
        for (gauge, count) in [
            (
                &self.failed_partitions,
                progress.troubles.failed + progress.troubles.foreign,
            ),
            (&self.failing_files, progress.troubles.failing_files),
            (&self.foreign_partitions, progress.troubles.foreign),
            (&self.set_aside_files, progress.troubles.set_aside_files),
        ] {
            gauge.store(count, Ordering::Relaxed);
        }
        self.enters.store(driver.enters, Ordering::Relaxed);
        self.operations.store(driver.operations, Ordering::Relaxed);
        self.inline_sends
            .store(driver.inline_sends, Ordering::Relaxed);
        self.clock_lead_micros
            .store(clock_lead_micros, Ordering::Relaxed);
        self.recovering
            .store(progress.recovering, Ordering::Release);
    }

    /// Mark the shard as drained: it has no connections and accepts none.
    pub(crate) fn set_drained(&self) {
        self.drained.store(true, Ordering::Release);
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    pub(crate) fn publish_failures(&self, failures: Vec<(Namespace, String)>) {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner) = failures;
    }

    pub(crate) fn failures(&self) -> Vec<(Namespace, String)> {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn report(&self) -> ShardReport {
        ShardReport {
            recovering: self.recovering.load(Ordering::Acquire),
            partitions: self.partitions.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            stages: self.stages.load(Ordering::Relaxed),
            staged_bytes: self.staged_bytes.load(Ordering::Relaxed),
            failed_partitions: self.failed_partitions.load(Ordering::Relaxed),
            failing_files: self.failing_files.load(Ordering::Relaxed),
            foreign_partitions: self.foreign_partitions.load(Ordering::Relaxed),
            set_aside_files: self.set_aside_files.load(Ordering::Relaxed),
            driver_enters: self.enters.load(Ordering::Relaxed),
            driver_operations: self.operations.load(Ordering::Relaxed),
            driver_inline_sends: self.inline_sends.load(Ordering::Relaxed),
            clock_lead_micros: self.clock_lead_micros.load(Ordering::Relaxed),
        }
    }
}
