//! Cleaner: enforces the retention of topics by age and by size (LOG-6).
//!
//! Age applies to each partition. Size applies to the whole topic: its largest partition deletes its oldest segment,
//! again and again, until the topic is within its maximum. All shards see the same sizes and agree on which partition
//! that is, so only its owner deletes anything, and never two at a time.
//!
//! A node of a cluster knows only the sizes of its own partitions. It keeps them within their share of the maximum, by
//! number of partitions.

use headrace_catalog::{Catalog, Partition as Record, Topic};
use headrace_model::{Namespace, Timestamp};
use headrace_partition::Retention;

use super::{HostingState, Partitions, find};
use crate::{api::Effect, owner::Owner};

/// Divisor that determines when a segment is sealed: at this fraction of the topic's age, or of a partition's share of
/// the topic's size. Whole segments are deleted, so this is the precision of retention.
const ROLL_PART: u64 = 4;
/// Minimum age at which the open segment is sealed for its age.
const ROLL_MICROS_MIN: u64 = 1_000_000;
/// Minimum size at which the open segment is sealed for the topic's size.
const ROLL_BYTES_MIN: u64 = 4096;
/// Interval of the next run while another shard has to delete something first.
const LOOK_AGAIN_MICROS: u64 = 1_000_000;

impl Partitions {
    /// Process every topic. Returns the microseconds after which the next run is due at the latest.
    pub(super) fn clean(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        trusted: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        let mut pause = u64::MAX;
        if self.closing {
            return pause;
        }
        for topic in catalog.topics() {
            let is_bounded = topic.expires() || topic.is_limited();
            if !is_bounded {
                continue;
            }
            self.apply_retention(catalog, topic, now, trusted, effects);
            if topic.is_limited() && !self.limit(catalog, topic, now, effects) {
                pause = LOOK_AGAIN_MICROS;
            }
        }
        pause
    }

    /// Delete what is too old from this shard's partitions of the topic, and seal open segments in time.
    fn apply_retention(
        &mut self,
        catalog: &Catalog,
        topic: &Topic,
        now: Timestamp,
        trusted: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let (mut expired_before, mut roll_before) = (Timestamp(0), Timestamp(0));
        if topic.expires() {
            let age = topic.message_expiry_micros;
            let roll_age = (age / ROLL_PART).max(ROLL_MICROS_MIN);
            expired_before = Timestamp(trusted.0.saturating_sub(age));
            roll_before = Timestamp(trusted.0.saturating_sub(roll_age));
        }
        let roll_bytes = if topic.is_limited() {
            let parts = ROLL_PART * u64::from(topic.partitions_count()).max(1);
            (topic.max_size_bytes / parts).max(ROLL_BYTES_MIN)
        } else {
            u64::MAX
        };
        let retention = Retention {
            expired_before,
            roll_before,
            roll_bytes,
        };
        let keeps_unread = self.config.retention.keeps_unread;
        for record in &topic.partitions {
            let namespace = record.namespace;
            if self.owner(catalog, namespace) != Owner::Here {
                continue;
            }
            if let Some(hosted) = self.hosted.get_mut(&namespace)
                && matches!(hosted.state, HostingState::Open(_))
                && hosted.incarnation == record.incarnation
            {
                self.steps.take(&mut hosted.state, |partition, outbox| {
                    partition.retain(retention, keeps_unread, now, outbox);
                });
                self.mark_dirty(namespace);
                self.drain(namespace, effects);
            }
        }
    }

    /// Return whether a topic holds as much as its quota allows. What is being written when the limit is reached is
    /// kept.
    #[cold]
    pub(super) fn is_topic_full(&self, catalog: &Catalog, namespace: Namespace) -> bool {
        let Some((topic, _)) = find(catalog, namespace) else {
            return false;
        };
        let is_held_here = |record: &&Record| self.config.hosts(catalog, record.namespace);
        let sizes = (topic.partitions.iter().filter(is_held_here))
            .map(|record| u128::from(record.statistics.size_bytes()));
        let (count, held) = sizes.fold((0, 0), |(count, held), size| (count + 1, held + size));
        held >= share_of(topic.quota.held_bytes, count, topic.partitions.len())
    }

    /// Delete the oldest segments of the topic's largest partitions, as far as this shard owns them. Returns whether
    /// nothing is left to be deleted, here or by another shard.
    fn limit(
        &mut self,
        catalog: &Catalog,
        topic: &Topic,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let is_held_here = |record: &&Record| self.config.hosts(catalog, record.namespace);
        let records: Vec<&Record> = topic.partitions.iter().filter(is_held_here).collect();
        for record in &records {
            if self.owner(catalog, record.namespace) == Owner::Here {
                record.statistics.set_retention_held(false);
            }
        }
        let share = share_of(topic.max_size_bytes, records.len(), topic.partitions.len());
        loop {
            let sizes = records.iter().map(|record| record.statistics.size_bytes());
            let total: u128 = sizes.map(u128::from).sum();
            if total <= share {
                return true;
            }
            let can_give = |record: &&&Record| {
                record.statistics.segments_count() > 1 && !record.statistics.retention_held()
            };
            // Equal sizes are common: all shards have to choose the same partition.
            let by_size = |record: &&&Record| {
                let size = record.statistics.size_bytes();
                (size, core::cmp::Reverse(record.namespace))
            };
            let Some(largest) = records.iter().filter(can_give).max_by_key(by_size) else {
                return true;
            };
            let namespace = largest.namespace;
            if self.owner(catalog, namespace) != Owner::Here {
                return false;
            }
            if !self.remove_oldest(namespace, largest.incarnation, now, effects) {
                largest.statistics.set_retention_held(true);
            }
        }
    }

    fn remove_oldest(
        &mut self,
        namespace: Namespace,
        incarnation: u64,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let keeps_unread = self.config.retention.keeps_unread;
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return false;
        };
        if !matches!(hosted.state, HostingState::Open(_)) || hosted.incarnation != incarnation {
            return false;
        }
        let is_gone = self.steps.take(&mut hosted.state, |partition, outbox| {
            partition.remove_oldest(keeps_unread, now, outbox)
        });
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
        is_gone == Some(true)
    }
}

/// Part of a limit of a topic's size for `held` of its partitions.
fn share_of(size_bytes_max: u64, held: usize, partitions: usize) -> u128 {
    u128::from(size_bytes_max) * held as u128 / partitions.max(1) as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_its_share_of_a_topics_size() {
        assert_eq!(share_of(1000, 3, 3), 1000);
        assert_eq!(share_of(1000, 1, 3), 333);
        assert_eq!(share_of(u64::MAX - 1, 2, 4), u128::from(u64::MAX / 2));
        assert_eq!(share_of(1000, 0, 0), 0);
    }
}
