//! Settings of a consumer.

use std::time::Duration;

use headrace_wire::{Consumer, ConsumerKind, Identifier};

use crate::OwnedIdentifier;

/// Group or name that a consumer reads for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// A consumer group: its members share the partitions.
    Group {
        /// Name or number of the group.
        group: OwnedIdentifier,
        /// Create a group of this name if there is none.
        create: bool,
    },
    /// This consumer alone.
    Alone {
        /// Name under which offsets are stored; `None`: none are.
        name: Option<OwnedIdentifier>,
        /// Partitions to read; `None`: all of the topic.
        partitions: Option<Vec<u32>>,
    },
}

impl Membership {
    pub(super) fn is_group(&self) -> bool {
        matches!(self, Self::Group { .. })
    }

    /// Return whether the partitions are those that the server reports, and not a list of the caller.
    pub(super) fn can_change(&self) -> bool {
        !matches!(
            self,
            Self::Alone {
                partitions: Some(_),
                ..
            }
        )
    }

    pub(super) fn group(&self) -> Option<Identifier<'_>> {
        match self {
            Self::Group { group, .. } => Some(group.as_identifier()),
            Self::Alone { .. } => None,
        }
    }

    pub(super) fn consumer(&self) -> Option<Consumer<'_>> {
        match self {
            Self::Group { group, .. } => Some(Consumer {
                kind: ConsumerKind::Group,
                id: group.as_identifier(),
            }),
            Self::Alone { name, .. } => name.as_ref().map(|name| Consumer {
                kind: ConsumerKind::Consumer,
                id: name.as_identifier(),
            }),
        }
    }
}

/// Place at which reading of a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// First message that is kept.
    First,
    /// Place behind the last message at that moment.
    End,
    /// This offset.
    Offset(u64),
    /// First message that was appended at this time or later, in microseconds since the Unix epoch.
    Timestamp(u64),
}

/// Settings of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerConfig {
    /// Group or name that it reads for.
    pub membership: Membership,
    /// Place at which it begins in partitions without a stored offset.
    pub start: Start,
    /// Maximum number of messages in a batch.
    pub batch_messages: u32,
    /// Size of the batches that wait to be taken, above which no more are read.
    pub prefetch_bytes: usize,
    /// Interval at which a member asks for its partitions.
    pub heartbeat: Duration,
}

impl ConsumerConfig {
    /// Create settings with defaults.
    pub fn new(membership: Membership) -> Self {
        Self {
            membership,
            start: Start::First,
            batch_messages: 10_000,
            prefetch_bytes: 16 << 20,
            heartbeat: Duration::from_secs(1),
        }
    }
}
