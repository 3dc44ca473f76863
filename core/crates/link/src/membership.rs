//! Members of consumer groups.

use headrace_model::{ClientKey, GroupId};

/// In whose name a partition is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: GroupId,
    /// Tells it from a later one of the same number; what its offsets are stored under.
    pub key: u32,
    /// The connection that is the member.
    pub client: ClientKey,
    /// Tells its membership from a later one.
    pub incarnation: u64,
}
