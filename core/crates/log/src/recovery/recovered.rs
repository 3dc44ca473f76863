//! Last step of recovery: the state of the open log.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::entry::{ENTRY_BYTES, Entry, Kind};
use crate::error::Notice;
use crate::index::Index;
use crate::log::{Log, Phase};
use crate::manifest::SyncedEnd;
use crate::recovery::scan::Scan;
use crate::segment::{FileState, FirstMessage, Segment};
use crate::storage::{FileName, StorageRequest};
use crate::writing::write::ALLOCATE_FROM_BYTES;

impl Log {
    /// Build the state of an open log from the findings of recovery.
    pub(crate) fn finish_recovery(&mut self, index_is_usable: bool, out: &mut Vec<StorageRequest>) {
        let recovery = self.recovery();
        let logs = recovery.logs();
        let (base, _) = recovery.scanned_segment;
        let scan = recovery.scan.take().expect("a scan has ended");
        let before = logs.iter().rfind(|(before, _)| *before < base).copied();
        if let Some(before) = before
            && scan.reached.position == 0
            && recovery.truncated_to_empty.is_none()
        {
            recovery.truncated_to_empty = Some(base);
            return self.scan_segment(before, out);
        }
        self.report_losses();
        let recovery = self.recovery();
        let offsets_bytes = recovery.offsets_bytes;
        let first_message = recovery.first_message;
        let emptied = recovery.truncated_to_empty;
        let listed = self.record.listed(base).and_then(|listed| listed.last);
        let last_message = scan.last_message.or(listed);
        self.offsets_bytes_found = offsets_bytes;
        for window in logs.windows(2) {
            let ((sealed, size), (next, _)) = (window[0], window[1]);
            if sealed < base {
                let listed = self.record.listed(sealed);
                let first = listed.and_then(|listed| listed.first_checksum);
                self.segments.push_back(Segment {
                    last_message: listed.and_then(|listed| listed.last),
                    first_message: first.map_or(FirstMessage::Unknown, FirstMessage::Recorded),
                    ..Segment::sealed(sealed, next, size)
                });
            }
        }
        self.last_timestamp = scan.reached.timestamp;
        if let Some(open) = emptied {
            let mut sealed = Segment::sealed(base, open, self.recovery().scanned_segment.1);
            sealed.last_timestamp = Some(self.last_timestamp);
            sealed.first_message = first_message;
            sealed.last_message = last_message;
            self.segments.push_back(sealed);
            self.next_offset = open;
            self.synced_end = open;
        } else if let Some(damage) = scan.damage {
            let end = Offset(scan.reached.offset);
            let mut sealed = Segment::sealed(base, end, scan.reached.position);
            sealed.last_timestamp = Some(self.last_timestamp);
            sealed.first_message = first_message;
            sealed.last_message = last_message;
            self.segments.push_back(sealed);
            if logs.iter().all(|(follower, _)| *follower != end) {
                self.segments
                    .push_back(Segment::new(end, self.last_timestamp));
            }
            self.next_offset = end;
            self.synced_end = end;
            self.notices.push(Notice::Damaged {
                offset: Offset(damage.offset),
                messages_count: damage.messages_count,
                file: FileName::Log(base),
                position: damage.position,
            });
        } else {
            let mut active = self.recovered_segment(scan, index_is_usable);
            active.first_message = first_message;
            active.last_message = last_message;
            if active.synced == active.size {
                self.record.set_synced(SyncedEnd {
                    segment: base,
                    offset: active.end,
                    position: active.size,
                    timestamp: self.last_timestamp,
                });
            }
            self.next_offset = active.end;
            let is_synced = active.synced == active.size;
            self.synced_end = if is_synced { active.end } else { active.base };
            self.segments.push_back(active);
        }
        self.skip_lost_end();
        self.note_opening();
        let end = self.next_offset;
        self.issued_end = end;
        self.written_end = end;
        self.flush_target = end;
        for (follower, _) in logs.iter().filter(|(follower, _)| *follower > base) {
            if *follower == end {
                // The file was created for messages that were never written, or not as a whole.
                let mut open = Segment::new(*follower, self.last_timestamp);
                open.log_file = FileState::Ready;
                self.segments.push_back(open);
            } else {
                self.removals.push(FileName::Log(*follower));
                self.removals.push(FileName::Index(*follower));
            }
        }
        self.forget_never_begun(&logs);
        self.remove_orphans();
        self.size_bytes = self.segments.iter().map(|segment| segment.size).sum();
        self.phase = Phase::Open;
    }

    fn recovered_segment(&mut self, scan: Scan, index_is_usable: bool) -> Segment {
        let recovery = self.recovery();
        let (base, _) = recovery.scanned_segment;
        let reached = scan.reached;
        let trusted = recovery.trusted;
        let is_synced = recovery.is_synced;
        let start = trusted.map_or(Entry::start(base), |(entry, _)| entry);
        let mut entries: Vec<Entry> = scan.entries.into_iter().map(|(entry, _)| entry).collect();
        if trusted.is_some() {
            entries.insert(0, start);
        }
        let saved = usize::from(trusted.is_some());
        let index_file = match recovery.index_bytes {
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
            index_file,
            index_length: recovery.entries_saved * ENTRY_BYTES as u64,
            end_saved: ends_there,
            last_timestamp: Some(reached.timestamp),
            index: Index::recovered(base, start.position, entries, saved),
            ..Segment::new(base, 0)
        }
    }

    /// Remove index files whose log is gone, and note the files with cut bytes and foreign logs.
    pub(crate) fn remove_orphans(&mut self) {
        let files = core::mem::take(&mut self.recovery().files);
        for (file, _) in &files {
            if matches!(file, FileName::Cut(..) | FileName::Foreign(..)) {
                self.set_aside_files.push(*file);
            }
            if let FileName::Index(base) = file
                && !files
                    .iter()
                    .any(|(other, _)| *other == FileName::Log(*base))
            {
                self.removals.push(*file);
            }
        }
    }
}
