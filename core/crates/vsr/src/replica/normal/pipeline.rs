//! Progress of the operations of a view: acknowledgements, and the members that are heard.

use alloc::vec::Vec;

use crate::quorum::Quorums;
use crate::replica::flow::{Flow, must};
use crate::rules::Rules;

#[derive(Debug)]
pub(crate) struct Pipeline {
    /// Newest operation that each member has acknowledged to this primary in this view. None is above the head.
    acks: Vec<u64>,
    /// Time at which the primary last heard from each member.
    heard_ns: Vec<u64>,
    /// Last operation that this replica acknowledged in this view.
    acknowledged: Option<u64>,
    /// True if the commit point must be announced at the end of the step.
    announce: bool,
    /// True if the next announcement requests answers.
    want_answers: bool,
    /// Index of this replica.
    replica: u8,
}

impl Pipeline {
    pub(crate) fn new(replica: u8, members: u8) -> Self {
        Self {
            acks: alloc::vec![0; usize::from(members)],
            heard_ns: alloc::vec![0; usize::from(members)],
            acknowledged: None,
            announce: false,
            want_answers: false,
            replica,
        }
    }

    pub(crate) fn leave_view(&mut self) {
        self.acks.fill(0);
        self.acknowledged = None;
        self.announce = false;
    }

    /// Begin to serve a view.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.acks.fill(0);
        self.acknowledged = None;
        self.heard_ns.fill(now_ns);
    }

    /// Begin to follow a view.
    pub(crate) fn follow(&mut self) {
        self.acknowledged = None;
    }

    pub(crate) fn hear(&mut self, replica: u8, now_ns: u64) {
        self.heard_ns[usize::from(replica)] = now_ns;
    }

    /// Time at which enough members had been heard to form a quorum with this replica; `now_ns` if it suffices alone.
    pub(crate) fn quorum_heard_ns(&self, quorums: Quorums, now_ns: u64) -> u64 {
        let own = usize::from(self.replica);
        let mut heard: Vec<u64> = (0..self.heard_ns.len())
            .filter(|member| *member != own)
            .map(|member| self.heard_ns[member])
            .collect();
        heard.sort_unstable_by(|left, right| right.cmp(left));
        heard
            .get(usize::from(quorums.replication).saturating_sub(2))
            .copied()
            .unwrap_or(now_ns)
    }

    /// Record an acknowledgement. Returns the commit point that follows.
    pub(crate) fn acknowledge(
        &mut self,
        replica: u8,
        op: u64,
        rules: &impl Rules,
        quorums: Quorums,
    ) -> u64 {
        let ack = &mut self.acks[usize::from(replica)];
        *ack = op.max(*ack);
        let mut acks = self.acks.clone();
        acks.sort_unstable_by(|left, right| right.cmp(left));
        rules.commit_point(&acks, quorums)
    }

    /// Return whether a member has acknowledged an operation.
    pub(crate) fn has(&self, replica: u8, op: u64) -> bool {
        self.acks[usize::from(replica)] >= op
    }

    /// Return whether this replica has acknowledged `op`, or a later operation, in this view.
    pub(crate) fn has_acknowledged(&self, op: u64) -> bool {
        self.acknowledged.is_some_and(|last| last >= op)
    }

    /// Record that this replica acknowledges `op`.
    pub(crate) fn note_acknowledged(&mut self, op: u64) {
        self.acknowledged = Some(op);
    }

    /// Announce the commit point at the end of the step.
    pub(crate) fn announce(&mut self) {
        self.announce = true;
    }

    /// Announce the commit point, and request answers, which prove a quorum and report checkpoints.
    pub(crate) fn probe(&mut self) {
        self.announce = true;
        self.want_answers = true;
    }

    pub(crate) fn take_announcement(&mut self) -> bool {
        core::mem::take(&mut self.announce)
    }

    pub(crate) fn take_want_answers(&mut self) -> bool {
        core::mem::take(&mut self.want_answers)
    }

    pub(crate) fn check(&self, head: u64) -> Flow {
        must(
            self.acks.iter().all(|ack| *ack <= head),
            "nothing above the head is acknowledged",
        )
    }
}
