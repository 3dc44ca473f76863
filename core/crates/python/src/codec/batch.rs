//! Encoding of messages as a `SendMessages` request.

use headrace_wire::{
    Command, CommandCode, Identifier, Partitioning, Status,
    batch::{BatchBuilder, INDEX_BYTES, PushError},
    message::HEADER_BYTES,
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};

use super::{
    arguments::{Name, partitioning},
    error::{Defect, Fault},
};

/// Bytes of a message in a batch beyond its payload and user headers.
const PER_MESSAGE_BYTES: usize = HEADER_BYTES + INDEX_BYTES;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_send_messages, module)?)?;
    module.add_function(wrap_pyfunction!(encode_send_messages_lines, module)?)
}

/// A batch under construction with a maximum size.
pub(super) struct BoundedBatch {
    builder: BatchBuilder,
    origin_timestamp_micros: u64,
    size_bytes: usize,
    size_bytes_max: usize,
}

impl BoundedBatch {
    pub(super) fn new(origin_timestamp_micros: u64, size_bytes_max: usize) -> Self {
        Self {
            builder: BatchBuilder::new(),
            origin_timestamp_micros,
            size_bytes: 0,
            size_bytes_max,
        }
    }

    /// Check for room before a message is decoded.
    pub(super) fn reserve(
        &self,
        message_bytes: usize,
        field: impl Fn() -> String,
    ) -> Result<(), Fault> {
        let needed = self
            .size_bytes
            .saturating_add(message_bytes)
            .saturating_add(PER_MESSAGE_BYTES);
        if needed > self.size_bytes_max {
            return Err(Fault::too_large(field(), self.size_bytes_max));
        }
        Ok(())
    }

    /// Append a message. `field` is its path for errors.
    pub(super) fn push(
        &mut self,
        id: u128,
        payload: &[u8],
        user_headers: &[u8],
        field: impl Fn(&str) -> String,
    ) -> Result<(), Fault> {
        if payload.is_empty() {
            return Err(Fault::value(
                Status::INVALID_MESSAGE_PAYLOAD_LENGTH,
                field(".payload"),
                "it is empty",
            ));
        }
        self.reserve(payload.len().saturating_add(user_headers.len()), || {
            field("")
        })?;
        self.builder
            .push(id, self.origin_timestamp_micros, payload, user_headers)
            .map_err(|error| match error {
                PushError::PayloadTooBig { .. } => Fault::value(
                    Status::TOO_BIG_MESSAGE_PAYLOAD,
                    field(".payload"),
                    error.to_string(),
                ),
                PushError::UserHeadersTooBig { .. } => Fault::value(
                    Status::TOO_BIG_USER_HEADERS,
                    field(".user_headers"),
                    error.to_string(),
                ),
                PushError::BatchFull => Fault::too_large(field(""), self.size_bytes_max),
            })?;
        self.size_bytes += payload.len() + user_headers.len() + PER_MESSAGE_BYTES;
        Ok(())
    }

    /// Build the payload of the request.
    pub(super) fn finish(
        self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        partitioning: Partitioning<'_>,
    ) -> Result<Vec<u8>, Fault> {
        if self.builder.is_empty() {
            return Err(Fault::value(
                Status::INVALID_MESSAGES_COUNT,
                "messages",
                "there are none",
            ));
        }
        let mut payload = Vec::with_capacity(self.size_bytes + 1024);
        Command::SendMessages(self.builder.request(stream, topic, partitioning))
            .try_encode(&mut payload)
            .map_err(|status| Fault::value(status, "messages", status.description()))?;
        Ok(payload)
    }
}

/// Build code and payload of a `SendMessages`.
pub(super) fn sent(
    python: Python<'_>,
    payload: Result<Vec<u8>, Fault>,
) -> PyResult<(u32, Bound<'_, PyBytes>)> {
    let payload = payload?;
    Ok((
        CommandCode::SendMessages.code(),
        PyBytes::new(python, &payload),
    ))
}

#[expect(clippy::too_many_arguments, reason = "fields of the command")]
#[pyfunction]
#[pyo3(signature = (
    messages, *, stream, topic, partition = None, key = None, origin_timestamp_micros = 0,
    size_bytes_max = u32::MAX as usize
))]
fn encode_send_messages<'py>(
    python: Python<'py>,
    messages: &Bound<'py, PyAny>,
    stream: Name,
    topic: Name,
    partition: Option<u32>,
    key: Option<PyBackedBytes>,
    origin_timestamp_micros: u64,
    size_bytes_max: usize,
) -> PyResult<(u32, Bound<'py, PyBytes>)> {
    let (stream, topic) = (stream.checked("stream")?, topic.checked("topic")?);
    let partitioning = partitioning(partition, key.as_ref())?;
    // Objects are read with the GIL held, bytes are copied without it.
    let mut taken: Vec<(u128, PyBackedBytes, PyBackedBytes)> = Vec::new();
    for message in messages.try_iter()? {
        taken.push(message?.extract()?);
    }
    let payload = python.detach(|| {
        let mut batch = BoundedBatch::new(origin_timestamp_micros, size_bytes_max);
        for (index, (id, payload, user_headers)) in taken.iter().enumerate() {
            batch.push(*id, payload, user_headers, |part| {
                format!("messages[{index}]{part}")
            })?;
        }
        batch.finish(stream, topic, partitioning)
    });
    sent(python, payload)
}

#[expect(clippy::too_many_arguments, reason = "fields of the command")]
#[pyfunction]
#[pyo3(signature = (
    body, *, stream, topic, partition = None, key = None, origin_timestamp_micros = 0,
    size_bytes_max = u32::MAX as usize
))]
fn encode_send_messages_lines(
    python: Python<'_>,
    body: PyBackedBytes,
    stream: Name,
    topic: Name,
    partition: Option<u32>,
    key: Option<PyBackedBytes>,
    origin_timestamp_micros: u64,
    size_bytes_max: usize,
) -> PyResult<(u32, Bound<'_, PyBytes>)> {
    let (stream, topic) = (stream.checked("stream")?, topic.checked("topic")?);
    let partitioning = partitioning(partition, key.as_ref())?;
    let payload = python.detach(|| {
        let mut batch = BoundedBatch::new(origin_timestamp_micros, size_bytes_max);
        let mut start = 0;
        for (index, line) in body.split(|&byte| byte == b'\n').enumerate() {
            let position = start;
            start += line.len() + 1;
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            serde_json::from_slice::<serde::de::IgnoredAny>(line).map_err(|error| Fault {
                defect: Defect::Syntax,
                status: Status::INVALID_FORMAT,
                field: Some(format!("line {}", index + 1)),
                position: Some(position),
                text: format!("it is not JSON: {error}"),
            })?;
            batch.push(0, line, &[], |_| format!("line {}", index + 1))?;
        }
        batch.finish(stream, topic, partitioning)
    });
    sent(python, payload)
}
