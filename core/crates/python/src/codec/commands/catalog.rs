//! Streams, topics, partitions, segments, consumer groups.

use headrace_wire::{
    Command,
    command::{
        CreateConsumerGroup, CreateStream, CreateTopic, DeleteSegments, GroupPath, PartitionsCount,
        StreamPath, TopicPath, UpdateStream, UpdateTopic,
    },
};
use pyo3::prelude::*;

use super::{Encoded, encoded, plain};
use crate::codec::arguments::{Name, compression as compression_code, name as checked_name};

plain! {
    encode_get_streams => GetStreams;
}

/// Commands that consist of a path.
macro_rules! paths {
    ($($name:ident($($part:ident),+) => $command:ident: $path:ident;)+) => {
        $(
            #[pyfunction]
            #[pyo3(signature = (*, $($part),+))]
            fn $name(python: Python<'_>, $($part: Name),+) -> PyResult<Encoded<'_>> {
                let path = $path { $($part: $part.checked(stringify!($part))?),+ };
                encoded(python, &Command::$command(path))
            }
        )+

        fn register_paths(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)+
            Ok(())
        }
    };
}

paths! {
    encode_get_stream(stream) => GetStream: StreamPath;
    encode_delete_stream(stream) => DeleteStream: StreamPath;
    encode_purge_stream(stream) => PurgeStream: StreamPath;
    encode_get_topics(stream) => GetTopics: StreamPath;
    encode_get_topic(stream, topic) => GetTopic: TopicPath;
    encode_delete_topic(stream, topic) => DeleteTopic: TopicPath;
    encode_purge_topic(stream, topic) => PurgeTopic: TopicPath;
    encode_get_consumer_groups(stream, topic) => GetConsumerGroups: TopicPath;
    encode_get_consumer_group(stream, topic, group) => GetConsumerGroup: GroupPath;
    encode_delete_consumer_group(stream, topic, group) => DeleteConsumerGroup: GroupPath;
    encode_join_consumer_group(stream, topic, group) => JoinConsumerGroup: GroupPath;
    encode_leave_consumer_group(stream, topic, group) => LeaveConsumerGroup: GroupPath;
    encode_get_membership(stream, topic, group) => GetMembership: GroupPath;
}

#[pyfunction]
#[pyo3(signature = (*, name))]
fn encode_create_stream<'py>(python: Python<'py>, name: &str) -> PyResult<Encoded<'py>> {
    let name = checked_name("name", name)?;
    encoded(python, &Command::CreateStream(CreateStream { name }))
}

#[pyfunction]
#[pyo3(signature = (*, stream, name))]
fn encode_update_stream<'py>(
    python: Python<'py>,
    stream: Name,
    name: &str,
) -> PyResult<Encoded<'py>> {
    let command = UpdateStream {
        stream: stream.checked("stream")?,
        name: checked_name("name", name)?,
    };
    encoded(python, &Command::UpdateStream(command))
}

#[expect(clippy::too_many_arguments, reason = "fields of the command")]
#[pyfunction]
#[pyo3(signature = (
    *, stream, name, partitions_count, compression = "none", message_expiry_micros = 0, max_size_bytes = 0,
    replication_factor = 0
))]
fn encode_create_topic<'py>(
    python: Python<'py>,
    stream: Name,
    name: &str,
    partitions_count: u32,
    compression: &str,
    message_expiry_micros: u64,
    max_size_bytes: u64,
    replication_factor: u8,
) -> PyResult<Encoded<'py>> {
    let command = CreateTopic {
        stream: stream.checked("stream")?,
        partitions_count,
        compression_code: compression_code(compression)?,
        message_expiry: message_expiry_micros,
        max_topic_size: max_size_bytes,
        replication_factor,
        name: checked_name("name", name)?,
    };
    encoded(python, &Command::CreateTopic(command))
}

#[expect(clippy::too_many_arguments, reason = "fields of the command")]
#[pyfunction]
#[pyo3(signature = (
    *, stream, topic, name, compression = "none", message_expiry_micros = 0, max_size_bytes = 0,
    replication_factor = 0
))]
fn encode_update_topic<'py>(
    python: Python<'py>,
    stream: Name,
    topic: Name,
    name: &str,
    compression: &str,
    message_expiry_micros: u64,
    max_size_bytes: u64,
    replication_factor: u8,
) -> PyResult<Encoded<'py>> {
    let command = UpdateTopic {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        compression_code: compression_code(compression)?,
        message_expiry: message_expiry_micros,
        max_topic_size: max_size_bytes,
        replication_factor,
        name: checked_name("name", name)?,
    };
    encoded(python, &Command::UpdateTopic(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, partitions_count))]
fn encode_create_partitions(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    partitions_count: u32,
) -> PyResult<Encoded<'_>> {
    let command = PartitionsCount {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        partitions_count,
    };
    encoded(python, &Command::CreatePartitions(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, partitions_count))]
fn encode_delete_partitions(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    partitions_count: u32,
) -> PyResult<Encoded<'_>> {
    let command = PartitionsCount {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        partitions_count,
    };
    encoded(python, &Command::DeletePartitions(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, partition, segments_count))]
fn encode_delete_segments(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    partition: u32,
    segments_count: u32,
) -> PyResult<Encoded<'_>> {
    let command = DeleteSegments {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        partition_id: partition,
        segments_count,
    };
    encoded(python, &Command::DeleteSegments(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, name))]
fn encode_create_consumer_group<'py>(
    python: Python<'py>,
    stream: Name,
    topic: Name,
    name: &str,
) -> PyResult<Encoded<'py>> {
    let command = CreateConsumerGroup {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        name: checked_name("name", name)?,
    };
    encoded(python, &Command::CreateConsumerGroup(command))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_paths(module)?;
    module.add_function(wrap_pyfunction!(encode_get_streams, module)?)?;
    module.add_function(wrap_pyfunction!(encode_create_stream, module)?)?;
    module.add_function(wrap_pyfunction!(encode_update_stream, module)?)?;
    module.add_function(wrap_pyfunction!(encode_create_topic, module)?)?;
    module.add_function(wrap_pyfunction!(encode_update_topic, module)?)?;
    module.add_function(wrap_pyfunction!(encode_create_partitions, module)?)?;
    module.add_function(wrap_pyfunction!(encode_delete_partitions, module)?)?;
    module.add_function(wrap_pyfunction!(encode_delete_segments, module)?)?;
    module.add_function(wrap_pyfunction!(encode_create_consumer_group, module)?)
}
