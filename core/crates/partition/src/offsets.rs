//! Stored offsets of consumers and groups, in memory and in one append-only file (LOG-10).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_log::Operations;
use headrace_log::storage::{
    FileName, StorageCompletion, StorageError, StorageOperation, StorageOutcome, StorageRequest,
};
use headrace_model::{Offset, Timestamp};

use crate::api::ConsumerKey;
use crate::record::{RECORD_BYTES, Record};

/// Id bit that distinguishes operations of this file from those of the log.
const ID_BIT: u64 = 1 << 63;
/// Number of bytes of the file that are read at once: whole records.
const READ_BYTES: u64 = 32 * 1024 * RECORD_BYTES as u64;
/// Maximum size of a file that is read. The file is compacted long before: with a million consumers it has less than a
/// fifth of this size.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Minimum size of a file that is compacted.
const COMPACT_FROM_BYTES: u64 = 64 * 1024;
/// Ratio of file size to live records above which the file is compacted.
const COMPACT_RATIO: u64 = 8;

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

/// Stored offsets.
///
/// Changes are numbered. Changes made while a write is under way are combined in the next one.
#[derive(Debug)]
pub(crate) struct StoredOffsets {
    tag: u64,
    values: BTreeMap<ConsumerKey, u64>,
    /// Number of plain consumers among `values`.
    consumers_count: usize,
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
    queue: BTreeMap<ConsumerKey, Option<u64>>,
    /// True if a write failed whose changes are not in the queue any more: the whole file has to be written.
    is_owed: bool,
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
            consumers_max,
            loading: Loading::NotStarted,
            file: File::Missing,
            length: 0,
            damaged: 0,
            highest: None,
            queue: BTreeMap::new(),
            is_owed: false,
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
        self.values.get(&consumer).copied().map(Offset)
    }

    /// Return whether an offset of this consumer can be stored. Clients may name any number of consumers, which are
    /// therefore bounded; groups are bounded by the catalog.
    pub(crate) fn has_room_for(&self, consumer: ConsumerKey) -> bool {
        self.consumers_count < self.consumers_max
            || matches!(consumer, ConsumerKey::Group(_))
            || self.values.contains_key(&consumer)
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
        self.values.values().min().copied().map(Offset)
    }

    /// Change a stored offset. Returns the number of the change, for [`Self::is_written`] and [`Self::is_synced`].
    pub(crate) fn change(&mut self, consumer: ConsumerKey, offset: Option<Offset>) -> u64 {
        let offset = offset.map(|offset| offset.0);
        self.set(consumer, offset);
        self.queue.insert(consumer, offset);
        self.changes += 1;
        self.changes
    }

    /// Approximate memory in bytes: the nodes of the maps are at least half full.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let value = 2 * size_of::<(ConsumerKey, u64)>();
        let change = 2 * size_of::<(ConsumerKey, Option<u64>)>();
        (self.values.len() * value + self.queue.len() * change) as u64
    }

    fn set(&mut self, consumer: ConsumerKey, offset: Option<u64>) {
        let before = match offset {
            Some(offset) => self.values.insert(consumer, offset),
            None => self.values.remove(&consumer),
        };
        if matches!(consumer, ConsumerKey::Consumer(_)) {
            self.consumers_count += usize::from(before.is_none() && offset.is_some());
            self.consumers_count -= usize::from(before.is_some() && offset.is_none());
        }
    }

    /// File size beyond which superseded records take too much of it.
    fn compact_beyond(&self) -> u64 {
        let records = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
        (records + 1) * RECORD_BYTES as u64 * COMPACT_RATIO
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

    /// Return whether all changes are as durable as requested.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_drained() && self.queue.is_empty() && self.synced >= self.sync_target
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
        self.consumers_count = 0;
    }

    /// Read the file of this size. Returns the reason if it is too large to be read.
    pub(crate) fn load(
        &mut self,
        file_bytes: u64,
        out: &mut Vec<StorageRequest>,
    ) -> Result<(), String> {
        if self.loading != Loading::NotStarted {
            return Ok(());
        }
        if file_bytes > FILE_BYTES_MAX {
            let file = FileName::Offsets;
            return Err(format!(
                "{file} has {file_bytes} B, and stored offsets never take more than {FILE_BYTES_MAX} B: move it away to \
                 go on without them, or put the right one in its place"
            ));
        }
        if file_bytes == 0 {
            self.loading = Loading::Loaded;
            return Ok(());
        }
        self.file = File::Ready;
        self.length = file_bytes;
        self.loading = Loading::Reading;
        self.read(0, out);
        Ok(())
    }

    /// Read the part of the file at `position`.
    fn read(&mut self, position: u64, out: &mut Vec<StorageRequest>) {
        let length = READ_BYTES.min(self.length - position);
        let length = u32::try_from(length).expect("a part of the file");
        let operation = StorageOperation::Read {
            file: FileName::Offsets,
            position,
            length,
        };
        let purpose = Purpose::Read { position, length };
        self.operations.start_repeated(purpose, operation, out);
    }

    /// Number of damaged records found in the file.
    pub(crate) const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Return whether the file's contents are in memory.
    pub(crate) fn is_loaded(&self) -> bool {
        !matches!(self.loading, Loading::NotStarted | Loading::Reading)
    }

    /// Lower offsets beyond the last message of the opened log, and replace a file that is wrong. Returns true when
    /// complete; call again after operations ended. If the file cannot be replaced, the offsets can be read all the
    /// same, and [`start`](Self::start) replaces it later.
    ///
    /// The corrected file has to be stored before new messages are. Otherwise the old offsets would seem valid after
    /// the next start, and messages that no consumer received would be skipped (LOG-15).
    pub(crate) fn correct(&mut self, end: Offset, out: &mut Vec<StorageRequest>) -> bool {
        match self.loading {
            Loading::Complete => return true,
            Loading::Loaded => {}
            Loading::NotStarted | Loading::Reading | Loading::Correcting => return false,
        }
        let last = end.0.checked_sub(1);
        // A record of a removed message has to be dropped even if a later record supersedes it: a loss of power may
        // lose the later one after another message got that offset.
        if self.damaged > 0 || self.highest > last {
            match last {
                Some(last) => {
                    let values = self.values.values_mut();
                    values.for_each(|offset| *offset = last.min(*offset));
                }
                None => self.clear_values(),
            }
            self.loading = Loading::Correcting;
            self.replace(out);
            return false;
        }
        self.loading = Loading::Complete;
        true
    }

    /// Start the operations that are due: at most one that changes the file, and one sync, at a time. The file is
    /// neither replaced nor created while it is being synced.
    pub(crate) fn start(&mut self, out: &mut Vec<StorageRequest>) {
        let is_syncing = self.is_under_way(|purpose| matches!(purpose, Purpose::Sync { .. }));
        if !self.is_under_way(|purpose| !matches!(purpose, Purpose::Sync { .. })) {
            self.start_change(is_syncing, out);
        }
        let is_renewed = self
            .is_under_way(|purpose| matches!(purpose, Purpose::Create | Purpose::Replace { .. }));
        let is_due = self.sync_target > self.synced && self.written > self.synced;
        if is_due && !is_syncing && !is_renewed {
            let sync = Purpose::Sync {
                changes: self.written,
            };
            let operation = StorageOperation::Sync {
                file: FileName::Offsets,
            };
            self.operations.start(sync, operation, out);
        }
    }

    fn start_change(&mut self, is_syncing: bool, out: &mut Vec<StorageRequest>) {
        if self.is_owed {
            if !is_syncing {
                self.replace(out);
            }
            return;
        }
        if self.queue.is_empty() {
            return;
        }
        if self.file == File::Missing {
            let operation = StorageOperation::Create {
                file: FileName::Offsets,
            };
            self.operations
                .start_repeated(Purpose::Create, operation, out);
        } else if !is_syncing && self.length > COMPACT_FROM_BYTES.max(self.compact_beyond()) {
            self.replace(out);
        } else {
            self.write(out);
        }
    }

    fn is_under_way(&self, is_meant: impl Fn(&Purpose) -> bool) -> bool {
        self.operations.purposes().any(is_meant)
    }

    fn write(&mut self, out: &mut Vec<StorageRequest>) {
        let mut records = Vec::with_capacity(self.queue.len() * RECORD_BYTES);
        for (consumer, offset) in core::mem::take(&mut self.queue) {
            Record { consumer, offset }.encode(self.tag, &mut records);
        }
        let write = Purpose::Write {
            changes: self.changes,
            bytes: records.len() as u64,
        };
        let operation = StorageOperation::Write {
            file: FileName::Offsets,
            position: self.length,
            slices: vec![Slice::from_vec(records)],
        };
        self.operations.start_repeated(write, operation, out);
    }

    fn replace(&mut self, out: &mut Vec<StorageRequest>) {
        let mut contents = Vec::with_capacity(self.values.len() * RECORD_BYTES);
        for (consumer, offset) in &self.values {
            let record = Record {
                consumer: *consumer,
                offset: Some(*offset),
            };
            record.encode(self.tag, &mut contents);
        }
        self.queue.clear();
        let replace = Purpose::Replace {
            changes: self.changes,
            bytes: contents.len() as u64,
        };
        let operation = StorageOperation::Replace {
            file: FileName::Offsets,
            contents,
        };
        self.operations.start_repeated(replace, operation, out);
    }

    /// Repeat operations that lacked memory or handles, if they are due.
    pub(crate) fn repeat(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.operations.repeat(now, out);
    }

    /// Drop operations that wait for memory or handles.
    pub(crate) fn drop_waiting(&mut self) {
        self.operations.drop_waiting();
    }

    /// Time of the next call of [`repeat`](Self::repeat) or [`sync_in_background`](Self::sync_in_background).
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        [self.operations.repeat_deadline(), self.sync_deadline]
            .into_iter()
            .flatten()
            .min()
    }

    /// End an operation of this file. On an error offsets can no longer be stored. If the error is a lack of space and
    /// comes with true, call [`start`](Self::start) again once there is space.
    pub(crate) fn complete(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Vec<StorageRequest>,
    ) -> Result<(), (StorageError, bool)> {
        let Some((purpose, result)) = self.operations.end(now, completion) else {
            return Ok(());
        };
        if purpose == Purpose::Ignored {
            return Ok(());
        }
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                let is_change = matches!(purpose, Purpose::Write { .. } | Purpose::Replace { .. });
                self.is_owed |= is_change;
                if self.loading == Loading::Correcting {
                    // The values in memory are correct, and the failure keeps new messages out until the file is.
                    self.loading = Loading::Complete;
                }
                return Err((error, is_change || purpose == Purpose::Create));
            }
        };
        match purpose {
            Purpose::Read { position, length } => {
                if let StorageOutcome::Read(bytes) = outcome {
                    self.take_records(&bytes);
                    let end = position + u64::from(length);
                    if bytes.len() == length as usize && end < self.length {
                        self.read(end, out);
                        return Ok(());
                    }
                }
                self.loading = Loading::Loaded;
                // The loaded records may not be on the device: they count as a change that is not synced.
                self.changes += 1;
                self.written = self.changes;
            }
            Purpose::Create => {
                self.file = File::Ready;
                self.length = 0;
            }
            Purpose::Write { changes, bytes } => {
                self.length += bytes;
                self.written = self.written.max(changes);
            }
            Purpose::Replace { changes, bytes } => {
                self.file = File::Ready;
                self.length = bytes;
                self.is_owed = false;
                self.written = self.written.max(changes);
                self.synced = self.synced.max(changes);
                if self.loading == Loading::Correcting {
                    self.loading = Loading::Complete;
                }
            }
            Purpose::Sync { changes } => self.synced = self.synced.max(changes),
            Purpose::Ignored => {}
        }
        Ok(())
    }

    /// Take the valid records. A damaged record is skipped: its consumer gets an earlier offset, or none.
    fn take_records(&mut self, bytes: &[u8]) {
        let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
        self.damaged += u64::from(!rest.is_empty());
        for bytes in records {
            match Record::decode(bytes, self.tag) {
                Some(Record {
                    consumer,
                    offset: Some(offset),
                }) => {
                    self.highest = self.highest.max(Some(offset));
                    self.set(consumer, Some(offset));
                }
                Some(Record { consumer, .. }) => self.set(consumer, None),
                None => self.damaged += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests;
