//! Conversion of native errors to Python exceptions.

use std::error::Error;

use headrace_client::ClientError;
use pyo3::{create_exception, exceptions::PyException, prelude::*};

create_exception!(
    headrace_core,
    CoreError,
    PyException,
    "Native code refuses or fails."
);
create_exception!(
    headrace_core,
    ServerError,
    CoreError,
    "The server answered with an error status: its `code`, its `name`, and the `explanation`, if the server gives one."
);
create_exception!(
    headrace_core,
    ConnectionLost,
    CoreError,
    "The connection could not be made, or broke."
);
create_exception!(
    headrace_core,
    StartError,
    CoreError,
    "The node cannot start."
);

create_exception!(
    headrace_core,
    ReplicaError,
    CoreError,
    "The metadata replica cannot start, or has stopped: `reason` is for programs."
);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let python = module.py();
    module.add("CoreError", python.get_type::<CoreError>())?;
    module.add("ServerError", python.get_type::<ServerError>())?;
    module.add("ConnectionLost", python.get_type::<ConnectionLost>())?;
    module.add("StartError", python.get_type::<StartError>())?;
    module.add("ReplicaError", python.get_type::<ReplicaError>())
}

/// Format an error with its causes on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

pub(crate) fn client_error(error: &ClientError) -> PyErr {
    let text = chain(error);
    match error {
        ClientError::Refused {
            status,
            explanation,
            ..
        } => {
            let raised = ServerError::new_err(text);
            Python::attach(|python| {
                let value = raised.value(python);
                value.setattr("code", status.0)?;
                value.setattr("name", status.name().unwrap_or("Unknown"))?;
                value.setattr("explanation", explanation.as_deref())
            })
            .map_or_else(|failure| failure, |()| raised)
        }
        ClientError::Connect { .. }
        | ClientError::Connection { .. }
        | ClientError::Disconnected
        | ClientError::Timeout { .. } => ConnectionLost::new_err(text),
        _ => CoreError::new_err(text),
    }
}

pub(crate) fn start_error(error: &dyn Error) -> PyErr {
    StartError::new_err(chain(error))
}

pub(crate) fn core_error(error: &dyn Error) -> PyErr {
    CoreError::new_err(chain(error))
}
