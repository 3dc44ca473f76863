//! A buffer with one owner.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::ops::{Deref, DerefMut};

use crate::memory::Memory;
use crate::pool::PoolReturn;
use crate::slice::Slice;

/// A byte buffer with one owner, which may write to it or let the kernel write to it.
///
/// Dereferences to its first `len()` bytes; the capacity behind them is fixed. Dropping the buffer returns the memory
/// to its pool.
pub struct Buffer {
    memory: Memory,
    length: usize,
    home: Option<PoolReturn>,
}

impl Buffer {
    /// Make a buffer outside any pool; capacity and length are those of `bytes`.
    pub fn unpooled(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self {
            length: bytes.len(),
            memory: Memory::External(bytes),
            home: None,
        }
    }

    pub(crate) fn pooled(memory: Memory, length: usize, home: PoolReturn) -> Self {
        debug_assert!(
            length <= memory.bytes().len(),
            "the class holds what was asked for"
        );
        Self {
            memory,
            length,
            home: Some(home),
        }
    }

    /// Maximum length for `set_len`.
    pub fn capacity(&self) -> usize {
        self.memory.bytes().len()
    }

    /// Change the length. Bytes that become visible have unspecified, initialised content.
    ///
    /// # Panics
    /// If `length` exceeds the capacity.
    pub fn set_len(&mut self, length: usize) {
        assert!(
            length <= self.capacity(),
            "length {length} exceeds the capacity"
        );
        self.length = length;
    }

    /// All bytes up to the capacity, to be filled before the length is set.
    pub fn as_full_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// Share the first `len()` bytes, which become immutable.
    pub fn freeze(self) -> Slice {
        let length = self.length;
        Slice::shared(Arc::new(self), 0, length)
    }

    pub(crate) fn full(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// Memory that this buffer occupies in bytes.
    pub(crate) fn footprint_bytes(&self) -> usize {
        self.memory.footprint_bytes()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.release(mem::replace(&mut self.memory, Memory::empty()));
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[..self.length]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.length]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("length", &self.length)
            .field("capacity", &self.capacity())
            .field("pooled", &self.home.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferPool;

    #[test]
    fn the_length_moves_within_the_capacity() {
        let pool = BufferPool::new(1 << 20);
        let mut buffer = pool.acquire(300).expect("within the budget");
        assert_eq!((buffer.len(), buffer.capacity()), (300, 512));
        buffer.as_full_mut()[511] = 7;
        buffer.set_len(512);
        assert_eq!(buffer[511], 7);
        buffer.set_len(3);
        assert_eq!(buffer.len(), 3);
    }

    #[test]
    #[should_panic(expected = "exceeds the capacity")]
    fn a_length_beyond_the_capacity_is_a_bug() {
        Buffer::unpooled(&b"abc"[..]).set_len(4);
    }

    #[test]
    fn unpooled_bytes_are_kept_as_they_came() {
        let mut buffer = Buffer::unpooled(&b"abc"[..]);
        buffer[0] = b'x';
        assert_eq!(&*buffer.freeze(), b"xbc");
    }
}
