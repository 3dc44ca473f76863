//! Append-only buffer that can be shared between appends.

use alloc::sync::Arc;
use core::fmt;
use core::ops::{Deref, Range};

use crate::buffer::Buffer;
use crate::slice::Slice;

/// A buffer filled from front to back; slices of the filled part can be shared between appends.
///
/// Nothing can be appended while a slice is alive: the memory is either written by its owner or read by others, never
/// both. After the last slice is dropped the owner may continue.
pub struct Block {
    buffer: Arc<Buffer>,
    filled: usize,
}

impl Block {
    /// Make an empty block with the buffer's whole capacity.
    pub fn new(buffer: Buffer) -> Self {
        Self {
            buffer: Arc::new(buffer),
            filled: 0,
        }
    }

    /// Return the next `length_bytes`, to be filled and [committed](Self::commit). None if they do not fit or a slice
    /// of the block is alive.
    pub fn spare_mut(&mut self, length_bytes: usize) -> Option<&mut [u8]> {
        let start = self.filled;
        let end = start.checked_add(length_bytes)?;
        Arc::get_mut(&mut self.buffer)?
            .as_full_mut()
            .get_mut(start..end)
    }

    /// Append the next `length_bytes` to the block.
    ///
    /// # Panics
    /// If they exceed the capacity.
    pub fn commit(&mut self, length_bytes: usize) {
        assert!(
            length_bytes <= self.remaining_bytes(),
            "committed bytes fit the block"
        );
        self.filled += length_bytes;
    }

    /// Number of free bytes.
    pub fn remaining_bytes(&self) -> usize {
        self.buffer.capacity() - self.filled
    }

    /// Memory that the block occupies in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.buffer.footprint_bytes()
    }

    /// Share a part of the filled bytes.
    ///
    /// # Panics
    /// If `range` is not within the filled bytes.
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(
            range.start <= range.end && range.end <= self.filled,
            "only filled bytes are shared"
        );
        Slice::shared(Arc::clone(&self.buffer), range.start, range.end)
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer.full()[..self.filled]
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Block")
            .field("filled", &self.filled)
            .field("capacity", &self.buffer.capacity())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(block: &mut Block, bytes: &[u8]) -> bool {
        let Some(spare) = block.spare_mut(bytes.len()) else {
            return false;
        };
        spare.copy_from_slice(bytes);
        block.commit(bytes.len());
        true
    }

    #[test]
    fn it_grows_only_while_no_slice_of_it_is_alive() {
        let mut block = Block::new(Buffer::unpooled([0; 8]));
        assert!(fill(&mut block, b"abc"));
        let shared = block.slice(0..3);
        assert!(!fill(&mut block, b"de"));
        assert_eq!(&*shared, b"abc");
        drop(shared);
        assert!(fill(&mut block, b"de"));
        assert_eq!(&*block, b"abcde");
    }

    #[test]
    fn it_never_grows_beyond_its_capacity() {
        let mut block = Block::new(Buffer::unpooled([0; 4]));
        assert!(fill(&mut block, b"abc"));
        assert!(!fill(&mut block, b"de"));
        assert!(fill(&mut block, b"d"));
        assert_eq!(block.remaining_bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "only filled bytes")]
    fn unfilled_bytes_are_never_shared() {
        drop(Block::new(Buffer::unpooled([0; 4])).slice(0..1));
    }
}
