//! Results of the client, as plain read-only records.

use headrace_wire::message::MessageView;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    readable::readable,
    session::{headers_dict, key_of},
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Message>()?;
    module.add_class::<Polled>()
}

/// Bytes of a key or a payload that the text of a message shows.
const SHOWN_BYTES: usize = 40;

readable!(Polled: partition_id, current_offset, messages, gap);

/// A stored message.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct Message {
    /// Checksum of the message as it is stored: XXH3-64 of all of it after this field.
    checksum: u64,
    /// Offset in the partition.
    offset: u64,
    /// Time of the append, in microseconds since the Unix epoch.
    timestamp_micros: u64,
    /// Time at which the client created the message, in microseconds since the Unix epoch.
    origin_timestamp_micros: u64,
    /// Id of the message, 128 bits: that of the client, or drawn by the server.
    id: u128,
    /// Partition of the message.
    partition_id: u32,
    /// Payload of the message.
    payload: Py<PyBytes>,
    /// Encoded as in `encode_user_headers`.
    user_headers: Py<PyBytes>,
}

impl Message {
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn new(python: Python<'_>, view: &MessageView<'_>, partition_id: u32) -> Self {
        let header = view.header();
        Self {
            checksum: header.checksum(),
            offset: header.offset(),
            timestamp_micros: header.timestamp(),
            origin_timestamp_micros: header.origin_timestamp(),
            id: header.id(),
            partition_id,
            payload: PyBytes::new(python, view.payload()).unbind(),
            user_headers: PyBytes::new(python, view.user_headers()).unbind(),
        }
    }
}

#[pymethods]
impl Message {
    /// Key of the message, if it was stored with one.
    #[getter]
    fn key<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let key = key_of(self.user_headers.as_bytes(python))?;
        Some(PyBytes::new(python, key))
    }

    /// User headers without the key; `None` if they cannot be read.
    #[getter]
    fn headers<'py>(&self, python: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        headers_dict(python, self.user_headers.as_bytes(python))
    }

    /// Time of the append in UTC.
    #[getter]
    fn timestamp<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime(python, self.timestamp_micros)
    }

    /// Time of the client in UTC.
    #[getter]
    fn origin_timestamp<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime(python, self.origin_timestamp_micros)
    }

    fn __repr__(&self, python: Python<'_>) -> PyResult<String> {
        let key = (key_of(self.user_headers.as_bytes(python)))
            .map_or(Ok("None".to_owned()), |key| excerpt(python, key))?;
        Ok(format!(
            "Message(partition_id={}, offset={}, key={key}, payload={})",
            self.partition_id,
            self.offset,
            excerpt(python, self.payload.as_bytes(python))?
        ))
    }
}

/// Bytes as Python writes them, escaped; of long ones the first, and the size of all.
fn excerpt(python: Python<'_>, bytes: &[u8]) -> PyResult<String> {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let text = PyBytes::new(python, shown).repr()?.to_string();
    Ok(if shown.len() < bytes.len() {
        format!("{text}... ({} B)", bytes.len())
    } else {
        text
    })
}

/// Moment in UTC, without losing microseconds.
fn datetime(python: Python<'_>, micros: u64) -> PyResult<Bound<'_, PyAny>> {
    let module = python.import("datetime")?;
    let utc = module.getattr("UTC")?;
    let epoch = module
        .getattr("datetime")?
        .call_method1("fromtimestamp", (0, utc))?;
    let since = module.getattr("timedelta")?.call1((0, 0, micros))?;
    epoch.add(since)
}

/// The result of a poll.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct Polled {
    /// Partition that was polled; chosen by the server for a group.
    pub(crate) partition_id: u32,
    /// Offset of the last message of the partition; 0 also when there is none.
    pub(crate) current_offset: u64,
    /// Messages that were read, by ascending offset.
    pub(crate) messages: Vec<Py<Message>>,
    /// Range of messages that were removed before they could be read.
    pub(crate) gap: Option<(u64, u64)>,
}
