//! Arrays as somebody else has laid them out: nothing in them is believed.

/// Which values of an array are there, and where in its buffers the array begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slots<'a> {
    /// One bit for each value, the least significant one first; absent: all are there.
    pub validity: Option<&'a [u8]>,
    /// Values of the buffers before the first of this array.
    pub first: usize,
}

/// The buffers of an array end before its values do, or positions go backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfBounds;

type Found<T> = Result<T, OutOfBounds>;

impl Slots<'_> {
    /// Where the value of a row is in the buffers; none if it is null.
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

/// Where values begin and end. Numbers are little-endian, and need not be aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions<'a> {
    /// 32 bits for the beginning of each value, and one more for the end of the last.
    Small(&'a [u8]),
    /// The same with 64 bits.
    Large(&'a [u8]),
    /// All values have so many bytes.
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

/// The number in a slot of a buffer.
#[inline]
fn number<const BYTES: usize>(bytes: &[u8], slot: usize) -> Found<[u8; BYTES]> {
    let start = slot.checked_mul(BYTES).ok_or(OutOfBounds)?;
    let rest = bytes.get(start..).ok_or(OutOfBounds)?;
    rest.first_chunk().copied().ok_or(OutOfBounds)
}

/// Bytes or texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary<'a> {
    /// Which are there.
    pub slots: Slots<'a>,
    /// Where each is.
    pub positions: Positions<'a>,
    /// All of them.
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

/// Numbers, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers<'a> {
    /// Which are there.
    pub slots: Slots<'a>,
    /// All of them.
    pub values: &'a [u8],
}

impl Numbers<'_> {
    /// Of 64 bits.
    #[inline]
    pub(crate) fn int64(&self, row: usize) -> Found<Option<i64>> {
        let slot = self.slots.slot(row)?;
        slot.map(|slot| number(self.values, slot).map(i64::from_le_bytes))
            .transpose()
    }

    /// Of 32 bits.
    #[inline]
    pub(crate) fn int32(&self, row: usize) -> Found<Option<i32>> {
        let slot = self.slots.slot(row)?;
        slot.map(|slot| number(self.values, slot).map(i32::from_le_bytes))
            .transpose()
    }
}

/// A list of pairs of key and value in each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists<'a> {
    /// Which lists are there.
    pub slots: Slots<'a>,
    /// Where in the pairs each list is.
    pub positions: Positions<'a>,
    /// Which pairs are there.
    pub pairs: Slots<'a>,
    /// Keys of the pairs.
    pub keys: Binary<'a>,
    /// Values of the pairs.
    pub values: Binary<'a>,
}

impl<'a> Lists<'a> {
    /// Which pairs a list has; a list that is null has none.
    pub(crate) fn get(&self, row: usize) -> Found<std::ops::Range<usize>> {
        let Some(slot) = self.slots.slot(row)? else {
            return Ok(0..0);
        };
        let (start, end) = self.positions.of(slot)?;
        Ok(start..end)
    }

    /// Key and value of a pair; null if either is, or the pair itself.
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
    /// How many there are, in every column.
    pub count: usize,
    /// Payloads.
    pub value: Binary<'a>,
    /// Keys, which are kept in the user headers and choose the partition.
    pub key: Option<Binary<'a>>,
    /// User headers: the keys become texts, the values raw bytes.
    pub headers: Option<Lists<'a>>,
    /// Ids of 16 bytes; where there is none, the server gives one.
    pub id: Option<Binary<'a>>,
    /// Origin timestamps, 64 bits, microseconds since the Unix epoch.
    pub timestamp: Option<Numbers<'a>>,
    /// Partitions, 32 bits.
    pub partition: Option<Numbers<'a>>,
}
