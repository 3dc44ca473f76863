//! Writing changes to the file, one write at a time.

use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_log::storage::{
    FileName, StorageCompletion, StorageError, StorageErrorKind, StorageOperation, StorageOutcome,
    StorageRequest,
};
use headrace_model::Timestamp;

use super::{Change, File, Loading, Purpose, StoredOffsets};
use crate::record::{Content, RECORD_BYTES, Record};

/// Minimum size of a file that is compacted.
const COMPACT_FROM_BYTES: u64 = 64 * 1024;
/// Ratio of file size to live records above which the file is compacted.
const COMPACT_RATIO: u64 = 8;

impl StoredOffsets {
    /// Start the operations that are due: at most one that changes the file, and one sync, at a time. The file is
    /// neither replaced nor created while it is being synced.
    pub(crate) fn start(&mut self, out: &mut Vec<StorageRequest>) {
        let is_syncing = self.is_under_way(|purpose| matches!(purpose, Purpose::Sync { .. }));
        if !self.is_under_way(|purpose| !matches!(purpose, Purpose::Sync { .. })) {
            self.start_change(is_syncing, out);
        }
        if self.failure().is_some() {
            return;
        }
        let is_renewed = self
            .is_under_way(|purpose| matches!(purpose, Purpose::Create | Purpose::Replace { .. }));
        if self.progress.is_sync_due() && !is_syncing && !is_renewed {
            let sync = Purpose::Sync {
                changes: self.progress.written,
            };
            let operation = StorageOperation::Sync {
                file: FileName::Offsets,
            };
            self.operations.start(sync, operation, out);
        }
    }

    fn start_change(&mut self, is_syncing: bool, out: &mut Vec<StorageRequest>) {
        if self.is_owed {
            if !is_syncing && self.attempts.may_try() {
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

    /// File size beyond which superseded records take too much of it.
    fn compact_beyond(&self) -> u64 {
        let records = self.values.len() + self.values.owned_count();
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        (records + 1) * RECORD_BYTES as u64 * COMPACT_RATIO
    }

    fn is_under_way(&self, is_meant: impl Fn(&Purpose) -> bool) -> bool {
        self.operations.purposes().any(is_meant)
    }

    fn write(&mut self, out: &mut Vec<StorageRequest>) {
        let mut records = Vec::with_capacity(self.queue.len() * RECORD_BYTES);
        for (consumer, change) in core::mem::take(&mut self.queue) {
            let Change {
                offset,
                names_owner,
            } = change;
            let owner = self.values.owner(consumer);
            let owner = owner.map_or(Content::Deleted, Content::Owner);
            let owner = Some(owner).filter(|_| names_owner);
            let changed = offset.map_or(Content::Deleted, Content::Stored);
            for content in owner.into_iter().chain([changed]) {
                Record { consumer, content }.encode(self.tag, &mut records);
            }
        }
        let write = Purpose::Write {
            changes: self.progress.changes,
            bytes: records.len() as u64,
        };
        let operation = StorageOperation::Write {
            file: FileName::Offsets,
            position: self.length,
            slices: vec![Slice::from_vec(records)],
        };
        self.operations.start_repeated(write, operation, out);
    }

    pub(super) fn replace(&mut self, out: &mut Vec<StorageRequest>) {
        let mut contents = Vec::with_capacity(self.values.len() * RECORD_BYTES);
        for (consumer, stored) in self.values.iter() {
            let owner = stored.owner.map(Content::Owner);
            for content in owner.into_iter().chain([Content::Stored(stored.offset)]) {
                Record { consumer, content }.encode(self.tag, &mut contents);
            }
        }
        self.queue.clear();
        let replace = Purpose::Replace {
            changes: self.progress.changes,
            bytes: contents.len() as u64,
        };
        let operation = StorageOperation::Replace {
            file: FileName::Offsets,
            contents,
        };
        self.operations.start_repeated(replace, operation, out);
    }

    /// Repeat operations that lacked memory or handles, and allow an attempt to write the file after a failure, if they
    /// are due.
    pub(crate) fn repeat(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.operations.repeat(now, out);
        self.attempts.pass(now);
    }

    /// Drop operations that wait for memory or handles, and attempts after a failure.
    pub(crate) fn drop_waiting(&mut self) {
        self.operations.drop_waiting();
        self.attempts.recovered();
    }

    /// Time of the next call of [`repeat`](Self::repeat) or [`sync_in_background`](Self::sync_in_background).
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let deadlines = [
            self.operations.repeat_deadline(),
            self.progress.sync_deadline,
            self.attempts.retry_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// End an operation of this file. An error that is returned stops the whole partition: the file cannot be read, or
    /// there is no space (true); then call [`start`](Self::start) again once there is space. Any other failure of a
    /// write becomes [`failure`](Self::failure).
    pub(crate) fn complete(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Vec<StorageRequest>,
    ) -> Result<(), (StorageError, bool)> {
        let Some((purpose, result)) = self.operations.end(now, completion) else {
            return Ok(());
        };
        let outcome = match (result, purpose) {
            (_, Purpose::Ignored) => return Ok(()),
            (Ok(outcome), _) => outcome,
            (Err(error), Purpose::Read { .. }) => return Err((error, false)),
            (Err(error), _) => return self.write_failed(now, purpose, error),
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
                self.named.clear();
                // The loaded records may not be on the device: they count as a change that is not synced.
                self.progress.written = self.progress.next();
            }
            Purpose::Create => {
                self.file = File::Ready;
                self.length = 0;
            }
            Purpose::Write { changes, bytes } => {
                self.length += bytes;
                self.progress.written = self.progress.written.max(changes);
            }
            Purpose::Replace { changes, bytes } => {
                self.file = File::Ready;
                self.length = bytes;
                self.is_owed = false;
                self.is_wrong = false;
                self.attempts.recovered();
                self.progress.written = self.progress.written.max(changes);
                self.progress.synced = self.progress.synced.max(changes);
                if self.loading == Loading::Correcting {
                    self.loading = Loading::Complete;
                }
            }
            Purpose::Sync { changes } => {
                self.progress.synced = self.progress.synced.max(changes);
            }
            Purpose::Ignored => {}
        }
        Ok(())
    }

    fn write_failed(
        &mut self,
        now: Timestamp,
        purpose: Purpose,
        error: StorageError,
    ) -> Result<(), (StorageError, bool)> {
        if self.loading == Loading::Correcting {
            // The values in memory are correct, and new messages are refused until the file is.
            self.loading = Loading::Complete;
        }
        let is_sync = matches!(purpose, Purpose::Sync { .. });
        if error.kind == StorageErrorKind::NoSpace && !is_sync {
            self.is_owed |= purpose != Purpose::Create;
            self.attempts.recovered();
            return Err((error, true));
        }
        self.is_owed = true;
        self.attempts.failed(now, error);
        Ok(())
    }
}
