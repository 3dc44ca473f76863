//! The decisions of the protocol, each a small function of plain values.
//!
//! Every rule that safety rests on is stated here once, mostly as a default method. Production uses [`Standard`], which
//! changes nothing and costs nothing. A simulator implements the trait with one rule broken, to show that its checkers
//! would notice: so there is no switch for faults in the replica itself. A rule that nobody would miss, because another
//! one holds as well, is a plain function.

use crate::frame::{PIPELINE_MAX, Release};
use crate::quorum::Quorums;

/// What is known about the body of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyState {
    /// Never stored here.
    Missing,
    /// In memory; the journal has not reported it durable.
    Writing,
    /// Durable and, as far as is known, intact.
    Durable,
    /// Was durable and fails verification.
    Faulty,
}

/// What a replica knows about one operation of its suffix when it leaves a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Identity of the prepare in the logical log.
    pub header: Option<u128>,
    /// State of its body.
    pub body: BodyState,
    /// A record of a lost view that still lies on disk at this place; `Some(None)` when its identity is unknown.
    pub remnant: Option<Option<u128>>,
    /// The operation is covered by the durable checkpoint.
    pub in_checkpoint: bool,
}

/// The point of view of a replica that receives a `StartView`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adoption {
    /// View of the replica.
    pub view: u32,
    /// Last view whose log it adopted.
    pub log_view: u32,
    /// Whether its status is one in which this view has been adopted already (normal, starting or adopting).
    pub in_view: bool,
    /// View of the frame.
    pub frame_view: u32,
    /// The frame answers this replica's own question of this start.
    pub nonce_fresh: bool,
}

/// How far a replica's durable state reaches when it wants to acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Current view.
    pub(crate) view: u32,
    /// View in the durable superblock.
    pub(crate) durable_view: u32,
    /// Log view in the durable superblock.
    pub(crate) durable_log_view: u32,
    /// A state transfer is running.
    pub(crate) syncing: bool,
}

/// The checkpoints that compaction depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoints {
    /// Newest checkpoint of this replica, durable or not.
    pub newest: u64,
    /// Checkpoint that the durable superblock names.
    pub durable: u64,
    /// Checkpoint that a replication quorum of the members has reported durable.
    pub group: u64,
    /// Operations kept below for replicas that lag behind.
    pub keep_ops: u64,
}

/// What the client table says about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Number of the last executed request of the session.
    pub last_request: u64,
    /// Number of this request.
    pub request: u64,
}

/// The decisions of the protocol.
pub trait Rules {
    /// Whether an entry counts as acknowledgeable: only what the journal reported durable does.
    #[inline]
    fn ackable(&self, body: BodyState) -> bool {
        body == BodyState::Durable
    }

    /// The commit point that acknowledgements give: `acks` is one per member, descending.
    #[inline]
    fn commit_point(&self, acks: &[u64], quorums: Quorums) -> u64 {
        acks[usize::from(quorums.replication) - 1]
    }

    /// Whether the chain holds between a prepare's parent and the prepare below it.
    #[inline]
    fn linked(&self, parent: u128, checksum_below: u128) -> bool {
        parent == checksum_below
    }

    /// Whether `op` is verified by the chain and so may be executed.
    #[inline]
    fn verified(&self, op: u64, link_floor: u64) -> bool {
        op >= link_floor
    }

    /// Whether a newer superblock than what is durable need not be waited for before its frame is sent.
    #[inline]
    fn superblock_covers(&self, durable_sequence: u64, needed_sequence: u64) -> bool {
        durable_sequence >= needed_sequence
    }

    /// Up to where the log is kept when a view is left: everything. (The paper's state transfer cuts it to the commit
    /// point on hearing of a newer view; acknowledged operations are lost that way.)
    #[inline]
    fn head_on_leaving(&self, head: u64, commit_max: u64) -> u64 {
        let _ = commit_max;
        head
    }

    /// Whether a replica denies having ever held a prepare durably. What was stored once and is damaged now may have
    /// been acknowledged: it is never denied.
    #[inline]
    fn nack(&self, evidence: Evidence) -> bool {
        if evidence.in_checkpoint {
            return false;
        }
        match (evidence.body, evidence.remnant) {
            (BodyState::Faulty | BodyState::Durable, _) => false,
            (_, Some(remnant)) => {
                matches!((evidence.header, remnant), (Some(header), Some(remnant)) if header != remnant)
            }
            (BodyState::Missing | BodyState::Writing, None) => true,
        }
    }

    /// Rank of a log in the choice of the canonical one: by the view that it belongs to, never by its length.
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

    /// Number of denials that prove that a prepare was never committed.
    #[inline]
    fn nack_quorum(&self, quorums: Quorums) -> u8 {
        quorums.nack
    }

    /// Lower bound of the commit point that a summary proves: its own, what its newest prepare knew, and that a
    /// primary never has more than a pipeline uncommitted.
    #[inline]
    fn proven_commit(&self, commit_max: u64, op: u64, newest_commit: u64) -> u64 {
        commit_max
            .max(op.saturating_sub(PIPELINE_MAX))
            .max(newest_commit)
    }

    /// Whether a new primary may start although it lacks the body of an operation.
    #[inline]
    fn may_start_without_body(&self) -> bool {
        false
    }

    /// Whether a backup adopts the log of a `StartView`: at most once per view and start of the process.
    #[inline]
    fn adopts(&self, adoption: Adoption) -> bool {
        if adoption.frame_view != adoption.view {
            return adoption.frame_view > adoption.view;
        }
        !adoption.in_view && (adoption.log_view < adoption.view || adoption.nonce_fresh)
    }

    /// Up to which operation the log may be discarded: durable here, and in the checkpoints of a replication quorum.
    #[inline]
    fn compaction_limit(&self, checkpoints: Checkpoints) -> u64 {
        checkpoints
            .durable
            .min(checkpoints.group)
            .saturating_sub(checkpoints.keep_ops)
    }

    /// Whether a request was executed before.
    #[inline]
    fn repeated(&self, repeat: Repeat) -> bool {
        repeat.request <= repeat.last_request
    }

    /// Whether a command may be prepared that exists since a release: only when all members have been found to know it.
    #[inline]
    fn is_in_force(&self, since: Release, in_force: Release) -> bool {
        since <= in_force
    }

    /// Number of backups whose answers to a probe make a read index.
    #[inline]
    fn read_confirmations(&self, quorums: Quorums) -> u8 {
        quorums.replication - 1
    }

    /// Whether a read may be served: executed up to the commit point of the question.
    #[inline]
    fn read_ready(&self, commit_min: u64, read_index: u64) -> bool {
        commit_min >= read_index
    }
}

/// The rules as they are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standard;

impl Rules for Standard {}

/// Whether a replica may acknowledge at all: its superblock must say that it belongs to this view.
pub(crate) fn may_acknowledge(standing: Standing) -> bool {
    standing.durable_view == standing.view
        && standing.durable_log_view == standing.view
        && !standing.syncing
}

/// Whether an acknowledgement of view `ack_view` counts in `view`.
pub(crate) fn ack_counts(ack_view: u32, view: u32) -> bool {
    ack_view == view
}

/// Whether a backup may take the heartbeat's commit point: it must hold exactly that prepare.
pub(crate) fn commit_verified(held: Option<u128>, announced: u128) -> bool {
    held == Some(announced)
}

/// Whether the journal may be cut: the image that justifies it is durable.
pub(crate) fn may_cut(durable_sequence: u64, justified_by: u64) -> bool {
    durable_sequence >= justified_by
}

/// Whether a primary may serve: it has executed everything that it inherited.
pub(crate) fn past_recovery_barrier(commit_min: u64, view_start_op: u64) -> bool {
    commit_min >= view_start_op
}
