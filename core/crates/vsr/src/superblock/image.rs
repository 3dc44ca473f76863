//! Content of a superblock.

pub(super) mod encode;
pub(super) mod succession;

use alloc::vec::Vec;

use super::RecordedView;
use crate::frame::PrepareHeader;

/// Checkpoint from which the log continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Last op in the state; 0 before the first checkpoint.
    pub op: u64,
    /// Header of the prepare of `op`; that of the root if `op` is 0.
    pub header: PrepareHeader,
    /// Digest of the state; 0 before the first checkpoint.
    pub id: u128,
    /// Name of the artifact.
    pub artifact: u64,
    /// Length of the artifact in bytes.
    pub len: u64,
    /// [`digest`](crate::frame::digest) of the artifact.
    pub digest: u128,
}

/// Superblock: the state of a replica that must survive a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Sequence number, incremented with every write.
    pub sequence: u64,
    /// [`Self::checksum`] of the previous superblock; 0 for the first.
    pub parent: u128,
    /// Cluster id.
    pub cluster: u128,
    /// Group number.
    pub group: u64,
    /// Id of the node; a node that has lost its disk returns under a new id.
    pub node_id: u64,
    /// Index of the replica in the member list.
    pub replica: u8,
    /// Epoch: number of the member list.
    pub epoch: u32,
    /// Nodes of the members, in the order of their indexes; at most [`MEMBERS_MAX`](crate::frame::MEMBERS_MAX).
    pub members: Vec<u64>,
    /// View of the replica.
    pub view: RecordedView,
    /// Lower bound of the commit point.
    pub commit_max: u64,
    /// Incarnation: number of starts of the replica.
    pub incarnation: u64,
    /// Boot id of the system that wrote this superblock.
    pub boot_id: u128,
    /// True if everything was synced before the shutdown.
    pub clean_shutdown: bool,
    /// Checkpoint from which the log continues.
    pub checkpoint: Checkpoint,
}

impl Superblock {
    /// Create the first superblock of a replica: an empty log, in the group's first view.
    pub fn new(
        cluster: u128,
        group: u64,
        node_id: u64,
        replica: u8,
        members: Vec<u64>,
        initial_view: u32,
    ) -> Self {
        let root = PrepareHeader::root(cluster, group);
        Self {
            sequence: 1,
            parent: 0,
            cluster,
            group,
            node_id,
            replica,
            epoch: 0,
            members,
            view: RecordedView {
                number: initial_view,
                log_view: initial_view,
                head_op: 0,
                start_op: 0,
                loss_view: 0,
                headers: alloc::vec![root],
            },
            commit_max: 0,
            incarnation: 0,
            boot_id: 0,
            clean_shutdown: false,
            checkpoint: Checkpoint {
                op: 0,
                header: root,
                id: 0,
                artifact: 0,
                len: 0,
                digest: 0,
            },
        }
    }

    /// Number of members.
    ///
    /// # Panics
    /// If there are more members than a member list can hold.
    pub fn replica_count(&self) -> u8 {
        u8::try_from(self.members.len()).expect("at most MEMBERS_MAX members")
    }
}
