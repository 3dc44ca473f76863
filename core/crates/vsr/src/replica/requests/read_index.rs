//! Read index: the requests for it, and the rounds that confirm them.

use alloc::vec::Vec;

use crate::api::{Now, Output};
use crate::replica::requests::reads;
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Report when the local state machine holds everything that is committed by now. Answered by exactly one
    /// [`Output::ReadReady`]. All requests of one step share a round.
    pub fn read_index(&mut self, now: Now, id: u64, out: &mut Vec<Output>) {
        self.guarded(now, out, |replica| {
            if replica.view.serves() {
                // Until a primary has executed the log that it inherited, it does not know everything that was
                // committed before.
                let index = replica.log.commit_max().max(replica.view.start_op());
                replica.reads.wait(id, index);
            } else {
                reads::refer(id, replica.view.primary_hint(), &mut replica.outbox);
            }
            Ok(())
        });
    }

    pub(crate) fn fail_reads(&mut self) {
        self.reads.fail(self.view.primary_hint(), &mut self.outbox);
        self.timers.probe.stop();
    }

    /// Start a round for new requests, and answer those that are confirmed. Called at the end of a step.
    pub(crate) fn flush_reads(&mut self) {
        if self.reads.take_fresh() && !self.member.is_alone() {
            self.pipeline.probe();
            self.timers.probe.backoff.reset();
            self.timers.probe.arm(&mut self.moment);
        }
        if self.reads.is_empty() {
            return;
        }
        self.reads.answer(
            self.log.commit_min(),
            &self.member.rules,
            self.member.quorums,
            &mut self.outbox,
        );
        if self.reads.is_empty() {
            self.timers.probe.stop();
        }
    }

    pub(crate) fn on_probe_timeout(&mut self) {
        if self.view.serves() && !self.reads.is_empty() {
            self.pipeline.probe();
            self.timers.probe.arm(&mut self.moment);
        }
    }
}
