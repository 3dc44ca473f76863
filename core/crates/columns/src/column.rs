//! Columns of the schema.

/// A column; the name is that in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// Name of the stream.
    Stream,
    /// Name of the topic.
    Topic,
    /// Id of the partition.
    Partition,
    /// Offset in the partition.
    Offset,
    /// Time at which the server appended the message.
    Timestamp,
    /// Time at which the client created the message.
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
    /// All columns, in the order of the full schema.
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

    /// Name of the column.
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

    /// Find the column with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }
}
