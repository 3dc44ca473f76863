//! Syncing of written messages, and the resulting work: index entries and sealing.

use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

use crate::config::IndexCaching;
use crate::entry::{COARSE_INTERVAL_BYTES, Codec, ENTRY_BYTES, Entry, Kind};
use crate::log::{Log, Pending};
use crate::manifest::SyncedEnd;
use crate::segment::{FileState, Segment};
use crate::storage::{FileName, StorageError, StorageOperation, StorageRequest};

/// Maximum number of entries of one write to an index file.
const ENTRIES_PER_SAVE_MAX: usize = 4096;
/// Maximum number of saved entries of the open segment that stay in memory with `IndexCaching::None`.
const SAVED_ENTRIES_KEPT_MAX: usize = 4096;

/// Index entries that are being written to an index file.
#[derive(Debug)]
pub(crate) struct Saving {
    segment: Offset,
    entries: usize,
    /// End of the messages, if an end entry is among the entries.
    end: Option<u64>,
}

impl Log {
    /// Schedule a background sync, which bounds the loss of data when acknowledgements do not wait for a sync.
    pub(crate) fn schedule_sync(&mut self, now: Timestamp) {
        if self.config.durability.needs_background_sync()
            && self.sync_deadline.is_none()
            && self.config.sync_interval_micros > 0
            && self.unsynced_bytes() > 0
        {
            self.sync_deadline = Some(Timestamp(now.0 + self.config.sync_interval_micros));
        }
    }

    /// Start a sync if one is due and none is under way. Writes continue meanwhile.
    pub(crate) fn start_sync(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        if self.under_way.sync {
            return;
        }
        let Some(index) = self.segment_to_sync() else {
            return;
        };
        if !self.sync_is_due(index, now) {
            return;
        }
        self.under_way.sync = true;
        let segment = &self.segments[index];
        let pending = Pending::Sync {
            segment: segment.base,
            position: segment.written,
            // Nothing behind this segment is written before all of it is synced.
            end: self.written_end.min(segment.end),
        };
        let operation = StorageOperation::Sync {
            file: FileName::Log(segment.base),
        };
        self.operations.start(pending, operation, out);
    }

    /// Oldest segment with bytes that are written and not synced.
    fn segment_to_sync(&self) -> Option<usize> {
        let mut oldest = None;
        for (index, segment) in self.segments.iter().enumerate().rev() {
            if segment.unsynced() > 0 {
                oldest = Some(index);
            } else if segment.size > 0 && segment.synced == segment.size {
                break;
            }
        }
        oldest
    }

    fn sync_is_due(&self, index: usize, now: Timestamp) -> bool {
        let segment = &self.segments[index];
        let is_sealed = index + 1 < self.segments.len();
        if self.config.durability.awaits_sync()
            || self.closing
            || self.sync_target > self.synced_end
        {
            return true;
        }
        if is_sealed {
            // The next segment waits for this one: see `is_writable`.
            return segment.written == segment.size;
        }
        let limit = self.segment_size_bytes();
        let unsynced = segment.unsynced();
        self.sync_deadline.is_some_and(|deadline| deadline <= now)
            || self.config.sync_bytes > 0 && unsynced >= self.config.sync_bytes
            // Sync near the end of a segment, so that the next one hardly has to wait.
            || segment.written >= limit / 8 * 7 && unsynced >= limit / 32
    }

    pub(crate) fn synced(
        &mut self,
        base: Offset,
        position: u64,
        end: Offset,
        result: Result<(), StorageError>,
        now: Timestamp,
    ) {
        self.under_way.sync = false;
        if let Err(error) = result {
            // The kernel drops pages that it could not write: a second sync would succeed without having stored them.
            self.fail_writes("syncing", FileName::Log(base), error);
            return;
        }
        let mut is_settled = false;
        if let Some(segment) = self.segment_mut(base) {
            segment.synced = segment.synced.max(position);
            is_settled = segment.needs_no_storage();
        }
        if is_settled {
            self.unload_beyond_limit();
        }
        self.synced_end = self.synced_end.max(end);
        self.note_synced(base, now);
        self.sync_deadline = None;
        self.schedule_sync(now);
    }

    fn note_synced(&mut self, base: Offset, now: Timestamp) {
        let Some(index) = self.segment_index(base) else {
            return;
        };
        let segment = &self.segments[index];
        let end = SyncedEnd {
            segment: base,
            offset: self.synced_end,
            position: segment.synced,
            timestamp: segment.last_timestamp.unwrap_or(self.last_timestamp),
        };
        let is_promised = self.config.durability.awaits_sync();
        self.record.note_synced(end, is_promised, now);
    }

    /// Append index entries of messages now on the device, oldest segment first, and seal complete segments.
    pub(crate) fn start_save(&mut self, out: &mut Vec<StorageRequest>) {
        if self.under_way.save {
            return;
        }
        let Some(index) = self.segment_to_save() else {
            return;
        };
        let is_sealed = index + 1 < self.segments.len();
        let segment = &mut self.segments[index];
        let base = segment.base;
        match segment.index_file {
            FileState::Missing if self.removals.contains(FileName::Index(base)) => {}
            FileState::Missing => {
                segment.index_file = FileState::Creating;
                self.under_way.save = true;
                let operation = StorageOperation::Create {
                    file: FileName::Index(base),
                };
                self.operations
                    .start_repeated(Pending::CreateIndex(base), operation, out);
            }
            FileState::Ready => {
                let wants_end = is_sealed || self.closing;
                let (saving, contents) = self.save(index, wants_end);
                let operation = StorageOperation::Write {
                    file: FileName::Index(base),
                    position: self.segments[index].index_length,
                    slices: vec![Slice::from_vec(contents)],
                };
                self.under_way.save = true;
                self.operations
                    .start_repeated(Pending::Save(saving), operation, out);
            }
            FileState::Creating | FileState::Broken => {}
        }
    }

    /// Release space that was reserved ahead of the writer and is not needed any more.
    pub(crate) fn start_trim(&mut self, out: &mut Vec<StorageRequest>) {
        for index in (0..self.segments.len()).rev() {
            let is_sealed = index + 1 < self.segments.len();
            let segment = &mut self.segments[index];
            if segment.needs_no_storage() {
                break;
            }
            if segment.has_reserve && segment.synced == segment.size && (is_sealed || self.closing)
            {
                segment.has_reserve = false;
                segment.allocated = u64::MAX;
                let base = segment.base;
                let operation = StorageOperation::Truncate {
                    file: FileName::Log(base),
                    length: segment.size,
                };
                self.start_maintenance(base, operation, out);
            }
        }
    }

    fn save(&self, index: usize, wants_end: bool) -> (Saving, Vec<u8>) {
        let segment = &self.segments[index];
        let codec = Codec::new(self.generation, segment.base);
        let unsaved = segment.index.unsaved(segment.synced);
        let entries = &unsaved[..unsaved.len().min(ENTRIES_PER_SAVE_MAX)];
        let mut contents = Vec::with_capacity((entries.len() + 1) * ENTRY_BYTES);
        for entry in entries {
            codec.encode(*entry, Kind::Boundary, &mut contents);
        }
        let is_complete = entries.len() == unsaved.len() && segment.synced == segment.size;
        let end = (wants_end && is_complete).then_some(segment.size);
        if let (Some(position), Some(timestamp)) = (end, segment.last_timestamp) {
            let entry = Entry {
                offset: segment.end.0,
                position,
                timestamp,
            };
            codec.encode(entry, Kind::End, &mut contents);
        }
        let saving = Saving {
            segment: segment.base,
            entries: entries.len(),
            end,
        };
        (saving, contents)
    }

    fn segment_to_save(&self) -> Option<usize> {
        let from_end = self
            .segments
            .iter()
            .rev()
            .take_while(|segment| !segment.needs_no_storage())
            .enumerate()
            .filter(|(_, segment)| !self.is_index_up_to_date(segment))
            .map(|(from_end, _)| from_end)
            .last()?;
        Some(self.segments.len() - 1 - from_end)
    }

    /// Return whether the index file is as complete as it can be now.
    pub(crate) fn is_index_up_to_date(&self, segment: &Segment) -> bool {
        if segment.index_file == FileState::Broken
            || segment.size == 0
            || segment.end_saved && segment.synced == segment.size
        {
            return true;
        }
        let open = self.segments.back();
        let is_open = open.is_some_and(|open| open.base == segment.base);
        let needs_end = segment.synced == segment.size
            && if is_open {
                // A short log is scanned as fast as its index is read.
                self.closing
                    && (segment.size > COARSE_INTERVAL_BYTES
                        || segment.index_file != FileState::Missing)
            } else {
                true
            };
        !needs_end && segment.index.unsaved(segment.synced).is_empty()
    }

    pub(crate) fn index_created(&mut self, base: Offset, succeeded: bool) {
        self.under_way.save = false;
        if let Some(segment) = self.segment_mut(base) {
            segment.index_length = 0;
            segment.index_file = if succeeded {
                FileState::Ready
            } else {
                FileState::Broken
            };
        }
    }

    /// Handle the end of a write to an index file. A failure only delays the next start, because an index is derived
    /// from its log.
    pub(crate) fn saved(&mut self, saving: &Saving, succeeded: bool) {
        self.under_way.save = false;
        let caching = self.config.index_caching;
        let tail_start = self
            .tail
            .front()
            .map(|chunk| (chunk.segment, chunk.position));
        let Some(segment) = self.segment_mut(saving.segment) else {
            return;
        };
        if !succeeded {
            segment.index_file = FileState::Broken;
            return self.unload_beyond_limit();
        }
        let written = saving.entries + usize::from(saving.end.is_some());
        segment.index_length += (written * ENTRY_BYTES) as u64;
        segment.index.mark_saved(saving.entries);
        if saving.end == Some(segment.size) {
            segment.end_saved = true;
        }
        if caching == IndexCaching::None && segment.index.recent_count() > SAVED_ENTRIES_KEPT_MAX {
            let position = match tail_start {
                Some((base, position)) if base == saving.segment => position,
                _ => segment.written,
            };
            segment.index.forget_saved_before(position);
        }
        // Unload here as well: readers and producers at the end of the log never trigger a load.
        if segment.needs_no_storage() {
            self.unload_beyond_limit();
        }
    }
}
