//! Decision rules of the protocol, each a small function of plain values.
//!
//! Every rule that safety depends on is stated here once, mostly as a default method. Production uses [`Standard`],
//! which overrides nothing and costs nothing. A simulator implements the trait with one rule broken, to prove that its
//! checkers detect the fault; the replica itself needs no fault injection. A rule whose violation is masked by another
//! rule is a plain function.

use crate::frame::{PIPELINE_MAX, Release};
use crate::quorum::Quorums;

/// Knowledge about the body of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyState {
    /// Never stored here.
    Missing,
    /// Held in memory; the journal has not reported the body durable.
    Writing,
    /// Durable and, as far as is known, intact.
    Durable,
    /// Was durable and fails verification.
    Faulty,
}

/// Knowledge of a replica about one operation of its suffix when it leaves a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Checksum of the prepare in the logical log.
    pub header: Option<u128>,
    /// State of the body.
    pub body: BodyState,
    /// Discarded record that the journal still holds at this operation; `Some(None)` if its checksum is unknown.
    pub discarded: Option<Option<u128>>,
    /// True if the durable checkpoint covers the operation.
    pub in_checkpoint: bool,
}

/// State of a replica that receives a `StartView`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adoption {
    /// View of the replica.
    pub view: u32,
    /// Last view whose log the replica adopted.
    pub log_view: u32,
    /// True if the replica has adopted the log of its view already (normal, starting or adopting).
    pub in_view: bool,
    /// View of the frame.
    pub frame_view: u32,
    /// True if the frame answers this replica's own request since its start.
    pub nonce_fresh: bool,
}

/// Views of a replica that is about to acknowledge, in memory and in its durable superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurableViews {
    /// Current view.
    pub(crate) view: u32,
    /// View in the durable superblock.
    pub(crate) durable_view: u32,
    /// Log view in the durable superblock.
    pub(crate) durable_log_view: u32,
    /// True if a state transfer is running.
    pub(crate) syncing: bool,
}

/// Checkpoints that bound compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoints {
    /// Newest checkpoint of this replica, durable or not.
    pub newest: u64,
    /// Checkpoint that the durable superblock names.
    pub durable: u64,
    /// Checkpoint that a replication quorum of the members has reported durable.
    pub group: u64,
    /// Number of operations kept below them for replicas that lag behind.
    pub keep_ops: u64,
}

/// Client table entry compared with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Number of the last executed request of the session.
    pub last_request: u64,
    /// Number of this request.
    pub request: u64,
}

/// Decision rules of the protocol.
pub trait Rules {
    /// Return whether an entry may be acknowledged: only one that the journal has reported durable.
    #[inline]
    fn ackable(&self, body: BodyState) -> bool {
        body == BodyState::Durable
    }

    /// Commit point derived from acknowledgements: `acks` has one entry per member, descending.
    #[inline]
    fn commit_point(&self, acks: &[u64], quorums: Quorums) -> u64 {
        acks[usize::from(quorums.replication) - 1]
    }

    /// Return whether a prepare's parent is the prepare below it.
    #[inline]
    fn linked(&self, parent: u128, checksum_below: u128) -> bool {
        parent == checksum_below
    }

    /// Return whether `op` is verified by the hash chain and so may be executed.
    #[inline]
    fn verified(&self, op: u64, link_floor: u64) -> bool {
        op >= link_floor
    }

    /// Return whether the durable superblock covers the one on which a frame depends, so that the frame may be sent.
    #[inline]
    fn superblock_covers(&self, durable_sequence: u64, needed_sequence: u64) -> bool {
        durable_sequence >= needed_sequence
    }

    /// Highest operation kept when a view is left: the head, so nothing is cut. (The paper's state transfer cuts the
    /// log to the commit point on hearing of a newer view, which loses acknowledged operations.)
    #[inline]
    fn head_on_leaving(&self, head: u64, commit_max: u64) -> u64 {
        let _ = commit_max;
        head
    }

    /// Return whether a replica nacks a prepare, as one that it never held durably. A prepare that was stored once and
    /// is damaged now may have been acknowledged: it is never nacked.
    #[inline]
    fn nack(&self, evidence: Evidence) -> bool {
        if evidence.in_checkpoint {
            return false;
        }
        match (evidence.body, evidence.discarded) {
            (BodyState::Faulty | BodyState::Durable, _) => false,
            (_, Some(discarded)) => {
                matches!((evidence.header, discarded), (Some(header), Some(other)) if header != other)
            }
            (BodyState::Missing | BodyState::Writing, None) => true,
        }
    }

    /// Rank of a log in the choice of the canonical one: determined by its log view, never by its length.
    #[inline]
    fn log_rank(&self, log_view: u32, op: u64) -> u64 {
        let _ = op;
        u64::from(log_view)
    }

    /// Number of `DoViewChange`s with which a new primary may decide.
    #[inline]
    fn view_change_quorum(&self, quorums: Quorums) -> u8 {
        quorums.view_change
    }

    /// Number of nacks that prove that a prepare was never committed.
    #[inline]
    fn nack_quorum(&self, quorums: Quorums) -> u8 {
        quorums.nack
    }

    /// Lower bound of the commit point that a summary proves: the maximum of its own commit point, of that in its
    /// newest prepare, and of the bound that a primary never has more than a pipeline uncommitted.
    #[inline]
    fn proven_commit(&self, commit_max: u64, op: u64, newest_commit: u64) -> u64 {
        commit_max
            .max(op.saturating_sub(PIPELINE_MAX))
            .max(newest_commit)
    }

    /// Return whether a new primary may start although it lacks the body of an operation.
    #[inline]
    fn may_start_without_body(&self) -> bool {
        false
    }

    /// Return whether a backup adopts the log of a `StartView`: at most once per view and process start.
    #[inline]
    fn adopts(&self, adoption: Adoption) -> bool {
        if adoption.frame_view != adoption.view {
            return adoption.frame_view > adoption.view;
        }
        !adoption.in_view && (adoption.log_view < adoption.view || adoption.nonce_fresh)
    }

    /// Highest operation up to which the log may be discarded: durable in a checkpoint here, and in those of a
    /// replication quorum.
    #[inline]
    fn compaction_limit(&self, checkpoints: Checkpoints) -> u64 {
        checkpoints
            .durable
            .min(checkpoints.group)
            .saturating_sub(checkpoints.keep_ops)
    }

    /// Return whether a request was executed before.
    #[inline]
    fn repeated(&self, repeat: Repeat) -> bool {
        repeat.request <= repeat.last_request
    }

    /// Return whether a command introduced with a given release may be prepared: only when all members are known to
    /// support it.
    #[inline]
    fn is_in_force(&self, since: Release, in_force: Release) -> bool {
        since <= in_force
    }

    /// Number of backups whose answers to a probe confirm a read index.
    #[inline]
    fn read_confirmations(&self, quorums: Quorums) -> u8 {
        quorums.replication - 1
    }

    /// Return whether a read may be served: executed up to the commit point noted for the read.
    #[inline]
    fn read_ready(&self, commit_min: u64, read_index: u64) -> bool {
        commit_min >= read_index
    }
}

/// Standard rules, without overrides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standard;

impl Rules for Standard {}

/// Return whether a replica may acknowledge at all: its durable superblock must record this view.
pub(crate) fn may_acknowledge(views: DurableViews) -> bool {
    views.durable_view == views.view && views.durable_log_view == views.view && !views.syncing
}

/// Return whether an acknowledgement of view `ack_view` counts in `view`.
pub(crate) fn ack_counts(ack_view: u32, view: u32) -> bool {
    ack_view == view
}

/// Return whether a backup may accept the heartbeat's commit point: it must hold exactly that prepare.
pub(crate) fn commit_verified(held: Option<u128>, announced: u128) -> bool {
    held == Some(announced)
}

/// Return whether the journal may be cut: the superblock that justifies the cut is durable.
pub(crate) fn may_cut(durable_sequence: u64, justified_by: u64) -> bool {
    durable_sequence >= justified_by
}

/// Return whether a primary may serve: it must have executed the log that it inherited.
pub(crate) fn past_recovery_barrier(commit_min: u64, view_start_op: u64) -> bool {
    commit_min >= view_start_op
}
