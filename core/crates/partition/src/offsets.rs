//! Stored offsets of consumers and groups, in memory and in one append-only file (LOG-10).

mod failure;
mod opening;
mod storing;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use headrace_log::Operations;
use headrace_model::{Offset, Timestamp, UserId};

use self::failure::Effort;
use crate::api::{Committer, ConsumerKey, PartitionError};
use crate::retry::FailingFile;

/// Id bit that distinguishes operations of this file from those of the log.
const ID_BIT: u64 = 1 << 63;

/// Progress of reading the file at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loading {
    /// The size of the file is not known yet.
    NotStarted,
    /// The file is being read.
    Reading,
    /// The contents are in memory.
    Loaded,
    /// The file is being replaced by a corrected one.
    Correcting,
    /// The file is correct; changes may be written.
    Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Missing,
    Ready,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read {
        position: u64,
        length: u32,
    },
    Create,
    /// Append all changes up to `changes`, of `bytes` bytes.
    Write {
        changes: u64,
        bytes: u64,
    },
    /// Replace the file by one with all changes up to `changes`.
    Replace {
        changes: u64,
        bytes: u64,
    },
    Sync {
        changes: u64,
    },
    /// The outcome makes no difference.
    Ignored,
}

/// A stored offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stored {
    offset: u64,
    /// User whom it belongs to; `None` for groups, and for consumers of which no user is known.
    owner: Option<UserId>,
}

/// Change of a stored offset that is not handed to a write yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    offset: Option<u64>,
    /// True if the file does not say whose the offset is now.
    names_owner: bool,
}

/// Stored offsets.
///
/// Changes are numbered. Changes made while a write is under way are combined in the next one.
#[derive(Debug)]
pub(crate) struct StoredOffsets {
    tag: u64,
    values: BTreeMap<ConsumerKey, Stored>,
    /// Number of plain consumers among `values`.
    consumers_count: usize,
    /// Number of those that belong to each user.
    owned: BTreeMap<UserId, usize>,
    /// Owners read from the file whose offsets are to follow.
    named: BTreeMap<ConsumerKey, UserId>,
    consumers_max: usize,
    loading: Loading,
    file: File,
    /// Size of the file in bytes.
    length: u64,
    /// Number of invalid records in the file, including a partial one at the end.
    damaged: u64,
    /// Largest offset in any record of the file, including superseded ones.
    highest: Option<u64>,
    /// Newest change of each consumer that is not handed to a write yet. The queue is bounded by the number of
    /// consumers, even if nothing can be written.
    queue: BTreeMap<ConsumerKey, Change>,
    /// True if a write failed whose changes are not in the queue any more: the whole file has to be written.
    is_owed: bool,
    /// True if the file names offsets beyond the last message, until it is replaced.
    is_wrong: bool,
    /// Present while the file cannot be written.
    failing: Option<Box<FailingFile>>,
    effort: Effort,
    changes: u64,
    written: u64,
    synced: u64,
    /// Number of the last change to be synced.
    sync_target: u64,
    /// Time of the next background sync, for changes whose responses do not wait for one.
    sync_deadline: Option<Timestamp>,
    operations: Operations<Purpose>,
}

impl StoredOffsets {
    pub(crate) const fn new(consumers_max: usize) -> Self {
        Self {
            tag: 0,
            values: BTreeMap::new(),
            consumers_count: 0,
            owned: BTreeMap::new(),
            named: BTreeMap::new(),
            consumers_max,
            loading: Loading::NotStarted,
            file: File::Missing,
            length: 0,
            damaged: 0,
            highest: None,
            queue: BTreeMap::new(),
            is_owed: false,
            is_wrong: false,
            failing: None,
            effort: Effort::Endless,
            changes: 0,
            written: 0,
            synced: 0,
            sync_target: 0,
            sync_deadline: None,
            operations: Operations::new(ID_BIT),
        }
    }

    /// Return whether an operation is one of this file.
    pub(crate) const fn owns(id: u64) -> bool {
        id & ID_BIT != 0
    }

    pub(crate) fn get(&self, consumer: ConsumerKey) -> Option<Offset> {
        (self.values.get(&consumer)).map(|stored| Offset(stored.offset))
    }

    /// Check whether the offset of this consumer may be changed by this user: it has no owner, is his own, or he manages the
    /// topic.
    pub(crate) fn check_owner(
        &self,
        consumer: ConsumerKey,
        by: Option<Committer>,
    ) -> Result<(), PartitionError> {
        let owner = self.values.get(&consumer).and_then(|stored| stored.owner);
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
    pub(crate) fn check_store(
        &self,
        consumer: ConsumerKey,
        by: Option<Committer>,
    ) -> Result<(), PartitionError> {
        if matches!(consumer, ConsumerKey::Group(_)) || self.values.contains_key(&consumer) {
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
    pub(crate) fn groups(&self) -> impl Iterator<Item = u32> {
        let groups = self.values.range(ConsumerKey::Group(0)..);
        groups.filter_map(|(consumer, _)| match consumer {
            ConsumerKey::Group(key) => Some(*key),
            ConsumerKey::Consumer(_) => None,
        })
    }

    /// Smallest stored offset: messages after it are still needed.
    pub(crate) fn smallest(&self) -> Option<Offset> {
        let offsets = self.values.values().map(|stored| stored.offset);
        offsets.min().map(Offset)
    }

    /// Change a stored offset. It belongs to the first user who stores it, until it is deleted. Returns the number of the
    /// change, for [`Self::is_written`] and [`Self::is_synced`].
    pub(crate) fn change(
        &mut self,
        consumer: ConsumerKey,
        offset: Option<Offset>,
        by: Option<Committer>,
    ) -> u64 {
        let offset = offset.map(|offset| offset.0);
        let before = self.values.get(&consumer).and_then(|stored| stored.owner);
        let is_plain = matches!(consumer, ConsumerKey::Consumer(_));
        let owner = before.or(by.map(|by| by.user).filter(|_| is_plain));
        self.set(consumer, offset.map(|offset| Stored { offset, owner }));
        // A deletion that is not written yet leaves the owner before it in the file.
        let unwritten = self.queue.get(&consumer);
        let is_unnamed =
            unwritten.is_some_and(|change| change.names_owner || change.offset.is_none());
        let names_owner = is_plain && offset.is_some() && (owner != before || is_unnamed);
        let change = Change {
            offset,
            names_owner,
        };
        self.queue.insert(consumer, change);
        self.changes += 1;
        self.changes
    }

    /// Approximate memory in bytes: the nodes of the maps are at least half full.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let value = 2 * size_of::<(ConsumerKey, Stored)>();
        let change = 2 * size_of::<(ConsumerKey, Change)>();
        let owner = 2 * size_of::<(UserId, usize)>();
        let maps = self.values.len() * value + self.queue.len() * change + self.owned.len() * owner;
        maps as u64
    }

    fn set(&mut self, consumer: ConsumerKey, stored: Option<Stored>) {
        let before = match stored {
            Some(stored) => self.values.insert(consumer, stored),
            None => self.values.remove(&consumer),
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

    /// Number of the last change.
    pub(crate) const fn version(&self) -> u64 {
        self.changes
    }

    pub(crate) fn is_written(&self, change: u64) -> bool {
        self.written >= change
    }

    pub(crate) fn is_synced(&self, change: u64) -> bool {
        self.synced >= change
    }

    /// Request a sync of this change.
    pub(crate) fn sync(&mut self, change: u64) {
        self.sync_target = self.sync_target.max(change);
    }

    /// Request a sync of all changes.
    pub(crate) fn sync_all(&mut self) {
        self.sync(self.changes);
    }

    /// Sync changes whose responses do not wait for a sync, to bound how far offsets fall back at a loss of power. An
    /// interval of zero leaves that to the kernel.
    pub(crate) fn sync_in_background(&mut self, now: Timestamp, interval_micros: u64) {
        if interval_micros == 0 || self.sync_target >= self.changes {
            self.sync_deadline = None;
        } else if self.sync_deadline.is_some_and(|deadline| deadline <= now) {
            self.sync_deadline = None;
            self.sync_all();
        } else if self.sync_deadline.is_none() {
            self.sync_deadline = Some(Timestamp(now.0 + interval_micros));
        }
    }

    /// Return whether the whole file has to be written, because a write failed.
    pub(crate) const fn needs_full_rewrite(&self) -> bool {
        self.is_owed
    }

    /// Return whether no operation is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.operations.is_empty()
    }

    /// Return whether all changes are as durable as requested, or cannot be.
    pub(crate) fn is_settled(&self) -> bool {
        let is_stored = self.queue.is_empty() && self.synced >= self.sync_target;
        self.is_drained() && (is_stored || self.is_given_up())
    }

    /// Reset the state when the log begins a new generation or opens again. The log removes the file together with its
    /// own.
    pub(crate) fn reset(&mut self, is_loaded: bool) {
        self.operations.replace_purposes(|| Purpose::Ignored);
        self.clear_values();
        self.queue.clear();
        self.file = File::Missing;
        self.length = 0;
        self.damaged = 0;
        self.is_owed = false;
        self.is_wrong = false;
        self.recovered();
        self.highest = None;
        self.written = self.changes;
        self.synced = self.changes;
        self.sync_target = self.changes;
        self.sync_deadline = None;
        self.loading = if is_loaded {
            Loading::Complete
        } else {
            Loading::NotStarted
        };
    }

    /// Set the checksum seed of the log generation for subsequent records.
    pub(crate) fn set_tag(&mut self, tag: u64) {
        self.tag = tag;
    }

    fn clear_values(&mut self) {
        self.values.clear();
        self.owned.clear();
        self.named.clear();
        self.consumers_count = 0;
    }
}

#[cfg(test)]
mod tests;
