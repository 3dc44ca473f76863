//! Results of the client, as plain read-only records.

use headrace_wire::{
    CompressionAlgorithm, PartitionState,
    message::MessageView,
    response::{
        PartitionDescription as WireDescription, PartitionInfo, StreamDetails, StreamHeader,
        TopicDetails, TopicHeader,
    },
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    readable::readable,
    session::{headers_dict, key_of},
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Stream>()?;
    module.add_class::<Partition>()?;
    module.add_class::<Topic>()?;
    module.add_class::<Message>()?;
    module.add_class::<PartitionDescription>()?;
    module.add_class::<Polled>()
}

/// Bytes of a key or a payload that the text of a message shows.
const SHOWN_BYTES: usize = 40;

readable!(Stream: id, name, topics_count, messages_count, size_bytes);
readable!(Partition: id, current_offset, messages_count, size_bytes);
readable!(Topic: id, name, partitions_count, messages_count, size_bytes);
readable!(Polled: partition_id, current_offset, messages, gap);
readable!(PartitionDescription: id, state, node, first_offset);

/// A stream.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct Stream {
    /// Id of the stream.
    id: u32,
    /// Name of the stream.
    name: String,
    /// Time of the creation, in microseconds since the Unix epoch.
    created_at_micros: u64,
    /// Number of topics.
    topics_count: u32,
    /// Size of its messages in bytes, headers included.
    size_bytes: u64,
    /// Number of messages.
    messages_count: u64,
    /// Topics of the stream; empty in listings.
    topics: Vec<Topic>,
}

impl From<StreamHeader<'_>> for Stream {
    fn from(header: StreamHeader<'_>) -> Self {
        Self {
            id: header.id,
            name: header.name.to_owned(),
            created_at_micros: header.created_at,
            topics_count: header.topics_count,
            size_bytes: header.size_bytes,
            messages_count: header.messages_count,
            topics: Vec::new(),
        }
    }
}

impl From<StreamDetails<'_>> for Stream {
    fn from(details: StreamDetails<'_>) -> Self {
        let topics = details.topics.into_iter();
        Self {
            topics: topics.map(Topic::from).collect(),
            ..details.stream.into()
        }
    }
}

/// A partition of a topic.
#[pyclass(frozen, get_all, module = "headrace_core")]
#[derive(Clone)]
pub(crate) struct Partition {
    /// Id of the partition within the topic.
    id: u32,
    /// Time of the creation, in microseconds since the Unix epoch.
    created_at_micros: u64,
    /// Number of segments, the open one included.
    segments_count: u32,
    /// Offset of the last message; 0 also when there is none.
    current_offset: u64,
    /// Size of its messages in bytes, headers included.
    size_bytes: u64,
    /// Number of messages.
    messages_count: u64,
}

impl From<PartitionInfo> for Partition {
    fn from(info: PartitionInfo) -> Self {
        Self {
            id: info.id,
            created_at_micros: info.created_at,
            segments_count: info.segments_count,
            current_offset: info.current_offset,
            size_bytes: info.size_bytes,
            messages_count: info.messages_count,
        }
    }
}

/// A topic.
#[pyclass(frozen, get_all, module = "headrace_core")]
#[derive(Clone)]
pub(crate) struct Topic {
    /// Id of the topic within the stream.
    id: u32,
    /// Name of the topic.
    name: String,
    /// Time of the creation, in microseconds since the Unix epoch.
    created_at_micros: u64,
    /// Number of partitions.
    partitions_count: u32,
    /// Age in microseconds after which messages are removed; 2^64-1: never.
    message_expiry_micros: u64,
    /// Compression that clients apply to payloads: `none` or `gzip`.
    compression: &'static str,
    /// Number of copies of each partition.
    replication_factor: u8,
    /// Size in bytes beyond which the oldest messages are removed; 2^64-1: unlimited.
    max_size_bytes: u64,
    /// Size of its messages in bytes, headers included.
    size_bytes: u64,
    /// Number of messages.
    messages_count: u64,
    /// Partitions of the topic; empty in listings.
    partitions: Vec<Partition>,
}

impl Topic {
    pub(crate) fn new(header: TopicHeader<'_>, partitions: Vec<PartitionInfo>) -> Self {
        Self {
            id: header.id,
            name: header.name.to_owned(),
            created_at_micros: header.created_at,
            partitions_count: header.partitions_count,
            message_expiry_micros: header.message_expiry,
            compression: match header.compression {
                CompressionAlgorithm::None => "none",
                CompressionAlgorithm::Gzip => "gzip",
            },
            replication_factor: header.replication_factor,
            max_size_bytes: header.max_topic_size,
            size_bytes: header.size_bytes,
            messages_count: header.messages_count,
            partitions: partitions.into_iter().map(Partition::from).collect(),
        }
    }
}

impl From<TopicHeader<'_>> for Topic {
    fn from(header: TopicHeader<'_>) -> Self {
        Self::new(header, Vec::new())
    }
}

impl From<TopicDetails<'_>> for Topic {
    fn from(details: TopicDetails<'_>) -> Self {
        Self::new(details.topic, details.partitions)
    }
}

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

/// State and placement of a partition.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct PartitionDescription {
    /// Id of the partition within the topic.
    id: u32,
    /// State of the partition: `serving`, `failed`, `unreachable` or `unplaced`.
    state: &'static str,
    /// Id of the node that serves the partition; 0: there are no partition nodes, or the partition is not placed.
    node_id: u32,
    /// Name of that node.
    node: String,
    /// First offset that is retained; one after the last offset if the partition is empty.
    first_offset: u64,
    /// Time before which retention removes nothing because of its age; 0: unknown, or never.
    next_deletion_at_micros: u64,
}

impl From<WireDescription<'_>> for PartitionDescription {
    fn from(found: WireDescription<'_>) -> Self {
        Self {
            id: found.id,
            state: match found.state {
                PartitionState::Serving => "serving",
                PartitionState::Failed => "failed",
                PartitionState::Unreachable => "unreachable",
                PartitionState::Unplaced => "unplaced",
            },
            node_id: found.node_id,
            node: found.node.to_owned(),
            first_offset: found.first_offset,
            next_deletion_at_micros: found.next_deletion_at,
        }
    }
}
