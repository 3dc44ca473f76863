//! Parts of arrays while rows are added to them.

use std::mem;

use crate::array::{Array, Buffer};

/// Hand over what `values` holds. The next batch will need about as much room.
pub(super) fn hand_over<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    mem::replace(values, next)
}

/// Bits that say which values are there.
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

    /// How many are null, and the bits if any is.
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

/// Where values begin, and the last one ends. Whoever adds them sees to it that positions stay below 2 GiB.
#[derive(Debug)]
pub(super) struct Offsets(Vec<i32>);

impl Default for Offsets {
    fn default() -> Self {
        Self(vec![0])
    }
}

impl Offsets {
    /// Values so far.
    pub(super) fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// The value that is added ends here.
    #[inline]
    pub(super) fn push(&mut self, end: usize) {
        let end = i32::try_from(end).expect("a batch has less than 2 GiB");
        self.0.push(end);
    }

    /// Where the last value ends.
    pub(super) fn end(&self) -> usize {
        self.0.last().map_or(0, |&end| {
            usize::try_from(end).expect("positions are not negative")
        })
    }

    /// Forget all values but the first ones.
    fn truncate(&mut self, values_count: usize) {
        self.0.truncate(values_count + 1);
    }

    pub(super) fn finish(&mut self) -> Buffer {
        let values = hand_over(&mut self.0);
        self.0.push(0);
        Buffer::Int32(values)
    }
}

/// Values of any length, back to back.
#[derive(Debug, Default)]
pub(super) struct Binary {
    offsets: Offsets,
    data: Vec<u8>,
}

impl Binary {
    /// Values so far.
    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// There will be so many bytes more.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.data.reserve(bytes);
    }

    #[inline]
    pub(super) fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len());
    }

    /// Add the value that `write` appends; none if it says so.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
        let start = self.data.len();
        if write(&mut self.data).is_none() {
            self.data.truncate(start);
            return None;
        }
        self.offsets.push(self.data.len());
        Some(())
    }

    /// Forget all values but the first ones.
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
