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

/// Operations of this file are told from those of the log by this bit of their id.
const ID_BIT: u64 = 1 << 63;
/// Bytes of the file that are read at once: whole records.
const READ_BYTES: u64 = 32 * 1024 * RECORD_BYTES as u64;
/// A longer file is not read at all: with a million consumers it has less than a fifth of this, as it is rewritten before
/// that.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The file is rewritten when it is longer than this ...
const COMPACT_FROM_BYTES: u64 = 64 * 1024;
/// ... and longer than this many times what it has to hold.
const COMPACT_RATIO: u64 = 8;

/// How far reading the file at the start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loading {
    /// It is not known yet whether there is one.
    NotStarted,
    /// It is being read.
    Reading,
    /// What it held is in memory.
    Loaded,
    /// What was wrong with it is being put right.
    Correcting,
    /// Done.
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
    /// Changes up to this one, and that many bytes.
    Write {
        changes: u64,
        bytes: u64,
    },
    /// All changes up to this one, as the whole file.
    Replace {
        changes: u64,
        bytes: u64,
    },
    Sync {
        changes: u64,
    },
    /// Its outcome makes no difference.
    Disowned,
}

/// Stored offsets.
///
/// Changes are numbered; those that come while a write is under way go out together in the next one.
#[derive(Debug)]
pub(crate) struct StoredOffsets {
    tag: u64,
    values: BTreeMap<ConsumerKey, u64>,
    /// How many of them are of plain consumers.
    consumers_count: usize,
    consumers_max: usize,
    loading: Loading,
    file: File,
    /// Bytes of the file.
    length: u64,
    /// Records of the file that are not valid, the rest behind the last whole one among them.
    damaged: u64,
    /// The largest offset in any record of the file, also in one that a later record replaced.
    highest: Option<u64>,
    /// The newest change of each consumer that no write has taken yet: a partition that cannot write any more keeps one per
    /// consumer, however many come.
    queue: BTreeMap<ConsumerKey, Option<u64>>,
    /// There was no space for something that is not in the queue any more: the whole file is to be written.
    is_owed: bool,
    changes: u64,
    written: u64,
    synced: u64,
    /// Changes up to this one are to be synced.
    sync_target: u64,
    /// When all that is written by then is to be synced, though no answer waits for it.
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

    /// Whether an operation is one of this file.
    pub(crate) const fn owns(id: u64) -> bool {
        id & ID_BIT != 0
    }

    pub(crate) fn get(&self, consumer: ConsumerKey) -> Option<Offset> {
        self.values.get(&consumer).copied().map(Offset)
    }

    /// Whether an offset of this consumer can be stored. Anybody may name consumers, as many as they like; groups are in the
    /// catalogue.
    pub(crate) fn has_room_for(&self, consumer: ConsumerKey) -> bool {
        self.consumers_count < self.consumers_max
            || matches!(consumer, ConsumerKey::Group(_))
            || self.values.contains_key(&consumer)
    }

    /// The groups that have a stored offset, ascending.
    pub(crate) fn groups(&self) -> impl Iterator<Item = u32> {
        let groups = self.values.range(ConsumerKey::Group(0)..);
        groups.filter_map(|(consumer, _)| match consumer {
            ConsumerKey::Group(key) => Some(*key),
            ConsumerKey::Consumer(_) => None,
        })
    }

    /// The smallest stored offset: messages after it are still needed.
    pub(crate) fn smallest(&self) -> Option<Offset> {
        self.values.values().min().copied().map(Offset)
    }

    /// Change a stored offset; the number is for [`Self::is_written`] and [`Self::is_synced`].
    pub(crate) fn change(&mut self, consumer: ConsumerKey, offset: Option<Offset>) -> u64 {
        let offset = offset.map(|offset| offset.0);
        self.set(consumer, offset);
        self.queue.insert(consumer, offset);
        self.changes += 1;
        self.changes
    }

    /// Bytes of what is known of consumers, about: the nodes of the maps are filled by half at least.
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

    /// Bytes beyond which changes one after the other are too long for what they come to.
    fn compact_beyond(&self) -> u64 {
        let records = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
        (records + 1) * RECORD_BYTES as u64 * COMPACT_RATIO
    }

    /// The number of the last change.
    pub(crate) const fn version(&self) -> u64 {
        self.changes
    }

    pub(crate) fn is_written(&self, change: u64) -> bool {
        self.written >= change
    }

    pub(crate) fn is_synced(&self, change: u64) -> bool {
        self.synced >= change
    }

    /// Have this change synced.
    pub(crate) fn sync(&mut self, change: u64) {
        self.sync_target = self.sync_target.max(change);
    }

    /// Have all changes synced.
    pub(crate) fn sync_all(&mut self) {
        self.sync(self.changes);
    }

    /// Sync in the background what no answer waits for: it bounds how far offsets go back at a loss of power. An
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

    /// Whether the whole file is to be written, because some changes were not.
    pub(crate) const fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Whether no operation is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether everything is as durable as was asked for.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_drained() && self.queue.is_empty() && self.synced >= self.sync_target
    }

    /// Forget everything: the log starts a new life, or starts to open again. The file goes with the log's others.
    pub(crate) fn reset(&mut self, is_loaded: bool) {
        self.operations.disown(|| Purpose::Disowned);
        self.forget_values();
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

    /// Records from now on belong to this life of the partition.
    pub(crate) fn set_tag(&mut self, tag: u64) {
        self.tag = tag;
    }

    fn forget_values(&mut self) {
        self.values.clear();
        self.consumers_count = 0;
    }

    /// Read the file, once it is known how long it is. An error says why it is not read.
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

    /// Read the next part of the file.
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

    /// Records of the file that were found damaged.
    pub(crate) const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Whether the file's content is in memory.
    pub(crate) fn is_loaded(&self) -> bool {
        !matches!(self.loading, Loading::NotStarted | Loading::Reading)
    }

    /// The log is open: lower what is beyond its last message, and put the file right where it is not. Complete when
    /// this returns true; call again after operations ended.
    ///
    /// The corrected file has to be there before new messages are: otherwise the old offsets would seem right again
    /// after the next start, and messages nobody saw would be skipped (LOG-15).
    pub(crate) fn correct(&mut self, end: Offset, out: &mut Vec<StorageRequest>) -> bool {
        match self.loading {
            Loading::Complete => return true,
            Loading::Loaded => {}
            Loading::NotStarted | Loading::Reading | Loading::Correcting => return false,
        }
        let last = end.0.checked_sub(1);
        // A record of a message that is gone has to go even if a later one replaced it: a loss of power may take the
        // later one, at a time when another message has that offset.
        if self.damaged > 0 || self.highest > last {
            match last {
                Some(last) => {
                    let values = self.values.values_mut();
                    values.for_each(|offset| *offset = last.min(*offset));
                }
                None => self.forget_values(),
            }
            self.loading = Loading::Correcting;
            self.replace(out);
            return false;
        }
        self.loading = Loading::Complete;
        true
    }

    /// Start whatever is due: at most one operation that changes the file, and one sync, at a time. A file is neither
    /// replaced nor created while it is synced.
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

    /// Request again what could not be done for want of memory or handles, when that is due.
    pub(crate) fn repeat(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.operations.repeat(now, out);
    }

    /// Do not wait for memory or handles any more.
    pub(crate) fn give_up_waiting(&mut self) {
        self.operations.give_up_waiting();
    }

    /// When [`repeat`](Self::repeat) or [`sync_in_background`](Self::sync_in_background) is wanted.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        [self.operations.deadline(), self.sync_deadline]
            .into_iter()
            .flatten()
            .min()
    }

    /// An operation of this file ended. An error means that offsets can no longer be stored; or, when it comes with true
    /// and says that there is no space, that [`start`](Self::start) shall be called again when there is.
    pub(crate) fn complete(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Vec<StorageRequest>,
    ) -> Result<(), (StorageError, bool)> {
        let Some((purpose, result)) = self.operations.end(now, completion) else {
            return Ok(());
        };
        if purpose == Purpose::Disowned {
            return Ok(());
        }
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                let is_change = matches!(purpose, Purpose::Write { .. } | Purpose::Replace { .. });
                self.is_owed |= is_change;
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
                // Nobody knows whether what was found is on the device: it counts as a change that is not synced.
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
            Purpose::Disowned => {}
        }
        Ok(())
    }

    /// Records that are damaged are passed over: the consumer gets an earlier offset, or none.
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
