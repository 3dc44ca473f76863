//! In-memory index of one segment.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::Offset;

use crate::entry::{COARSE_INTERVAL_BYTES, Entry, Kind};

/// Known message boundaries of one segment.
///
/// Messages appended since the log was opened have an entry about every 8 KiB, here and in the index file. Entries for
/// older messages are loaded from the file when a poll needs them, one per 64 KiB: a read skips at most that much, and
/// the index takes an eighth of the memory.
#[derive(Debug)]
pub(crate) struct Index {
    base: Offset,
    /// Entries from `recent_start` on, complete.
    recent: Vec<Entry>,
    recent_start: u64,
    /// Number of entries of `recent` that the index file holds.
    saved: usize,
    /// Entries before `recent_start`, once loaded.
    older: Option<Box<[Entry]>>,
    /// Look-up counter at the last use; the least recently used index is dropped first.
    pub(crate) used: u64,
    /// True if the file was found wrong and the entries come from the log itself.
    pub(crate) rebuilt: bool,
}

impl Index {
    /// Index of a segment in which messages are appended from `start` on; entries before `start` are in the file, if
    /// any.
    pub(crate) fn new(base: Offset, start: u64) -> Self {
        Self {
            base,
            recent: Vec::new(),
            recent_start: start,
            saved: 0,
            older: None,
            used: 0,
            rebuilt: false,
        }
    }

    /// Index with the entries found by recovery, of which the first `saved` are in the file.
    pub(crate) fn recovered(base: Offset, start: u64, recent: Vec<Entry>, saved: usize) -> Self {
        Self {
            recent,
            saved,
            ..Self::new(base, start)
        }
    }

    /// Last boundary at or before this offset. None if the index has to be loaded first.
    pub(crate) fn floor(&self, offset: u64) -> Option<Entry> {
        self.last_where(|entry| entry.offset <= offset)
    }

    /// Last known boundary before which every message is older than `timestamp`.
    pub(crate) fn floor_by_timestamp(&self, timestamp: u64) -> Option<Entry> {
        self.last_where(|entry| entry.timestamp < timestamp)
    }

    /// Last boundary in memory at or before this position.
    pub(crate) fn floor_by_position(&self, position: u64) -> Entry {
        self.last_where(|entry| entry.position <= position)
            .unwrap_or(Entry::start(self.base))
    }

    /// First boundary in memory at or after this offset.
    pub(crate) fn ceiling(&self, offset: u64) -> Option<Entry> {
        let after = |entries: &[Entry]| {
            let index = entries.partition_point(|entry| entry.offset < offset);
            entries.get(index).copied()
        };
        self.older
            .as_deref()
            .and_then(after)
            .or_else(|| after(&self.recent))
    }

    /// First boundary in memory at or after this position.
    pub(crate) fn first_from_position(&self, position: u64) -> Option<Entry> {
        let from = |entries: &[Entry]| {
            let index = entries.partition_point(|entry| entry.position < position);
            entries.get(index).copied()
        };
        self.older
            .as_deref()
            .and_then(from)
            .or_else(|| from(&self.recent))
    }

    /// Return whether polls of messages from before the log was opened need a load. A short range is walked without an
    /// index, unless the index leads around damage.
    pub(crate) fn needs_load(&self) -> bool {
        self.older.is_none() && (self.recent_start > COARSE_INTERVAL_BYTES || self.rebuilt)
    }

    /// End of the range for which entries are loaded.
    pub(crate) fn recent_start(&self) -> u64 {
        self.recent_start
    }

    pub(crate) fn set_older(&mut self, entries: Vec<Entry>) {
        self.older = Some(entries.into_boxed_slice());
    }

    /// Entries to which stamping appends.
    pub(crate) fn recent_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.recent
    }

    pub(crate) fn recent_count(&self) -> usize {
        self.recent.len()
    }

    /// Drop the entries of a batch that was refused after stamping.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.recent.truncate(count);
    }

    /// Position of the last entry, or of the segment's start.
    pub(crate) fn last_position(&self) -> u64 {
        self.recent
            .last()
            .map_or(self.recent_start, |entry| entry.position)
    }

    /// Entries that may now be written to the file: those of messages on the device.
    pub(crate) fn unsaved(&self, synced: u64) -> &[Entry] {
        let unsaved = &self.recent[self.saved..];
        &unsaved[..unsaved.partition_point(|entry| entry.position < synced)]
    }

    pub(crate) fn mark_saved(&mut self, count: usize) {
        self.saved += count;
    }

    /// Memory of the entries in bytes, including spare capacity.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let older = self.older.as_deref().map_or(0, <[Entry]>::len);
        ((self.recent.capacity() + older) * size_of::<Entry>()) as u64
    }

    /// Return whether a sealed segment's index occupies memory.
    pub(crate) fn is_loaded(&self) -> bool {
        self.older.is_some() || !self.recent.is_empty()
    }

    /// Drop the entries that the file holds as well. `end` is the end of the segment.
    pub(crate) fn unload(&mut self, end: u64) {
        *self = Self {
            rebuilt: self.rebuilt,
            ..Self::new(self.base, end)
        };
    }

    /// Drop entries before `position` that the file holds as well, to bound memory while a segment is open.
    pub(crate) fn forget_saved_before(&mut self, position: u64) {
        let before = self
            .recent
            .partition_point(|entry| entry.position < position);
        let count = before.min(self.saved).saturating_sub(1);
        if count > 0 {
            self.recent.drain(..count);
            self.recent.shrink_to(2 * self.recent.len());
            self.saved -= count;
            self.recent_start = self.recent[0].position;
            self.older = None;
        }
    }

    fn last_where(&self, holds: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let last = |entries: &[Entry]| {
            let index = entries.partition_point(&holds);
            index.checked_sub(1).map(|index| entries[index])
        };
        if let Some(entry) = last(&self.recent) {
            return Some(entry);
        }
        if self.needs_load() {
            return None;
        }
        let entry = self.older.as_deref().and_then(last);
        Some(entry.unwrap_or(Entry::start(self.base)))
    }
}

/// Keep an entry if it is far enough behind the last one kept, or if it is the only way past damage.
pub(crate) fn push_coarse(entries: &mut Vec<Entry>, entry: Entry, kind: Kind) {
    let last = entries.last().map_or(0, |last| last.position);
    if kind == Kind::Resumed || entry.position - last >= COARSE_INTERVAL_BYTES {
        entries.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(offset: u64, position: u64) -> Entry {
        Entry {
            offset,
            position,
            timestamp: offset * 10,
        }
    }

    fn index() -> Index {
        let recent = [entry(200, 200_000), entry(210, 210_000)].to_vec();
        Index::recovered(Offset(100), 200_000, recent, 1)
    }

    /// LOG-2: look-up of positions by offset and by timestamp.
    #[test]
    fn look_ups_find_the_last_boundary_before() {
        let mut index = index();
        assert_eq!(index.floor(205), Some(entry(200, 200_000)));
        assert_eq!(index.floor(210), Some(entry(210, 210_000)));
        assert_eq!(index.floor(199), None, "has to be loaded");
        index.set_older([entry(150, 100_000)].to_vec());
        assert_eq!(index.floor(199), Some(entry(150, 100_000)));
        assert_eq!(index.floor(120), Some(Entry::start(Offset(100))));
        assert_eq!(index.floor_by_timestamp(1501), Some(entry(150, 100_000)));
        assert_eq!(
            index.floor_by_timestamp(1500),
            Some(Entry::start(Offset(100)))
        );
        assert_eq!(index.ceiling(120), Some(entry(150, 100_000)));
        assert_eq!(index.ceiling(151), Some(entry(200, 200_000)));
        assert_eq!(index.ceiling(211), None);
        assert_eq!(index.floor_by_position(209_999), entry(200, 200_000));
        let first = |position| index.first_from_position(position);
        assert_eq!(first(1), Some(entry(150, 100_000)));
        assert_eq!(first(100_001), Some(entry(200, 200_000)));
        assert_eq!(first(210_001), None);
    }

    /// LOG-11: entries beyond the synced end are never written to the file.
    #[test]
    fn only_synced_entries_are_saved() {
        let mut index = index();
        assert_eq!(index.unsaved(210_000), []);
        assert_eq!(index.unsaved(210_001), [entry(210, 210_000)]);
        index.mark_saved(1);
        assert_eq!(index.unsaved(u64::MAX), []);
    }

    /// LOG-5: saved entries can be dropped and are loaded again.
    #[test]
    fn saved_entries_can_be_forgotten() {
        let mut index = index();
        index.mark_saved(1);
        index.forget_saved_before(u64::MAX);
        assert_eq!(index.floor(205), None);
        assert_eq!(index.floor(210), Some(entry(210, 210_000)));
        index.unload(220_000);
        assert_eq!(index.floor(210), None);
        assert!(!index.is_loaded());
    }

    #[test]
    fn short_segments_are_searched_from_their_start() {
        let index = Index::new(Offset(100), COARSE_INTERVAL_BYTES);
        assert_eq!(index.floor(150), Some(Entry::start(Offset(100))));
    }
}
