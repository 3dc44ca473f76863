//! Acknowledgements (VRR 4.1, steps 4 and 5).
//!
//! Acknowledgements are cumulative: each names the newest operation up to which everything is durable and linked. One
//! acknowledgement per group commit is enough, and a lost one costs nothing.

use headrace_buffer::Slice;

use crate::api::Status;
use crate::frame::Header;
use crate::frame::area::PrepareOk;
use crate::replica::flow::{Flow, must};
use crate::rules::{Rules, ack_counts, may_acknowledge};

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Acknowledge the durable operations. `again` repeats an acknowledgement that may have been lost.
    pub(crate) fn try_acknowledge(&mut self, again: bool) -> Flow {
        if self.view.status() != Status::Normal {
            return Ok(());
        }
        let is_syncing = self.transfers.is_receiving();
        if !may_acknowledge(self.superblock.views(&self.view, is_syncing)) {
            return Ok(());
        }
        let Some(op) = self.log.ackable_op(&self.member.rules) else {
            return Ok(());
        };
        if !again && self.pipeline.has_acknowledged(op) {
            return Ok(());
        }
        let Some(checksum) = self.log.checksum(op) else {
            return Ok(());
        };
        self.pipeline.note_acknowledged(op);
        if self.view.is_primary() {
            return self.on_acknowledged(self.member.config.replica, op);
        }
        let area = PrepareOk {
            prepare_checksum: checksum,
            op,
            commit_min: self.log.commit_min(),
            commit_max: self.log.commit_max(),
            checkpoint_op: self.superblock.durable_checkpoint().op,
            synced_op: op,
        };
        self.outbox
            .send(self.view.primary(), area, Slice::default());
        Ok(())
    }

    pub(crate) fn on_prepare_ok(&mut self, header: &Header, area: PrepareOk) -> Flow {
        self.checkpoints.hear(header.replica, area.checkpoint_op);
        if !self.view.leads() || !ack_counts(header.view, self.view.number()) {
            return Ok(());
        }
        self.pipeline.hear(header.replica, self.moment.ns());
        if area.op > self.log.head() || self.log.checksum(area.op) != Some(area.prepare_checksum) {
            return Ok(());
        }
        self.on_acknowledged(header.replica, area.op)
    }

    fn on_acknowledged(&mut self, replica: u8, op: u64) -> Flow {
        must(
            op <= self.log.head(),
            "nothing above the head is acknowledged",
        )?;
        let member = &self.member;
        let commit = self
            .pipeline
            .acknowledge(replica, op, &member.rules, member.quorums);
        if commit > self.log.commit_max() {
            self.log.learn_commit(commit);
            if self.log.has_uncommitted() {
                self.timers.prepare.arm_anew(&self.moment);
            } else {
                self.timers.prepare.stop();
                // Without this, backups would learn of the last commit only from the next heartbeat.
                self.pipeline.announce();
            }
        }
        self.advance()
    }
}
