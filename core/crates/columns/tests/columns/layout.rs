//! Columns in the layouts of other producers: slices of larger arrays, with and without validity bitmap, with 32-bit
//! and 64-bit positions.

use headrace_columns::{Binary, Lists, Numbers, Positions, Rows, Validity};
use proptest::prelude::*;

/// A row of a test.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) value: Vec<u8>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) headers: Option<Vec<(String, Vec<u8>)>>,
    pub(crate) id: Option<Vec<u8>>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) partition: Option<i32>,
}

/// Layout of arrays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Number of values in the buffers before the array.
    pub(crate) before: usize,
    /// True for 64-bit positions.
    pub(crate) is_large: bool,
}

pub(crate) fn style() -> impl Strategy<Value = Style> {
    (0..20_usize, any::<bool>()).prop_map(|(before, is_large)| Style { before, is_large })
}

/// Buffers of an array of binary values.
#[derive(Debug)]
pub(crate) struct BinaryBuffers {
    style: Style,
    pub(crate) validity: Option<Vec<u8>>,
    pub(crate) positions: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// Buffers of all columns.
#[derive(Debug)]
pub(crate) struct Buffers {
    count: usize,
    style: Style,
    pub(crate) value: BinaryBuffers,
    pub(crate) key: BinaryBuffers,
    pub(crate) id: BinaryBuffers,
    pub(crate) timestamp: (Option<Vec<u8>>, Vec<u8>),
    pub(crate) partition: (Option<Vec<u8>>, Vec<u8>),
    pub(crate) lists: (Option<Vec<u8>>, Vec<u8>),
    pub(crate) header_keys: BinaryBuffers,
    pub(crate) header_values: BinaryBuffers,
}

/// Validity bitmap, including the values before the array; None if all values are valid.
fn bits(style: Style, there: &[bool]) -> Option<Vec<u8>> {
    if there.iter().all(|&there| there) {
        return None;
    }
    let mut bits = vec![0; (style.before + there.len()).div_ceil(8)];
    for (slot, _) in there.iter().enumerate().filter(|&(_, &there)| there) {
        let slot = style.before + slot;
        bits[slot / 8] |= 1 << (slot % 8);
    }
    Some(bits)
}

/// Positions of values with these lengths, after empty ones before the array.
fn positions(style: Style, lengths: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut ends = vec![0; style.before + 1];
    for length in lengths {
        ends.push(ends[ends.len() - 1] + length);
    }
    let number = |end: usize| {
        let end = i32::try_from(end).expect("short");
        if style.is_large {
            i64::from(end).to_le_bytes().to_vec()
        } else {
            end.to_le_bytes().to_vec()
        }
    };
    ends.into_iter().flat_map(number).collect()
}

fn as_positions(style: Style, bytes: &[u8]) -> Positions<'_> {
    if style.is_large {
        Positions::Large(bytes)
    } else {
        Positions::Small(bytes)
    }
}

impl BinaryBuffers {
    pub(crate) fn new<'a>(style: Style, values: impl Iterator<Item = Option<&'a [u8]>>) -> Self {
        let values: Vec<Option<&[u8]>> = values.collect();
        let there: Vec<bool> = values.iter().map(Option::is_some).collect();
        Self {
            style,
            validity: bits(style, &there),
            positions: positions(
                style,
                values.iter().map(|value| value.map_or(0, <[u8]>::len)),
            ),
            data: values.into_iter().flatten().flatten().copied().collect(),
        }
    }

    pub(crate) fn array(&self) -> Binary<'_> {
        Binary {
            slots: slots(self.style, self.validity.as_deref()),
            positions: as_positions(self.style, &self.positions),
            data: &self.data,
        }
    }
}

fn slots(style: Style, validity: Option<&[u8]>) -> Validity<'_> {
    Validity {
        validity,
        first: style.before,
    }
}

/// Validity bitmap and numbers, including those before the array.
fn numbers<const BYTES: usize>(
    style: Style,
    values: impl Iterator<Item = Option<[u8; BYTES]>>,
) -> (Option<Vec<u8>>, Vec<u8>) {
    let values: Vec<_> = values.collect();
    let there: Vec<bool> = values.iter().map(Option::is_some).collect();
    let mut bytes = vec![0; style.before * BYTES];
    for value in values {
        bytes.extend_from_slice(&value.unwrap_or([0; BYTES]));
    }
    (bits(style, &there), bytes)
}

impl Buffers {
    pub(crate) fn new(style: Style, rows: &[Row]) -> Self {
        let binary = |of: fn(&Row) -> Option<&[u8]>| BinaryBuffers::new(style, rows.iter().map(of));
        let there: Vec<bool> = rows.iter().map(|row| row.headers.is_some()).collect();
        let lists = || rows.iter().map(|row| row.headers.as_deref().unwrap_or(&[]));
        Self {
            count: rows.len(),
            style,
            value: binary(|row| Some(&row.value)),
            key: binary(|row| row.key.as_deref()),
            id: binary(|row| row.id.as_deref()),
            timestamp: numbers(
                style,
                rows.iter().map(|row| row.timestamp.map(i64::to_le_bytes)),
            ),
            partition: numbers(
                style,
                rows.iter().map(|row| row.partition.map(i32::to_le_bytes)),
            ),
            lists: (
                bits(style, &there),
                positions(style, lists().map(<[_]>::len)),
            ),
            header_keys: BinaryBuffers::new(
                style,
                lists().flatten().map(|(key, _)| Some(key.as_bytes())),
            ),
            header_values: BinaryBuffers::new(
                style,
                lists().flatten().map(|(_, value)| Some(value.as_slice())),
            ),
        }
    }

    /// All columns.
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows {
            count: self.count,
            value: self.value.array(),
            key: Some(self.key.array()),
            headers: Some(Lists {
                slots: slots(self.style, self.lists.0.as_deref()),
                positions: as_positions(self.style, &self.lists.1),
                pairs: slots(self.style, None),
                keys: self.header_keys.array(),
                values: self.header_values.array(),
            }),
            id: Some(self.id.array()),
            timestamp: Some(self.numbers(&self.timestamp)),
            partition: Some(self.numbers(&self.partition)),
        }
    }

    fn numbers<'a>(&self, (validity, values): &'a (Option<Vec<u8>>, Vec<u8>)) -> Numbers<'a> {
        Numbers {
            slots: slots(self.style, validity.as_deref()),
            values,
        }
    }
}
