//! Acknowledgements (VRR 4.1, steps 4 and 5).
//!
//! Acknowledgements are cumulative: each names the newest operation up to which everything is durable and linked. One
//! acknowledgement per group commit is enough, and a lost one costs nothing.

use headrace_buffer::Slice;

use crate::api::{FatalReason, Status};
use crate::frame::Header;
use crate::frame::area::PrepareOk;
use crate::rules::{Rules, Standing, ack_counts, may_acknowledge};

use crate::replica::{Flow, Replica};

impl<R: Rules> Replica<R> {
    /// Acknowledge the durable operations. `again` repeats an acknowledgement that may have been lost.
    pub(in crate::replica) fn try_acknowledge(&mut self, again: bool) -> Flow {
        if self.status != Status::Normal {
            return Ok(());
        }
        let standing = Standing {
            view: self.view,
            durable_view: self.superblock.durable_view(),
            durable_log_view: self.superblock.durable_log_view(),
            syncing: self.transfer.is_some(),
        };
        if !may_acknowledge(standing) {
            return Ok(());
        }
        let Some(op) = self.ackable_op() else {
            return Ok(());
        };
        if !again && self.acknowledged.is_some_and(|last| last >= op) {
            return Ok(());
        }
        let Some(checksum) = self.header(op).map(|header| header.checksum) else {
            return Ok(());
        };
        self.acknowledged = Some(op);
        if self.is_primary() {
            return self.on_acknowledged(self.config.replica, op);
        }
        let area = PrepareOk {
            prepare_checksum: checksum,
            op,
            commit_min: self.commit_min,
            commit_max: self.commit_max,
            checkpoint_op: self.superblock.durable_checkpoint(),
            synced_op: op,
        };
        self.send(self.primary_of(self.view), area, Slice::default());
        Ok(())
    }

    /// Newest operation up to which every operation above the commit point is durable and linked. Gaps in durability at
    /// or below the commit point do not matter: those operations are committed already and repaired in the background.
    fn ackable_op(&self) -> Option<u64> {
        let mut op = self.commit_max.min(self.head);
        while op < self.head {
            let next = op + 1;
            if !self.rules.ackable(self.log.body(next)) {
                break;
            }
            let linked = match (self.header(next), self.header(op)) {
                (Some(header), Some(below)) => self.rules.linked(header.parent(), below.checksum),
                (Some(_), None) => op == self.commit_max,
                (None, _) => false,
            };
            if !linked {
                break;
            }
            op = next;
        }
        (op > self.commit_max || op == self.head).then_some(op)
    }

    pub(in crate::replica) fn on_prepare_ok(&mut self, header: &Header, area: PrepareOk) -> Flow {
        self.hear_checkpoint(header.replica, area.checkpoint_op);
        if !self.leads() || !ack_counts(header.view, self.view) {
            return Ok(());
        }
        self.last_heard_ns[usize::from(header.replica)] = self.now.monotonic_ns;
        if area.op > self.head {
            return Ok(());
        }
        let same = self
            .header(area.op)
            .is_some_and(|held| held.checksum == area.prepare_checksum);
        if !same {
            return Ok(());
        }
        self.on_acknowledged(header.replica, area.op)
    }

    fn on_acknowledged(&mut self, replica: u8, op: u64) -> Flow {
        if op > self.head {
            return Err(FatalReason::Invariant(
                "nothing above the head is acknowledged",
            ));
        }
        let ack = &mut self.acks[usize::from(replica)];
        *ack = op.max(*ack);
        let mut acks = self.acks.clone();
        acks.sort_unstable_by(|left, right| right.cmp(left));
        let commit = self.rules.commit_point(&acks, self.quorums);
        if commit > self.commit_max {
            self.commit_max = commit;
            if self.head > commit {
                self.arm_prepare();
            } else {
                self.timers.prepare.stop();
                // Without this, backups would learn of the last commit only from the next heartbeat.
                self.announce_commit = true;
            }
        }
        self.advance()
    }
}
