//! Splits of a range of messages.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// Response to `PlanRange`.
///
/// Layout: `u64 first_offset · u64 next_offset · u32 count · RangeSplit[count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRange {
    /// First offset that can be polled.
    pub first_offset: u64,
    /// Offset after the last message that can be polled.
    pub next_offset: u64,
    /// Splits, ascending. Each ends where the next one starts, the last one at the end of the range; empty if no
    /// message of the range is retained.
    pub splits: Vec<RangeSplit>,
}

/// One split. Layout: `u64 offset · u64 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeSplit {
    /// Offset of its first message.
    pub offset: u64,
    /// Approximate number of bytes of its messages, headers included.
    pub bytes: u64,
}

payload!(PlannedRange);

impl Part<'_> for PlannedRange {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (first_offset, next_offset) = (reader.u64()?, reader.u64()?);
        let count = reader.u32()?;
        Ok(Self {
            first_offset,
            next_offset,
            splits: read_counted(reader, count)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.first_offset);
        out.u64(self.next_offset);
        out.count(self.splits.len());
        write_all(&self.splits, out);
    }
}

impl Part<'_> for RangeSplit {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            offset: reader.u64()?,
            bytes: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.offset);
        out.u64(self.bytes);
    }
}
