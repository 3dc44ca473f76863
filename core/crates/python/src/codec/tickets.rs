//! Tickets that users request.

use headrace_wire::{Command, Status, command::IssueTicket, response::IssuedTicket as Wire};
use pyo3::prelude::*;

use super::{
    arguments::Name,
    commands::{Encoded, encoded},
    error::{Fault, malformed},
};
use crate::readable::readable;

// The ticket itself is a secret.
readable!(IssuedTicket: not_after);

/// A ticket for a topic.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct IssuedTicket {
    /// Ticket to log in with at partition nodes.
    ticket: String,
    /// Last second, since the Unix epoch, in which the ticket is valid.
    not_after: u64,
}

impl From<Wire<'_>> for IssuedTicket {
    fn from(issued: Wire<'_>) -> Self {
        Self {
            ticket: issued.ticket.into(),
            not_after: issued.not_after,
        }
    }
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
        return Err(Fault::value(Status::INVALID_COMMAND, "access", text).into());
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

#[pyfunction]
fn decode_issued_ticket(payload: &[u8]) -> PyResult<IssuedTicket> {
    Wire::decode(payload)
        .map(IssuedTicket::from)
        .map_err(malformed)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<IssuedTicket>()?;
    module.add_function(wrap_pyfunction!(encode_issue_ticket, module)?)?;
    module.add_function(wrap_pyfunction!(decode_issued_ticket, module)?)
}
