//! Time that tests advance.

use std::sync::{Mutex, PoisonError};

use headrace_engine::VirtualTime as NativeVirtualTime;
use pyo3::{
    exceptions::{PyOSError, PyRuntimeError},
    prelude::*,
};

use super::{failures::used_after_fork, pending::Pending, settings::seconds};
use crate::forked::ForkGuard;

/// Time of clients, producers and consumers that are made while it exists.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct VirtualTime {
    time: ForkGuard<Mutex<Option<NativeVirtualTime>>>,
}

#[pymethods]
impl VirtualTime {
    #[new]
    fn new(python: Python<'_>) -> PyResult<Self> {
        let begun = python.detach(NativeVirtualTime::begin);
        let begun =
            begun.map_err(|error| PyOSError::new_err(format!("cannot start a thread: {error}")))?;
        let time = begun
            .ok_or_else(|| PyRuntimeError::new_err("time is virtual already: end the other one"))?;
        Ok(Self {
            time: ForkGuard::new(Mutex::new(Some(time))),
        })
    }

    /// Advance time; ends when what follows from it has happened.
    fn advance(&self, duration: f64) -> PyResult<Pending> {
        let time = self.time.get().map_err(used_after_fork)?;
        let time = time.lock().unwrap_or_else(PoisonError::into_inner);
        let time = time
            .as_ref()
            .ok_or_else(|| PyRuntimeError::new_err("virtual time has ended"))?;
        Ok(Pending::new(time.advance(seconds("seconds", duration)?)))
    }

    /// Let time pass by itself again.
    fn end(&self, python: Python<'_>) -> PyResult<()> {
        let time = self.time.get().map_err(used_after_fork)?;
        let ended = time.lock().unwrap_or_else(PoisonError::into_inner).take();
        python.detach(|| drop(ended));
        Ok(())
    }
}
