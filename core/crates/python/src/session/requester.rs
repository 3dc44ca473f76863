//! Requests whose payloads are encoded and decoded elsewhere.

use std::sync::{Mutex, PoisonError};

use headrace_engine::{
    Engine, Requester as NativeRequester,
    session::{Failure, Repeat, Request},
};
use pyo3::{exceptions::PyOSError, prelude::*, types::PyBytes};

use super::{
    failures::{request_error, used_after_fork},
    pending::Pending,
    settings::{SessionConfig, seconds},
};
use crate::forked::ForkGuard;

/// Start the engine of the process, or use the running one.
pub(super) fn engine() -> PyResult<Engine> {
    Engine::of_process()
        .map_err(|error| PyOSError::new_err(format!("cannot start a thread: {error}")))
}

/// A session for requests.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Requester {
    session: ForkGuard<Mutex<Option<NativeRequester>>>,
    /// Result of the first attempt to connect and log in: None.
    opened: Pending,
}

#[pymethods]
impl Requester {
    #[new]
    fn new(config: &SessionConfig) -> PyResult<Self> {
        let requester = NativeRequester::new(&engine()?, config.0.clone());
        Ok(Self {
            opened: Pending::new(requester.opened()),
            session: ForkGuard::new(Mutex::new(Some(requester))),
        })
    }

    /// Result of the first attempt to connect and log in: None.
    fn opened(&self) -> Pending {
        self.opened.clone()
    }

    /// Submit a request; its result is the payload of the answer.
    #[pyo3(signature = (code, payload, *, repeats = false, timeout_seconds = None))]
    fn submit(
        &self,
        code: u32,
        payload: &[u8],
        repeats: bool,
        timeout_seconds: Option<f64>,
    ) -> PyResult<Pending> {
        let session = self.session.get().map_err(used_after_fork)?;
        let repeat = if repeats {
            Repeat::Always
        } else {
            Repeat::IfUnsent
        };
        let mut request =
            Request::encoded(code, payload, repeat).map_err(|error| request_error(&error))?;
        if let Some(timeout) = timeout_seconds {
            request = request.within(seconds("timeout_seconds", timeout)?);
        }
        let requester = session.lock().unwrap_or_else(PoisonError::into_inner);
        let requester = requester
            .as_ref()
            .ok_or_else(|| request_error(&Failure::Closed))?;
        Ok(Pending::new(requester.submit(request)))
    }

    /// Take the notifications about watched partitions that have arrived.
    fn take_notifications<'py>(&self, python: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let session = self.session.get().map_err(used_after_fork)?;
        let requester = session.lock().unwrap_or_else(PoisonError::into_inner);
        let requester = requester
            .as_ref()
            .ok_or_else(|| request_error(&Failure::Closed))?;
        let taken = requester.take_notifications().into_iter();
        Ok(taken
            .map(|payload| PyBytes::new(python, &payload))
            .collect())
    }

    /// End the session. A child of a fork has none.
    fn close(&self) {
        if let Ok(session) = self.session.get() {
            let mut requester = session.lock().unwrap_or_else(PoisonError::into_inner);
            drop(requester.take());
        }
    }
}
