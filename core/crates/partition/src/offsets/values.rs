//! Stored offsets in memory, with their owners.

use alloc::collections::BTreeMap;

use headrace_model::{Offset, UserId};

use crate::api::{Committer, ConsumerKey, PartitionError};

/// A stored offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) offset: u64,
    /// User whom it belongs to; `None` for groups, and for consumers of which no user is known.
    pub(super) owner: Option<UserId>,
}

/// Stored offsets of all consumers.
#[derive(Debug)]
pub(super) struct Values {
    by_consumer: BTreeMap<ConsumerKey, Stored>,
    /// Number of plain consumers among them.
    consumers_count: usize,
    /// Number of those that belong to each user.
    owned: BTreeMap<UserId, usize>,
    consumers_max: usize,
}

impl Values {
    pub(super) const fn new(consumers_max: usize) -> Self {
        Self {
            by_consumer: BTreeMap::new(),
            consumers_count: 0,
            owned: BTreeMap::new(),
            consumers_max,
        }
    }

    /// Stored offsets in the order of their consumers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ConsumerKey, Stored)> {
        self.by_consumer
            .iter()
            .map(|(consumer, stored)| (*consumer, *stored))
    }

    pub(super) fn len(&self) -> usize {
        self.by_consumer.len()
    }

    /// Number of plain consumers that belong to a user.
    pub(super) fn owned_count(&self) -> usize {
        self.owned.values().sum()
    }

    pub(super) fn owner(&self, consumer: ConsumerKey) -> Option<UserId> {
        self.by_consumer
            .get(&consumer)
            .and_then(|stored| stored.owner)
    }

    pub(super) fn get(&self, consumer: ConsumerKey) -> Option<Offset> {
        (self.by_consumer.get(&consumer)).map(|stored| Offset(stored.offset))
    }

    /// Check whether the offset of this consumer may be changed by this user: it has no owner, is his own, or he manages the
    /// topic.
    pub(super) fn check_owner(
        &self,
        consumer: ConsumerKey,
        by: Option<Committer>,
    ) -> Result<(), PartitionError> {
        let owner = self
            .by_consumer
            .get(&consumer)
            .and_then(|stored| stored.owner);
        match (owner, by) {
            (Some(owner), Some(by)) if owner != by.user && !by.manages => {
                Err(PartitionError::OffsetOfAnotherUser)
            }
            _ => Ok(()),
        }
    }

    /// Check whether an offset of this consumer can be stored by this user. Clients may name any number of consumers,
    /// which are therefore bounded, and each user has half of what others leave, or one; groups are bounded by the
    /// catalog.
    pub(super) fn check_store(
        &self,
        consumer: ConsumerKey,
        by: Option<Committer>,
    ) -> Result<(), PartitionError> {
        if matches!(consumer, ConsumerKey::Group(_)) || self.by_consumer.contains_key(&consumer) {
            return self.check_owner(consumer, by);
        }
        let held = by.map_or(0, |by| self.owned.get(&by.user).copied().unwrap_or(0));
        let left = self
            .consumers_max
            .saturating_sub(self.consumers_count - held);
        let is_within_share = held == 0 || held < left / 2;
        if self.consumers_count < self.consumers_max && is_within_share {
            Ok(())
        } else {
            Err(PartitionError::TooManyConsumers)
        }
    }

    /// Groups that have a stored offset, ascending.
    pub(super) fn groups(&self) -> impl Iterator<Item = u32> {
        let groups = self.by_consumer.range(ConsumerKey::Group(0)..);
        groups.filter_map(|(consumer, _)| match consumer {
            ConsumerKey::Group(key) => Some(*key),
            ConsumerKey::Consumer(_) => None,
        })
    }

    /// Smallest stored offset: messages after it are still needed.
    pub(super) fn smallest(&self) -> Option<Offset> {
        let offsets = self.by_consumer.values().map(|stored| stored.offset);
        offsets.min().map(Offset)
    }

    /// Lower all offsets to this one.
    pub(super) fn lower_to(&mut self, last: u64) {
        let values = self.by_consumer.values_mut();
        values.for_each(|stored| stored.offset = last.min(stored.offset));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.consumers_max);
    }

    /// Approximate memory in bytes: the nodes of the maps are at least half full.
    pub(super) fn memory_bytes(&self) -> usize {
        let value = 2 * size_of::<(ConsumerKey, Stored)>();
        let owner = 2 * size_of::<(UserId, usize)>();
        self.by_consumer.len() * value + self.owned.len() * owner
    }

    pub(super) fn set(&mut self, consumer: ConsumerKey, stored: Option<Stored>) {
        let before = match stored {
            Some(stored) => self.by_consumer.insert(consumer, stored),
            None => self.by_consumer.remove(&consumer),
        };
        if matches!(consumer, ConsumerKey::Consumer(_)) {
            self.consumers_count += usize::from(before.is_none() && stored.is_some());
            self.consumers_count -= usize::from(before.is_some() && stored.is_none());
        }
        let owner = |stored: Option<Stored>| stored.and_then(|stored| stored.owner);
        let (before, owner) = (owner(before), owner(stored));
        if before == owner {
            return;
        }
        if let Some(user) = owner {
            *self.owned.entry(user).or_default() += 1;
        }
        if let Some(user) = before
            && let Some(count) = self.owned.get_mut(&user)
        {
            *count -= 1;
            if *count == 0 {
                self.owned.remove(&user);
            }
        }
    }
}
