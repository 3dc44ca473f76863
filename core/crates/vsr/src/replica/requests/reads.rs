//! Linearizable reads without a log entry: the read index (VRR 6.2 uses leases from the backups instead).
//!
//! The primary notes its commit point and asks the backups whether it still leads. It answers when a quorum has
//! confirmed that after the request and the state machine has reached the noted point.

use alloc::vec::Vec;

use crate::api::{Output, ReadOutcome};
use crate::quorum::Quorums;
use crate::replica::outbox::Outbox;
use crate::rules::Rules;

#[derive(Debug)]
struct Waiting {
    id: u64,
    index: u64,
    /// Round whose answers confirm the read.
    round: u64,
}

#[derive(Debug)]
pub(crate) struct Reads {
    /// Reads that are not confirmed. Empty unless this replica serves as primary.
    waiting: Vec<Waiting>,
    /// Newest round that was announced, or will be at the end of this step. Never decreases.
    round: u64,
    /// True if a round begins at the end of this step.
    fresh: bool,
    /// Newest round that each member answered in this view. None is above `round`.
    confirmed: Vec<u64>,
    /// Index of this replica.
    replica: u8,
}

impl Reads {
    pub(crate) fn new(replica: u8, members: u8) -> Self {
        Self {
            waiting: Vec::new(),
            round: 0,
            fresh: false,
            confirmed: alloc::vec![0; usize::from(members)],
            replica,
        }
    }

    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn confirm(&mut self, replica: u8, round: u64) {
        // An answer to a round that was never asked proves nothing.
        if round <= self.round {
            let known = &mut self.confirmed[usize::from(replica)];
            *known = round.max(*known);
        }
    }

    /// Wait until a quorum confirms that this replica leads, and the state machine has reached `index`.
    pub(crate) fn wait(&mut self, id: u64, index: u64) {
        if !self.fresh {
            self.fresh = true;
            self.round += 1;
        }
        self.waiting.push(Waiting {
            id,
            index,
            round: self.round,
        });
    }

    /// Return whether a round begins now, at the end of a step.
    pub(crate) fn take_fresh(&mut self) -> bool {
        core::mem::take(&mut self.fresh)
    }

    /// Answer the reads that are confirmed, now that operations up to `commit_min` are executed.
    pub(crate) fn answer(
        &mut self,
        commit_min: u64,
        rules: &impl Rules,
        quorums: Quorums,
        outbox: &mut Outbox,
    ) {
        let needed = usize::from(rules.read_confirmations(quorums));
        let own = usize::from(self.replica);
        let confirmed = &self.confirmed;
        self.waiting.retain(|waiting| {
            let answers = confirmed
                .iter()
                .enumerate()
                .filter(|(member, round)| *member != own && **round >= waiting.round)
                .count();
            let done = answers >= needed && rules.read_ready(commit_min, waiting.index);
            if done {
                outbox.push(Output::ReadReady {
                    id: waiting.id,
                    outcome: ReadOutcome::Ready { op: commit_min },
                });
            }
            !done
        });
    }

    /// Refer all reads to the primary, because this replica serves no longer.
    pub(crate) fn fail(&mut self, primary: u8, outbox: &mut Outbox) {
        for waiting in core::mem::take(&mut self.waiting) {
            refer(waiting.id, primary, outbox);
        }
        self.fresh = false;
        self.confirmed.fill(0);
    }
}

/// Refer a read to the primary.
pub(crate) fn refer(id: u64, primary: u8, outbox: &mut Outbox) {
    outbox.push(Output::ReadReady {
        id,
        outcome: ReadOutcome::Redirected { primary },
    });
}
