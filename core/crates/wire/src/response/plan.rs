//! How a range of messages may be split.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// The answer to `PlanRange`.
///
/// Layout: `u64 first_offset · u64 next_offset · u32 count · RangeSplit[count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRange {
    /// The first offset that can be polled.
    pub first_offset: u64,
    /// The offset behind the last message that can be polled.
    pub next_offset: u64,
    /// The parts, ascending. Each ends where the next one starts, the last one where the range ends; none when nothing
    /// of the range is there.
    pub splits: Vec<RangeSplit>,
}

/// One part. Layout: `u64 offset · u64 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeSplit {
    /// Of its first message.
    pub offset: u64,
    /// About how many bytes its messages have, their headers included.
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
