//! Extensions of Headrace servers to the binary protocol.

use std::collections::BTreeMap;

use headrace_model::{Offset, Opening};
use headrace_wire::{
    Command, WatchAction,
    command::{PollMessages, WaitMessages, WatchPartitions, WatchedTopic},
    response::{
        Capabilities as WireCapabilities, WatchedLog, WatchedPartition as WireWatchedPartition,
        decode_list,
    },
};
use pyo3::prelude::*;

use crate::readable::readable;

use super::{
    arguments::{Name, strategy as polling},
    commands::{Encoded, encoded},
    error::malformed,
};

readable!(Capabilities: version, codes, limits);
readable!(WatchedPartition: status, stream_id, topic_id, partition_id, first_offset, next_offset);

/// Capabilities of a server.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct Capabilities {
    /// Version, which grows when the meaning of an extension changes.
    version: u32,
    /// Codes of the supported commands, ascending.
    codes: Vec<u32>,
    /// Limits by the number of their kind, in the unit of the kind.
    limits: BTreeMap<u32, u64>,
}

impl From<WireCapabilities> for Capabilities {
    fn from(capabilities: WireCapabilities) -> Self {
        let limits = capabilities.limits.into_iter();
        Self {
            version: capabilities.version,
            codes: capabilities.codes,
            limits: limits.map(|limit| (limit.kind, limit.value)).collect(),
        }
    }
}

/// State of a watched partition.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct WatchedPartition {
    /// 0: the partition is watched; otherwise the status code of the reason why it is no longer.
    status: u32,
    /// Id of the stream.
    stream_id: u32,
    /// Id of the topic within the stream.
    topic_id: u32,
    /// Id of the partition within the topic.
    partition_id: u32,
    /// Incarnation, which distinguishes the partition from a deleted one with the same ids.
    incarnation: u64,
    /// Number that grows with every purge, after which offsets restart at 0.
    purge_epoch: u64,
    /// First offset that can be polled.
    first_offset: u64,
    /// Offset after the last message that can be polled.
    next_offset: u64,
    /// Number and end of each opening of the log, ascending; empty if they are unknown or not named.
    openings: Vec<(u64, u64)>,
}

impl From<WireWatchedPartition> for WatchedPartition {
    fn from(watched: WireWatchedPartition) -> Self {
        Self {
            status: watched.status.0,
            stream_id: watched.stream_id,
            topic_id: watched.topic_id,
            partition_id: watched.partition_id,
            incarnation: watched.incarnation,
            purge_epoch: watched.purge_epoch,
            first_offset: watched.first_offset,
            next_offset: watched.next_offset,
            openings: Vec::new(),
        }
    }
}

impl From<WatchedLog> for WatchedPartition {
    fn from(watched: WatchedLog) -> Self {
        let openings = watched.openings.iter();
        Self {
            openings: openings
                .map(|opening| (opening.epoch, opening.end.0))
                .collect(),
            ..Self::from(watched.state)
        }
    }
}

/// Stream, topic, partitions.
pub(crate) type Topic = (Name, Name, Vec<u32>);

pub(crate) fn watch(topics: &[Topic], is_removal: bool) -> WatchPartitions<'_> {
    WatchPartitions {
        action: if is_removal {
            WatchAction::Remove
        } else {
            WatchAction::Add
        },
        topics: topics
            .iter()
            .map(|(stream, topic, partition_ids)| WatchedTopic {
                stream: stream.identifier(),
                topic: topic.identifier(),
                partition_ids: partition_ids.clone(),
            })
            .collect(),
    }
}

#[expect(clippy::too_many_arguments, reason = "fields of the command")]
#[pyfunction]
#[pyo3(signature = (
    *, stream, topic, maximum_wait_micros, minimum_bytes = 1, consumer = Name::Number(1), is_group = false,
    partition = None, strategy = "next", value = 0, count = 100, auto_commit = false, names_gap = false
))]
fn encode_wait_messages<'py>(
    python: Python<'py>,
    stream: Name,
    topic: Name,
    maximum_wait_micros: u64,
    minimum_bytes: u32,
    consumer: Name,
    is_group: bool,
    partition: Option<u32>,
    strategy: &str,
    value: u64,
    count: u32,
    auto_commit: bool,
    names_gap: bool,
) -> PyResult<Encoded<'py>> {
    let command = WaitMessages {
        poll: PollMessages {
            consumer: consumer.consumer(is_group)?,
            stream: stream.checked("stream")?,
            topic: topic.checked("topic")?,
            partition_id: partition,
            strategy: polling(strategy, value)?,
            count,
            auto_commit,
        },
        minimum_bytes,
        maximum_wait_micros,
    };
    let command = if names_gap {
        Command::ReadMessages(command)
    } else {
        Command::WaitMessages(command)
    };
    encoded(python, &command)
}

#[pyfunction]
#[pyo3(signature = (*, topics, remove = false, names_openings = false))]
fn encode_watch_partitions(
    python: Python<'_>,
    topics: Vec<Topic>,
    remove: bool,
    names_openings: bool,
) -> PyResult<Encoded<'_>> {
    for (stream, topic, _) in &topics {
        stream.checked("stream")?;
        topic.checked("topic")?;
    }
    let mut command = watch(&topics, remove);
    if names_openings && !remove {
        command.action = WatchAction::AddNamingOpenings;
    }
    encoded(python, &Command::WatchPartitions(command))
}

#[pyfunction]
fn decode_capabilities(payload: &[u8]) -> PyResult<Capabilities> {
    WireCapabilities::decode(payload)
        .map(Capabilities::from)
        .map_err(malformed)
}

/// Return where a log was cut since a reader was at a position in the opening `epoch`; None if it was not, or if that is
/// unknown.
#[pyfunction]
#[pyo3(signature = (openings, *, epoch, position))]
fn cut_since(openings: Vec<(u64, u64)>, epoch: u64, position: u64) -> Option<u64> {
    let opening = |(epoch, end)| Opening {
        epoch,
        end: Offset(end),
    };
    let openings: Vec<Opening> = openings.into_iter().map(opening).collect();
    headrace_model::cut_since(&openings, epoch, Offset(position)).map(|end| end.0)
}

#[pyfunction]
#[pyo3(signature = (payload, *, names_openings = false))]
fn decode_watched_partitions(
    payload: &[u8],
    names_openings: bool,
) -> PyResult<Vec<WatchedPartition>> {
    if names_openings {
        let watched = decode_list::<WatchedLog>(payload).map_err(malformed)?;
        return Ok(watched.into_iter().map(WatchedPartition::from).collect());
    }
    let watched = decode_list::<WireWatchedPartition>(payload).map_err(malformed)?;
    Ok(watched.into_iter().map(WatchedPartition::from).collect())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Capabilities>()?;
    module.add_class::<WatchedPartition>()?;
    module.add_function(wrap_pyfunction!(encode_wait_messages, module)?)?;
    module.add_function(wrap_pyfunction!(encode_watch_partitions, module)?)?;
    module.add_function(wrap_pyfunction!(decode_capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(cut_since, module)?)?;
    module.add_function(wrap_pyfunction!(decode_watched_partitions, module)?)
}
