//! Recovery: from the files of a directory to the state of a log (LOG-11).
//!
//! Only one segment is read: the last one with any bytes. A segment gets its first byte only after everything before it
//! is on the device, so its bytes vouch for all earlier segments. Of that segment only the part behind the last valid
//! index entry is read, because entries are written only for what is on the device. Opening therefore takes a listing,
//! the manifest, the end of one index and the end of one log, whatever the amount of data.
//!
//! Reads of that part go to the device: a sync of the previous process may have failed, which leaves messages in the
//! page cache that the device does not have and that no later sync stores.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use headrace_model::Offset;
use headrace_wire::message::HEADER_BYTES;

use crate::entry::{Codec, ENTRY_BYTES, Entry, Kind};
use crate::error::Notice;
use crate::log::{Log, Pending, Phase};
use crate::manifest::SyncedEnd;
use crate::record::ManifestFile;
use crate::recovery::identity::Relation;
use crate::recovery::scan::{Progress, Scan};
use crate::removal::remove::Wipe;
use crate::segment::FirstMessage;
use crate::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};

/// Number of bytes of an index file that are read at once, from its end.
const INDEX_WINDOW_BYTES: u64 = 2048 * ENTRY_BYTES as u64;

pub(crate) type Outcome = Result<StorageOutcome, StorageError>;

/// State of recovery.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// True if all contents of the files are dropped.
    pub(crate) drop_all: bool,
    /// Relation of the manifest to the partition, if it is not this partition's.
    pub(crate) relation: Option<Relation>,
    pub(crate) files: Vec<(FileName, u64)>,
    pub(crate) offsets_bytes: Option<u64>,
    /// Base and size of the segment that is read.
    pub(crate) scanned_segment: (Offset, u64),
    pub(crate) first_message: FirstMessage,
    pub(crate) index_bytes: Option<u64>,
    /// Number of valid entries in the index file, up to the one from which the scan starts.
    pub(crate) entries_saved: u64,
    /// Index entry from which the scan starts, if any.
    pub(crate) trusted: Option<(Entry, Kind)>,
    /// Valid entry before the trusted one, and the number of entries up to it.
    pub(crate) previous: Option<(Entry, Kind, u64)>,
    /// Entry trusted first, if the log had no valid message there.
    pub(crate) mistrusted_entry: Option<Entry>,
    pub(crate) scan: Option<Scan>,
    /// True if the bytes behind the last whole message were cut off.
    pub(crate) is_cut: bool,
    /// Position from which reads of the scanned segment return what is on the device.
    pub(crate) uncached_from: Option<u64>,
    /// True if everything found is on the device.
    pub(crate) is_synced: bool,
    /// Segment that had bytes, but not one whole message. It vouches for the segment before, which is read only for the
    /// timestamp of its last message.
    pub(crate) truncated_to_empty: Option<Offset>,
}

/// Operation that recovery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    List,
    Manifest { file: FileName },
    SetAsideDirectory,
    FirstMessage,
    Index { start: u64 },
    Uncache { position: u64 },
    Scan { asked: u32 },
    Rename { file: FileName, into: FileName },
    SetAside { into: FileName },
    Cut,
    Sync,
    CutIndex,
}

impl Recovery {
    pub(crate) fn new(drop_all: bool) -> Self {
        Self {
            drop_all,
            relation: None,
            files: Vec::new(),
            offsets_bytes: None,
            scanned_segment: (Offset(0), 0),
            first_message: FirstMessage::Unknown,
            index_bytes: None,
            entries_saved: 0,
            trusted: None,
            previous: None,
            mistrusted_entry: None,
            scan: None,
            is_cut: false,
            uncached_from: None,
            is_synced: false,
            truncated_to_empty: None,
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
    fn is_cached_at(&self, position: u64) -> bool {
        self.truncated_to_empty.is_none() && self.uncached_from.is_none_or(|from| position < from)
    }

    /// Name of the file for the next part that is cut from the segment.
    fn next_cut(&self) -> FileName {
        let number = self.next_number(|file| match file {
            FileName::Cut(base, number) if base == self.scanned_segment.0 => Some(number),
            _ => None,
        });
        FileName::Cut(self.scanned_segment.0, number)
    }
}

impl Log {
    pub(crate) fn begin_recovery(&mut self, out: &mut Vec<StorageRequest>) {
        self.operations.start_repeated(
            Pending::Recover(Step::List),
            StorageOperation::OpenDirectory,
            out,
        );
    }

    /// Size of the file of stored offsets, 0 if there is none. None until the file is known to belong to this
    /// generation.
    pub fn offsets_bytes(&self) -> Option<u64> {
        match &self.phase {
            Phase::Opening(recovery) => recovery.offsets_bytes,
            _ => self.offsets_bytes_found,
        }
    }

    /// Take the list of transaction files with their sizes, once known. The log itself leaves these files alone.
    pub fn take_transaction_files(&mut self) -> Option<Vec<(FileName, u64)>> {
        self.transaction_files.take()
    }

    pub(crate) fn recover(&mut self, step: Step, outcome: Outcome, out: &mut Vec<StorageRequest>) {
        if self.closing || !matches!(self.phase, Phase::Opening(_)) {
            return;
        }
        match step {
            Step::List => self.listed(outcome, out),
            Step::Manifest { file } => self.manifest_read(file, outcome, out),
            Step::SetAsideDirectory => self.directory_set_aside(&outcome),
            Step::FirstMessage => self.first_message_found(&outcome, out),
            Step::Index { start } => self.index_window_read(start, outcome, out),
            Step::Uncache { position } => self.uncached(position, &outcome, out),
            Step::Scan { asked } => self.scanned(asked, outcome, out),
            Step::Rename { file, into } => self.foreign_set_aside((file, into), &outcome, out),
            Step::SetAside { into } => self.set_aside(into, &outcome, out),
            Step::Cut | Step::Sync => match outcome {
                Ok(_) if step == Step::Cut => self.sync_recovered(out),
                Ok(_) => {
                    self.recovery().is_synced = true;
                    self.cut_index(out);
                }
                Err(error) => {
                    let file = FileName::Log(self.recovery().scanned_segment.0);
                    self.fail_recovery(file, error);
                }
            },
            // Without a usable index file the next start takes longer, with no other consequence.
            Step::CutIndex => self.finish_recovery(outcome.is_ok(), out),
        }
    }

    pub(crate) fn recovery(&mut self) -> &mut Recovery {
        match &mut self.phase {
            Phase::Opening(recovery) => recovery,
            _ => unreachable!("steps of recovery are only taken while opening"),
        }
    }

    pub(crate) fn fail_recovery(&mut self, file: FileName, error: StorageError) {
        self.fail_open(format!("{file}: {error}"));
    }

    /// Choose the last segment with bytes for the scan.
    pub(crate) fn choose_active(&mut self, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        let offsets_bytes = recovery.size_of(FileName::Offsets).unwrap_or(0);
        recovery.offsets_bytes = Some(offsets_bytes);
        let logs = recovery.logs();
        let with_bytes = logs.iter().rfind(|(_, size)| *size > 0);
        match with_bytes.or(logs.first()).copied() {
            Some(active) => {
                self.remove_empty_logs_before(active.0);
                self.scan_segment(active, out);
            }
            None => self.open_empty(),
        }
    }

    /// Remove empty logs before the active segment; they are none of the segments. Such a log was begun behind a tail
    /// that was cut later, and could not be removed. The segment before it extends past its base offset.
    fn remove_empty_logs_before(&mut self, active: Offset) {
        let is_empty = |(file, size): &mut (FileName, u64)| matches!(*file, FileName::Log(base) if base < active && *size == 0);
        let left: Vec<_> = self.recovery().files.extract_if(.., is_empty).collect();
        for (file, _) in left {
            self.removals.push(file);
        }
    }

    pub(crate) fn scan_segment(&mut self, active: (Offset, u64), out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        recovery.scanned_segment = active;
        recovery.first_message = FirstMessage::Unknown;
        if active.1 < HEADER_BYTES as u64 {
            return self.read_active_index(out);
        }
        self.read_first_message(HEADER_BYTES as u64, out);
    }

    pub(crate) fn read_active_index(&mut self, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        let base = recovery.scanned_segment.0;
        recovery.index_bytes = recovery.size_of(FileName::Index(base));
        let entries = recovery.index_bytes.unwrap_or(0) / ENTRY_BYTES as u64;
        self.read_index_window(entries, out);
    }

    /// Drop the contents left by another generation and open as an empty log.
    pub(crate) fn drop_contents(&mut self, is_marked: bool) {
        let recovery = self.recovery();
        let mut files: Vec<_> = recovery.files.iter().map(|(file, _)| *file).collect();
        files.retain(|file| *file != FileName::Manifest);
        if !files.is_empty() {
            self.wipe = Some(Box::new(Wipe::new(files, is_marked)));
        }
        self.manifest_file = ManifestFile::Outdated;
        self.generation.partition = Some(self.config.namespace);
        self.offsets_bytes_found = Some(0);
        self.note_opening();
        self.phase = Phase::Open;
    }

    fn open_empty(&mut self) {
        self.offsets_bytes_found = self.recovery().offsets_bytes;
        self.report_losses();
        self.begin_at(self.synced_before());
        self.note_opening();
        self.remove_orphans();
        self.phase = Phase::Open;
    }

    /// Begin an empty log at this offset: those before were used.
    fn begin_at(&mut self, offset: Offset) {
        self.next_offset = offset;
        self.issued_end = offset;
        self.written_end = offset;
        self.synced_end = offset;
        self.flush_target = offset;
    }

    /// Read the last entries among the first `entries`.
    fn read_index_window(&mut self, entries: u64, out: &mut Vec<StorageRequest>) {
        let end = entries * ENTRY_BYTES as u64;
        let recovery = self.recovery();
        let (base, size) = recovery.scanned_segment;
        if end == 0 || size == 0 {
            return self.scan_from(Entry::start(base), None, 0, out);
        }
        let start = end.saturating_sub(INDEX_WINDOW_BYTES);
        let operation = StorageOperation::Read {
            file: FileName::Index(base),
            position: start,
            length: u32::try_from(end - start).expect("a window"),
        };
        self.operations
            .start_repeated(Pending::Recover(Step::Index { start }), operation, out);
    }

    fn index_window_read(&mut self, start: u64, outcome: Outcome, out: &mut Vec<StorageRequest>) {
        let life = self.generation;
        let (base, size) = self.recovery().scanned_segment;
        let Ok(StorageOutcome::Read(bytes)) = outcome else {
            // The index is optional (LOG-14).
            return self.scan_from(Entry::start(base), None, 0, out);
        };
        let codec = Codec::new(life, base);
        let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
        let first = start / ENTRY_BYTES as u64;
        let mut valid = entries
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(index, bytes)| {
                let (entry, kind) = codec.decode(bytes)?;
                let is_possible = entry.position <= size && entry.offset >= base.0;
                is_possible.then_some((entry, kind, first + index as u64 + 1))
            });
        let last = valid.next();
        let previous = valid.next();
        if let Some((entry, kind, saved)) = last {
            self.recovery().previous = previous;
            return self.scan_from(entry, Some(kind), saved, out);
        }
        self.read_index_window(first, out);
    }

    fn scan_from(
        &mut self,
        entry: Entry,
        kind: Option<Kind>,
        entries_saved: u64,
        out: &mut Vec<StorageRequest>,
    ) {
        let (base, size) = self.recovery().scanned_segment;
        let floor = self.floor_of(base);
        let recovery = self.recovery();
        let scan = match recovery.truncated_to_empty {
            Some(end) => Scan::skipping_damage(entry, size, end.0),
            None => Scan::until_damage(entry, size).with_floor(floor.map(boundary)),
        };
        recovery.entries_saved = entries_saved;
        recovery.trusted = kind.map(|kind| (entry, kind));
        let progress = scan.begin();
        recovery.scan = Some(scan);
        self.follow_scan(progress, out);
    }

    fn uncached(&mut self, position: u64, outcome: &Outcome, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        if let Err(error) = outcome {
            let file = FileName::Log(recovery.scanned_segment.0);
            return self.fail_recovery(file, *error);
        }
        recovery.uncached_from = Some(position);
        recovery.is_synced = true;
        let scan = recovery.scan.as_ref().expect("a scan is under way");
        let progress = scan.begin();
        self.follow_scan(progress, out);
    }

    fn scanned(&mut self, asked: u32, outcome: Outcome, out: &mut Vec<StorageRequest>) {
        let file = FileName::Log(self.recovery().scanned_segment.0);
        let bytes = match outcome {
            Ok(StorageOutcome::Read(bytes)) => bytes,
            Ok(_) => return self.fail_open(format!("{file} cannot be read")),
            Err(error) => return self.fail_recovery(file, error),
        };
        let recovery = self.recovery();
        let scan = recovery.scan.as_mut().expect("a scan is under way");
        let progress = scan.feed(&bytes, asked);
        let reached = scan.reached;
        if progress == Progress::Stopped && !scan.goes_past_damage() {
            if self.retry_without_index(reached, out) {
                return;
            }
            let scan = self.recovery().scan.as_mut();
            let scan = scan.expect("a scan is under way");
            let progress = scan.continue_behind_damage();
            return self.follow_scan(progress, out);
        }
        self.follow_scan(progress, out);
    }

    /// Decide whether the scan stopped because the index is wrong rather than the log. As long as the scan has not
    /// confirmed the index, the index may be another log's: the scan then starts again from an earlier entry, or from
    /// the beginning without the index, instead of cutting the log. Returns true if a scan was started again.
    fn retry_without_index(&mut self, reached: Entry, out: &mut Vec<StorageRequest>) -> bool {
        let recovery = self.recovery();
        let Some((trusted, _)) = recovery.trusted else {
            return false;
        };
        let start = Entry::start(recovery.scanned_segment.0);
        match (recovery.mistrusted_entry, recovery.previous.take()) {
            (None, Some((entry, kind, saved))) if reached == trusted => {
                // A scan from the entry before should pass this boundary and stop here again.
                recovery.mistrusted_entry = Some(trusted);
                self.scan_from(entry, Some(kind), saved, out);
            }
            (None, None) if reached == trusted => self.scan_from(start, None, 0, out),
            (Some(doubted), _) if reached.position < doubted.position => {
                self.scan_from(start, None, 0, out);
            }
            _ => return false,
        }
        true
    }

    fn follow_scan(&mut self, progress: Progress, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        let file = FileName::Log(recovery.scanned_segment.0);
        let scan = recovery.scan.as_mut().expect("a scan is under way");
        let is_over = matches!(progress, Progress::Stopped | Progress::Complete);
        if is_over && let Some(progress) = scan.pass_floor() {
            return self.follow_scan(progress, out);
        }
        match progress {
            Progress::Read { position, .. } if recovery.is_cached_at(position) => {
                let operation = StorageOperation::Uncache { file, position };
                let step = Step::Uncache { position };
                self.operations
                    .start_repeated(Pending::Recover(step), operation, out);
            }
            Progress::Read { position, length } => {
                let operation = StorageOperation::Read {
                    file,
                    position,
                    length,
                };
                let step = Step::Scan { asked: length };
                self.operations
                    .start_repeated(Pending::Recover(step), operation, out);
            }
            Progress::Stopped => {
                recovery.is_cut = true;
                let scan = recovery.scan.as_ref().expect("a scan has ended");
                let length = scan.reached.position;
                let into = recovery.next_cut();
                let operation = StorageOperation::CutOff { file, length, into };
                let step = Step::SetAside { into };
                self.operations
                    .start_repeated(Pending::Recover(step), operation, out);
            }
            Progress::Complete => self.sync_recovered(out),
        }
    }

    /// Continue after the torn end was moved to a file of its own. Without space for that file the end is only cut off:
    /// a log that cannot be opened would be worse.
    fn set_aside(&mut self, into: FileName, outcome: &Outcome, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        let (base, size) = recovery.scanned_segment;
        let scan = recovery.scan.as_ref().expect("a scan has ended");
        let (file, position) = (FileName::Log(base), scan.reached.position);
        let bytes = size - position;
        match outcome {
            Ok(_) => {
                recovery.files.push((into, bytes));
                self.notices.push(Notice::Cut {
                    file,
                    position,
                    bytes,
                    saved_as: into,
                });
                self.sync_recovered(out);
            }
            Err(error) if error.kind == StorageErrorKind::NoSpace => {
                self.notices.push(Notice::CutWithoutCopy {
                    file,
                    position,
                    bytes,
                });
                let length = position;
                let operation = StorageOperation::Truncate { file, length };
                self.operations
                    .start_repeated(Pending::Recover(Step::Cut), operation, out);
            }
            Err(error) => self.fail_recovery(file, *error),
        }
    }

    /// Sync a cut before anything is written behind it. The messages found were read from the device.
    fn sync_recovered(&mut self, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        if recovery.truncated_to_empty.is_some() {
            return self.finish_recovery(true, out);
        }
        if recovery.is_cut {
            let operation = StorageOperation::Sync {
                file: FileName::Log(recovery.scanned_segment.0),
            };
            self.operations
                .start(Pending::Recover(Step::Sync), operation, out);
        } else {
            self.cut_index(out);
        }
    }

    /// Cut off index entries behind the trusted one, so that they are not found again behind new ones.
    fn cut_index(&mut self, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        let length = recovery.entries_saved * ENTRY_BYTES as u64;
        if recovery.index_bytes.is_some_and(|bytes| bytes != length) {
            let operation = StorageOperation::Truncate {
                file: FileName::Index(recovery.scanned_segment.0),
                length,
            };
            self.operations
                .start_repeated(Pending::Recover(Step::CutIndex), operation, out);
        } else {
            self.finish_recovery(true, out);
        }
    }
}

/// The place as a message boundary.
fn boundary(end: SyncedEnd) -> Entry {
    Entry {
        offset: end.offset.0,
        position: end.position,
        timestamp: end.timestamp,
    }
}
