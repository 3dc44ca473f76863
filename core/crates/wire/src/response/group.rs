//! Consumer groups.

use alloc::vec::Vec;

use super::part::{Part, payload};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// One member of a group. Layout: `u32 member_id · u32 partitions_count · u32 partition_id[partitions_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's id within the group; unrelated to the client id.
    pub id: u32,
    /// Partitions assigned to the member.
    pub partitions: Vec<u32>,
}

payload!(GroupMember);

impl<'a> Part<'a> for GroupMember {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let id = reader.u32()?;
        let count = reader.u32()? as usize;
        let bytes = count
            .checked_mul(size_of::<u32>())
            .ok_or(Malformed::Truncated)?;
        let (ids, _) = reader.bytes(bytes)?.as_chunks();
        Ok(Self {
            id,
            partitions: ids.iter().map(|id| u32::from_le_bytes(*id)).collect(),
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.id);
        out.count(self.partitions.len());
        for &partition in &self.partitions {
            out.u32(partition);
        }
    }
}
