//! Stored offsets of consumers and groups, in memory and in one append-only file (LOG-10).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_log::storage::{
    FileName, StorageCompletion, StorageError, StorageOperation, StorageOutcome, StorageRequest,
};
use headrace_model::Offset;

use crate::api::ConsumerKey;
use crate::record::{RECORD_BYTES, Record};

/// Operations of this file are told from those of the log by this bit of their id.
const ID_BIT: u64 = 1 << 63;
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
enum Operation {
    Read,
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
    loading: Loading,
    file: File,
    /// Bytes of the file.
    length: u64,
    /// The file holds more than whole valid records.
    is_damaged: bool,
    queue: Vec<u8>,
    changes: u64,
    written: u64,
    synced: u64,
    /// Changes up to this one are to be synced.
    sync_target: u64,
    next_id: u64,
    in_flight: Vec<(u64, Operation)>,
}

impl StoredOffsets {
    pub(crate) const fn new() -> Self {
        Self {
            tag: 0,
            values: BTreeMap::new(),
            loading: Loading::NotStarted,
            file: File::Missing,
            length: 0,
            is_damaged: false,
            queue: Vec::new(),
            changes: 0,
            written: 0,
            synced: 0,
            sync_target: 0,
            next_id: ID_BIT,
            in_flight: Vec::new(),
        }
    }

    /// Whether an operation is one of this file.
    pub(crate) const fn owns(id: u64) -> bool {
        id & ID_BIT != 0
    }

    pub(crate) fn get(&self, consumer: ConsumerKey) -> Option<Offset> {
        self.values.get(&consumer).copied().map(Offset)
    }

    /// The smallest stored offset: messages after it are still needed.
    pub(crate) fn smallest(&self) -> Option<Offset> {
        self.values.values().min().copied().map(Offset)
    }

    /// Change a stored offset; the number is for [`Self::is_written`] and [`Self::is_synced`].
    pub(crate) fn change(&mut self, consumer: ConsumerKey, offset: Option<Offset>) -> u64 {
        let offset = offset.map(|offset| offset.0);
        match offset {
            Some(offset) => drop(self.values.insert(consumer, offset)),
            None => drop(self.values.remove(&consumer)),
        }
        Record { consumer, offset }.encode(self.tag, &mut self.queue);
        self.changes += 1;
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

    /// Whether no operation is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether everything is as durable as was asked for.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_drained() && self.queue.is_empty() && self.synced >= self.sync_target
    }

    /// Forget everything: the log starts a new life, or starts to open again. The file goes with the log's others.
    pub(crate) fn reset(&mut self, is_loaded: bool) {
        for (_, operation) in &mut self.in_flight {
            *operation = Operation::Disowned;
        }
        self.values.clear();
        self.queue = Vec::new();
        self.file = File::Missing;
        self.length = 0;
        self.is_damaged = false;
        self.written = self.changes;
        self.synced = self.changes;
        self.sync_target = self.changes;
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

    /// Read the file, once it is known how long it is.
    pub(crate) fn load(&mut self, file_bytes: u64, out: &mut Vec<StorageRequest>) {
        if self.loading != Loading::NotStarted {
            return;
        }
        let Ok(length) = u32::try_from(file_bytes) else {
            // It is compacted long before: this is not a file of ours.
            self.is_damaged = true;
            self.loading = Loading::Loaded;
            return;
        };
        if length == 0 {
            self.loading = Loading::Loaded;
            return;
        }
        self.file = File::Ready;
        self.length = file_bytes;
        self.loading = Loading::Reading;
        let operation = StorageOperation::Read {
            file: FileName::Offsets,
            position: 0,
            length,
        };
        self.issue(Operation::Read, operation, out);
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
        let mut is_wrong = self.is_damaged;
        if let Some(last) = end.0.checked_sub(1) {
            for offset in self.values.values_mut().filter(|offset| **offset > last) {
                *offset = last;
                is_wrong = true;
            }
        } else {
            is_wrong |= !self.values.is_empty();
            self.values.clear();
        }
        if is_wrong {
            self.loading = Loading::Correcting;
            self.replace(out);
            return false;
        }
        self.loading = Loading::Complete;
        true
    }

    /// Start whatever is due: at most one operation that changes the file, and one sync, at a time.
    pub(crate) fn start(&mut self, out: &mut Vec<StorageRequest>) {
        let is_changing = self
            .in_flight
            .iter()
            .any(|(_, operation)| !matches!(operation, Operation::Sync { .. }));
        if !self.queue.is_empty() && !is_changing {
            let records = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
            let needed = (records + 1) * RECORD_BYTES as u64 * COMPACT_RATIO;
            if self.file == File::Missing {
                let operation = StorageOperation::Create {
                    file: FileName::Offsets,
                };
                self.issue(Operation::Create, operation, out);
            } else if self.length > COMPACT_FROM_BYTES.max(needed) {
                self.replace(out);
            } else {
                self.write(out);
            }
        }
        let is_syncing = self
            .in_flight
            .iter()
            .any(|(_, operation)| matches!(operation, Operation::Sync { .. }));
        if self.sync_target > self.synced && self.written > self.synced && !is_syncing {
            let sync = Operation::Sync {
                changes: self.written,
            };
            let operation = StorageOperation::Sync {
                file: FileName::Offsets,
            };
            self.issue(sync, operation, out);
        }
    }

    fn write(&mut self, out: &mut Vec<StorageRequest>) {
        let records = core::mem::take(&mut self.queue);
        let write = Operation::Write {
            changes: self.changes,
            bytes: records.len() as u64,
        };
        let operation = StorageOperation::Write {
            file: FileName::Offsets,
            position: self.length,
            slices: vec![Slice::from_vec(records)],
        };
        self.issue(write, operation, out);
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
        let replace = Operation::Replace {
            changes: self.changes,
            bytes: contents.len() as u64,
        };
        let operation = StorageOperation::Replace {
            file: FileName::Offsets,
            contents,
        };
        self.issue(replace, operation, out);
    }

    fn issue(
        &mut self,
        own: Operation,
        operation: StorageOperation,
        out: &mut Vec<StorageRequest>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight.push((id, own));
        out.push(StorageRequest { id, operation });
    }

    /// An operation of this file ended. An error means that offsets can no longer be stored.
    pub(crate) fn complete(&mut self, completion: StorageCompletion) -> Result<(), StorageError> {
        let StorageCompletion { id, result } = completion;
        let index = self.in_flight.iter().position(|(known, _)| *known == id);
        let (_, operation) = self
            .in_flight
            .swap_remove(index.expect("the host completes each operation once"));
        if operation == Operation::Disowned {
            return Ok(());
        }
        let outcome = result?;
        match operation {
            Operation::Read => {
                if let StorageOutcome::Read(bytes) = outcome {
                    self.take_records(&bytes);
                }
                self.loading = Loading::Loaded;
                // Nobody knows whether what was found is on the device: it counts as a change that is not synced.
                self.changes += 1;
                self.written = self.changes;
            }
            Operation::Create => {
                self.file = File::Ready;
                self.length = 0;
            }
            Operation::Write { changes, bytes } => {
                self.length += bytes;
                self.written = self.written.max(changes);
            }
            Operation::Replace { changes, bytes } => {
                self.file = File::Ready;
                self.length = bytes;
                self.written = self.written.max(changes);
                self.synced = self.synced.max(changes);
                if self.loading == Loading::Correcting {
                    self.loading = Loading::Complete;
                }
            }
            Operation::Sync { changes } => self.synced = self.synced.max(changes),
            Operation::Disowned => {}
        }
        Ok(())
    }

    /// Records that are damaged are passed over: the consumer gets an earlier offset, or none.
    fn take_records(&mut self, bytes: &[u8]) {
        let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
        self.is_damaged = !rest.is_empty();
        for bytes in records {
            match Record::decode(bytes, self.tag) {
                Some(Record {
                    consumer,
                    offset: Some(offset),
                }) => drop(self.values.insert(consumer, offset)),
                Some(Record { consumer, .. }) => drop(self.values.remove(&consumer)),
                None => self.is_damaged = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use headrace_buffer::Buffer;

    use super::*;

    const ALICE: ConsumerKey = ConsumerKey::Consumer(1);
    const GROUP: ConsumerKey = ConsumerKey::Group(1);

    /// Executes what is asked for on these bytes, one request after the other.
    fn settle(
        offsets: &mut StoredOffsets,
        out: &mut Vec<StorageRequest>,
        file: &mut Vec<u8>,
    ) -> usize {
        let mut executed = 0;
        while let Some(StorageRequest { id, operation }) = out.pop() {
            executed += 1;
            let outcome = match operation {
                StorageOperation::Create { .. } => {
                    file.clear();
                    StorageOutcome::Done
                }
                StorageOperation::Write {
                    position, slices, ..
                } => {
                    assert_eq!(position, file.len() as u64);
                    file.extend(slices.iter().flat_map(|slice| slice.iter().copied()));
                    StorageOutcome::Done
                }
                StorageOperation::Replace { contents, .. } => {
                    *file = contents;
                    StorageOutcome::Done
                }
                StorageOperation::Read { .. } => StorageOutcome::Read(Buffer::unpooled(&file[..])),
                _ => StorageOutcome::Done,
            };
            let completion = StorageCompletion {
                id,
                result: Ok(outcome),
            };
            offsets.complete(completion).expect("success");
            offsets.start(out);
        }
        executed
    }

    fn reopened(file: &mut Vec<u8>, end: u64) -> StoredOffsets {
        let mut offsets = StoredOffsets::new();
        let mut out = Vec::new();
        offsets.load(file.len() as u64, &mut out);
        settle(&mut offsets, &mut out, file);
        if !offsets.correct(Offset(end), &mut out) {
            settle(&mut offsets, &mut out, file);
            assert!(offsets.correct(Offset(end), &mut out));
        }
        offsets
    }

    /// LOG-10: stored, deleted, found again.
    #[test]
    fn changes_survive_a_restart() {
        let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
        offsets.load(0, &mut out);
        assert!(offsets.correct(Offset(100), &mut out));
        offsets.change(ALICE, Some(Offset(5)));
        offsets.change(GROUP, Some(Offset(7)));
        let last = offsets.change(ALICE, None);
        offsets.start(&mut out);
        assert!(!offsets.is_written(last));
        let executed = settle(&mut offsets, &mut out, &mut file);
        assert_eq!(executed, 2, "created, then all changes in one write");
        assert!(offsets.is_written(last));
        let offsets = reopened(&mut file, 100);
        assert_eq!(
            (offsets.get(ALICE), offsets.get(GROUP)),
            (None, Some(Offset(7)))
        );
    }

    /// LOG-15: an offset beyond the last message is lowered, and stays lowered.
    #[test]
    fn offsets_beyond_the_log_are_lowered_for_good() {
        let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
        offsets.change(ALICE, Some(Offset(99)));
        offsets.start(&mut out);
        settle(&mut offsets, &mut out, &mut file);
        assert_eq!(reopened(&mut file, 50).get(ALICE), Some(Offset(49)));
        assert_eq!(reopened(&mut file, 200).get(ALICE), Some(Offset(49)));
        assert_eq!(reopened(&mut file, 0).get(ALICE), None);
        assert_eq!(reopened(&mut file, 200).get(ALICE), None);
    }

    /// LOG-14: damage costs the records it hits, and nothing is appended behind it.
    #[test]
    fn damaged_records_are_passed_over_and_cleaned_up() {
        let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
        offsets.change(ALICE, Some(Offset(5)));
        offsets.change(GROUP, Some(Offset(6)));
        offsets.change(ALICE, Some(Offset(7)));
        offsets.start(&mut out);
        settle(&mut offsets, &mut out, &mut file);
        file[2 * RECORD_BYTES] ^= 1;
        file.extend_from_slice(b"torn");
        let offsets = reopened(&mut file, 100);
        assert_eq!(
            (offsets.get(ALICE), offsets.get(GROUP)),
            (Some(Offset(5)), Some(Offset(6)))
        );
        assert_eq!(file.len(), 2 * RECORD_BYTES);
    }

    #[test]
    fn a_long_file_is_rewritten() {
        let (mut offsets, mut out, mut file) = (StoredOffsets::new(), Vec::new(), Vec::new());
        let mut longest = 0;
        for offset in 0..10_000 {
            offsets.change(ALICE, Some(Offset(offset)));
            offsets.start(&mut out);
            settle(&mut offsets, &mut out, &mut file);
            longest = longest.max(file.len());
        }
        assert!(longest < 70_000, "{longest}");
        assert_eq!(reopened(&mut file, 10_000).get(ALICE), Some(Offset(9_999)));
    }

    /// Group commit: one write under way, the rest waits for it and goes out together.
    #[test]
    fn changes_during_a_write_share_the_next_one() {
        let (mut offsets, mut out) = (StoredOffsets::new(), Vec::new());
        offsets.load(0, &mut out);
        offsets.change(ALICE, Some(Offset(1)));
        offsets.start(&mut out);
        for offset in 2..10 {
            offsets.change(ALICE, Some(Offset(offset)));
            offsets.start(&mut out);
        }
        assert_eq!(out.len(), 1);
        assert_eq!(settle(&mut offsets, &mut out, &mut Vec::new()), 2);
    }
}
