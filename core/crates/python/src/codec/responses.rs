//! Decoding of the payloads of successful responses into records.

use headrace_wire::{
    message::Messages,
    response::{Identity, RawAccessToken, ReadAnswer, UserDetails, UserHeader, decode_list},
};
use pyo3::{exceptions::PyIndexError, prelude::*, pybacked::PyBackedBytes, types::PyBytes};

use super::{error::malformed, json_polled::read, records::User};
use crate::records::Message;

#[pyfunction]
fn decode_user(payload: &[u8]) -> PyResult<Option<User>> {
    if payload.is_empty() {
        return Ok(None);
    }
    let details = UserDetails::decode(payload).map_err(malformed)?;
    Ok(Some(details.into()))
}

#[pyfunction]
fn decode_users(payload: &[u8]) -> PyResult<Vec<User>> {
    let users = decode_list::<UserHeader<'_>>(payload).map_err(malformed)?;
    Ok(users.into_iter().map(User::from).collect())
}

#[pyfunction]
fn decode_identity(payload: &[u8]) -> PyResult<u32> {
    Identity::decode(payload)
        .map(|identity| identity.user_id)
        .map_err(malformed)
}

#[pyfunction]
fn decode_raw_access_token(payload: &[u8]) -> PyResult<String> {
    RawAccessToken::decode(payload)
        .map(|token| token.token.to_owned())
        .map_err(malformed)
}

/// Polled messages that are converted to Python objects lazily, one at a time.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct MessageBatch {
    /// Partition that was polled; chosen by the server for a group.
    #[pyo3(get)]
    partition_id: u32,
    /// Offset of the last message of the partition; 0 also when there is none.
    #[pyo3(get)]
    current_offset: u64,
    /// Offsets, from the first up to but not including the second, that were removed before they could be read.
    #[pyo3(get)]
    gap: Option<(u64, u64)>,
    payload: PyBackedBytes,
    /// Start of each message in the payload.
    starts: Vec<u32>,
}

#[pymethods]
impl MessageBatch {
    fn __len__(&self) -> usize {
        self.starts.len()
    }

    fn __getitem__(&self, python: Python<'_>, index: isize) -> PyResult<Message> {
        let position = if index < 0 {
            self.starts.len().checked_sub(index.unsigned_abs())
        } else {
            Some(index.unsigned_abs())
        };
        let start = position
            .and_then(|position| self.starts.get(position))
            .ok_or_else(|| PyIndexError::new_err("there is no such message"))?;
        let bytes = self.payload.get(*start as usize..).unwrap_or_default();
        let message = Messages::new(bytes)
            .next()
            .ok_or_else(|| PyIndexError::new_err("there is no such message"))?
            .map_err(malformed)?;
        Ok(Message::new(python, &message, self.partition_id))
    }

    fn __repr__(&self) -> String {
        let count = self.starts.len();
        format!(
            "MessageBatch(partition_id={}, {count} messages)",
            self.partition_id
        )
    }

    fn __iter__(batch: Py<Self>) -> MessageIterator {
        MessageIterator { batch, next: 0 }
    }

    /// Offset of the last message; None if there is none.
    #[getter]
    fn last_offset(&self, python: Python<'_>) -> PyResult<Option<u64>> {
        if self.starts.is_empty() {
            return Ok(None);
        }
        self.__getitem__(python, -1)
            .map(|message| Some(message.offset()))
    }
}

/// Iterator over a batch.
#[pyclass(module = "headrace_core")]
struct MessageIterator {
    batch: Py<MessageBatch>,
    next: isize,
}

#[pymethods]
impl MessageIterator {
    fn __iter__(iterator: Py<Self>) -> Py<Self> {
        iterator
    }

    fn __next__(&mut self, python: Python<'_>) -> PyResult<Option<Message>> {
        let batch = self.batch.get();
        if self.next.unsigned_abs() >= batch.starts.len() {
            return Ok(None);
        }
        self.next += 1;
        batch.__getitem__(python, self.next - 1).map(Some)
    }
}

#[pyfunction]
#[pyo3(signature = (payload, *, names_gap = false))]
fn decode_polled(
    python: Python<'_>,
    payload: Bound<'_, PyBytes>,
    names_gap: bool,
) -> PyResult<MessageBatch> {
    let payload = PyBackedBytes::from(payload);
    let (gap, header, starts) = python
        .detach(|| {
            let ReadAnswer { gap, polled } = read(&payload, names_gap)?;
            let first = payload.len() - polled.message_bytes.len();
            let mut start = first;
            let mut starts = Vec::new();
            for message in polled.messages() {
                // A payload is shorter than 4 GiB, as the frame's length has 32 bits.
                starts.push(u32::try_from(start).unwrap_or(u32::MAX));
                start += message?.bytes().len();
            }
            Ok((gap, polled.header, starts))
        })
        .map_err(malformed)?;
    Ok(MessageBatch {
        partition_id: header.partition_id,
        current_offset: header.current_offset,
        gap: (gap.from < gap.to).then_some((gap.from, gap.to)),
        payload,
        starts,
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MessageBatch>()?;
    module.add_function(wrap_pyfunction!(decode_user, module)?)?;
    module.add_function(wrap_pyfunction!(decode_users, module)?)?;
    module.add_function(wrap_pyfunction!(decode_identity, module)?)?;
    module.add_function(wrap_pyfunction!(decode_raw_access_token, module)?)?;
    module.add_function(wrap_pyfunction!(decode_polled, module)?)
}
