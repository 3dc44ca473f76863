//! Arrays in Arrow's layout, as returned to callers.

/// Memory of an array, aligned for its values. Values are little-endian on every supported host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buffer {
    /// Bytes, or bits with the least significant one first.
    Bytes(Vec<u8>),
    /// Start positions of values, with one more for the end of the last; or numbers.
    Int32(Vec<i32>),
    /// Numbers.
    Int64(Vec<i64>),
}

impl Buffer {
    /// Return the memory as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Int32(values) => bytemuck::cast_slice(values),
            Self::Int64(values) => bytemuck::cast_slice(values),
        }
    }
}

/// An array with its buffers in the order of Arrow's layout for its type; the first is always the validity bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Number of values, including nulls.
    pub length: usize,
    /// Number of nulls.
    pub null_count: usize,
    /// Buffers. The first is absent if no value is null.
    pub buffers: Vec<Option<Buffer>>,
    /// Child arrays: the values of a list, or the fields of a struct.
    pub children: Vec<Array>,
}

impl Array {
    /// Make an array of numbers without nulls.
    pub(crate) fn numbers(length: usize, values: Buffer) -> Self {
        Self {
            length,
            null_count: 0,
            buffers: vec![None, Some(values)],
            children: Vec::new(),
        }
    }

    /// Total size of all buffers in bytes.
    pub fn size_bytes(&self) -> usize {
        let own = self.buffers.iter().flatten();
        own.map(|buffer| buffer.as_bytes().len()).sum::<usize>()
            + self.children.iter().map(Self::size_bytes).sum::<usize>()
    }
}
