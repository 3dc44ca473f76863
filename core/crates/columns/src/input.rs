//! Arrays in the caller's layout. All positions are validated, because the buffers are not trusted.

/// Validity bitmap of an array, and start of the array in its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Validity<'a> {
    /// Validity bitmap, least significant bit first; absent if no value is null.
    pub validity: Option<&'a [u8]>,
    /// Number of values in the buffers before the first of this array.
    pub first: usize,
}

/// Error for buffers that end before the values do, or positions that decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfBounds;

type Found<T> = Result<T, OutOfBounds>;

impl Validity<'_> {
    /// Slot of a row's value in the buffers; None if the value is null.
    #[inline]
    fn slot(&self, row: usize) -> Found<Option<usize>> {
        let slot = self.first.checked_add(row).ok_or(OutOfBounds)?;
        let Some(bits) = self.validity else {
            return Ok(Some(slot));
        };
        let byte = bits.get(slot / 8).ok_or(OutOfBounds)?;
        Ok((byte >> (slot % 8) & 1 == 1).then_some(slot))
    }
}

/// Start and end positions of values. Numbers are little-endian and need not be aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions<'a> {
    /// 32-bit start of each value, and the end of the last one.
    Small(&'a [u8]),
    /// 64-bit start of each value, and the end of the last one.
    Large(&'a [u8]),
    /// All values have this size in bytes.
    Fixed(usize),
}

impl Positions<'_> {
    #[inline]
    fn of(&self, slot: usize) -> Found<(usize, usize)> {
        let (start, end) = match *self {
            Self::Small(bytes) => (
                usize::try_from(i32::from_le_bytes(number(bytes, slot)?)),
                usize::try_from(i32::from_le_bytes(number(bytes, slot + 1)?)),
            ),
            Self::Large(bytes) => (
                usize::try_from(i64::from_le_bytes(number(bytes, slot)?)),
                usize::try_from(i64::from_le_bytes(number(bytes, slot + 1)?)),
            ),
            Self::Fixed(width) => {
                let start = slot.checked_mul(width).ok_or(OutOfBounds)?;
                return Ok((start, start.checked_add(width).ok_or(OutOfBounds)?));
            }
        };
        match (start, end) {
            (Ok(start), Ok(end)) if start <= end => Ok((start, end)),
            _ => Err(OutOfBounds),
        }
    }
}

/// Read the number in a slot of a buffer.
#[inline]
fn number<const BYTES: usize>(bytes: &[u8], slot: usize) -> Found<[u8; BYTES]> {
    let start = slot.checked_mul(BYTES).ok_or(OutOfBounds)?;
    let rest = bytes.get(start..).ok_or(OutOfBounds)?;
    rest.first_chunk().copied().ok_or(OutOfBounds)
}

/// Column of byte strings or texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary<'a> {
    /// Validity of the values.
    pub slots: Validity<'a>,
    /// Positions of the values.
    pub positions: Positions<'a>,
    /// Bytes of all values.
    pub data: &'a [u8],
}

impl<'a> Binary<'a> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Found<Option<&'a [u8]>> {
        let Some(slot) = self.slots.slot(row)? else {
            return Ok(None);
        };
        let (start, end) = self.positions.of(slot)?;
        self.data.get(start..end).ok_or(OutOfBounds).map(Some)
    }
}

/// Column of little-endian numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers<'a> {
    /// Validity of the numbers.
    pub slots: Validity<'a>,
    /// Bytes of all numbers.
    pub values: &'a [u8],
}

impl Numbers<'_> {
    /// Read a 64-bit number.
    #[inline]
    pub(crate) fn int64(&self, row: usize) -> Found<Option<i64>> {
        let slot = self.slots.slot(row)?;
        slot.map(|slot| number(self.values, slot).map(i64::from_le_bytes))
            .transpose()
    }

    /// Read a 32-bit number.
    #[inline]
    pub(crate) fn int32(&self, row: usize) -> Found<Option<i32>> {
        let slot = self.slots.slot(row)?;
        slot.map(|slot| number(self.values, slot).map(i32::from_le_bytes))
            .transpose()
    }
}

/// Column of lists of key-value pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists<'a> {
    /// Validity of the lists.
    pub slots: Validity<'a>,
    /// Positions of the lists in the pairs.
    pub positions: Positions<'a>,
    /// Validity of the pairs.
    pub pairs: Validity<'a>,
    /// Keys of the pairs.
    pub keys: Binary<'a>,
    /// Values of the pairs.
    pub values: Binary<'a>,
}

impl<'a> Lists<'a> {
    /// Range of the pairs of a list; empty if the list is null.
    pub(crate) fn get(&self, row: usize) -> Found<std::ops::Range<usize>> {
        let Some(slot) = self.slots.slot(row)? else {
            return Ok(0..0);
        };
        let (start, end) = self.positions.of(slot)?;
        Ok(start..end)
    }

    /// Key and value of a pair; None if the pair, its key or its value is null.
    pub(crate) fn pair(&self, pair: usize) -> Found<Option<(&'a [u8], &'a [u8])>> {
        if self.pairs.slot(pair)?.is_none() {
            return Ok(None);
        }
        Ok(self.keys.get(pair)?.zip(self.values.get(pair)?))
    }
}

/// Rows to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows<'a> {
    /// Number of rows in every column.
    pub count: usize,
    /// Payloads.
    pub value: Binary<'a>,
    /// Keys, which are stored in the user headers and may determine the partition.
    pub key: Option<Binary<'a>>,
    /// User headers: keys become texts, values raw bytes.
    pub headers: Option<Lists<'a>>,
    /// Ids of 16 bytes; the server assigns missing ones.
    pub id: Option<Binary<'a>>,
    /// Origin timestamps, 64 bits, microseconds since the Unix epoch.
    pub timestamp: Option<Numbers<'a>>,
    /// Partitions, 32 bits.
    pub partition: Option<Numbers<'a>>,
}
