//! Recovery: from the files of a directory to the state of a log (LOG-11).
//!
//! Only one segment is read: the last one with any bytes. A segment gets its first byte only after everything before it
//! is on the device, so its bytes vouch for all earlier segments. Of that segment only the part behind the last valid
//! index entry is read, because entries are written only for what is on the device. Opening therefore takes a listing,
//! the manifest, the end of one index and the end of one log, whatever the amount of data.
//!
//! Reads of that part go to the device: a sync of the previous process may have failed, which leaves messages in the
//! page cache that the device does not have and that no later sync stores.

use alloc::format;
use alloc::vec::Vec;

use headrace_model::Offset;

use crate::entry::{Entry, Kind};
use crate::operations::pending::{Pending, Step};
use crate::recovery::relation::Relation;
use crate::recovery::scan::Scan;
use crate::removal::wipe::Wipe;
use crate::segment::FirstMessage;
use crate::state::LogState;
use crate::storage::{FileName, StorageError, StorageOperation, StorageOutcome, StorageRequest};

pub(crate) mod compare;
mod foreign;
mod identity;
mod losses;
mod recovered;
pub(crate) mod relation;
pub(crate) mod scan;
mod scanning;
mod truncated;

pub(crate) type Outcome = Result<StorageOutcome, StorageError>;

/// State of recovery.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// True if all contents of the files are dropped.
    drop_all: bool,
    /// Offset from which on messages do not count, if the manifest says so.
    truncated_at: Option<Offset>,
    /// Removal of all contents, if recovery ends with it.
    pub(crate) wipe: Option<Wipe>,
    /// Relation of the manifest to the partition, if it is not this partition's.
    relation: Option<Relation>,
    files: Vec<(FileName, u64)>,
    /// Size of the file of stored offsets, once it is known to belong to this generation.
    pub(crate) offsets_bytes: Option<u64>,
    /// Base and size of the segment that is read.
    scanned_segment: (Offset, u64),
    first_message: FirstMessage,
    /// Index file of that segment.
    index: FoundIndex,
    scan: Option<Scan>,
    /// True if the bytes behind the last whole message were cut off.
    is_cut: bool,
    /// Position from which reads of the scanned segment return what is on the device.
    uncached_from: Option<u64>,
    /// True if everything found is on the device.
    is_synced: bool,
    /// Segment that had bytes, but not one whole message. It vouches for the segment before, which is read only for the
    /// timestamp of its last message.
    truncated_to_empty: Option<Offset>,
}

/// Index file that recovery found, as far as it is read.
#[derive(Debug, Default)]
struct FoundIndex {
    /// Size in bytes, if there is a file.
    bytes: Option<u64>,
    /// Number of valid entries in the file, up to the one from which the scan starts.
    saved: u64,
    /// Entry from which the scan starts, if any.
    trusted: Option<(Entry, Kind)>,
    /// Valid entry before the trusted one, and the number of entries up to it.
    previous: Option<(Entry, Kind, u64)>,
    /// Entry trusted first, if the log had no valid message there.
    mistrusted: Option<Entry>,
}

impl Recovery {
    pub(crate) fn new(drop_all: bool) -> Self {
        Self {
            drop_all,
            truncated_at: None,
            wipe: None,
            relation: None,
            files: Vec::new(),
            offsets_bytes: None,
            scanned_segment: (Offset(0), 0),
            first_message: FirstMessage::Unknown,
            index: FoundIndex::default(),
            scan: None,
            is_cut: false,
            uncached_from: None,
            is_synced: false,
            truncated_to_empty: None,
        }
    }

    /// List the files in the directory.
    pub(crate) fn begin(state: &mut LogState, out: &mut Vec<StorageRequest>) {
        state.operations.start_repeated(
            Pending::Recover(Step::List),
            StorageOperation::OpenDirectory,
            out,
        );
    }

    /// Handle the end of an operation that recovery waits for, and go on. The last one leaves the log open, or out of
    /// service.
    pub(crate) fn advance(
        &mut self,
        step: Step,
        outcome: Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        match step {
            Step::List => self.listed(outcome, state, out),
            Step::Manifest { file } => self.manifest_read(file, outcome, state, out),
            Step::SetAsideDirectory => self.directory_set_aside(&outcome, state),
            Step::RemoveTruncated { file } => self.truncated_removed(file, &outcome, state, out),
            Step::FirstMessage => self.first_message_found(&outcome, state, out),
            Step::Index { start } => self.index_window_read(start, outcome, state, out),
            Step::Uncache { position } => self.uncached(position, &outcome, state, out),
            Step::Scan { asked } => self.scanned(asked, outcome, state, out),
            Step::Rename { file, into } => {
                self.foreign_set_aside((file, into), &outcome, state, out);
            }
            Step::SetAside { into } => self.set_aside(into, &outcome, state, out),
            Step::Cut | Step::Sync => match outcome {
                Ok(_) if step == Step::Cut => self.sync_recovered(state, out),
                Ok(_) => {
                    self.is_synced = true;
                    self.cut_index(state, out);
                }
                Err(error) => {
                    let file = FileName::Log(self.scanned_segment.0);
                    fail_recovery(state, file, error);
                }
            },
            // Without a usable index file the next start takes longer, with no other consequence.
            Step::CutIndex => self.finish_recovery(outcome.is_ok(), state, out),
        }
    }

    pub(crate) fn size_of(&self, file: FileName) -> Option<u64> {
        let found = self.files.iter().find(|(name, _)| *name == file)?;
        Some(found.1)
    }

    /// Base offsets and sizes of the log files, ascending.
    pub(crate) fn logs(&self) -> Vec<(Offset, u64)> {
        let mut logs: Vec<_> = self
            .files
            .iter()
            .filter_map(|(file, size)| match file {
                FileName::Log(base) => Some((*base, *size)),
                _ => None,
            })
            .collect();
        logs.sort_unstable();
        logs
    }

    /// Number after the largest one among the files of a kind, starting at 1.
    pub(crate) fn next_number(&self, number_of: impl Fn(FileName) -> Option<u32>) -> u32 {
        let numbers = self.files.iter().filter_map(|(file, _)| number_of(*file));
        numbers.max().map_or(1, |last| last.saturating_add(1))
    }

    /// Return whether a read of the scanned segment may return bytes that are not on the device. A segment that the next
    /// one vouches for was synced before the next one got its first byte.
    pub(crate) fn is_cached_at(&self, position: u64) -> bool {
        self.truncated_to_empty.is_none() && self.uncached_from.is_none_or(|from| position < from)
    }

    /// Name of the file for the next part that is cut from the segment.
    pub(crate) fn next_cut(&self) -> FileName {
        let number = self.next_number(|file| match file {
            FileName::Cut(base, number) if base == self.scanned_segment.0 => Some(number),
            _ => None,
        });
        FileName::Cut(self.scanned_segment.0, number)
    }
}

fn fail_recovery(state: &mut LogState, file: FileName, error: StorageError) {
    state.fail_open(format!("{file}: {error}"));
}
