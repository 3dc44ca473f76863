//! Arrays in Arrow's layout, as they are handed over.

/// Memory of an array, aligned for its values, which are little-endian on every host that Headrace runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buffer {
    /// Bytes, or bits: the least significant one first.
    Bytes(Vec<u8>),
    /// Where values begin, with one more for the end of the last; or numbers.
    Int32(Vec<i32>),
    /// Numbers.
    Int64(Vec<i64>),
}

impl Buffer {
    /// The memory.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Int32(values) => bytemuck::cast_slice(values),
            Self::Int64(values) => bytemuck::cast_slice(values),
        }
    }
}

/// An array with its buffers in the order of Arrow's layout for its type; the first is always that of the bits that
/// say which values are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Values, those that are null included.
    pub length: usize,
    /// Values that are null.
    pub null_count: usize,
    /// The buffers. The first is absent if no value is null.
    pub buffers: Vec<Option<Buffer>>,
    /// Of a list its values; of a struct its fields.
    pub children: Vec<Array>,
}

impl Array {
    /// Numbers, none of which is null.
    pub(crate) fn numbers(length: usize, values: Buffer) -> Self {
        Self {
            length,
            null_count: 0,
            buffers: vec![None, Some(values)],
            children: Vec::new(),
        }
    }

    /// Bytes all along.
    pub fn size_bytes(&self) -> usize {
        let own = self.buffers.iter().flatten();
        own.map(|buffer| buffer.as_bytes().len()).sum::<usize>()
            + self.children.iter().map(Self::size_bytes).sum::<usize>()
    }
}
