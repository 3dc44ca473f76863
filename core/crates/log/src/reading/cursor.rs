//! Positions of sequential readers, so that their next poll starts without a search.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

/// Maximum number of readers remembered per log.
const CURSORS_MAX: usize = 8;
/// Maximum number of remembered readers whose unread bytes are kept in memory.
const AHEAD_MAX: usize = 4;

/// A message boundary in a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Base offset of the segment.
    pub(crate) segment: Offset,
    /// Position in its log file.
    pub(crate) position: u64,
    /// Offset of the message that starts there.
    pub(crate) offset: u64,
}

/// Position at which a reader stopped.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    pub(crate) place: Place,
    /// Bytes from `place` on that were read and not used; may be empty.
    pub(crate) read_ahead: Slice,
    /// Mean size of the messages of the reader's last poll.
    pub(crate) message_bytes: u64,
    /// Number of successive polls that began where the one before ended.
    pub(crate) sequential: u8,
    /// Time at which the reader stopped.
    pub(crate) at: Timestamp,
}

/// Cursors of recent readers, most recent last.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Vec<Cursor>);

impl Cursors {
    /// Take the cursor of the reader that stopped at this offset, if any.
    pub(crate) fn take(&mut self, offset: u64) -> Option<Cursor> {
        let index = self
            .0
            .iter()
            .rposition(|cursor| cursor.place.offset == offset)?;
        Some(self.0.remove(index))
    }

    /// Remember the position at which a reader stopped.
    pub(crate) fn put(&mut self, mut cursor: Cursor) {
        // A remainder that keeps a much larger buffer alive is cheaper to read again.
        if cursor.read_ahead.len() * 8 < cursor.read_ahead.capacity_bytes() {
            cursor.read_ahead = Slice::default();
        }
        if self.0.len() == CURSORS_MAX {
            self.0.remove(0);
        }
        self.0.push(cursor);
        if let Some(index) = self.0.len().checked_sub(AHEAD_MAX + 1) {
            self.0[index].read_ahead = Slice::default();
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&Place) -> bool) {
        self.0.retain(|cursor| keep(&cursor.place));
    }

    /// Time at which the least recent reader with bytes in memory stopped.
    pub(crate) fn oldest_ahead(&self) -> Option<Timestamp> {
        self.with_ahead().map(|(_, cursor)| cursor.at).min()
    }

    /// Drop the read-ahead bytes of the least recent reader. Returns the memory they occupied.
    pub(crate) fn evict_oldest_ahead(&mut self) -> u64 {
        let oldest = self.with_ahead().min_by_key(|(_, cursor)| cursor.at);
        let Some(index) = oldest.map(|(index, _)| index) else {
            return 0;
        };
        let ahead = core::mem::take(&mut self.0[index].read_ahead);
        ahead.capacity_bytes() as u64
    }

    fn with_ahead(&self) -> impl Iterator<Item = (usize, &Cursor)> {
        let cursors = self.0.iter().enumerate();
        cursors.filter(|(_, cursor)| cursor.read_ahead.capacity_bytes() > 0)
    }

    /// Drop all cursors and release the list's own memory.
    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.0
            .iter()
            .map(|cursor| cursor.read_ahead.capacity_bytes() as u64)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn cursor(offset: u64) -> Cursor {
        Cursor {
            place: Place {
                segment: Offset(0),
                position: offset * 100,
                offset,
            },
            read_ahead: Slice::from_vec(vec![0; 100]),
            message_bytes: 100,
            sequential: 0,
            at: Timestamp(offset),
        }
    }

    #[test]
    fn a_reader_is_found_where_it_stopped_and_only_once() {
        let mut cursors = Cursors::default();
        cursors.put(cursor(10));
        assert!(cursors.take(11).is_none());
        assert_eq!(cursors.take(10).expect("put before").place.position, 1000);
        assert!(cursors.take(10).is_none());
    }

    /// SHARD-12: the cursors are bounded in number and in bytes.
    #[test]
    fn the_oldest_readers_are_forgotten_first() {
        let mut cursors = Cursors::default();
        for offset in 0..20 {
            cursors.put(cursor(offset));
        }
        assert_eq!(cursors.memory_bytes(), 400);
        assert!(cursors.take(11).is_none());
        assert!(
            cursors
                .take(12)
                .expect("among the last eight")
                .read_ahead
                .is_empty()
        );
        assert_eq!(cursors.oldest_ahead(), Some(Timestamp(16)));
        assert_eq!(cursors.evict_oldest_ahead(), 100);
        assert_eq!(cursors.oldest_ahead(), Some(Timestamp(17)));
        assert_eq!(cursors.memory_bytes(), 300);
        assert_eq!(cursors.take(19).expect("the last").read_ahead.len(), 100);
        let mut small = cursor(30);
        small.read_ahead = small.read_ahead.slice(..5);
        cursors.put(small);
        assert!(cursors.take(30).expect("the last").read_ahead.is_empty());
    }
}
