//! Last step of recovery: the state of the open log.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::entry::{ENTRY_BYTES, Entry, Kind};
use crate::error::Notice;
use crate::index::Index;
use crate::manifest::SyncedEnd;
use crate::recovery::Recovery;
use crate::recovery::losses::{forget_never_begun, skip_lost_end};
use crate::recovery::scan::Scan;
use crate::segment::{ALLOCATE_FROM_BYTES, FileState, FirstMessage, IndexFile, Segment};
use crate::state::{LogState, Phase};
use crate::storage::{FileName, StorageRequest};

impl Recovery {
    /// Build the state of an open log from the findings of recovery.
    pub(crate) fn finish_recovery(
        &mut self,
        index_is_usable: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let logs = self.logs();
        let (base, _) = self.scanned_segment;
        let scan = self.scan.take().expect("a scan has ended");
        let before = logs.iter().rfind(|(before, _)| *before < base).copied();
        if let Some(before) = before
            && scan.reached.position == 0
            && self.truncated_to_empty.is_none()
        {
            self.truncated_to_empty = Some(base);
            return self.scan_segment(before, state, out);
        }
        self.report_losses(state);
        let offsets_bytes = self.offsets_bytes;
        let first_message = self.first_message;
        let emptied = self.truncated_to_empty;
        let listed = state.record.listed(base).and_then(|listed| listed.last);
        let last_message = scan.last_message.or(listed);
        state.findings.offsets_bytes = offsets_bytes;
        for window in logs.windows(2) {
            let ((sealed, size), (next, _)) = (window[0], window[1]);
            if sealed < base {
                let listed = state.record.listed(sealed);
                let first = listed.and_then(|listed| listed.first_checksum);
                state.segments.push_back(Segment {
                    last_message: listed.and_then(|listed| listed.last),
                    first_message: first.map_or(FirstMessage::Unknown, FirstMessage::Recorded),
                    ..Segment::sealed(sealed, next, size)
                });
            }
        }
        state.ends.last_timestamp = scan.reached.timestamp;
        if let Some(open) = emptied {
            let mut sealed = Segment::sealed(base, open, self.scanned_segment.1);
            sealed.last_timestamp = Some(state.ends.last_timestamp);
            sealed.first_message = first_message;
            sealed.last_message = last_message;
            state.segments.push_back(sealed);
            state.ends.next = open;
            state.ends.synced = open;
        } else if let Some(damage) = scan.damage {
            let end = Offset(scan.reached.offset);
            let mut sealed = Segment::sealed(base, end, scan.reached.position);
            sealed.last_timestamp = Some(state.ends.last_timestamp);
            sealed.first_message = first_message;
            sealed.last_message = last_message;
            state.segments.push_back(sealed);
            if logs.iter().all(|(follower, _)| *follower != end) {
                state
                    .segments
                    .push_back(Segment::new(end, state.ends.last_timestamp));
            }
            state.ends.next = end;
            state.ends.synced = end;
            state.findings.notices.push(Notice::Damaged {
                offset: Offset(damage.offset),
                messages_count: damage.messages_count,
                file: FileName::Log(base),
                position: damage.position,
            });
        } else {
            let mut active = self.recovered_segment(scan, index_is_usable);
            // A first message that was cut off does not identify the log, which begins anew.
            if active.size > 0 {
                active.first_message = first_message;
            }
            active.last_message = last_message;
            if active.synced == active.size {
                state.record.set_synced(SyncedEnd {
                    segment: base,
                    offset: active.end,
                    position: active.size,
                    timestamp: state.ends.last_timestamp,
                });
            }
            state.ends.next = active.end;
            let is_synced = active.synced == active.size;
            state.ends.synced = if is_synced { active.end } else { active.base };
            state.segments.push_back(active);
        }
        skip_lost_end(&logs, state);
        state.record.note_opening(state.ends.next);
        let end = state.ends.next;
        state.ends.written = end;
        for (follower, _) in logs.iter().filter(|(follower, _)| *follower > base) {
            if *follower == end {
                // The file was created for messages that were never written, or not as a whole.
                let mut open = Segment::new(*follower, state.ends.last_timestamp);
                open.log_file = FileState::Ready;
                state.segments.push_back(open);
            } else {
                state.removals.push(FileName::Log(*follower));
                state.removals.push(FileName::Index(*follower));
            }
        }
        forget_never_begun(&logs, state);
        self.remove_orphans(state);
        state.segments.recount();
        state.phase = Phase::Open;
    }

    fn recovered_segment(&self, scan: Scan, index_is_usable: bool) -> Segment {
        let (base, _) = self.scanned_segment;
        let reached = scan.reached;
        let trusted = self.index.trusted;
        let is_synced = self.is_synced;
        let start = trusted.map_or(Entry::start(base), |(entry, _)| entry);
        let mut entries: Vec<Entry> = scan.entries.into_iter().map(|(entry, _)| entry).collect();
        if trusted.is_some() {
            entries.insert(0, start);
        }
        let saved = usize::from(trusted.is_some());
        let index_file = match self.index.bytes {
            Some(_) if index_is_usable => FileState::Ready,
            Some(_) => FileState::Broken,
            None => FileState::Missing,
        };
        let ends_there = matches!(trusted, Some((entry, Kind::End)) if entry == reached);
        Segment {
            end: Offset(reached.offset),
            size: reached.position,
            written: reached.position,
            synced: if is_synced {
                reached.position
            } else {
                start.position
            },
            allocated: reached.position,
            has_reserve: reached.position >= ALLOCATE_FROM_BYTES,
            log_file: FileState::Ready,
            index_file: IndexFile {
                state: index_file,
                length: self.index.saved * ENTRY_BYTES as u64,
                has_end: ends_there,
            },
            last_timestamp: Some(reached.timestamp),
            index: Index::recovered(base, start.position, entries, saved),
            ..Segment::new(base, 0)
        }
    }

    /// Remove index files whose log is gone, and note the files with cut bytes and foreign logs.
    pub(crate) fn remove_orphans(&mut self, state: &mut LogState) {
        let files = core::mem::take(&mut self.files);
        for (file, _) in &files {
            if matches!(file, FileName::Cut(..) | FileName::Foreign(..)) {
                state.removals.set_aside.push(*file);
            }
            if let FileName::Index(base) = file
                && !files
                    .iter()
                    .any(|(other, _)| *other == FileName::Log(*base))
            {
                state.removals.push(*file);
            }
        }
    }
}
