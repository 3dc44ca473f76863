//! Scope of a ticket.

use headrace_model::{Namespace, StreamId, TopicId};

/// Access that a ticket permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// Reading messages; reading, storing and deleting offsets.
    pub read: bool,
    /// Appending messages.
    pub write: bool,
}

impl Access {
    /// Read access only.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };
    /// Write access only.
    pub const WRITE: Self = Self {
        read: false,
        write: true,
    };
    /// Read and write access.
    pub const ALL: Self = Self {
        read: true,
        write: true,
    };

    /// Return whether all of `wanted` is included.
    pub const fn includes(self, wanted: Self) -> bool {
        (self.read || !wanted.read) && (self.write || !wanted.write)
    }
}

/// Resources to which a ticket gives access.
///
/// Ids are reused after a deletion, incarnations never: a ticket, and a connection opened with it, is not valid for a
/// later resource with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All resources: the holder is a service of the cluster.
    Cluster,
    /// All partitions of a topic.
    Topic {
        /// Stream of the topic.
        stream: StreamId,
        /// The topic.
        topic: TopicId,
        /// Incarnation of the topic.
        incarnation: u64,
        /// Permitted access.
        access: Access,
    },
    /// One partition.
    Partition {
        /// Stream, topic and partition.
        namespace: Namespace,
        /// Incarnation of the partition.
        incarnation: u64,
        /// Permitted access.
        access: Access,
    },
}

impl Scope {
    /// Return whether `wanted` access to a partition is permitted; the incarnations are those of its topic and itself.
    pub fn permits(
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
