//! Choice of the partition for a batch.

use crate::reader::Reader;
use crate::{Malformed, hash};

/// Choice of the partition for a batch; a batch is never split. Layout: `u8 kind · u8 length · value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Partitioning<'a> {
    /// Round-robin over the partitions of the topic, by the server.
    Balanced,
    /// The partition with this id.
    PartitionId(u32),
    /// The partition to which the key hashes; 0 to 255 bytes (official clients send at least one).
    MessagesKey(&'a [u8]),
}

impl<'a> Partitioning<'a> {
    pub(crate) const KIND_BALANCED: u8 = 1;
    pub(crate) const KIND_PARTITION_ID: u8 = 2;
    pub(crate) const KIND_MESSAGES_KEY: u8 = 3;

    /// Partition of a messages key among `partitions_count`; `None` if the topic has no partitions.
    pub fn partition_for_key(key: &[u8], partitions_count: u32) -> Option<u32> {
        hash::xxh32(key).checked_rem(partitions_count)
    }

    /// Number of bytes of the encoding.
    pub(crate) fn encoded_bytes(&self) -> usize {
        2 + match self {
            Self::Balanced => 0,
            Self::PartitionId(_) => 4,
            Self::MessagesKey(key) => key.len(),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind = reader.u8()?;
        let length = reader.u8()?;
        match (kind, length) {
            (Self::KIND_BALANCED, 0) => Ok(Self::Balanced),
            (Self::KIND_PARTITION_ID, 4) => Ok(Self::PartitionId(reader.u32()?)),
            (Self::KIND_MESSAGES_KEY, length) => {
                Ok(Self::MessagesKey(reader.bytes(usize::from(length))?))
            }
            (Self::KIND_BALANCED | Self::KIND_PARTITION_ID, _) => Err(Malformed::InvalidLength),
            (kind, _) => Err(Malformed::UnknownCode(kind)),
        }
    }
}
