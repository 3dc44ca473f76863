//! One function per command: keyword arguments in, the command's code and its payload out. Most are made of
//! `proto/layouts.toml`.

use headrace_wire::{
    Command,
    command::{GetSnapshot, IssueTicket, RecordName, SetTraceContext},
};
use pyo3::{prelude::*, types::PyBytes};

use super::{
    arguments::{Name, name},
    error::Fault,
};

/// Command code and payload.
pub(super) type Encoded<'py> = (u32, Bound<'py, PyBytes>);

pub(super) fn encoded<'py>(python: Python<'py>, command: &Command<'_>) -> PyResult<Encoded<'py>> {
    let mut payload = Vec::new();
    command
        .try_encode(&mut payload)
        .map_err(|status| Fault::value(status, command.code().name(), status.description()))?;
    Ok((command.code().code(), PyBytes::new(python, &payload)))
}

#[allow(
    clippy::elidable_lifetime_names,
    clippy::needless_lifetimes,
    clippy::too_many_arguments,
    reason = "one form serves all commands"
)]
mod made {
    use headrace_wire::{Command, command as wire};
    use pyo3::{prelude::*, pybacked::PyBackedBytes};

    use super::{Encoded, encoded};
    use crate::codec::{
        arguments::{self, Name},
        permissions::Permissions,
    };

    include!(concat!(env!("OUT_DIR"), "/encoders.rs"));
}

#[pyfunction]
#[pyo3(signature = (*, compression, kinds))]
fn encode_get_snapshot(
    python: Python<'_>,
    compression: u8,
    kinds: Vec<u8>,
) -> PyResult<Encoded<'_>> {
    let command = GetSnapshot {
        compression_code: compression,
        kind_codes: &kinds,
    };
    encoded(python, &Command::GetSnapshot(command))
}

#[pyfunction]
#[pyo3(signature = (*, trace_id, span_id, flags))]
fn encode_set_trace_context(
    python: Python<'_>,
    trace_id: u128,
    span_id: u64,
    flags: u8,
) -> PyResult<Encoded<'_>> {
    let command = SetTraceContext {
        trace_id,
        span_id,
        flags,
    };
    encoded(python, &Command::SetTraceContext(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, read = false, write = false, lifetime_seconds = 0))]
fn encode_issue_ticket(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    read: bool,
    write: bool,
    lifetime_seconds: u32,
) -> PyResult<Encoded<'_>> {
    if !read && !write {
        let text = "a ticket is for reading, for writing, or for both";
        return Err(Fault::value(headrace_wire::Status::INVALID_COMMAND, "access", text).into());
    }
    let command = IssueTicket {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        read,
        write,
        lifetime_seconds,
    };
    encoded(python, &Command::IssueTicket(command))
}

/// Commands about a record of a stream.
macro_rules! records {
    ($($function:ident($record:ident) => $command:ident;)+) => {
        $(
            #[pyfunction]
            #[pyo3(signature = (*, stream, $record))]
            fn $function<'py>(
                python: Python<'py>,
                stream: Name,
                $record: &str,
            ) -> PyResult<Encoded<'py>> {
                let record = RecordName {
                    stream: stream.checked("stream")?,
                    name: name(stringify!($record), $record)?,
                };
                encoded(python, &Command::$command(record))
            }
        )+

        fn register_records(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($function, module)?)?;)+
            Ok(())
        }
    };
}

records! {
    encode_get_transaction(transaction) => GetTransaction;
    encode_delete_transaction(transaction) => DeleteTransaction;
    encode_unpin_reader(reader) => UnpinReader;
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    made::register_made(module)?;
    register_records(module)?;
    module.add_function(wrap_pyfunction!(encode_get_snapshot, module)?)?;
    module.add_function(wrap_pyfunction!(encode_issue_ticket, module)?)?;
    module.add_function(wrap_pyfunction!(encode_set_trace_context, module)?)
}
