//! Segments of a log.

use alloc::collections::VecDeque;
use alloc::collections::vec_deque::Iter;
use core::ops::{Index, IndexMut};

use headrace_model::Offset;

use crate::segment::Segment;
use crate::writing::tail::Chunk;

/// Segments, oldest first; the last one is open. Empty before the first message.
///
/// Invariant: the base offsets ascend, and each segment begins where the one before ends, or behind lost messages.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    list: VecDeque<Segment>,
    /// Number of bytes appended to all of them, including those still in memory.
    size_bytes: u64,
}

impl Segments {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> Iter<'_, Segment> {
        self.list.iter()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Segment> {
        self.list.get(index)
    }

    /// The oldest segment.
    pub(crate) fn front(&self) -> Option<&Segment> {
        self.list.front()
    }

    /// The open segment.
    pub(crate) fn back(&self) -> Option<&Segment> {
        self.list.back()
    }

    pub(crate) fn back_mut(&mut self) -> Option<&mut Segment> {
        self.list.back_mut()
    }

    pub(crate) fn push_back(&mut self, segment: Segment) {
        debug_assert!(
            self.list.back().is_none_or(|open| open.base < segment.base),
            "base offsets ascend"
        );
        self.list.push_back(segment);
    }

    pub(crate) fn pop_back(&mut self) -> Option<Segment> {
        self.list.pop_back()
    }

    /// Take out the oldest segment.
    pub(crate) fn pop_front(&mut self) -> Option<Segment> {
        let oldest = self.list.pop_front()?;
        self.size_bytes -= oldest.size;
        Some(oldest)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Number of bytes of all segments.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Count bytes that were appended to the open segment.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.size_bytes += bytes;
    }

    /// Count all bytes, once recovery has put the segments together.
    pub(crate) fn recount(&mut self) {
        self.size_bytes = self.list.iter().map(|segment| segment.size).sum();
    }

    /// Return whether the segment at `index` is sealed.
    pub(crate) fn is_sealed(&self, index: usize) -> bool {
        index + 1 < self.list.len()
    }

    /// Index of the segment that starts at `base`, unless it was removed.
    pub(crate) fn index_of(&self, base: Offset) -> Option<usize> {
        let index = self.list.partition_point(|segment| segment.base < base);
        (self.list.get(index)?.base == base).then_some(index)
    }

    /// The segment that starts at `base`, unless it was removed.
    pub(crate) fn at_mut(&mut self, base: Offset) -> Option<&mut Segment> {
        let index = self.index_of(base)?;
        self.list.get_mut(index)
    }

    /// Base offset of the segment that holds this offset; the offset is not before the first one.
    pub(crate) fn base_of(&self, offset: Offset) -> Offset {
        let after = self.list.partition_point(|segment| segment.base <= offset);
        self.list[after.saturating_sub(1)].base
    }

    /// Number of bytes written and not known to be on the device.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.list
            .iter()
            .rev()
            .take_while(|segment| segment.synced < segment.size || segment.size == 0)
            .map(Segment::unsynced)
            .sum()
    }

    /// Unload the least recently used indexes of sealed segments beyond this number.
    pub(crate) fn unload_beyond(&mut self, limit: usize) {
        let sealed = self.list.len().saturating_sub(1);
        loop {
            let loaded = || {
                let sealed = self.list.iter().take(sealed);
                sealed.filter(|segment| segment.index.is_loaded() && segment.needs_no_storage())
            };
            if loaded().count() <= limit {
                return;
            }
            let Some(oldest) = loaded().min_by_key(|segment| segment.index.used) else {
                return;
            };
            let base = oldest.base;
            if let Some(segment) = self.at_mut(base) {
                segment.index.unload(segment.size);
            }
        }
    }

    /// Unload the indexes of all sealed segments that can be loaded again.
    pub(crate) fn unload_all(&mut self) {
        let sealed = self.list.len().saturating_sub(1);
        for segment in self.list.iter_mut().take(sealed) {
            if segment.needs_no_storage() {
                segment.index.unload(segment.size);
            }
        }
    }

    /// Return whether all of a chunk is in its log file.
    pub(crate) fn is_written(&self, chunk: &Chunk) -> bool {
        match self.index_of(chunk.segment) {
            Some(index) => self.list[index].written >= chunk.position + chunk.bytes().len() as u64,
            None => true,
        }
    }

    /// Timestamp of the last message up to this segment, or the segment whose index has to be loaded first.
    pub(crate) fn last_timestamp_of(&self, index: usize) -> Result<u64, Offset> {
        let mut last = 0;
        for segment in self.list.range(..=index).rev() {
            last = last.max(segment.last_timestamp.ok_or(segment.base)?);
            // The timestamps of damaged messages are not known: they are not earlier than those of the messages before.
            if !segment.index.rebuilt {
                break;
            }
        }
        Ok(last)
    }

    /// Timestamp of the oldest segment's last message, or the segment whose index has to be loaded first.
    ///
    /// The timestamps of damaged messages at the end of a segment are not known: those of later segments bound them.
    pub(crate) fn last_timestamp_of_oldest(&self) -> Result<u64, Offset> {
        let mut last = 0;
        for segment in &self.list {
            last = last.max(segment.last_timestamp.ok_or(segment.base)?);
            if !segment.index.rebuilt {
                break;
            }
        }
        Ok(last)
    }
}

impl Index<usize> for Segments {
    type Output = Segment;

    fn index(&self, index: usize) -> &Segment {
        &self.list[index]
    }
}

impl IndexMut<usize> for Segments {
    fn index_mut(&mut self, index: usize) -> &mut Segment {
        &mut self.list[index]
    }
}
