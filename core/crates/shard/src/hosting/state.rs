//! State of one partition of this shard.

use std::{collections::VecDeque, sync::Arc};

use headrace_catalog::{self as catalog, Catalog, Topic};
use headrace_log::Failure;
use headrace_model::{Namespace, Timestamp};
use headrace_partition::{Partition, RetentionRule};

use super::agenda::Counted;
use crate::{api::Effect, calls::PartitionCall};

pub(super) enum HostingState {
    Open(Box<Partition>),
    /// Closing before its directory is removed.
    Retiring(Box<Partition>),
    /// The directory is being removed.
    Removing,
    /// Closing, because the partition is placed on another node.
    Leaving(Box<Partition>),
    /// Closed; only the directory is here.
    Elsewhere,
    /// A step of the partition panicked.
    Broken(Broken),
}

pub(super) struct HostedPartition {
    pub(super) state: HostingState,
    pub(super) incarnation: u64,
    pub(super) purge_epoch: u64,
    /// True if a quota limits the bytes that the topic holds.
    pub(super) is_bounded: bool,
    /// Catalog version with which the open partition was last found to agree.
    pub(super) agreed_version: Option<u64>,
    pub(super) dirty: bool,
    /// Number of storage operations in flight at the host.
    pub(super) operations: usize,
    /// Batches that wait for memory; all requests while the previous incarnation is being closed.
    pub(super) waiting: VecDeque<PartitionCall>,
    /// Bounds of the topic, if it has any.
    pub(super) retention: Option<RetentionRule>,
    /// Deadline in the agenda, not later than the partition's.
    pub(super) deadline: Option<Timestamp>,
    /// Time in the agenda from which retention may have something to do.
    pub(super) retention_due: Option<Timestamp>,
    pub(super) counted: Counted,
}

impl HostedPartition {
    /// Return whether a batch of this size can be appended now: the partition is open and has room, and no batch that
    /// came before waits.
    #[inline]
    pub(super) fn can_append(&self, size_bytes: usize) -> bool {
        let HostingState::Open(partition) = &self.state else {
            return false;
        };
        self.waiting.is_empty() && partition.has_room_for(size_bytes)
    }
}

impl HostingState {
    /// Return the partition, unless its files are closed.
    pub(super) fn partition(&self) -> Option<&Partition> {
        match self {
            Self::Open(partition) | Self::Retiring(partition) | Self::Leaving(partition) => {
                Some(partition)
            }
            Self::Removing | Self::Elsewhere | Self::Broken(_) => None,
        }
    }

    pub(super) fn partition_mut(&mut self) -> Option<&mut Partition> {
        match self {
            Self::Open(partition) | Self::Retiring(partition) | Self::Leaving(partition) => {
                Some(partition)
            }
            Self::Removing | Self::Elsewhere | Self::Broken(_) => None,
        }
    }
}

/// Return the effect that removes the directory of a deleted partition.
pub(super) const fn remove_directory(namespace: Namespace, incarnation: u64) -> Effect {
    Effect::RemoveDirectory {
        namespace,
        incarnation,
    }
}

/// Return the catalog's records of a partition and its topic.
pub(crate) fn find(
    catalog: &Catalog,
    namespace: Namespace,
) -> Option<(&Topic, &catalog::Partition)> {
    let topic = catalog
        .stream_by_id(namespace.stream())?
        .topic_by_id(namespace.topic())?;
    Some((topic, topic.partition(namespace.partition())?))
}

/// Remains of a partition whose step panicked.
pub(super) struct Broken {
    pub(super) failure: Arc<Failure>,
    /// Action after the last operation has completed.
    pub(super) next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The partition remains out of service.
    Nothing,
    /// The directory is removed.
    Removal,
    /// The partition moves to another node.
    Departure,
}
