//! The columns that there are.

/// A column, by its name in a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// Name of the stream.
    Stream,
    /// Name of the topic.
    Topic,
    /// Number of the partition.
    Partition,
    /// Offset in the partition.
    Offset,
    /// When the server appended the message.
    Timestamp,
    /// When the client made the message.
    OriginTimestamp,
    /// The message's id.
    Id,
    /// The row's key.
    Key,
    /// The message's payload.
    Value,
    /// The user headers.
    Headers,
}

impl Column {
    /// Every column, in the order of the whole schema.
    pub const ALL: [Self; 10] = [
        Self::Stream,
        Self::Topic,
        Self::Partition,
        Self::Offset,
        Self::Timestamp,
        Self::OriginTimestamp,
        Self::Id,
        Self::Key,
        Self::Value,
        Self::Headers,
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Topic => "topic",
            Self::Partition => "partition",
            Self::Offset => "offset",
            Self::Timestamp => "timestamp",
            Self::OriginTimestamp => "origin_timestamp",
            Self::Id => "id",
            Self::Key => "key",
            Self::Value => "value",
            Self::Headers => "headers",
        }
    }

    /// The column of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }
}
