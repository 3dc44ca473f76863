//! Contents of responses other than messages, as read-only records. Most are made of `proto/layouts.toml`.

use headrace_client::{Group, StoredOffset};
use headrace_wire::{
    UserStatus,
    response::{self as wire, GroupMember as WireMember, UserDetails, UserHeader, decode_list},
};
use pyo3::prelude::*;

use super::{error::malformed, permissions::Permissions};
use crate::readable::readable;

include!(concat!(env!("OUT_DIR"), "/records.rs"));

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_made(module)?;
    module.add_class::<User>()?;
    module.add_class::<GroupMember>()
}

readable!(User: id, username, status);
readable!(GroupMember: id, partitions);

/// A user.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct User {
    /// Id of the user; 0 is root.
    id: u32,
    /// Time of the creation, in microseconds since the Unix epoch.
    created_at_micros: u64,
    /// State of the user: `active`, or `inactive`, who may not log in.
    status: &'static str,
    /// Name of the user.
    username: String,
    /// Permissions of the user; None in listings, and for a user without any.
    permissions: Option<Permissions>,
}

impl From<UserHeader<'_>> for User {
    fn from(header: UserHeader<'_>) -> Self {
        Self {
            id: header.id,
            created_at_micros: header.created_at,
            status: match header.status {
                UserStatus::Active => "active",
                UserStatus::Inactive => "inactive",
            },
            username: header.username.to_owned(),
            permissions: None,
        }
    }
}

impl From<UserDetails<'_>> for User {
    fn from(details: UserDetails<'_>) -> Self {
        Self {
            permissions: details.permissions.map(Permissions::from),
            ..details.user.into()
        }
    }
}

impl From<StoredOffset> for ConsumerOffset {
    fn from(offset: StoredOffset) -> Self {
        Self {
            partition_id: offset.partition_id.0,
            current_offset: offset.current.0,
            stored_offset: offset.stored.0,
        }
    }
}

/// A member of a consumer group.
#[pyclass(frozen, get_all, module = "headrace_core")]
#[derive(Clone)]
pub(crate) struct GroupMember {
    /// Id within the group, unrelated to the id of the connection.
    id: u32,
    /// Ids of the partitions that are assigned to the member.
    partitions: Vec<u32>,
}

impl From<WireMember> for GroupMember {
    fn from(member: WireMember) -> Self {
        Self {
            id: member.id,
            partitions: member.partitions,
        }
    }
}

impl From<Group> for ConsumerGroup {
    fn from(group: Group) -> Self {
        let members = group.members.into_iter();
        Self {
            id: group.id.0,
            name: group.name,
            partitions_count: group.partitions_count,
            members_count: group.members_count,
            members: members.map(GroupMember::from).collect(),
        }
    }
}
