//! Settings of sessions.

use std::{sync::Arc, time::Duration};

use headrace_engine::{Address, Change, Observer, SessionSettings, session::Login};
use pyo3::{exceptions::PyValueError, prelude::*};

/// Addresses, credentials and times of a client's sessions.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct SessionConfig(pub(super) Arc<SessionSettings>);

pub(super) fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|error| PyValueError::new_err(format!("{name}: {value} is no duration: {error}")))
}

#[pymethods]
impl SessionConfig {
    #[expect(clippy::too_many_arguments, reason = "settings by name")]
    #[new]
    #[pyo3(signature = (
        addresses, *, username = None, password = None, token = None, ticket = None, connect_timeout = 10.0,
        response_timeout = 30.0, keepalive = 10.0, first_rounds = 1, observer = None
    ))]
    fn new(
        addresses: Vec<(String, bool)>,
        username: Option<String>,
        password: Option<String>,
        token: Option<String>,
        ticket: Option<String>,
        connect_timeout: f64,
        response_timeout: f64,
        keepalive: f64,
        first_rounds: u32,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let parsed = addresses
            .iter()
            .map(|(text, is_websocket)| Address::parse(text, *is_websocket));
        let addresses: Vec<_> = parsed
            .collect::<Result<_, _>>()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        if addresses.is_empty() {
            return Err(PyValueError::new_err("addresses: there are none"));
        }
        let login = match (username, password, token, ticket) {
            (Some(username), Some(password), None, None) => Login::Password { username, password },
            (None, None, Some(token), None) => Login::AccessToken(token),
            (None, None, None, Some(ticket)) => Login::Ticket(ticket),
            (None, None, None, None) => Login::None,
            _ => {
                let problem = "give username and password, or a token, or a ticket";
                return Err(PyValueError::new_err(problem));
            }
        };
        Ok(Self(Arc::new(SessionSettings {
            addresses,
            login,
            connect_timeout: seconds("connect_timeout", connect_timeout)?,
            response_timeout: seconds("response_timeout", response_timeout)?,
            keepalive: seconds("keepalive", keepalive)?,
            first_rounds,
            reports_offsets: false,
            observer: observer.map(observing).unwrap_or_default(),
        })))
    }
}

fn observing(callback: Py<PyAny>) -> Observer {
    Observer::new(move |change| {
        // While the process ends, there is no interpreter any more.
        let _ = Python::try_attach(|python| {
            let (kind, reason) = match change {
                Change::Opened => ("opened", ""),
                Change::Lost { reason } => ("lost", &**reason),
                Change::Failed { reason } => ("failed", &**reason),
            };
            if let Err(error) = callback.call1(python, (kind, reason)) {
                error.write_unraisable(python, None);
            }
        });
    })
}
