//! Checkpoints of this replica, and compaction of the log that they cover.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::api::{FatalReason, Notice, Output};
use crate::frame::{PIPELINE_MAX, PrepareHeader};
use crate::rules::{Checkpoints, Rules};
use crate::superblock::Checkpoint;

use crate::replica::{Flow, Replica};

/// Number of digests of own checkpoints kept for comparison with other replicas.
const DIGESTS_KEPT: usize = 8;

/// Time after a chunk request within which the next chunk request is expected.
const CHUNK_REQUEST_TIMEOUT_NS: u64 = 1_000_000_000;

/// Maximum delay of a checkpoint while the previous one is being fetched, in checkpoint intervals.
const POSTPONED_INTERVALS: u64 = 8;

#[derive(Debug, Default)]
pub(in crate::replica) struct Checkpointing {
    /// Header of the operation whose image the host is making.
    running: Option<PrepareHeader>,
    /// Number of body bytes executed since the last image.
    bytes: u64,
    demanded: bool,
    /// Time of the last chunk request of another replica for the durable checkpoint.
    served_ns: Option<u64>,
    /// Checkpoint that the next superblock will record.
    unrecorded: Option<u64>,
    digests: BTreeMap<u64, u128>,
    /// Durable checkpoint of each member, as last reported.
    members: Vec<u64>,
    /// Checkpoint of a quorum, as reported by the primary.
    group: u64,
}

impl Checkpointing {
    pub(in crate::replica) fn new(members: u8) -> Self {
        Self {
            members: alloc::vec![0; usize::from(members)],
            ..Self::default()
        }
    }

    pub(in crate::replica) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Request a checkpoint, because another replica needs the effect of an operation whose body is gone.
    pub(in crate::replica) fn demand(&mut self) {
        self.demanded = true;
    }

    /// Record that another replica is fetching the durable checkpoint.
    pub(in crate::replica) fn serve(&mut self, now_ns: u64) {
        self.served_ns = Some(now_ns);
    }

    pub(in crate::replica) fn hear_group(&mut self, op: u64) {
        self.group = self.group.max(op);
    }

    pub(in crate::replica) fn remember(&mut self, op: u64, digest: u128) {
        self.digests.insert(op, digest);
        while self.digests.len() > DIGESTS_KEPT {
            self.digests.pop_first();
        }
    }
}

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn hear_checkpoint(&mut self, replica: u8, op: u64) {
        let known = &mut self.checkpointing.members[usize::from(replica)];
        *known = op.max(*known);
    }

    pub(in crate::replica) fn note_bytes(&mut self, bytes: u64) {
        self.checkpointing.bytes += bytes;
    }

    /// Request an image of the state if one is due. The state machine must be exactly at `commit_min`.
    pub(in crate::replica) fn consider_checkpoint(&mut self) {
        if self.checkpointing.running.is_some()
            || self.executing.is_some()
            || self.installing()
            || self.commit_min <= self.checkpoint.op
        {
            return;
        }
        let due = self.commit_min.is_multiple_of(self.config.checkpoint_ops)
            || self.commit_min - self.checkpoint.op >= self.config.checkpoint_ops
            || self.checkpointing.bytes >= self.config.checkpoint_bytes
            || self.checkpointing.demanded;
        if !due || self.is_postponed() {
            return;
        }
        let Some(header) = self.header(self.commit_min).copied() else {
            return;
        };
        self.checkpointing.running = Some(header);
        self.checkpointing.bytes = 0;
        self.checkpointing.demanded = false;
        self.out.push(Output::Checkpoint {
            op: self.commit_min,
            clients: self.clients.encode(),
        });
    }

    /// Return whether a checkpoint is postponed because the previous one is being fetched. Under load a fetch would
    /// otherwise never finish.
    fn is_postponed(&self) -> bool {
        let fetched = self
            .checkpointing
            .served_ns
            .is_some_and(|at| at + CHUNK_REQUEST_TIMEOUT_NS > self.now.monotonic_ns);
        let overdue = self.commit_min - self.checkpoint.op
            >= self
                .config
                .checkpoint_ops
                .saturating_mul(POSTPONED_INTERVALS);
        fetched && !overdue && !self.checkpointing.demanded
    }

    pub(in crate::replica) fn on_checkpoint_done(
        &mut self,
        op: u64,
        length: u64,
        digest: u128,
    ) -> Flow {
        let Some(header) = self.checkpointing.running.take() else {
            return Err(FatalReason::Invariant("a checkpoint is made once"));
        };
        if header.op() != op {
            return Err(FatalReason::Invariant(
                "a checkpoint is of what was asked for",
            ));
        }
        self.checkpointing.remember(op, digest);
        // A transferred state may be newer already.
        if op > self.checkpoint.op {
            self.checkpoint = Checkpoint {
                op,
                header,
                id: digest,
                artifact: op,
                len: length,
                digest,
            };
            self.checkpointing.unrecorded = Some(op);
            self.persist();
        }
        self.try_install();
        // The next one may have fallen due, or been demanded, during this one; the log of an idle group would otherwise
        // stay long.
        self.consider_checkpoint();
        self.advance()
    }

    /// Activate the checkpoint that a newly durable superblock names.
    pub(in crate::replica) fn on_checkpoint_recorded(&mut self) {
        let durable = self.superblock.durable_checkpoint();
        if self
            .checkpointing
            .unrecorded
            .is_some_and(|op| op <= durable)
        {
            self.checkpointing.unrecorded = None;
            self.notice(Notice::Checkpointed { op: durable });
        }
        self.on_transfer_recorded(durable);
        self.compact();
    }

    /// Checkpoint held by a replication quorum, as far as this replica knows.
    pub(in crate::replica) fn group_checkpoint(&self) -> u64 {
        let mut members = self.checkpointing.members.clone();
        members[usize::from(self.config.replica)] = self.superblock.durable_checkpoint();
        members.sort_unstable_by(|left, right| right.cmp(left));
        members[usize::from(self.quorums.replication) - 1].max(self.checkpointing.group)
    }

    /// Compact the log below both the durable checkpoint of this replica and the checkpoints of a quorum. Each
    /// operation must be in the logs of a quorum or in the checkpoints of a quorum; a mixture is not enough.
    pub(in crate::replica) fn compact(&mut self) {
        let limit = self.rules.compaction_limit(Checkpoints {
            newest: self.checkpoint.op,
            durable: self.superblock.durable_checkpoint(),
            group: self.group_checkpoint(),
            keep_ops: self.config.log_keep_ops,
        });
        if limit < self.log_floor {
            return;
        }
        self.log.forget_through(limit);
        self.log_floor = limit + 1;
        self.out.push(Output::GcLog {
            below_op: self.log_floor,
        });
    }

    /// Digest of the state to put into the prepare `op`: that of the last regular checkpoint at least a pipeline below
    /// `op`, if this replica has made it. `op` alone determines the checkpoint, so other replicas can compare.
    pub(in crate::replica) fn checkpoint_id_for(&self, op: u64) -> u128 {
        self.regular_below(op)
            .and_then(|regular| self.checkpointing.digests.get(&regular))
            .copied()
            .unwrap_or(0)
    }

    fn regular_below(&self, op: u64) -> Option<u64> {
        let below = op.checked_sub(PIPELINE_MAX + 1)?;
        let regular = below - below % self.config.checkpoint_ops;
        (regular > 0).then_some(regular)
    }

    pub(in crate::replica) fn check_digest_of(&self, header: &PrepareHeader) -> Flow {
        if header.area.checkpoint_id == 0 {
            return Ok(());
        }
        match self.regular_below(header.op()) {
            Some(op) => self.check_digest_at(op, header.area.checkpoint_id),
            None => Ok(()),
        }
    }

    /// Stop if another replica has a different state for the same operation.
    pub(in crate::replica) fn check_digest_at(&self, op: u64, digest: u128) -> Flow {
        match self.checkpointing.digests.get(&op) {
            Some(own) if *own != digest && digest != 0 => Err(FatalReason::Diverged { op }),
            _ => Ok(()),
        }
    }
}
