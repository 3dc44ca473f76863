//! One function per command: keyword arguments in, the command's code and its payload out.

mod catalog;
mod messages;
mod system;
mod users;

use headrace_wire::Command;
use pyo3::{prelude::*, types::PyBytes};

use super::error::Fault;

/// Command code and payload.
pub(super) type Encoded<'py> = (u32, Bound<'py, PyBytes>);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    system::register(module)?;
    users::register(module)?;
    catalog::register(module)?;
    messages::register(module)
}

pub(super) fn encoded<'py>(python: Python<'py>, command: &Command<'_>) -> PyResult<Encoded<'py>> {
    let mut payload = Vec::new();
    command
        .try_encode(&mut payload)
        .map_err(|status| Fault::value(status, command.code().name(), status.description()))?;
    Ok((command.code().code(), PyBytes::new(python, &payload)))
}

/// Commands without fields.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident => $command:ident;)+) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            fn $name(python: Python<'_>) -> PyResult<super::Encoded<'_>> {
                super::encoded(python, &headrace_wire::Command::$command)
            }
        )+
    };
}
use plain;
