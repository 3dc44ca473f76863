//! Reading the file at the start, and correcting one that is wrong.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headrace_log::storage::{FileName, StorageOperation, StorageRequest};
use headrace_model::Offset;

use super::values::Stored;
use super::{File, Loading, Purpose, StoredOffsets};
use crate::record::{Content, RECORD_BYTES, Record};

/// Number of bytes of the file that are read at once: whole records.
const READ_BYTES: u64 = 32 * 1024 * RECORD_BYTES as u64;
/// Maximum size of a file that is read. The file is compacted long before: with a million consumers it has less than
/// two fifths of this size.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

impl StoredOffsets {
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
    pub(super) fn read(&mut self, position: u64, out: &mut Vec<StorageRequest>) {
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
                Some(last) => self.values.lower_to(last),
                None => self.values.clear(),
            }
            self.loading = Loading::Correcting;
            self.is_wrong = true;
            self.replace(out);
            return false;
        }
        self.loading = Loading::Complete;
        true
    }

    /// Take the valid records. A damaged record is skipped: its consumer gets an earlier offset, or none.
    pub(super) fn take_records(&mut self, bytes: &[u8]) {
        let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
        self.damaged += u64::from(!rest.is_empty());
        for bytes in records {
            let Some(Record { consumer, content }) = Record::decode(bytes, self.tag) else {
                self.damaged += 1;
                continue;
            };
            match content {
                Content::Stored(offset) => {
                    let before = self.values.owner(consumer);
                    let owner = self.named.remove(&consumer).or(before);
                    self.highest = self.highest.max(Some(offset));
                    self.values.set(consumer, Some(Stored { offset, owner }));
                }
                Content::Deleted => {
                    self.named.remove(&consumer);
                    self.values.set(consumer, None);
                }
                Content::Owner(user) => {
                    self.named.insert(consumer, user);
                }
            }
        }
    }
}
