//! What a ticket opens.

use headrace_model::{Namespace, StreamId, TopicId};

/// What may be done there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// Read messages; read, store and delete offsets.
    pub read: bool,
    /// Append messages.
    pub write: bool,
}

impl Access {
    /// Reading alone.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };
    /// Writing alone.
    pub const WRITE: Self = Self {
        read: false,
        write: true,
    };
    /// Both.
    pub const ALL: Self = Self {
        read: true,
        write: true,
    };

    /// Whether all of `wanted` is part of it.
    pub const fn includes(self, wanted: Self) -> bool {
        (self.read || !wanted.read) && (self.write || !wanted.write)
    }
}

/// Where it may be done.
///
/// Numbers are given away again after a deletion, incarnations never: a ticket, and a connection that was opened with one,
/// is for nothing that came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything: the holder is a service of the cluster.
    Cluster,
    /// All partitions of a topic.
    Topic {
        /// Its stream.
        stream: StreamId,
        /// The topic.
        topic: TopicId,
        /// Of the topic.
        incarnation: u64,
        /// What may be done.
        access: Access,
    },
    /// One partition.
    Partition {
        /// Stream, topic and partition.
        namespace: Namespace,
        /// Of the partition.
        incarnation: u64,
        /// What may be done.
        access: Access,
    },
}

impl Scope {
    /// Whether something may be done with a partition of these incarnations.
    pub fn opens(
        &self,
        place: Namespace,
        (topic_incarnation, partition_incarnation): (u64, u64),
        wanted: Access,
    ) -> bool {
        match *self {
            Self::Cluster => true,
            Self::Topic {
                stream,
                topic,
                incarnation,
                access,
            } => {
                (place.stream(), place.topic()) == (stream, topic)
                    && incarnation == topic_incarnation
                    && access.includes(wanted)
            }
            Self::Partition {
                namespace,
                incarnation,
                access,
            } => {
                namespace == place
                    && incarnation == partition_incarnation
                    && access.includes(wanted)
            }
        }
    }
}
