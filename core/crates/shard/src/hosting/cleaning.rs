//! Cleaner: enforces the retention of topics by age and by size (LOG-6).
//!
//! Age applies to each partition. Size applies to the whole topic: its largest partition deletes its oldest segment,
//! again and again, until the topic is within its maximum. All shards see the same sizes and agree on which partition
//! that is, so only its owner deletes anything, and never two at a time.
//!
//! A run looks at the partitions whose retention is due, and at the sizes of limited topics. Other partitions cost
//! nothing, however many there are.
//!
//! A node of a cluster knows only the sizes of its own partitions. It keeps them within their share of the maximum, by
//! number of partitions.

use headrace_catalog::{Catalog, Partition as Record, Topic};
use headrace_model::{Namespace, Timestamp};
use headrace_partition::RetentionRule;

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

/// Bounds of the messages of a topic's partitions; none if nothing is to be deleted.
pub(super) fn retention_rule(topic: &Topic) -> Option<RetentionRule> {
    if !topic.expires() && !topic.is_limited() {
        return None;
    }
    let (mut expiry_micros, mut roll_micros) = (u64::MAX, u64::MAX);
    if topic.expires() {
        expiry_micros = topic.message_expiry_micros;
        roll_micros = (expiry_micros / ROLL_PART).max(ROLL_MICROS_MIN);
    }
    let roll_bytes = if topic.is_limited() {
        let parts = ROLL_PART * u64::from(topic.partitions_count()).max(1);
        (topic.max_size_bytes / parts).max(ROLL_BYTES_MIN)
    } else {
        u64::MAX
    };
    Some(RetentionRule {
        expiry_micros,
        roll_micros,
        roll_bytes,
    })
}

impl Partitions {
    /// Run the cleaner when it is due: at the configured interval, or earlier if it has requested that. Ages are counted
    /// up to `trusted`, as what was deleted by a wrong clock does not come back.
    pub(crate) fn tick_retention(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        trusted: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(interval) = self.config.retention.interval_micros
            && self.cleaner.run_at <= now
        {
            let pause = self.clean(catalog, now, trusted, effects).min(interval);
            self.cleaner.run_at = Timestamp(now.0 + pause);
        }
    }

    /// Delete what is due. Returns the microseconds after which the next run is due at the latest.
    fn clean(
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
        while let Some(namespace) = self.agenda.retentions.take_due(trusted) {
            if let Some(hosted) = self.hosted.get_mut(&namespace) {
                hosted.retention_due = None;
            }
            self.apply_retention(catalog, namespace, now, trusted, effects);
        }
        self.cleaner.follow(catalog);
        let limited = core::mem::take(&mut self.cleaner.limited);
        for (stream, topic) in &limited {
            let stream = catalog.stream_by_id(*stream);
            if let Some(topic) = stream.and_then(|stream| stream.topic_by_id(*topic))
                && !self.limit(catalog, topic, now, effects)
            {
                pause = LOOK_AGAIN_MICROS;
            }
        }
        self.cleaner.limited = limited;
        pause
    }

    /// Delete what is too old from a partition, and seal its open segment in time.
    fn apply_retention(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        now: Timestamp,
        trusted: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        // What is left to be done is noted at the end of the turn.
        self.mark_dirty(namespace);
        let Some((topic, record)) = find(catalog, namespace) else {
            return;
        };
        let keeps_unread = self.config.retention.keeps_unread;
        if let Some(rule) = retention_rule(topic)
            && self.owner(catalog, namespace) == Owner::Here
            && let Some(hosted) = self.hosted.get_mut(&namespace)
            && matches!(hosted.state, HostingState::Open(_))
            && hosted.incarnation == record.incarnation
        {
            self.steps.take(&mut hosted.state, |partition, outbox| {
                partition.retain(rule.at(trusted), keeps_unread, now, outbox);
            });
            self.drain(namespace, effects);
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
