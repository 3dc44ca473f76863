//! Failures of sessions as exceptions.

use headrace_engine::session::{Failure, PushRefused, SendFailure};
use headrace_wire::Status;
use pyo3::{create_exception, prelude::*, sync::PyOnceLock};

use crate::{errors::CoreError, forked::UsedAfterFork};

create_exception!(
    headrace_core,
    SessionError,
    CoreError,
    "A request, a delivery or a session has failed.\n\n\
    `kind` is the kind of the failure; `code` and `name` are the status of the server's answer, None if it has not \
    refused."
);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(translate_failures, module)?)?;
    module.add("SessionError", module.py().get_type::<SessionError>())
}

/// Function of the package `headrace` that returns an exception of its own for one of this module.
static TRANSLATION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Have objects that users work with raise what a function returns for their exceptions.
#[pyfunction]
fn translate_failures(python: Python<'_>, translation: Py<PyAny>) {
    let _ = TRANSLATION.set(python, translation);
}

/// The exception that users see.
pub(super) fn for_users(error: PyErr) -> PyErr {
    Python::attach(|python| match TRANSLATION.get(python) {
        None => error,
        Some(translation) => match translation.bind(python).call1((error.value(python),)) {
            Ok(translated) => PyErr::from_value(translated),
            Err(failure) => failure,
        },
    })
}

fn raised(text: String, kind: &str, code: Option<u32>, name: Option<&str>) -> PyErr {
    let error = SessionError::new_err(text);
    Python::attach(|python| {
        let value = error.value(python);
        value.setattr("kind", kind)?;
        value.setattr("code", code)?;
        value.setattr("name", name)
    })
    .map_or_else(|failure| failure, |()| error)
}

pub(super) fn request_error(failure: &Failure) -> PyErr {
    let kind = match failure {
        Failure::Refused { .. } => "refused",
        Failure::NotSent { .. } => "not_sent",
        Failure::Unanswered { .. } | Failure::Late { is_sent: true, .. } => "uncertain",
        Failure::Late { is_sent: false, .. } => "late",
        Failure::Unreachable { .. } => "unreachable",
        Failure::LoginRefused { .. } => "login_refused",
        Failure::Malformed { .. } => "malformed",
        Failure::Unrepresentable { .. } => "invalid",
        Failure::Closed => "closed",
    };
    let status = failure.status();
    let name = status.and_then(Status::name);
    raised(
        failure.to_string(),
        kind,
        status.map(|status| status.0),
        name,
    )
}

pub(super) fn send_error(failure: &SendFailure) -> PyErr {
    match failure {
        SendFailure::Request(failure) => request_error(failure),
        SendFailure::Undelivered { .. } => raised(failure.to_string(), "undelivered", None, None),
        SendFailure::Overtaken { .. } => raised(failure.to_string(), "overtaken", None, None),
    }
}

pub(super) fn push_error(refused: &PushRefused) -> PyErr {
    let kind = match refused {
        PushRefused::BufferFull => "buffer_full",
        PushRefused::NoPartition { .. } | PushRefused::TooBig(_) => "invalid",
        PushRefused::Closed => "closed",
    };
    raised(refused.to_string(), kind, None, None)
}

/// The error of a row of a table that is not taken.
pub(super) fn row_error(row: u64, refused: &PushRefused) -> PyErr {
    raised(format!("row {row}: {refused}"), "invalid", None, None)
}

/// The error of an object that belongs to another process.
pub(super) fn used_after_fork(error: UsedAfterFork) -> PyErr {
    raised(error.to_string(), "closed", None, None)
}
