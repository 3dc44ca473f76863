//! Syncing of written messages, and the resulting work: index entries and sealing.

use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

use crate::config::IndexCaching;
use crate::entry::{COARSE_INTERVAL_BYTES, Codec, ENTRY_BYTES, Entry, Kind};
use crate::manifest::SyncedEnd;
use crate::operations::pending::{Pending, Saving};
use crate::segment::{FileState, Segment};
use crate::state::LogState;
use crate::storage::{FileName, StorageError, StorageOperation, StorageRequest};
use crate::writing::Writer;

/// Maximum number of entries of one write to an index file.
const ENTRIES_PER_SAVE_MAX: usize = 4096;
/// Maximum number of saved entries of the open segment that stay in memory with `IndexCaching::None`.
const SAVED_ENTRIES_KEPT_MAX: usize = 4096;

impl Writer {
    /// Schedule a background sync, which bounds the loss of data when acknowledgements do not wait for a sync.
    pub(crate) fn schedule_sync(&mut self, now: Timestamp, state: &LogState) {
        if state.config.durability.needs_background_sync()
            && self.sync_deadline.is_none()
            && state.config.sync_interval_micros > 0
            && state.unsynced_bytes() > 0
        {
            self.sync_deadline = Some(Timestamp(now.0 + state.config.sync_interval_micros));
        }
    }

    /// Start a sync if one is due and none is under way. Writes continue meanwhile.
    pub(crate) fn start_sync(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        if self.sync {
            return;
        }
        let Some(index) = segment_to_sync(state) else {
            return;
        };
        if !self.sync_is_due(index, now, state) {
            return;
        }
        self.sync = true;
        let segment = &state.segments[index];
        let pending = Pending::Sync {
            segment: segment.base,
            position: segment.written,
            // Nothing behind this segment is written before all of it is synced.
            end: state.ends.written.min(segment.end),
        };
        let operation = StorageOperation::Sync {
            file: FileName::Log(segment.base),
        };
        state.operations.start(pending, operation, out);
    }

    fn sync_is_due(&self, index: usize, now: Timestamp, state: &LogState) -> bool {
        let segment = &state.segments[index];
        let is_sealed = state.segments.is_sealed(index);
        if state.config.durability.awaits_sync()
            || state.closing
            || self.sync_target > state.ends.synced
        {
            return true;
        }
        if is_sealed {
            // The next segment waits for this one: see `is_writable`.
            return segment.written == segment.size;
        }
        let limit = state.segment_size_bytes();
        let unsynced = segment.unsynced();
        self.sync_deadline.is_some_and(|deadline| deadline <= now)
            || state.config.sync_bytes > 0 && unsynced >= state.config.sync_bytes
            // Sync near the end of a segment, so that the next one hardly has to wait.
            || segment.written >= limit / 8 * 7 && unsynced >= limit / 32
    }

    pub(crate) fn synced(
        &mut self,
        (base, position, end): (Offset, u64, Offset),
        (now, state): (Timestamp, &mut LogState),
        result: Result<(), StorageError>,
    ) {
        self.sync = false;
        if let Err(error) = result {
            // The kernel drops pages that it could not write: a second sync would succeed without having stored them.
            state.fail_writes("syncing", FileName::Log(base), error);
            return;
        }
        let mut is_settled = false;
        if let Some(segment) = state.segments.at_mut(base) {
            segment.synced = segment.synced.max(position);
            is_settled = segment.needs_no_storage();
        }
        if is_settled {
            state.unload_beyond_limit();
        }
        state.ends.synced = state.ends.synced.max(end);
        note_synced(base, now, state);
        self.sync_deadline = None;
        self.schedule_sync(now, state);
    }

    /// Append index entries of messages now on the device, oldest segment first, and seal complete segments.
    pub(crate) fn start_save(&mut self, state: &mut LogState, out: &mut Vec<StorageRequest>) {
        if self.save {
            return;
        }
        let Some(index) = segment_to_save(state) else {
            return;
        };
        let is_sealed = state.segments.is_sealed(index);
        let segment = &mut state.segments[index];
        let base = segment.base;
        match segment.index_file.state {
            FileState::Missing if state.removals.contains(FileName::Index(base)) => {}
            FileState::Missing => {
                segment.index_file.state = FileState::Creating;
                self.save = true;
                let operation = StorageOperation::Create {
                    file: FileName::Index(base),
                };
                state
                    .operations
                    .start_repeated(Pending::CreateIndex(base), operation, out);
            }
            FileState::Ready => {
                let wants_end = is_sealed || state.closing;
                let (saving, contents) = save(index, wants_end, state);
                let operation = StorageOperation::Write {
                    file: FileName::Index(base),
                    position: state.segments[index].index_file.length,
                    slices: vec![Slice::from_vec(contents)],
                };
                self.save = true;
                state
                    .operations
                    .start_repeated(Pending::Save(saving), operation, out);
            }
            FileState::Creating | FileState::Broken => {}
        }
    }

    pub(crate) fn index_created(&mut self, base: Offset, succeeded: bool, state: &mut LogState) {
        self.save = false;
        if let Some(segment) = state.segments.at_mut(base) {
            segment.index_file.length = 0;
            segment.index_file.state = if succeeded {
                FileState::Ready
            } else {
                FileState::Broken
            };
        }
    }

    /// Handle the end of a write to an index file. A failure only delays the next start, because an index is derived
    /// from its log.
    pub(crate) fn saved(&mut self, saving: &Saving, succeeded: bool, state: &mut LogState) {
        self.save = false;
        let caching = state.config.index_caching;
        let tail_start = state
            .tail
            .front()
            .map(|chunk| (chunk.segment, chunk.position));
        let Some(segment) = state.segments.at_mut(saving.segment) else {
            return;
        };
        if !succeeded {
            segment.index_file.state = FileState::Broken;
            return state.unload_beyond_limit();
        }
        let written = saving.entries + usize::from(saving.end.is_some());
        segment.index_file.length += (written * ENTRY_BYTES) as u64;
        segment.index.mark_saved(saving.entries);
        if saving.end == Some(segment.size) {
            segment.index_file.has_end = true;
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
            state.unload_beyond_limit();
        }
    }
}

/// Oldest segment with bytes that are written and not synced.
fn segment_to_sync(state: &LogState) -> Option<usize> {
    let mut oldest = None;
    for (index, segment) in state.segments.iter().enumerate().rev() {
        if segment.unsynced() > 0 {
            oldest = Some(index);
        } else if segment.size > 0 && segment.synced == segment.size {
            break;
        }
    }
    oldest
}

fn note_synced(base: Offset, now: Timestamp, state: &mut LogState) {
    let Some(index) = state.segments.index_of(base) else {
        return;
    };
    let segment = &state.segments[index];
    let end = SyncedEnd {
        segment: base,
        offset: state.ends.synced,
        position: segment.synced,
        timestamp: segment.last_timestamp.unwrap_or(state.ends.last_timestamp),
    };
    let is_promised = state.config.durability.awaits_sync();
    state.record.note_synced(end, is_promised, now);
}

/// Release space that was reserved ahead of the writer and is not needed any more.
pub(crate) fn start_trim(state: &mut LogState, out: &mut Vec<StorageRequest>) {
    for index in (0..state.segments.len()).rev() {
        let is_sealed = state.segments.is_sealed(index);
        let segment = &mut state.segments[index];
        if segment.needs_no_storage() {
            break;
        }
        if segment.has_reserve && segment.synced == segment.size && (is_sealed || state.closing) {
            segment.has_reserve = false;
            segment.allocated = u64::MAX;
            let base = segment.base;
            let operation = StorageOperation::Truncate {
                file: FileName::Log(base),
                length: segment.size,
            };
            state.start_maintenance(base, operation, out);
        }
    }
}

fn save(index: usize, wants_end: bool, state: &LogState) -> (Saving, Vec<u8>) {
    let segment = &state.segments[index];
    let codec = Codec::new(state.record.generation, segment.base);
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

fn segment_to_save(state: &LogState) -> Option<usize> {
    let from_end = state
        .segments
        .iter()
        .rev()
        .take_while(|segment| !segment.needs_no_storage())
        .enumerate()
        .filter(|(_, segment)| !is_index_up_to_date(segment, state))
        .map(|(from_end, _)| from_end)
        .last()?;
    Some(state.segments.len() - 1 - from_end)
}

/// Return whether the index file is as complete as it can be now.
pub(crate) fn is_index_up_to_date(segment: &Segment, state: &LogState) -> bool {
    if segment.index_file.state == FileState::Broken
        || segment.size == 0
        || segment.index_file.has_end && segment.synced == segment.size
    {
        return true;
    }
    let open = state.segments.back();
    let is_open = open.is_some_and(|open| open.base == segment.base);
    let needs_end = segment.synced == segment.size
        && if is_open {
            // A short log is scanned as fast as its index is read.
            state.closing
                && (segment.size > COARSE_INTERVAL_BYTES
                    || segment.index_file.state != FileState::Missing)
        } else {
            true
        };
    !needs_end && segment.index.unsaved(segment.synced).is_empty()
}
