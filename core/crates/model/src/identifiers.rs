//! Identifiers, one type each, so that two of them cannot be swapped.

use core::fmt;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

identifier!(
    /// A stream. Identifiers on the wire start at 0 and are reused after a deletion.
    StreamId(u32)
);
identifier!(
    /// A topic within its stream.
    TopicId(u32)
);
identifier!(
    /// A partition within its topic: dense, 0 to n-1.
    PartitionId(u32)
);
identifier!(
    /// A consumer group within its topic.
    GroupId(u32)
);
identifier!(
    /// A user; 0 is root. Never reused.
    UserId(u32)
);
identifier!(
    /// A client connection; never 0 for a live one.
    ClientId(u32)
);
identifier!(
    /// A partition node of the cluster; from 1, never reused.
    NodeId(u32)
);
identifier!(
    /// One shard (one thread) of this process, 0 to n-1.
    ShardId(u16)
);
identifier!(
    /// Position of a message in its partition: starts at 0, grows by 1, has no gaps.
    Offset(u64)
);
identifier!(
    /// Stage of one partition, including its expiry: see [`StageId::expires_at`].
    StageId(u128)
);
identifier!(
    /// Microseconds since the Unix epoch.
    Timestamp(u64)
);

impl StageId {
    /// Make the id of a stage that expires at `expires_at`; `random` distinguishes stages of the same time.
    pub const fn new(expires_at: Timestamp, random: u64) -> Self {
        Self((expires_at.0 as u128) << 64 | random as u128)
    }

    /// Time of the metadata service after which no commit may name the stage. The time is part of the id, so that it
    /// cannot be extended.
    #[allow(clippy::cast_possible_truncation, reason = "shifted to 64 bits")]
    pub const fn expires_at(self) -> Timestamp {
        Timestamp((self.0 >> 64) as u64)
    }

    /// Encode the id as in the catalog and in commands.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Decode an id; `None` unless `bytes` has 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// A connection, unique across gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey {
    /// Id of one run of a gateway's process.
    pub gateway: u64,
    /// Number of the connection in that gateway.
    pub client: ClientId,
}

impl Offset {
    /// Return the offset `count` messages further on.
    #[must_use]
    pub const fn advanced_by(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl UserId {
    /// The root user: always exists, has every permission, and cannot be deleted.
    pub const ROOT: Self = Self(0);
}
