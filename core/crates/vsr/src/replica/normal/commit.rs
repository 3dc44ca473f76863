//! Execution of committed operations: in order, only if linked and intact, one at a time (VRR 4.1, steps 5 to 7).

use alloc::vec::Vec;

use crate::api::{CommandReply, Output, Status};
use crate::replica::flow::Flow;
use crate::replica::requests::responder::Responder;
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Execute the next operation if its header is verified and its body is available.
    pub(crate) fn advance(&mut self) -> Flow {
        self.link()?;
        self.execute_next()?;
        self.try_start()
    }

    fn execute_next(&mut self) -> Flow {
        if !self.view.has_log() || !self.execution.is_idle() || self.transfers.is_installing() {
            return Ok(());
        }
        let Some(op) = self.log.next_to_execute(&self.member.rules) else {
            return Ok(());
        };
        let Some(frame) = self.log.frame(op) else {
            self.load(op);
            return Ok(());
        };
        let ids = self.admission.take_ids(op, frame.header.checksum);
        let operation = self
            .execution
            .begin(frame, &ids.executed, &self.member.rules)?;
        for request_id in ids.lost {
            self.responder().redirect_proposal(request_id);
        }
        self.outbox.push(Output::Apply(operation));
        Ok(())
    }

    pub(crate) fn on_applied(&mut self, op: u64, replies: Vec<CommandReply>) -> Flow {
        let mut responder = Responder::new(&mut self.outbox, &self.view, self.log.commit_max());
        let bytes = self.execution.complete(
            op,
            replies,
            &mut self.admission,
            &mut responder,
            &self.member.rules,
        )?;
        self.checkpoints.note_bytes(bytes);
        self.log.executed(op)?;
        self.timers.repair_sync.backoff.reset();
        if self.view.status() == Status::Normal && !self.member.is_alone() {
            self.timers.repair_sync.arm(&mut self.moment);
        }
        self.try_install();
        self.consider_checkpoint();
        self.log.shrink_cache();
        self.advance()
    }
}
