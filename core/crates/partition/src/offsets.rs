//! Stored offsets of consumers and groups, in memory and in one append-only file (LOG-10).

mod attempts;
mod opening;
mod progress;
mod storing;
mod values;

use alloc::collections::BTreeMap;

use headrace_log::Operations;
use headrace_log::storage::StorageError;
use headrace_model::{Offset, Timestamp, UserId};

use self::attempts::Attempts;
use self::progress::Progress;
use self::values::{Stored, Values};
use crate::api::{Committer, ConsumerKey, PartitionError};

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
    values: Values,
    /// Owners read from the file whose offsets are to follow.
    named: BTreeMap<ConsumerKey, UserId>,
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
    attempts: Attempts,
    progress: Progress,
    operations: Operations<Purpose>,
}

impl StoredOffsets {
    pub(crate) fn new(consumers_max: usize) -> Self {
        Self {
            tag: 0,
            values: Values::new(consumers_max),
            named: BTreeMap::new(),
            loading: Loading::NotStarted,
            file: File::Missing,
            length: 0,
            damaged: 0,
            highest: None,
            queue: BTreeMap::new(),
            is_owed: false,
            is_wrong: false,
            attempts: Attempts::new(),
            progress: Progress::default(),
            operations: Operations::new(ID_BIT),
        }
    }

    /// Return whether an operation is one of this file.
    pub(crate) const fn owns(id: u64) -> bool {
        id & ID_BIT != 0
    }

    pub(crate) fn get(&self, consumer: ConsumerKey) -> Option<Offset> {
        self.values.get(consumer)
    }

    /// Check whether the offset of this consumer may be changed by this user.
    pub(crate) fn check_owner(
        &self,
        consumer: ConsumerKey,
        by: Option<Committer>,
    ) -> Result<(), PartitionError> {
        self.values.check_owner(consumer, by)
    }

    /// Check whether an offset of this consumer can be stored by this user.
    pub(crate) fn check_store(
        &self,
        consumer: ConsumerKey,
        by: Option<Committer>,
    ) -> Result<(), PartitionError> {
        self.values.check_store(consumer, by)
    }

    /// Groups that have a stored offset, ascending.
    pub(crate) fn groups(&self) -> impl Iterator<Item = u32> {
        self.values.groups()
    }

    /// Smallest stored offset: messages after it are still needed.
    pub(crate) fn smallest(&self) -> Option<Offset> {
        self.values.smallest()
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
        let before = self.values.owner(consumer);
        let is_plain = matches!(consumer, ConsumerKey::Consumer(_));
        let owner = before.or(by.map(|by| by.user).filter(|_| is_plain));
        self.values
            .set(consumer, offset.map(|offset| Stored { offset, owner }));
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
        self.progress.next()
    }

    /// Approximate memory in bytes: the nodes of the maps are at least half full.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let change = 2 * size_of::<(ConsumerKey, Change)>();
        (self.values.memory_bytes() + self.queue.len() * change) as u64
    }

    /// Number of the last change.
    pub(crate) const fn version(&self) -> u64 {
        self.progress.changes
    }

    pub(crate) fn is_written(&self, change: u64) -> bool {
        self.progress.written >= change
    }

    pub(crate) fn is_synced(&self, change: u64) -> bool {
        self.progress.synced >= change
    }

    /// Request a sync of this change.
    pub(crate) fn sync(&mut self, change: u64) {
        self.progress.sync(change);
    }

    /// Sync changes whose responses do not wait for a sync.
    pub(crate) fn sync_in_background(&mut self, now: Timestamp, interval_micros: u64) {
        self.progress.sync_in_background(now, interval_micros);
    }

    /// Reason why changes cannot be stored at present.
    pub(crate) fn failure(&self) -> Option<StorageError> {
        self.attempts.failure()
    }

    /// Reason why messages must not be appended: the file names offsets that they would get.
    pub(crate) fn withholds_messages(&self) -> Option<StorageError> {
        self.failure().filter(|_| self.is_wrong)
    }

    /// Make one more attempt at most, which begins without delay.
    pub(crate) fn close(&mut self) {
        self.progress.sync_all();
        self.attempts.close();
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
        let is_stored = self.queue.is_empty() && self.progress.synced >= self.progress.sync_target;
        self.is_drained() && (is_stored || self.attempts.is_given_up())
    }

    /// Reset the state when the log begins a new generation or opens again. The log removes the file together with its
    /// own.
    pub(crate) fn reset(&mut self, is_loaded: bool) {
        self.operations.replace_purposes(|| Purpose::Ignored);
        self.values.clear();
        self.named.clear();
        self.queue.clear();
        self.file = File::Missing;
        self.length = 0;
        self.damaged = 0;
        self.is_owed = false;
        self.is_wrong = false;
        self.attempts.recovered();
        self.highest = None;
        self.progress.reset();
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
}

#[cfg(test)]
mod tests;
