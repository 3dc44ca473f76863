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
    /// Microseconds since the Unix epoch.
    Timestamp(u64)
);

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
