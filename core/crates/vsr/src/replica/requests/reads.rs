//! Linearizable reads without a log entry: the read index (VRR 6.2 uses leases from the backups instead).
//!
//! The primary notes its commit point and asks the backups whether it still leads. It answers when a quorum has
//! confirmed that after the request and the state machine has reached the noted point.

use alloc::vec::Vec;

use crate::api::{Now, Output, ReadOutcome};
use crate::rules::Rules;

use crate::replica::Replica;

#[derive(Debug)]
struct Waiting {
    id: u64,
    index: u64,
    /// Round whose answers confirm the read.
    round: u64,
}

#[derive(Debug, Default)]
pub(in crate::replica) struct Reads {
    waiting: Vec<Waiting>,
    /// Newest round that was announced, or will be at the end of this step.
    round: u64,
    /// True if a round begins at the end of this step.
    fresh: bool,
    /// True if the next heartbeat requests answers.
    pub(in crate::replica) want_answers: bool,
    /// Newest round that each member answered in this view.
    confirmed: Vec<u64>,
}

impl Reads {
    pub(in crate::replica) fn new(members: u8) -> Self {
        Self {
            confirmed: alloc::vec![0; usize::from(members)],
            ..Self::default()
        }
    }

    pub(in crate::replica) fn round(&self) -> u64 {
        self.round
    }

    pub(in crate::replica) fn confirm(&mut self, replica: u8, round: u64) {
        // An answer to a round that was never asked proves nothing.
        if round <= self.round {
            let known = &mut self.confirmed[usize::from(replica)];
            *known = round.max(*known);
        }
    }
}

impl<R: Rules> Replica<R> {
    /// Report when the local state machine holds everything that is committed by now. Answered by exactly one
    /// [`Output::ReadReady`]. All requests of one step share a round.
    pub fn read_index(&mut self, now: Now, id: u64, out: &mut Vec<Output>) {
        self.guarded(now, out, |replica| {
            if !replica.leads() || replica.abdicated {
                replica.answer_read_elsewhere(id);
                return Ok(());
            }
            if !replica.reads.fresh {
                replica.reads.fresh = true;
                replica.reads.round += 1;
            }
            // Until a primary has executed the log that it inherited, it does not know everything that was committed
            // before.
            let index = replica.commit_max.max(replica.view_start_op);
            replica.reads.waiting.push(Waiting {
                id,
                index,
                round: replica.reads.round,
            });
            Ok(())
        });
    }

    fn answer_read_elsewhere(&mut self, id: u64) {
        self.out.push(Output::ReadReady {
            id,
            outcome: ReadOutcome::Redirected {
                primary: self.primary_hint(),
            },
        });
    }

    pub(in crate::replica) fn fail_reads(&mut self) {
        for waiting in core::mem::take(&mut self.reads.waiting) {
            self.answer_read_elsewhere(waiting.id);
        }
        self.reads.fresh = false;
        self.reads.confirmed.fill(0);
        self.timers.probe.stop();
    }

    /// Start a round for new requests, and answer those that are confirmed. Called at the end of a step.
    pub(in crate::replica) fn flush_reads(&mut self) {
        if core::mem::take(&mut self.reads.fresh) && self.config.replica_count > 1 {
            self.probe();
        }
        if self.reads.waiting.is_empty() {
            return;
        }
        let needed = usize::from(self.rules.read_confirmations(self.quorums));
        let own = usize::from(self.config.replica);
        let commit_min = self.commit_min;
        let mut ready = Vec::new();
        let (rules, confirmed) = (&self.rules, &self.reads.confirmed);
        self.reads.waiting.retain(|waiting| {
            let answers = confirmed
                .iter()
                .enumerate()
                .filter(|(member, round)| *member != own && **round >= waiting.round)
                .count();
            let done = answers >= needed && rules.read_ready(commit_min, waiting.index);
            if done {
                ready.push(waiting.id);
            }
            !done
        });
        for id in ready {
            self.out.push(Output::ReadReady {
                id,
                outcome: ReadOutcome::Ready { op: commit_min },
            });
        }
        if self.reads.waiting.is_empty() {
            self.timers.probe.stop();
        }
    }

    fn probe(&mut self) {
        self.announce_commit = true;
        self.reads.want_answers = true;
        self.timers.probe.backoff.reset();
        self.arm_probe();
    }

    pub(in crate::replica) fn on_probe_timeout(&mut self) {
        if self.leads() && !self.abdicated && !self.reads.waiting.is_empty() {
            self.announce_commit = true;
            self.reads.want_answers = true;
            self.arm_probe();
        }
    }
}
