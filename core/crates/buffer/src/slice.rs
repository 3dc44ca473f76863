//! Shared, read-only bytes.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Bound, Deref, RangeBounds};

use crate::buffer::Buffer;

/// Shared, read-only bytes. A clone or a sub-slice costs one reference count.
#[derive(Clone)]
pub struct Slice {
    source: Source,
    start: usize,
    end: usize,
}

#[derive(Clone)]
enum Source {
    Static(&'static [u8]),
    Shared(Arc<Buffer>),
}

impl Slice {
    /// Share static bytes of the program.
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self {
            source: Source::Static(bytes),
            start: 0,
            end: bytes.len(),
        }
    }

    /// Share bytes outside the pool, for small replies.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Buffer::unpooled(bytes).freeze()
    }

    pub(crate) fn shared(buffer: Arc<Buffer>, start: usize, end: usize) -> Self {
        debug_assert!(
            start <= end && end <= buffer.full().len(),
            "a slice lies within its buffer"
        );
        Self {
            source: Source::Shared(buffer),
            start,
            end,
        }
    }

    /// Number of bytes.
    pub const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Return whether the slice is empty.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Share a part of this slice.
    ///
    /// # Panics
    /// If `range` is not within `0..len()`.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        assert!(
            start <= end && end <= self.len(),
            "{start}..{end} is not within a slice of {} bytes",
            self.len()
        );
        Self {
            source: self.source.clone(),
            start: self.start + start,
            end: self.start + end,
        }
    }

    /// Memory in bytes that this slice keeps alive: the whole underlying buffer.
    pub fn capacity_bytes(&self) -> usize {
        match &self.source {
            Source::Static(_) => 0,
            Source::Shared(buffer) => buffer.footprint_bytes(),
        }
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self::from_static(&[])
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = match &self.source {
            Source::Static(bytes) => bytes,
            Source::Shared(buffer) => buffer.full(),
        };
        &bytes[self.start..self.end]
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Buffer> for Slice {
    fn from(buffer: Buffer) -> Self {
        buffer.freeze()
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_vec(bytes)
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Slice {}

impl fmt::Debug for Slice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Slice")
            .field("length", &self.len())
            .field("capacity", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn parts_of_parts_are_taken_relative_to_their_slice() {
        let whole = Slice::from_vec(vec![0, 1, 2, 3, 4, 5]);
        let part = whole.slice(2..);
        assert_eq!(&*part, &[2, 3, 4, 5]);
        assert_eq!(&*part.slice(1..=2), &[3, 4]);
        assert!(part.slice(4..).is_empty());
        assert_eq!(part.capacity_bytes(), whole.capacity_bytes());
    }

    #[test]
    #[should_panic(expected = "is not within")]
    fn a_part_never_reaches_beyond_its_slice() {
        let part = Slice::from_vec(vec![0, 1, 2, 3]).slice(..2);
        drop(part.slice(..3));
    }

    #[test]
    fn static_bytes_keep_no_memory_alive() {
        let slice = Slice::from_static(b"abc");
        assert_eq!(&*slice.slice(1..), b"bc");
        assert_eq!(slice.capacity_bytes(), 0);
        assert!(Slice::default().is_empty());
    }
}
