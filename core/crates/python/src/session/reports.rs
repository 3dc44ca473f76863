//! Reports of delivered batches, for metrics.

use std::sync::Arc;

use headrace_engine::Reports as NativeReports;
use pyo3::prelude::*;

use super::{failures::used_after_fork, pending::Pending};
use crate::forked::ForkGuard;

/// Number of the producer, partition, messages, bytes, seconds and failure.
type Entry = (u64, Option<u32>, u32, usize, f64, Option<String>);

/// A queue that producers fill and one thread empties.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Reports {
    reports: ForkGuard<Arc<NativeReports>>,
}

impl Reports {
    pub(super) fn queue(&self) -> PyResult<Arc<NativeReports>> {
        self.reports.get().cloned().map_err(used_after_fork)
    }
}

#[pymethods]
impl Reports {
    #[new]
    fn new() -> Self {
        Self {
            reports: ForkGuard::new(Arc::default()),
        }
    }

    /// Ends when there are reports, or when the queue is closed.
    fn wait(&self) -> PyResult<Pending> {
        Ok(Pending::new(self.queue()?.wait()))
    }

    /// Take all reports, and the number of dropped ones; None once the queue is closed and empty.
    fn take(&self) -> PyResult<Option<(Vec<Entry>, u64)>> {
        let Some((reports, dropped)) = self.queue()?.take() else {
            return Ok(None);
        };
        let entries = reports.into_iter().map(|report| {
            (
                report.producer,
                report.partition,
                report.messages_count,
                report.bytes,
                report.took.as_secs_f64(),
                report.failure,
            )
        });
        Ok(Some((entries.collect(), dropped)))
    }

    /// Take no more reports.
    fn close(&self) {
        if let Ok(reports) = self.reports.get() {
            reports.close();
        }
    }
}
