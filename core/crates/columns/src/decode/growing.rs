//! Growable parts of arrays.

use std::mem;

use crate::array::{Array, Buffer};

/// Take the contents of `values`, and reserve as much room for the next batch.
pub(super) fn hand_over<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    mem::replace(values, next)
}

/// Validity bitmap.
#[derive(Debug, Default)]
pub(super) struct Validity {
    bits: Vec<u8>,
    length: usize,
    null_count: usize,
}

impl Validity {
    pub(super) fn push(&mut self, is_there: bool) {
        let bit = self.length % 8;
        if bit == 0 {
            self.bits.push(0);
        }
        let last = self.bits.last_mut().expect("pushed with its first bit");
        *last |= u8::from(is_there) << bit;
        self.length += 1;
        self.null_count += usize::from(!is_there);
    }

    /// Return the number of nulls, and the bitmap if there are any.
    pub(super) fn finish(&mut self) -> (usize, Option<Buffer>) {
        let null_count = mem::take(&mut self.null_count);
        self.length = 0;
        if null_count == 0 {
            self.bits.clear();
            return (0, None);
        }
        (null_count, Some(Buffer::Bytes(hand_over(&mut self.bits))))
    }
}

/// Start positions of values, and the end of the last one. The caller keeps positions below 2 GiB.
#[derive(Debug)]
pub(super) struct Offsets(Vec<i32>);

impl Default for Offsets {
    fn default() -> Self {
        Self(vec![0])
    }
}

impl Offsets {
    /// Number of values so far.
    pub(super) fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// End the value being added at this position.
    #[inline]
    pub(super) fn push(&mut self, end: usize) {
        let end = i32::try_from(end).expect("a batch has less than 2 GiB");
        self.0.push(end);
    }

    /// End position of the last value.
    pub(super) fn end(&self) -> usize {
        self.0.last().map_or(0, |&end| {
            usize::try_from(end).expect("positions are not negative")
        })
    }

    /// Drop all values but the first `values_count`.
    fn truncate(&mut self, values_count: usize) {
        self.0.truncate(values_count + 1);
    }

    pub(super) fn finish(&mut self) -> Buffer {
        let values = hand_over(&mut self.0);
        self.0.push(0);
        Buffer::Int32(values)
    }
}

/// Values of variable length, back to back.
#[derive(Debug, Default)]
pub(super) struct Binary {
    offsets: Offsets,
    data: Vec<u8>,
}

impl Binary {
    /// Number of values so far.
    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Reserve room for that many bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.data.reserve(bytes);
    }

    #[inline]
    pub(super) fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len());
    }

    /// Add the value that `write` appends; nothing is added if `write` returns None.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
        let start = self.data.len();
        if write(&mut self.data).is_none() {
            self.data.truncate(start);
            return None;
        }
        self.offsets.push(self.data.len());
        Some(())
    }

    /// Drop all values but the first `values_count`.
    pub(super) fn truncate(&mut self, values_count: usize) {
        self.offsets.truncate(values_count);
        self.data.truncate(self.offsets.end());
    }

    pub(super) fn finish(&mut self, (null_count, validity): (usize, Option<Buffer>)) -> Array {
        let length = self.len();
        Array {
            length,
            null_count,
            buffers: vec![
                validity,
                Some(self.offsets.finish()),
                Some(Buffer::Bytes(hand_over(&mut self.data))),
            ],
            children: Vec::new(),
        }
    }
}
