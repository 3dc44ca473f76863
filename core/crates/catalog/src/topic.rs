//! A topic and its partitions.

use std::iter::Sum;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use headrace_model::{
    Durability, Namespace, PartitionId, PartitionStatistics, StreamId, Timestamp, TopicId,
};
use headrace_proto::catalog::v1;
use headrace_wire::CompressionAlgorithm;

use crate::{ApplyError, Quota, Rates};

/// Durability in the record of a topic that has the setting of the server.
const UNSPECIFIED_DURABILITY: i32 = v1::Durability::Unspecified as i32;

/// A topic: settings and partitions.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Stream of the topic.
    pub stream_id: StreamId,
    /// Id within the stream; reused after a deletion.
    pub id: TopicId,
    /// Name, unique within the stream, compared byte for byte.
    pub name: Arc<str>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Incarnation, never reused: distinguishes this topic from a deleted one with the same id.
    pub incarnation: u64,
    /// Compression; stored and returned, never applied.
    pub compression: CompressionAlgorithm,
    /// Age in microseconds from which a sealed segment may be removed; `u64::MAX` for never.
    pub message_expiry_micros: u64,
    /// Size from which the oldest sealed segments are removed; `u64::MAX` for unlimited.
    pub max_size_bytes: u64,
    /// True if the last update requested the server default for the expiry.
    pub message_expiry_is_default: bool,
    /// True if the last update requested the server default for the maximum size.
    pub max_size_is_default: bool,
    /// Replication factor; stored and returned.
    pub replication_factor: u8,
    /// Durability of acknowledgements; `None` for the server's setting.
    pub durability: Option<Durability>,
    /// Purge epoch. A partition that stored a smaller epoch drops all its contents.
    pub purge_epoch: u64,
    /// Limits of what all users together use of the topic.
    pub quota: Quota,
    /// Rates of the quota. All versions of the catalog share them as long as neither the incarnation nor the limits
    /// change.
    pub rates: Rates,
    /// Partitions, dense: the partition at index n has id n.
    pub partitions: Vec<Partition>,
    balanced: Arc<AtomicU32>,
}

/// A partition of a topic.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Id within the topic.
    pub id: PartitionId,
    /// Stream, topic and partition packed.
    pub namespace: Namespace,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Incarnation, never reused: distinguishes this partition from a deleted one with the same id.
    pub incarnation: u64,
    /// Statistics, written by the owning shard. All versions of the catalog share this object as long as neither the
    /// incarnation nor the purge epoch changes.
    pub statistics: Arc<PartitionStatistics>,
}

/// Totals over some partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of partitions.
    pub partitions_count: u32,
    /// Number of segments, including the open ones.
    pub segments_count: u32,
    /// Number of messages retained.
    pub messages_count: u64,
    /// Number of bytes retained, including message headers.
    pub size_bytes: u64,
}

impl Topic {
    /// Build the record; state that outlives a version is taken from `previous` if it has the same incarnation.
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
        let quota = Quota::from_record(record.quota);

        let mut partitions = Vec::with_capacity(record.partitions.len());
        for (expected_id, partition) in (0..).zip(&record.partitions) {
            if partition.id != expected_id {
                return Err(invalid("its partitions are not dense and ascending"));
            }
            // Purged messages are not counted any more, even before the shard has processed the purge.
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
            durability: match record.durability {
                UNSPECIFIED_DURABILITY => None,
                // A fallback to the default could promise less than was requested.
                code => Some(
                    Durability::from_code(code)
                        .ok_or_else(|| invalid("its durability is not known"))?,
                ),
            },
            purge_epoch: record.purge_epoch,
            quota,
            rates: Rates::of(&quota, previous.map(|topic| &topic.rates)),
            partitions,
            balanced: previous.map_or_else(Arc::default, |topic| Arc::clone(&topic.balanced)),
        })
    }

    /// Find a partition by id.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(usize::try_from(id.0).ok()?)
    }

    /// Number of partitions.
    pub fn partitions_count(&self) -> u32 {
        u32::try_from(self.partitions.len()).expect("identifiers of partitions fit 20 bits")
    }

    /// Return the partition for the next balanced batch, round-robin from partition 0.
    ///
    /// `None` if there are no partitions. All senders to the topic share the counter, which survives updates of the
    /// topic but not a restart.
    pub fn next_balanced(&self) -> Option<&Partition> {
        let count = self.partitions_count();
        if count == 0 {
            return None;
        }
        // The counter wraps at the partition count instead of at 2^32, which is not a multiple of most counts.
        let turn = self
            .balanced
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |turn| {
                Some((turn % count + 1) % count)
            })
            .unwrap_or_else(|turn| turn);
        self.partition(PartitionId(turn % count))
    }

    /// Expiry in responses to clients: 0 stands for the server default, as in requests.
    pub fn message_expiry_for_clients(&self) -> u64 {
        if self.message_expiry_is_default {
            0
        } else {
            self.message_expiry_micros
        }
    }

    /// Maximum size in responses to clients: 0 stands for the server default.
    pub fn max_size_for_clients(&self) -> u64 {
        if self.max_size_is_default {
            0
        } else {
            self.max_size_bytes
        }
    }

    /// Return true if messages are removed by age.
    pub fn expires(&self) -> bool {
        !matches!(self.message_expiry_micros, 0 | u64::MAX)
    }

    /// Return true if messages are removed because of the topic's size.
    pub fn is_limited(&self) -> bool {
        !matches!(self.max_size_bytes, 0 | u64::MAX)
    }

    /// Current totals over the partitions.
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
            durability: (self.durability).map_or(UNSPECIFIED_DURABILITY, Durability::code),
            purge_epoch: self.purge_epoch,
            quota: self.quota.to_record(),
            partitions: self.partitions.iter().map(Partition::to_record).collect(),
        }
    }
}

impl Partition {
    /// Build a partition. `None` if an identifier exceeds its range.
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
                .map_or_else(initial_statistics, |partition| {
                    Arc::clone(&partition.statistics)
                }),
        })
    }

    /// Current totals of this partition.
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

/// Statistics of a partition that its shard has not opened yet: a partition always has a segment.
fn initial_statistics() -> Arc<PartitionStatistics> {
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

        // The counter is now beyond the last partition.
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
        // The shard may not have processed the purge yet.
        old.partitions[0].statistics.set_messages_count(5);
        assert_eq!(new.totals().messages_count, 0);
    }

    #[test]
    fn the_levels_of_durability_are_those_of_the_records() {
        for code in 1..100 {
            let recorded = v1::Durability::try_from(code).ok();
            let name = recorded.map(|level| level.as_str_name().to_owned());
            let level = Durability::from_code(code)
                .map(|level| format!("DURABILITY_{}", level.name().to_uppercase()));
            assert_eq!(level, name);
        }
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
