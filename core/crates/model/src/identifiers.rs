//! One type per identifier, so that two of them cannot be swapped.

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
    /// The place of a message in its partition: starts at 0, grows by 1, has no gaps.
    Offset(u64)
);
identifier!(
    /// Staged messages of one partition, and until when they can be committed: see [`StageId::expires_at`].
    StageId(u128)
);
identifier!(
    /// Microseconds since the Unix epoch.
    Timestamp(u64)
);

impl StageId {
    /// A stage that expires at `expires_at`, told from others of the same time by `random`.
    pub const fn new(expires_at: Timestamp, random: u64) -> Self {
        Self((expires_at.0 as u128) << 64 | random as u128)
    }

    /// When no commit may name the stage any more, by the time of the metadata service. Part of the id, so that nobody
    /// can prolong it.
    #[allow(clippy::cast_possible_truncation, reason = "shifted to 64 bits")]
    pub const fn expires_at(self) -> Timestamp {
        Timestamp((self.0 >> 64) as u64)
    }

    /// As catalogue and commands carry it.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The stage that `bytes` say; `None` unless they are 16.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// A connection, whichever gateway holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey {
    /// One run of a gateway's process.
    pub gateway: u64,
    /// The connection's number there.
    pub client: ClientId,
}

impl Offset {
    /// The offset `count` messages further on.
    #[must_use]
    pub const fn advanced_by(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl UserId {
    /// The root user: exists always, has every permission, cannot be deleted.
    pub const ROOT: Self = Self(0);
}
