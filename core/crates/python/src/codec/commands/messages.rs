//! Polling, flushing, stored offsets.

use headrace_wire::{
    Command,
    command::{ConsumerOffsetPath, FlushUnsavedBuffer, PollMessages, StoreConsumerOffset},
};
use pyo3::prelude::*;

use super::{Encoded, encoded};
use crate::codec::arguments::{Name, strategy as polling};

#[expect(clippy::too_many_arguments, reason = "fields of the command")]
#[pyfunction]
#[pyo3(signature = (
    *, stream, topic, consumer = Name::Number(1), is_group = false, partition = None, strategy = "next", value = 0,
    count = 100, auto_commit = false
))]
fn encode_poll_messages<'py>(
    python: Python<'py>,
    stream: Name,
    topic: Name,
    consumer: Name,
    is_group: bool,
    partition: Option<u32>,
    strategy: &str,
    value: u64,
    count: u32,
    auto_commit: bool,
) -> PyResult<Encoded<'py>> {
    let command = PollMessages {
        consumer: consumer.consumer(is_group)?,
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        partition_id: partition,
        strategy: polling(strategy, value)?,
        count,
        auto_commit,
    };
    encoded(python, &Command::PollMessages(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, partition, fsync = false))]
fn encode_flush_unsaved_buffer(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    partition: u32,
    fsync: bool,
) -> PyResult<Encoded<'_>> {
    let command = FlushUnsavedBuffer {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        partition_id: partition,
        fsync,
    };
    encoded(python, &Command::FlushUnsavedBuffer(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, consumer = Name::Number(1), is_group = false, partition = None))]
fn encode_get_consumer_offset(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    consumer: Name,
    is_group: bool,
    partition: Option<u32>,
) -> PyResult<Encoded<'_>> {
    let path = offset_path(&stream, &topic, &consumer, is_group, partition)?;
    encoded(python, &Command::GetConsumerOffset(path))
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, consumer = Name::Number(1), is_group = false, partition = None))]
fn encode_delete_consumer_offset(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    consumer: Name,
    is_group: bool,
    partition: Option<u32>,
) -> PyResult<Encoded<'_>> {
    let path = offset_path(&stream, &topic, &consumer, is_group, partition)?;
    encoded(python, &Command::DeleteConsumerOffset(path))
}

#[pyfunction]
#[pyo3(signature = (
    *, stream, topic, offset, consumer = Name::Number(1), is_group = false, partition = None
))]
fn encode_store_consumer_offset(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    offset: u64,
    consumer: Name,
    is_group: bool,
    partition: Option<u32>,
) -> PyResult<Encoded<'_>> {
    let path = offset_path(&stream, &topic, &consumer, is_group, partition)?;
    encoded(
        python,
        &Command::StoreConsumerOffset(StoreConsumerOffset { path, offset }),
    )
}

fn offset_path<'a>(
    stream: &'a Name,
    topic: &'a Name,
    consumer: &'a Name,
    is_group: bool,
    partition: Option<u32>,
) -> PyResult<ConsumerOffsetPath<'a>> {
    Ok(ConsumerOffsetPath {
        consumer: consumer.consumer(is_group)?,
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        partition_id: partition,
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_poll_messages, module)?)?;
    module.add_function(wrap_pyfunction!(encode_flush_unsaved_buffer, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_consumer_offset, module)?)?;
    module.add_function(wrap_pyfunction!(encode_delete_consumer_offset, module)?)?;
    module.add_function(wrap_pyfunction!(encode_store_consumer_offset, module)?)
}
