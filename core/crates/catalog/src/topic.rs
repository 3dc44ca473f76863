//! A topic and its partitions.

use std::iter::Sum;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use headrace_model::{
    Durability, Namespace, PartitionId, PartitionStatistics, StreamId, Timestamp, TopicId,
};
use headrace_proto::catalog::v1;
use headrace_wire::CompressionAlgorithm;

use crate::ApplyError;

/// A topic: settings and partitions.
#[derive(Debug, Clone)]
pub struct Topic {
    /// The stream that it belongs to.
    pub stream_id: StreamId,
    /// Its number within the stream; reused after a deletion.
    pub id: TopicId,
    /// Unique within the stream, compared byte for byte.
    pub name: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Never reused: tells this topic from a deleted one of the same number.
    pub incarnation: u64,
    /// Stored and echoed, never applied.
    pub compression: CompressionAlgorithm,
    /// Age in microseconds at which a sealed segment may go; `u64::MAX` never.
    pub message_expiry_micros: u64,
    /// Size at which the oldest sealed segments go; `u64::MAX` unlimited.
    pub max_size_bytes: u64,
    /// The expiry is the server default of the last update, which asked for that.
    pub message_expiry_is_default: bool,
    /// The same of the size.
    pub max_size_is_default: bool,
    /// Stored and echoed.
    pub replication_factor: u8,
    /// When a batch is acknowledged; `None`: the server's setting decides.
    pub durability: Option<Durability>,
    /// A partition that stored a smaller epoch drops everything that it holds.
    pub purge_epoch: u64,
    /// Dense: the partition at index n has the number n.
    pub partitions: Vec<Partition>,
    balanced: Arc<AtomicU32>,
}

/// A partition of a topic.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Its number within the topic.
    pub id: PartitionId,
    /// Stream, topic and partition packed.
    pub namespace: Namespace,
    /// When it was created.
    pub created_at: Timestamp,
    /// Never reused: tells this partition from a deleted one of the same number.
    pub incarnation: u64,
    /// Written by the owning shard. The same object in every version of the catalogue that knows this incarnation and
    /// no purge since.
    pub statistics: Arc<PartitionStatistics>,
}

/// What some partitions hold, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Partitions.
    pub partitions_count: u32,
    /// Segments, the open ones included.
    pub segments_count: u32,
    /// Messages retained.
    pub messages_count: u64,
    /// Bytes retained, message headers included.
    pub size_bytes: u64,
}

impl Topic {
    /// Build the record; what outlives a version is taken from `previous` if that is the same incarnation.
    pub(crate) fn from_record(
        record: &v1::Topic,
        previous: Option<&Self>,
    ) -> Result<Self, ApplyError> {
        let stream_id = StreamId(record.stream_id);
        let id = TopicId(record.id);
        let invalid = |reason| ApplyError::InvalidTopic {
            stream_id,
            topic_id: id,
            reason,
        };
        let previous = previous.filter(|topic| topic.incarnation == record.incarnation);

        let mut partitions = Vec::with_capacity(record.partitions.len());
        for (expected_id, partition) in (0..).zip(&record.partitions) {
            if partition.id != expected_id {
                return Err(invalid("its partitions are not dense and ascending"));
            }
            // What was purged is not counted any more, also before its shard has heard of it.
            let known = previous
                .filter(|topic| topic.purge_epoch == record.purge_epoch)
                .and_then(|topic| topic.partition(PartitionId(partition.id)));
            partitions.push(
                Partition::from_record(stream_id, id, partition, known)
                    .ok_or_else(|| invalid("an identifier exceeds its range"))?,
            );
        }

        Ok(Self {
            stream_id,
            id,
            name: previous
                .filter(|topic| *topic.name == *record.name)
                .map_or_else(
                    || Arc::from(record.name.as_str()),
                    |topic| Arc::clone(&topic.name),
                ),
            created_at: Timestamp(record.created_at_micros),
            incarnation: record.incarnation,
            compression: match record.compression() {
                v1::CompressionAlgorithm::None => CompressionAlgorithm::None,
                v1::CompressionAlgorithm::Gzip => CompressionAlgorithm::Gzip,
                v1::CompressionAlgorithm::Unspecified => {
                    return Err(invalid("its compression is not known"));
                }
            },
            message_expiry_micros: record.message_expiry_micros,
            max_size_bytes: record.max_size_bytes,
            message_expiry_is_default: record.message_expiry_is_default,
            max_size_is_default: record.max_size_is_default,
            replication_factor: u8::try_from(record.replication_factor)
                .map_err(|_| invalid("its replication factor exceeds 255"))?,
            durability: match v1::Durability::try_from(record.durability) {
                Ok(v1::Durability::Unspecified) => None,
                Ok(v1::Durability::Memory) => Some(Durability::Memory),
                Ok(v1::Durability::Os) => Some(Durability::Os),
                Ok(v1::Durability::Fsync) => Some(Durability::Fsync),
                // Falling back to the default could promise less than was asked for.
                Err(_) => return Err(invalid("its durability is not known")),
            },
            purge_epoch: record.purge_epoch,
            partitions,
            balanced: previous.map_or_else(Arc::default, |topic| Arc::clone(&topic.balanced)),
        })
    }

    /// The partition of this number.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(usize::try_from(id.0).ok()?)
    }

    /// Number of partitions.
    pub fn partitions_count(&self) -> u32 {
        u32::try_from(self.partitions.len()).expect("identifiers of partitions fit 20 bits")
    }

    /// The partition that the next balanced batch goes to: first 0, then one further each time, around.
    ///
    /// `None` when there are no partitions. The counter is shared by everybody who sends to the topic and
    /// survives every update of it, but not the process.
    pub fn next_balanced(&self) -> Option<&Partition> {
        let count = self.partitions_count();
        if count == 0 {
            return None;
        }
        // Kept below the count, rather than added to for ever, because 2^32 is no multiple of most counts.
        let turn = self
            .balanced
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |turn| {
                Some((turn % count + 1) % count)
            })
            .unwrap_or_else(|turn| turn);
        self.partition(PartitionId(turn % count))
    }

    /// The expiry as clients are answered: 0 is the server default, as they have asked for it.
    pub fn answered_message_expiry(&self) -> u64 {
        if self.message_expiry_is_default {
            0
        } else {
            self.message_expiry_micros
        }
    }

    /// The maximum size as clients are answered; 0 is the server default.
    pub fn answered_max_size(&self) -> u64 {
        if self.max_size_is_default {
            0
        } else {
            self.max_size_bytes
        }
    }

    /// Returns true when messages go for their age.
    pub fn expires(&self) -> bool {
        !matches!(self.message_expiry_micros, 0 | u64::MAX)
    }

    /// Returns true when messages go for the topic's size.
    pub fn is_limited(&self) -> bool {
        !matches!(self.max_size_bytes, 0 | u64::MAX)
    }

    /// What the partitions hold at this moment.
    pub fn totals(&self) -> Totals {
        self.partitions.iter().map(Partition::totals).sum()
    }

    pub(crate) fn to_record(&self) -> v1::Topic {
        v1::Topic {
            stream_id: self.stream_id.0,
            id: self.id.0,
            name: self.name.to_string(),
            created_at_micros: self.created_at.0,
            incarnation: self.incarnation,
            compression: i32::from(self.compression.code()),
            message_expiry_micros: self.message_expiry_micros,
            max_size_bytes: self.max_size_bytes,
            message_expiry_is_default: self.message_expiry_is_default,
            max_size_is_default: self.max_size_is_default,
            replication_factor: u32::from(self.replication_factor),
            durability: match self.durability {
                None => v1::Durability::Unspecified,
                Some(Durability::Memory) => v1::Durability::Memory,
                Some(Durability::Os) => v1::Durability::Os,
                Some(Durability::Fsync) => v1::Durability::Fsync,
            }
            .into(),
            purge_epoch: self.purge_epoch,
            partitions: self.partitions.iter().map(Partition::to_record).collect(),
        }
    }
}

impl Partition {
    /// `None` when an identifier exceeds its range.
    fn from_record(
        stream_id: StreamId,
        topic_id: TopicId,
        record: &v1::Partition,
        previous: Option<&Self>,
    ) -> Option<Self> {
        let id = PartitionId(record.id);
        Some(Self {
            id,
            namespace: Namespace::new(stream_id, topic_id, id).ok()?,
            created_at: Timestamp(record.created_at_micros),
            incarnation: record.incarnation,
            statistics: previous
                .filter(|partition| partition.incarnation == record.incarnation)
                .map_or_else(untouched, |partition| Arc::clone(&partition.statistics)),
        })
    }

    /// What it holds at this moment.
    pub fn totals(&self) -> Totals {
        Totals {
            partitions_count: 1,
            segments_count: self.statistics.segments_count(),
            messages_count: self.statistics.messages_count(),
            size_bytes: self.statistics.size_bytes(),
        }
    }

    fn to_record(&self) -> v1::Partition {
        v1::Partition {
            id: self.id.0,
            created_at_micros: self.created_at.0,
            incarnation: self.incarnation,
        }
    }
}

/// A partition always has a segment, also before its shard has opened it.
fn untouched() -> Arc<PartitionStatistics> {
    let statistics = PartitionStatistics::default();
    statistics.set_segments_count(1);
    Arc::new(statistics)
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), |sum, next| Self {
            partitions_count: sum.partitions_count.saturating_add(next.partitions_count),
            segments_count: sum.segments_count.saturating_add(next.segments_count),
            messages_count: sum.messages_count.saturating_add(next.messages_count),
            size_bytes: sum.size_bytes.saturating_add(next.size_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partitions_count: u32) -> v1::Topic {
        v1::Topic {
            stream_id: 1,
            id: 2,
            name: "orders".into(),
            incarnation: 9,
            compression: v1::CompressionAlgorithm::None.into(),
            replication_factor: 1,
            partitions: (0..partitions_count)
                .map(|id| v1::Partition {
                    id,
                    created_at_micros: 0,
                    incarnation: 10 + u64::from(id),
                })
                .collect(),
            ..Default::default()
        }
    }

    fn turns(topic: &Topic, count: usize) -> Vec<u32> {
        (0..count)
            .map(|_| topic.next_balanced().expect("has partitions").id.0)
            .collect()
    }

    #[test]
    fn balancing_goes_around_and_survives_updates() {
        let three = Topic::from_record(&record(3), None).expect("valid");
        assert_eq!(turns(&three, 5), [0, 1, 2, 0, 1]);

        let five = Topic::from_record(&record(5), Some(&three)).expect("valid");
        assert_eq!(turns(&five, 5), [2, 3, 4, 0, 1]);

        // The counter stands beyond the last partition now.
        turns(&five, 2);
        let one = Topic::from_record(&record(1), Some(&five)).expect("valid");
        assert_eq!(turns(&one, 3), [0, 0, 0]);
        let none = Topic::from_record(&record(0), Some(&one)).expect("valid");
        assert!(none.next_balanced().is_none());
    }

    #[test]
    fn another_incarnation_starts_anew() {
        let old = Topic::from_record(&record(2), None).expect("valid");
        turns(&old, 1);
        old.partitions[0].statistics.set_messages_count(4);
        let mut next = record(2);
        next.incarnation = 99;
        let new = Topic::from_record(&next, Some(&old)).expect("valid");
        assert_eq!(turns(&new, 1), [0]);
        assert_eq!(new.totals().messages_count, 0);
    }

    #[test]
    fn a_recreated_partition_gets_its_own_statistics() {
        let old = Topic::from_record(&record(2), None).expect("valid");
        for partition in &old.partitions {
            partition.statistics.set_messages_count(4);
            partition.statistics.set_size_bytes(400);
        }
        let mut next = record(2);
        next.partitions[1].incarnation = 50;
        let new = Topic::from_record(&next, Some(&old)).expect("valid");
        assert_eq!(
            new.totals(),
            Totals {
                partitions_count: 2,
                segments_count: 2,
                messages_count: 4,
                size_bytes: 400
            }
        );
    }

    #[test]
    fn what_was_purged_is_not_counted() {
        let old = Topic::from_record(&record(2), None).expect("valid");
        old.partitions[0].statistics.set_messages_count(4);
        let mut next = record(2);
        next.purge_epoch += 1;
        let new = Topic::from_record(&next, Some(&old)).expect("valid");
        assert_eq!(new.totals().messages_count, 0);
        // The shard may still be about to hear of it.
        old.partitions[0].statistics.set_messages_count(5);
        assert_eq!(new.totals().messages_count, 0);
    }

    #[test]
    fn records_that_make_no_sense_are_refused() {
        let refused = |change: fn(&mut v1::Topic)| {
            let mut record = record(2);
            change(&mut record);
            Topic::from_record(&record, None).is_err()
        };
        assert!(refused(|topic| topic.partitions[1].id = 2));
        assert!(refused(|topic| topic.compression = 0));
        assert!(refused(|topic| topic.durability = 77));
        assert!(refused(|topic| topic.replication_factor = 256));
        assert!(refused(|topic| topic.stream_id = 4096));
        assert!(refused(|topic| topic.id = 4096));
        assert!(!refused(|_| ()));
    }
}
