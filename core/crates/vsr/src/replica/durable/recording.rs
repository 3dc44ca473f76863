//! Checkpoints and superblocks: when they are made, and the actions that wait for them (VRR 5.1).

use crate::api::{Notice, Output, Status};
use crate::replica::flow::Flow;
use crate::rules::{self, Rules};
use crate::superblock::Checkpoint;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    pub(crate) fn superblock_covers(&self, sequence: u64) -> bool {
        self.superblock.covers(&self.member.rules, sequence)
    }

    pub(crate) fn on_superblock_written(&mut self, token: u64) -> Flow {
        self.superblock.written(token)?;
        self.cut_journal();
        self.on_checkpoint_recorded();
        match self.view.status() {
            Status::ViewChange => self.send_do_view_change()?,
            Status::Starting => self.try_start()?,
            Status::Adopting => self.finish_adoption()?,
            Status::Normal | Status::Recovering | Status::Halted => {}
        }
        self.try_acknowledge(false)
    }

    pub(crate) fn cut_journal(&mut self) {
        self.log
            .cut(self.superblock.durable_sequence(), &mut self.outbox);
    }

    /// Request an image of the state if one is due. The state machine must be exactly at the newest executed operation.
    pub(crate) fn consider_checkpoint(&mut self) {
        if !self.execution.is_idle() || self.transfers.is_installing() {
            return;
        }
        if let Some(op) = self.checkpoints.begin(&self.log, self.moment.ns()) {
            self.outbox.push(Output::Checkpoint {
                op,
                clients: self.execution.clients().encode(),
            });
        }
    }

    pub(crate) fn on_checkpoint_done(&mut self, op: u64, length: u64, digest: u128) -> Flow {
        let header = self.checkpoints.complete(op, digest)?;
        let is_newest = self.log.set_checkpoint(&Checkpoint {
            op,
            header,
            id: digest,
            artifact: op,
            len: length,
            digest,
        });
        if is_newest {
            self.checkpoints.will_be_recorded(op);
            self.superblock.request();
        }
        self.try_install();
        // The next one may have fallen due, or been demanded, during this one; the log of an idle group would otherwise
        // stay long.
        self.consider_checkpoint();
        self.advance()
    }

    /// Activate the checkpoint that a newly durable superblock names.
    fn on_checkpoint_recorded(&mut self) {
        let durable = self.superblock.durable_checkpoint().op;
        if self.checkpoints.recorded(durable) {
            self.outbox.notice(Notice::Checkpointed { op: durable });
        }
        if self.transfers.recorded(durable) {
            self.outbox.notice(Notice::StateTransferred { op: durable });
            self.outbox.push(Output::GcLog {
                below_op: self.log.floor(),
            });
        }
        self.compact();
    }

    /// Checkpoint held by a replication quorum, as far as this replica knows.
    pub(crate) fn group_checkpoint(&self) -> u64 {
        let durable = self.superblock.durable_checkpoint().op;
        self.checkpoints.of_quorum(durable, self.member.quorums)
    }

    /// Compact the log below both the durable checkpoint of this replica and the checkpoints of a quorum. Each
    /// operation must be in the logs of a quorum or in the checkpoints of a quorum; a mixture is not enough.
    pub(crate) fn compact(&mut self) {
        let limit = self.member.rules.compaction_limit(rules::Checkpoints {
            newest: self.log.checkpoint().op,
            durable: self.superblock.durable_checkpoint().op,
            group: self.group_checkpoint(),
            keep_ops: self.member.config.log_keep_ops,
        });
        self.log.compact(limit, &mut self.outbox);
    }
}
