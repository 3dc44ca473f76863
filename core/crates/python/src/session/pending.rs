//! An operation that is under way.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use headrace_engine::{
    Promise,
    session::{Failure, Outcome},
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

use super::{
    completions::Completions,
    failures::{request_error, used_after_fork},
};
use crate::{client::INTERRUPTION_CHECK, forked::ForkGuard};

/// Something that ends once.
pub(super) trait Completion: Send + Sync {
    fn has_ended(&self) -> bool;
    fn wait(&self, timeout: Duration) -> bool;
    fn on_end(&self, listener: Box<dyn FnOnce() + Send>);
    /// Convert the result. Called once it has ended.
    fn result(&self, python: Python<'_>) -> PyResult<Py<PyAny>>;
}

/// Conversion of a value that was promised.
pub(super) trait IntoPython: Clone + Send + 'static {
    fn into_python(self, python: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl<T: IntoPython> Completion for Promise<T> {
    fn has_ended(&self) -> bool {
        self.is_fulfilled()
    }

    fn wait(&self, timeout: Duration) -> bool {
        Promise::wait(self, timeout)
    }

    fn on_end(&self, listener: Box<dyn FnOnce() + Send>) {
        self.on_fulfilled(listener);
    }

    fn result(&self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.get() {
            Some(value) => value.into_python(python),
            None => Err(PyValueError::new_err("the operation has not ended")),
        }
    }
}

impl IntoPython for Outcome {
    fn into_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        let payload = self.map_err(|failure| request_error(&failure))?;
        Ok(PyBytes::new(python, &payload).into_any().unbind())
    }
}

impl IntoPython for Result<(), Failure> {
    fn into_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        self.map_err(|failure| request_error(&failure))?;
        Ok(python.None())
    }
}

impl IntoPython for () {
    fn into_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(python.None())
    }
}

impl IntoPython for bool {
    fn into_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.into_pyobject(python)?.to_owned().into_any().unbind())
    }
}

impl IntoPython for Option<(Option<u64>, u64)> {
    fn into_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.into_pyobject(python)?.into_any().unbind())
    }
}

/// An operation that is under way.
#[pyclass(frozen, module = "headrace_core")]
#[derive(Clone)]
pub(super) struct Pending(Arc<ForkGuard<Arc<dyn Completion>>>);

impl Pending {
    pub(super) fn new<T: IntoPython>(promise: Arc<Promise<T>>) -> Self {
        Self::of(promise)
    }

    fn completion(&self) -> PyResult<&Arc<dyn Completion>> {
        self.0.get().map_err(used_after_fork)
    }

    pub(super) fn of(completion: Arc<dyn Completion>) -> Self {
        Self(Arc::new(ForkGuard::new(completion)))
    }
}

/// Wait without the GIL, and let signal handlers run. Returns whether it has ended.
pub(super) fn wait(
    python: Python<'_>,
    timeout_seconds: Option<f64>,
    wait: impl Fn(Duration) -> bool + Sync,
) -> PyResult<bool> {
    #[expect(clippy::disallowed_methods, reason = "this is a client: it waits")]
    let now = Instant::now;
    // A time beyond what a clock can hold, infinity for example, is none.
    let until = timeout_seconds.and_then(|seconds| {
        let timeout = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
        now().checked_add(timeout)
    });
    loop {
        let left = until.map(|until| until.saturating_duration_since(now()));
        let slice = left.map_or(INTERRUPTION_CHECK, |left| left.min(INTERRUPTION_CHECK));
        if python.detach(|| wait(slice)) {
            return Ok(true);
        }
        python.check_signals()?;
        if left.is_some_and(|left| left <= slice) {
            return Ok(false);
        }
    }
}

#[pymethods]
impl Pending {
    /// Return whether it has ended.
    fn done(&self) -> PyResult<bool> {
        Ok(self.completion()?.has_ended())
    }

    /// Wait, with the GIL released; returns whether it has ended. Signal handlers run meanwhile.
    #[pyo3(signature = (timeout_seconds = None))]
    fn wait(&self, python: Python<'_>, timeout_seconds: Option<f64>) -> PyResult<bool> {
        let completion = self.completion()?;
        wait(python, timeout_seconds, |slice| completion.wait(slice))
    }

    /// Put `number` into the queue when it has ended.
    fn notify(&self, completions: &Completions, number: u64) -> PyResult<()> {
        let queue = Arc::clone(&completions.queue);
        self.completion()?
            .on_end(Box::new(move || queue.push(number)));
        Ok(())
    }

    /// Return the result of an operation that has ended. Raises `SessionError` if it has failed.
    fn result(&self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        self.completion()?.result(python)
    }
}
