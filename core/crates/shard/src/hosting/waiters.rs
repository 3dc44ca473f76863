//! Polls that wait at the partitions of this shard (GW-7).
//!
//! A poll that finds too few messages gets from its partition the level that the log has to reach. Until then the poll
//! costs one comparison, shared by all waiters of the partition, at the end of a turn that changed the partition. Its
//! permission and position are evaluated anew when it wakes, so changes that happened meanwhile are accounted for. A
//! partition without waiters has no cost.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_link::WhenReady;
use headrace_model::{Namespace, Offset, ShardId};
use headrace_partition::{Level, Partition, Poll, PollingStrategy};

use crate::calls::{ConnectionKey, Origin, Sequence};

/// Key of a waiter: one request of one connection, and whether it waits for a notification. A request may wait for its
/// answer at a partition that is about to notify it.
pub(super) type WaiterKey = (ShardId, ConnectionKey, Sequence, bool);

/// Level that is reached immediately.
pub(super) const NOW: Level = Level {
    end: Offset(0),
    bytes: 0,
};
const NEVER: Level = Level {
    end: Offset(u64::MAX),
    bytes: u64::MAX,
};

/// A waiting poll.
pub(super) struct Waiter {
    pub(super) origin: Origin,
    pub(super) poll: Poll,
    pub(super) when_ready: WhenReady,
    pub(super) state: State,
    /// Stored offset from which the last attempt started.
    pub(super) stored: Option<Offset>,
}

pub(super) enum State {
    /// The partition is polled.
    Asking {
        /// True if the poll must not wait after this attempt.
        last: bool,
    },
    /// Waiting for this level.
    Parked(Level),
}

/// All waiters of one partition.
pub(super) struct AtPartition {
    pub(super) by_asker: HashMap<WaiterKey, Waiter, FixedState>,
    /// Lower bound of all waiters' levels.
    pub(super) lowest: Level,
    /// Version of the stored offsets that was accounted for.
    pub(super) offsets_version: u64,
}

/// All waiters at the partitions of this shard.
#[derive(Default)]
pub(super) struct Waiters {
    pub(super) at: HashMap<Namespace, AtPartition, FixedState>,
    /// Pending notifications that a poll would find enough messages.
    pub(super) notifications: Vec<(Origin, Namespace)>,
}

impl Waiters {
    pub(super) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub(super) fn has_wakeups(&self) -> bool {
        !self.notifications.is_empty()
    }

    pub(super) fn insert(&mut self, namespace: Namespace, waiter: Waiter) {
        let fresh = || AtPartition {
            by_asker: HashMap::default(),
            lowest: NEVER,
            offsets_version: 0,
        };
        let at = self.at.entry(namespace).or_insert_with(fresh);
        if let State::Parked(level) = waiter.state {
            at.lower(level);
        }
        at.by_asker
            .insert(asker(&waiter.origin, waiter.when_ready), waiter);
    }

    pub(super) fn get_mut(
        &mut self,
        namespace: Namespace,
        asker: &WaiterKey,
    ) -> Option<&mut Waiter> {
        self.at.get_mut(&namespace)?.by_asker.get_mut(asker)
    }

    pub(super) fn remove(&mut self, namespace: Namespace, asker: &WaiterKey) -> Option<Waiter> {
        let at = self.at.get_mut(&namespace)?;
        let waiter = at.by_asker.remove(asker);
        if at.by_asker.is_empty() {
            self.at.remove(&namespace);
        }
        waiter
    }

    /// Invalidate the levels of a partition, so that every waiter tries again.
    pub(super) fn invalidate_levels(&mut self, namespace: Namespace) {
        if let Some(at) = self.at.get_mut(&namespace) {
            at.lowest = NOW;
            for waiter in at.by_asker.values_mut() {
                if let State::Parked(level) = &mut waiter.state {
                    *level = NOW;
                }
            }
        }
    }
}

impl AtPartition {
    pub(super) fn lower(&mut self, level: Level) {
        self.lowest.end = self.lowest.end.min(level.end);
        self.lowest.bytes = self.lowest.bytes.min(level.bytes);
    }

    /// Waiters whose level is reached.
    pub(super) fn take_ready(&mut self, partition: &Partition) -> Vec<WaiterKey> {
        let offsets_version = partition.offsets_version();
        let offsets_changed =
            core::mem::replace(&mut self.offsets_version, offsets_version) != offsets_version;
        if !offsets_changed && !is_reached(partition, self.lowest) {
            return Vec::new();
        }
        self.lowest = NEVER;
        let mut ready = Vec::new();
        let mut lowest = NEVER;
        for (asker, waiter) in &self.by_asker {
            let State::Parked(level) = waiter.state else {
                continue;
            };
            if is_reached(partition, level) || offsets_changed && waiter.starts_elsewhere(partition)
            {
                ready.push(*asker);
            } else {
                lowest.end = lowest.end.min(level.end);
                lowest.bytes = lowest.bytes.min(level.bytes);
            }
        }
        self.lower(lowest);
        ready
    }
}

impl Waiter {
    /// Return whether the stored offset has changed since the last attempt, and the poll depends on it.
    pub(super) fn starts_elsewhere(&self, partition: &Partition) -> bool {
        self.poll.strategy == PollingStrategy::Next && self.stored != stored(partition, &self.poll)
    }
}

pub(super) fn asker(origin: &Origin, when_ready: WhenReady) -> WaiterKey {
    let is_notified = when_ready == WhenReady::Notify;
    (
        origin.shard,
        origin.connection,
        origin.sequence,
        is_notified,
    )
}

pub(super) fn stored(partition: &Partition, poll: &Poll) -> Option<Offset> {
    poll.consumer
        .and_then(|consumer| partition.stored_offset(consumer))
}

pub(super) fn is_reached(partition: &Partition, level: Level) -> bool {
    partition.visible_end() >= level.end || partition.visible_bytes() >= level.bytes
}
