//! Members of consumer groups.

use headrace_model::{ClientKey, GroupId};

/// Membership under which a partition is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: GroupId,
    /// Key under which offsets of the group are stored; distinguishes the group from a later one with the same id.
    pub key: u32,
    /// Connection that is the member.
    pub client: ClientKey,
    /// Incarnation, which distinguishes this membership of the connection from a later one.
    pub incarnation: u64,
}
