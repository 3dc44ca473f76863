//! Checkpoints of this replica and of the others, as far as it knows them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::api::{Config, FatalReason};
use crate::frame::{PIPELINE_MAX, PrepareHeader};
use crate::quorum::Quorums;
use crate::replica::flow::{Flow, broken};
use crate::replica::log::Log;

/// Number of digests of own checkpoints kept for comparison with other replicas.
const DIGESTS_KEPT: usize = 8;

/// Time after a chunk request within which the next chunk request is expected.
const CHUNK_REQUEST_TIMEOUT_NS: u64 = 1_000_000_000;

/// Maximum delay of a checkpoint while the previous one is being fetched, in checkpoint intervals.
const POSTPONED_INTERVALS: u64 = 8;

#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// Header of the operation whose image the host is making. At most one image is made at a time.
    running: Option<PrepareHeader>,
    /// Number of body bytes executed since the last image.
    bytes: u64,
    /// True if another replica needs the effect of an operation whose body is gone.
    demanded: bool,
    /// Time of the last chunk request of another replica for the durable checkpoint.
    served_ns: Option<u64>,
    /// Checkpoint that the next superblock will record.
    unrecorded: Option<u64>,
    /// Digests of own checkpoints, by operation: at most [`DIGESTS_KEPT`], the newest ones.
    digests: BTreeMap<u64, u128>,
    /// Durable checkpoint of each member, as last reported. None decreases.
    members: Vec<u64>,
    /// Checkpoint of a quorum, as reported by the primary. Never decreases.
    group: u64,
    /// Index of this replica among `members`.
    replica: u8,
    interval_ops: u64,
    interval_bytes: u64,
}

impl Checkpoints {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            running: None,
            bytes: 0,
            demanded: false,
            served_ns: None,
            unrecorded: None,
            digests: BTreeMap::new(),
            members: alloc::vec![0; usize::from(config.replica_count)],
            group: 0,
            replica: config.replica,
            interval_ops: config.checkpoint_ops,
            interval_bytes: config.checkpoint_bytes,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Request a checkpoint, because another replica needs the effect of an operation whose body is gone.
    pub(crate) fn demand(&mut self) {
        self.demanded = true;
    }

    /// Record that another replica is fetching the durable checkpoint.
    pub(crate) fn serve(&mut self, now_ns: u64) {
        self.served_ns = Some(now_ns);
    }

    /// Record the durable checkpoint of a member.
    pub(crate) fn hear(&mut self, replica: u8, op: u64) {
        let known = &mut self.members[usize::from(replica)];
        *known = op.max(*known);
    }

    pub(crate) fn hear_group(&mut self, op: u64) {
        self.group = self.group.max(op);
    }

    /// Record the size of an operation that was executed.
    pub(crate) fn note_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(crate) fn remember(&mut self, op: u64, digest: u128) {
        self.digests.insert(op, digest);
        while self.digests.len() > DIGESTS_KEPT {
            self.digests.pop_first();
        }
    }

    /// Begin an image of the state as of the newest executed operation, if one is due. Returns the operation.
    pub(crate) fn begin(&mut self, log: &Log, now_ns: u64) -> Option<u64> {
        let (op, since) = (log.commit_min(), log.checkpoint().op);
        if self.is_running() || op <= since {
            return None;
        }
        let due = op.is_multiple_of(self.interval_ops)
            || op - since >= self.interval_ops
            || self.bytes >= self.interval_bytes
            || self.demanded;
        if !due || self.is_postponed(op - since, now_ns) {
            return None;
        }
        self.running = Some(*log.header(op)?);
        self.bytes = 0;
        self.demanded = false;
        Some(op)
    }

    /// Return whether a checkpoint is postponed because the previous one, `ops` before it, is being fetched. Under load a
    /// fetch would otherwise never finish.
    fn is_postponed(&self, ops: u64, now_ns: u64) -> bool {
        let fetched = self
            .served_ns
            .is_some_and(|at| at + CHUNK_REQUEST_TIMEOUT_NS > now_ns);
        let overdue = ops >= self.interval_ops.saturating_mul(POSTPONED_INTERVALS);
        fetched && !overdue && !self.demanded
    }

    /// Complete the image of `op`. Returns the header of the operation.
    pub(crate) fn complete(&mut self, op: u64, digest: u128) -> Result<PrepareHeader, FatalReason> {
        let Some(header) = self.running.take() else {
            return broken("a checkpoint is made once");
        };
        if header.op() != op {
            return broken("a checkpoint is of what was asked for");
        }
        self.remember(op, digest);
        Ok(header)
    }

    /// Expect that the next superblock records the checkpoint `op`.
    pub(crate) fn will_be_recorded(&mut self, op: u64) {
        self.unrecorded = Some(op);
    }

    /// Return whether an own checkpoint has become durable, now that the superblock names the checkpoint `durable`.
    pub(crate) fn recorded(&mut self, durable: u64) -> bool {
        let is_recorded = self.unrecorded.is_some_and(|op| op <= durable);
        if is_recorded {
            self.unrecorded = None;
        }
        is_recorded
    }

    /// Checkpoint held by a replication quorum, as far as this replica knows; `durable` is its own.
    pub(crate) fn of_quorum(&self, durable: u64, quorums: Quorums) -> u64 {
        let mut members = self.members.clone();
        members[usize::from(self.replica)] = durable;
        members.sort_unstable_by(|left, right| right.cmp(left));
        members[usize::from(quorums.replication) - 1].max(self.group)
    }

    /// Digest of the state to put into the prepare `op`: that of the last regular checkpoint at least a pipeline below
    /// `op`, if this replica has made it. `op` alone determines the checkpoint, so other replicas can compare.
    pub(crate) fn digest_for(&self, op: u64) -> u128 {
        self.regular_below(op)
            .and_then(|regular| self.digests.get(&regular))
            .copied()
            .unwrap_or(0)
    }

    fn regular_below(&self, op: u64) -> Option<u64> {
        let below = op.checked_sub(PIPELINE_MAX + 1)?;
        let regular = below - below % self.interval_ops;
        (regular > 0).then_some(regular)
    }

    /// Stop if the author of a prepare has a different state for the same operation.
    pub(crate) fn check_prepare(&self, header: &PrepareHeader) -> Flow {
        match self.regular_below(header.op()) {
            Some(op) => self.check(op, header.area.checkpoint_id),
            None => Ok(()),
        }
    }

    /// Stop if another replica has a different state for the same operation; a digest of 0 is unknown.
    pub(crate) fn check(&self, op: u64, digest: u128) -> Flow {
        match self.digests.get(&op) {
            Some(own) if *own != digest && digest != 0 => Err(FatalReason::Diverged { op }),
            _ => Ok(()),
        }
    }
}
