//! Consumer groups.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// One consumer group. Layout: `u32 id · u32 partitions_count · u32 members_count · Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupHeader<'a> {
    /// The group's id within its topic.
    pub id: u32,
    /// Partitions of the topic.
    pub partitions_count: u32,
    /// Number of connections that are members now.
    pub members_count: u32,
    /// Name of the group.
    pub name: &'a str,
}

/// One member of a group. Layout: `u32 member_id · u32 partitions_count · u32 partition_id[partitions_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's id within the group; unrelated to the client id.
    pub id: u32,
    /// Partitions assigned to the member.
    pub partitions: Vec<u32>,
}

/// One group with its members: response to `GetConsumerGroup`, and without members to `CreateConsumerGroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDetails<'a> {
    /// The group; its `members_count` is the number of members that follow.
    pub group: GroupHeader<'a>,
    /// Members of the group.
    pub members: Vec<GroupMember>,
}

/// A partition that a member owns. Layout: `u32 partition_id · u8 is_leaving`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssignedPartition {
    /// Id of the partition.
    pub partition_id: u32,
    /// True if the partition is being revoked: polls without a partition exclude it, and it moves to another member when
    /// everything delivered of it is stored.
    pub is_leaving: bool,
}

/// Membership of the requesting connection: response to `GetMembership`.
///
/// Layout: `u32 member_id · u32 partitions_count · (u32 partition_id · u8 is_leaving)[partitions_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The member's id within the group, as in [`GroupMember`].
    pub member_id: u32,
    /// Partitions that the member owns, ascending.
    pub partitions: Vec<AssignedPartition>,
}

payload!(GroupHeader<'a>);
payload!(GroupDetails<'a>);
payload!(GroupMember);
payload!(Membership);

impl<'a> Part<'a> for GroupHeader<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            id: reader.u32()?,
            partitions_count: reader.u32()?,
            members_count: reader.u32()?,
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.id);
        out.u32(self.partitions_count);
        out.u32(self.members_count);
        out.name(self.name);
    }
}

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

impl<'a> Part<'a> for GroupDetails<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let group = GroupHeader::read(reader)?;
        let members = read_counted(reader, group.members_count)?;
        Ok(Self { group, members })
    }

    /// Writes the number of `members` as the count, so that the two always agree.
    fn write(&self, out: &mut Writer<'_>) {
        GroupHeader {
            members_count: out.count_of(&self.members),
            ..self.group
        }
        .write(out);
        write_all(&self.members, out);
    }
}

impl Part<'_> for AssignedPartition {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            partition_id: reader.u32()?,
            is_leaving: reader.flag()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.partition_id);
        out.bool(self.is_leaving);
    }
}

impl Part<'_> for Membership {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let member_id = reader.u32()?;
        let count = reader.u32()?;
        Ok(Self {
            member_id,
            partitions: read_counted(reader, count)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.member_id);
        out.count(self.partitions.len());
        write_all(&self.partitions, out);
    }
}
