//! Quotas of users and topics.

use headrace_wire::{
    Command, Quota as Wire, Status,
    command::{SetTopicQuota, SetUserQuota},
    response::{QuotaRecord as WireRecord, QuotaSubject, decode_list},
};
use pyo3::prelude::*;

use super::{
    arguments::Name,
    commands::{Encoded, encoded},
    error::{Fault, malformed},
};
use crate::readable::readable;

readable!(Quota: sent_bytes_per_second, read_bytes_per_second, held_bytes, connections);
readable!(QuotaRecord: user_id, username, stream_id, stream, topic_id, topic, quota);

/// Limits of what a user or a topic uses; 0 stands for no limit.
#[pyclass(frozen, get_all, eq, from_py_object, module = "headrace_core")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Bytes of messages sent per second.
    sent_bytes_per_second: u64,
    /// Bytes of messages read per second.
    read_bytes_per_second: u64,
    /// Bytes that a topic holds; 0 for a user.
    held_bytes: u64,
    /// Connections that a user has at a time; 0 for a topic.
    connections: u32,
}

/// Quota of a user, or of a topic.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct QuotaRecord {
    /// Id of the user; `None` for a topic.
    user_id: Option<u32>,
    /// Name of the user; `None` for a topic.
    username: Option<String>,
    /// Id of the stream of the topic; `None` for a user.
    stream_id: Option<u32>,
    /// Name of the stream of the topic; `None` for a user.
    stream: Option<String>,
    /// Id of the topic in its stream; `None` for a user.
    topic_id: Option<u32>,
    /// Name of the topic; `None` for a user.
    topic: Option<String>,
    /// The limits.
    quota: Quota,
}

impl From<Wire> for Quota {
    fn from(quota: Wire) -> Self {
        Self {
            sent_bytes_per_second: quota.sent_bytes_per_second,
            read_bytes_per_second: quota.read_bytes_per_second,
            held_bytes: quota.held_bytes,
            connections: quota.connections,
        }
    }
}

impl From<WireRecord<'_>> for QuotaRecord {
    fn from(record: WireRecord<'_>) -> Self {
        let quota = record.quota.into();
        match record.subject {
            QuotaSubject::User { id, name } => Self {
                user_id: Some(id),
                username: Some(name.into()),
                stream_id: None,
                stream: None,
                topic_id: None,
                topic: None,
                quota,
            },
            QuotaSubject::Topic {
                stream_id,
                topic_id,
                stream,
                topic,
            } => Self {
                user_id: None,
                username: None,
                stream_id: Some(stream_id),
                stream: Some(stream.into()),
                topic_id: Some(topic_id),
                topic: Some(topic.into()),
                quota,
            },
        }
    }
}

/// Validate a rate; 0 stands for no limit.
fn rate(field: &str, bytes_per_second: u64) -> Result<u64, Fault> {
    if (1..Wire::RATE_BYTES_MIN).contains(&bytes_per_second) {
        let least = Wire::RATE_BYTES_MIN;
        let text =
            format!("it is {bytes_per_second}, 0 for no limit or at least {least} are allowed");
        return Err(Fault::value(Status::INVALID_COMMAND, field, text));
    }
    Ok(bytes_per_second)
}

#[pyfunction]
#[pyo3(signature = (*, user, sent_bytes_per_second = 0, read_bytes_per_second = 0, connections = 0))]
fn encode_set_user_quota(
    python: Python<'_>,
    user: Name,
    sent_bytes_per_second: u64,
    read_bytes_per_second: u64,
    connections: u32,
) -> PyResult<Encoded<'_>> {
    let command = SetUserQuota {
        user: user.checked("user")?,
        quota: Wire {
            sent_bytes_per_second: rate("sent_bytes_per_second", sent_bytes_per_second)?,
            read_bytes_per_second: rate("read_bytes_per_second", read_bytes_per_second)?,
            held_bytes: 0,
            connections,
        },
    };
    encoded(python, &Command::SetUserQuota(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, sent_bytes_per_second = 0, read_bytes_per_second = 0, held_bytes = 0))]
fn encode_set_topic_quota(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    sent_bytes_per_second: u64,
    read_bytes_per_second: u64,
    held_bytes: u64,
) -> PyResult<Encoded<'_>> {
    let command = SetTopicQuota {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        quota: Wire {
            sent_bytes_per_second: rate("sent_bytes_per_second", sent_bytes_per_second)?,
            read_bytes_per_second: rate("read_bytes_per_second", read_bytes_per_second)?,
            held_bytes,
            connections: 0,
        },
    };
    encoded(python, &Command::SetTopicQuota(command))
}

#[pyfunction]
fn decode_quota(payload: &[u8]) -> PyResult<Option<Quota>> {
    if payload.is_empty() {
        return Ok(None);
    }
    let quota = Wire::decode(payload).map_err(malformed)?;
    Ok(Some(quota.into()))
}

#[pyfunction]
fn decode_quotas(payload: &[u8]) -> PyResult<Vec<QuotaRecord>> {
    let records = decode_list::<WireRecord<'_>>(payload).map_err(malformed)?;
    Ok(records.into_iter().map(QuotaRecord::from).collect())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Quota>()?;
    module.add_class::<QuotaRecord>()?;
    module.add_function(wrap_pyfunction!(encode_set_user_quota, module)?)?;
    module.add_function(wrap_pyfunction!(encode_set_topic_quota, module)?)?;
    module.add_function(wrap_pyfunction!(decode_quota, module)?)?;
    module.add_function(wrap_pyfunction!(decode_quotas, module)?)
}
