//! Scan of the last segment with any bytes, and what follows from what it finds.

use alloc::format;
use alloc::vec::Vec;

use headrace_model::Offset;
use headrace_wire::message::HEADER_BYTES;

use crate::entry::{Codec, ENTRY_BYTES, Entry, Kind};
use crate::error::Notice;
use crate::manifest::SyncedEnd;
use crate::operations::pending::{Pending, Step};
use crate::recovery::losses::{floor_of, forget_never_begun, synced_before};
use crate::recovery::scan::{Progress, Scan};
use crate::recovery::{Outcome, Recovery, fail_recovery};
use crate::removal::wipe::Wipe;
use crate::segment::FirstMessage;
use crate::state::{LogState, Phase};
use crate::storage::{
    FileName, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};

/// Number of bytes of an index file that are read at once, from its end.
const INDEX_WINDOW_BYTES: u64 = 2048 * ENTRY_BYTES as u64;

impl Recovery {
    /// Choose the last segment with bytes for the scan.
    pub(crate) fn choose_active(&mut self, state: &mut LogState, out: &mut Vec<StorageRequest>) {
        let offsets_bytes = self.size_of(FileName::Offsets).unwrap_or(0);
        self.offsets_bytes = Some(offsets_bytes);
        let logs = self.logs();
        let with_bytes = logs.iter().rfind(|(_, size)| *size > 0);
        match with_bytes.or(logs.first()).copied() {
            Some(active) => {
                self.remove_empty_logs_before(active.0, state);
                self.scan_segment(active, state, out);
            }
            None => self.open_empty(state),
        }
    }

    /// Remove empty logs before the active segment; they are none of the segments. Such a log was begun behind a tail
    /// that was cut later, and could not be removed. The segment before it extends past its base offset.
    fn remove_empty_logs_before(&mut self, active: Offset, state: &mut LogState) {
        let is_empty = |(file, size): &mut (FileName, u64)| matches!(*file, FileName::Log(base) if base < active && *size == 0);
        let left: Vec<_> = self.files.extract_if(.., is_empty).collect();
        for (file, _) in left {
            state.removals.push(file);
        }
    }

    pub(crate) fn scan_segment(
        &mut self,
        active: (Offset, u64),
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        self.scanned_segment = active;
        self.first_message = FirstMessage::Unknown;
        if active.1 < HEADER_BYTES as u64 {
            return self.read_active_index(state, out);
        }
        self.read_first_message(HEADER_BYTES as u64, state, out);
    }

    pub(crate) fn read_active_index(
        &mut self,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let base = self.scanned_segment.0;
        self.index.bytes = self.size_of(FileName::Index(base));
        let entries = self.index.bytes.unwrap_or(0) / ENTRY_BYTES as u64;
        self.read_index_window(entries, state, out);
    }

    /// Drop the contents left by another generation and open as an empty log.
    pub(crate) fn drop_contents(&mut self, is_marked: bool, state: &mut LogState) {
        let mut files: Vec<_> = self.files.iter().map(|(file, _)| *file).collect();
        files.retain(|file| *file != FileName::Manifest);
        if !files.is_empty() {
            self.wipe = Some(Wipe::new(files, is_marked));
        }
        state.record.outdate();
        state.record.name_partition();
        state.findings.offsets_bytes = Some(0);
        state.record.note_opening(state.ends.next);
        state.phase = Phase::Open;
    }

    fn open_empty(&mut self, state: &mut LogState) {
        state.findings.offsets_bytes = self.offsets_bytes;
        self.report_losses(state);
        state.ends.begin_at(synced_before(&state.record));
        state.record.note_opening(state.ends.next);
        forget_never_begun(&[], state);
        self.remove_orphans(state);
        state.phase = Phase::Open;
    }

    /// Read the last entries among the first `entries`.
    fn read_index_window(
        &mut self,
        entries: u64,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let end = entries * ENTRY_BYTES as u64;
        let (base, size) = self.scanned_segment;
        if end == 0 || size == 0 {
            return self.scan_from(Entry::start(base), None, 0, state, out);
        }
        let start = end.saturating_sub(INDEX_WINDOW_BYTES);
        let operation = StorageOperation::Read {
            file: FileName::Index(base),
            position: start,
            length: u32::try_from(end - start).expect("a window"),
        };
        state
            .operations
            .start_repeated(Pending::Recover(Step::Index { start }), operation, out);
    }

    pub(crate) fn index_window_read(
        &mut self,
        start: u64,
        outcome: Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let life = state.record.generation;
        let (base, size) = self.scanned_segment;
        let Ok(StorageOutcome::Read(bytes)) = outcome else {
            // The index is optional (LOG-14).
            return self.scan_from(Entry::start(base), None, 0, state, out);
        };
        let codec = Codec::new(life, base);
        let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
        let first = start / ENTRY_BYTES as u64;
        let end = self.truncated_at;
        let mut valid = entries
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(index, bytes)| {
                let (entry, kind) = codec.decode(bytes)?;
                // A message before the end is read, so that a wrong index does not decide where a log is truncated.
                let counts = end.is_none_or(|end| entry.offset < end.0);
                let is_possible = entry.position <= size && entry.offset >= base.0 && counts;
                is_possible.then_some((entry, kind, first + index as u64 + 1))
            });
        let last = valid.next();
        let previous = valid.next();
        if let Some((entry, kind, saved)) = last {
            self.index.previous = previous;
            return self.scan_from(entry, Some(kind), saved, state, out);
        }
        self.read_index_window(first, state, out);
    }

    fn scan_from(
        &mut self,
        entry: Entry,
        kind: Option<Kind>,
        entries_saved: u64,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let (base, size) = self.scanned_segment;
        let floor = floor_of(base, &state.record);
        let scan = match self.truncated_to_empty {
            Some(end) => Scan::skipping_damage(entry, size, end.0),
            None => Scan::until_damage(entry, size)
                .with_floor(floor.map(boundary))
                .with_end_offset(self.truncated_at),
        };
        self.index.saved = entries_saved;
        self.index.trusted = kind.map(|kind| (entry, kind));
        let progress = scan.begin();
        self.scan = Some(scan);
        self.follow_scan(progress, state, out);
    }

    pub(crate) fn uncached(
        &mut self,
        position: u64,
        outcome: &Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        if let Err(error) = outcome {
            let file = FileName::Log(self.scanned_segment.0);
            return fail_recovery(state, file, *error);
        }
        self.uncached_from = Some(position);
        self.is_synced = true;
        let scan = self.scan.as_ref().expect("a scan is under way");
        let progress = scan.begin();
        self.follow_scan(progress, state, out);
    }

    pub(crate) fn scanned(
        &mut self,
        asked: u32,
        outcome: Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let file = FileName::Log(self.scanned_segment.0);
        let bytes = match outcome {
            Ok(StorageOutcome::Read(bytes)) => bytes,
            Ok(_) => return state.fail_open(format!("{file} cannot be read")),
            Err(error) => return fail_recovery(state, file, error),
        };
        let scan = self.scan.as_mut().expect("a scan is under way");
        let progress = scan.feed(&bytes, asked);
        let reached = scan.reached;
        if progress == Progress::Stopped && !scan.goes_past_damage() {
            if self.retry_without_index(reached, state, out) {
                return;
            }
            let scan = self.scan.as_mut();
            let scan = scan.expect("a scan is under way");
            let progress = scan.continue_behind_damage();
            return self.follow_scan(progress, state, out);
        }
        self.follow_scan(progress, state, out);
    }

    /// Decide whether the scan stopped because the index is wrong rather than the log. As long as the scan has not
    /// confirmed the index, the index may be another log's: the scan then starts again from an earlier entry, or from
    /// the beginning without the index, instead of cutting the log. Returns true if a scan was started again.
    fn retry_without_index(
        &mut self,
        reached: Entry,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> bool {
        let Some((trusted, _)) = self.index.trusted else {
            return false;
        };
        let start = Entry::start(self.scanned_segment.0);
        match (self.index.mistrusted, self.index.previous.take()) {
            (None, Some((entry, kind, saved))) if reached == trusted => {
                // A scan from the entry before should pass this boundary and stop here again.
                self.index.mistrusted = Some(trusted);
                self.scan_from(entry, Some(kind), saved, state, out);
            }
            (None, None) if reached == trusted => self.scan_from(start, None, 0, state, out),
            (Some(doubted), _) if reached.position < doubted.position => {
                self.scan_from(start, None, 0, state, out);
            }
            _ => return false,
        }
        true
    }

    fn follow_scan(
        &mut self,
        progress: Progress,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let file = FileName::Log(self.scanned_segment.0);
        let scan = self.scan.as_mut().expect("a scan is under way");
        let is_over = matches!(progress, Progress::Stopped | Progress::Complete);
        if is_over && let Some(progress) = scan.pass_floor() {
            return self.follow_scan(progress, state, out);
        }
        let (is_truncated, reached) = (scan.is_at_end_offset(), scan.reached);
        match progress {
            Progress::Read { position, .. } if self.is_cached_at(position) => {
                let operation = StorageOperation::Uncache { file, position };
                let step = Step::Uncache { position };
                state
                    .operations
                    .start_repeated(Pending::Recover(step), operation, out);
            }
            Progress::Read { position, length } => {
                let operation = StorageOperation::Read {
                    file,
                    position,
                    length,
                };
                let step = Step::Scan { asked: length };
                state
                    .operations
                    .start_repeated(Pending::Recover(step), operation, out);
            }
            Progress::Stopped => {
                self.is_cut = true;
                let length = reached.position;
                let into = self.next_cut();
                let operation = StorageOperation::CutOff { file, length, into };
                let step = Step::SetAside { into };
                state
                    .operations
                    .start_repeated(Pending::Recover(step), operation, out);
            }
            Progress::Complete if is_truncated => {
                self.is_cut = true;
                let length = reached.position;
                let operation = StorageOperation::Truncate { file, length };
                state
                    .operations
                    .start_repeated(Pending::Recover(Step::Cut), operation, out);
            }
            Progress::Complete => self.sync_recovered(state, out),
        }
    }

    /// Continue after the torn end was moved to a file of its own. Without space for that file the end is only cut off:
    /// a log that cannot be opened would be worse.
    pub(crate) fn set_aside(
        &mut self,
        into: FileName,
        outcome: &Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let (base, size) = self.scanned_segment;
        let scan = self.scan.as_ref().expect("a scan has ended");
        let (file, position) = (FileName::Log(base), scan.reached.position);
        let bytes = size - position;
        match outcome {
            Ok(_) => {
                self.files.push((into, bytes));
                state.findings.notices.push(Notice::Cut {
                    file,
                    position,
                    bytes,
                    saved_as: into,
                });
                self.sync_recovered(state, out);
            }
            Err(error) if error.kind == StorageErrorKind::NoSpace => {
                state.findings.notices.push(Notice::CutWithoutCopy {
                    file,
                    position,
                    bytes,
                });
                let length = position;
                let operation = StorageOperation::Truncate { file, length };
                state
                    .operations
                    .start_repeated(Pending::Recover(Step::Cut), operation, out);
            }
            Err(error) => fail_recovery(state, file, *error),
        }
    }

    /// Sync a cut before anything is written behind it. The messages found were read from the device.
    pub(crate) fn sync_recovered(&mut self, state: &mut LogState, out: &mut Vec<StorageRequest>) {
        if self.truncated_to_empty.is_some() {
            return self.finish_recovery(true, state, out);
        }
        if self.is_cut {
            let operation = StorageOperation::Sync {
                file: FileName::Log(self.scanned_segment.0),
            };
            state
                .operations
                .start(Pending::Recover(Step::Sync), operation, out);
        } else {
            self.cut_index(state, out);
        }
    }

    /// Cut off index entries behind the trusted one, so that they are not found again behind new ones.
    pub(crate) fn cut_index(&mut self, state: &mut LogState, out: &mut Vec<StorageRequest>) {
        let length = self.index.saved * ENTRY_BYTES as u64;
        if self.index.bytes.is_some_and(|bytes| bytes != length) {
            let operation = StorageOperation::Truncate {
                file: FileName::Index(self.scanned_segment.0),
                length,
            };
            state
                .operations
                .start_repeated(Pending::Recover(Step::CutIndex), operation, out);
        } else {
            self.finish_recovery(true, state, out);
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
