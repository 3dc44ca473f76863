//! Address of a partition packed into one word.

use core::fmt;

use crate::{PartitionId, StreamId, TopicId};

/// Stream, topic and partition packed into a `u64`.
///
/// Bits 0..20 are the partition, 20..32 the topic, 32..44 the stream, the rest zero. Placement hashes the packed value,
/// which is therefore shared by the core, the gateway and Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(u64);

/// Error for an identifier that exceeds its bits. Packing never wraps: partition 1,048,576 is not partition 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stream {stream}, topic {topic}, partition {partition} do not fit 12, 12 and 20 bits")]
pub struct NamespaceOutOfRange {
    /// Requested stream.
    pub stream: StreamId,
    /// Requested topic.
    pub topic: TopicId,
    /// Requested partition.
    pub partition: PartitionId,
}

impl Namespace {
    /// Number of bits of the stream.
    pub const STREAM_BITS: u32 = 12;
    /// Number of bits of the topic.
    pub const TOPIC_BITS: u32 = 12;
    /// Number of bits of the partition.
    pub const PARTITION_BITS: u32 = 20;

    /// Pack three identifiers.
    pub const fn new(
        stream: StreamId,
        topic: TopicId,
        partition: PartitionId,
    ) -> Result<Self, NamespaceOutOfRange> {
        if stream.0 >> Self::STREAM_BITS != 0
            || topic.0 >> Self::TOPIC_BITS != 0
            || partition.0 >> Self::PARTITION_BITS != 0
        {
            return Err(NamespaceOutOfRange {
                stream,
                topic,
                partition,
            });
        }
        Ok(Self(
            (stream.0 as u64) << (Self::TOPIC_BITS + Self::PARTITION_BITS)
                | (topic.0 as u64) << Self::PARTITION_BITS
                | partition.0 as u64,
        ))
    }

    /// Unpack a word; `None` if unused bits are set.
    pub const fn from_packed(word: u64) -> Option<Self> {
        if word >> (Self::STREAM_BITS + Self::TOPIC_BITS + Self::PARTITION_BITS) == 0 {
            Some(Self(word))
        } else {
            None
        }
    }

    /// Return the packed word.
    pub const fn packed(self) -> u64 {
        self.0
    }

    /// The stream.
    pub const fn stream(self) -> StreamId {
        StreamId(Self::bits(
            self.0 >> (Self::TOPIC_BITS + Self::PARTITION_BITS),
            Self::STREAM_BITS,
        ))
    }

    /// The topic.
    pub const fn topic(self) -> TopicId {
        TopicId(Self::bits(self.0 >> Self::PARTITION_BITS, Self::TOPIC_BITS))
    }

    /// The partition.
    pub const fn partition(self) -> PartitionId {
        PartitionId(Self::bits(self.0, Self::PARTITION_BITS))
    }

    #[allow(clippy::cast_possible_truncation, reason = "masked to at most 20 bits")]
    const fn bits(word: u64, count: u32) -> u32 {
        (word & ((1 << count) - 1)) as u32
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}/{}/{}",
            self.stream(),
            self.topic(),
            self.partition()
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// SHARD-3: packed identifiers are unpacked unchanged; identifiers out of range are refused.
        #[test]
        fn packs_and_unpacks(stream in 0_u32..5000, topic in 0_u32..5000, partition in 0_u32..1_100_000) {
            let packed = Namespace::new(StreamId(stream), TopicId(topic), PartitionId(partition));
            if stream < 4096 && topic < 4096 && partition < 1_048_576 {
                let namespace = packed.expect("fits");
                prop_assert_eq!(Namespace::from_packed(namespace.packed()), Some(namespace));
                prop_assert_eq!(namespace.stream(), StreamId(stream));
                prop_assert_eq!(namespace.topic(), TopicId(topic));
                prop_assert_eq!(namespace.partition(), PartitionId(partition));
            } else {
                prop_assert!(packed.is_err());
            }
        }
    }
}
