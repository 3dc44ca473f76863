//! Knowledge of a replica while the log of its view is decided: the votes, and the summaries of the members' logs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::api::FatalReason;
use crate::frame::Frame;
use crate::quorum::Quorums;
use crate::replica::view_changes::merge::{Decision, Summary, merge};
use crate::replica::view_changes::votes::Votes;
use crate::rules::Rules;

/// Summary of this replica's log.
#[derive(Debug)]
struct OwnSummary {
    /// Retransmitted byte for byte.
    frame: Frame,
    /// Sequence number of the superblock on which it depends: it is not sent before that one is durable.
    sequence: u64,
    sent: bool,
}

#[derive(Debug)]
pub(crate) struct ViewChange {
    pub(crate) votes: Votes,
    own: Option<OwnSummary>,
    /// First summary received from each replica for the view: later ones change nothing.
    summaries: BTreeMap<u8, Summary>,
    /// Operation reported as undecidable.
    deadlock: Option<u64>,
    /// Sequence number of the superblock that records the decided or adopted log. The journal is cut, and the view begins,
    /// when it is durable.
    log_sequence: u64,
    /// Number of unanswered requests for the log of the view since the start.
    unanswered: u32,
    /// Nonce that proves that an answer is newer than the start of this process.
    nonce: u128,
    /// Index of this replica.
    replica: u8,
}

impl ViewChange {
    pub(crate) fn new(votes: Votes, nonce: u128, replica: u8) -> Self {
        Self {
            votes,
            own: None,
            summaries: BTreeMap::new(),
            deadlock: None,
            log_sequence: 0,
            unanswered: 0,
            nonce,
            replica,
        }
    }

    pub(crate) fn nonce(&self) -> u128 {
        self.nonce
    }

    pub(crate) fn log_sequence(&self) -> u64 {
        self.log_sequence
    }

    /// Name the superblock that records the log with which the view begins here.
    pub(crate) fn record_log(&mut self, sequence: u64) {
        self.log_sequence = sequence;
    }

    /// Count a request for the log of the view. Returns the number of unanswered ones.
    pub(crate) fn count_request(&mut self) -> u32 {
        self.unanswered += 1;
        self.unanswered
    }

    /// Note that the log of a view was received.
    pub(crate) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// Begin with the summary of this replica, which depends on the superblock `sequence`.
    pub(crate) fn begin(&mut self, frame: Frame, sequence: u64) {
        self.summaries.clear();
        self.deadlock = None;
        self.own = Some(OwnSummary {
            frame,
            sequence,
            sent: false,
        });
    }

    /// Take the own summary for the first time, if `covers` the superblock on which it depends.
    pub(crate) fn take_own(&mut self, covers: impl FnOnce(u64) -> bool) -> Option<Frame> {
        let own = self.own.as_mut().filter(|own| !own.sent)?;
        own.sent = covers(own.sequence);
        own.sent.then(|| own.frame.clone())
    }

    /// Own summary, if it has been sent before.
    pub(crate) fn sent(&self) -> Option<&Frame> {
        self.own
            .as_ref()
            .filter(|own| own.sent)
            .map(|own| &own.frame)
    }

    /// Record a summary, and decide the log if the summaries suffice. A new primary always decides with its own summary:
    /// only with that does its superblock record the view.
    pub(crate) fn decide(
        &mut self,
        replica: u8,
        summary: Summary,
        rules: &impl Rules,
        quorums: Quorums,
    ) -> Result<Decision, FatalReason> {
        self.summaries.entry(replica).or_insert(summary);
        if !self.summaries.contains_key(&self.replica) {
            return Ok(Decision::Wait);
        }
        merge(rules, quorums, self.summaries.values())
    }

    /// Record that `op` is undecidable. Returns whether that is new.
    pub(crate) fn deadlock(&mut self, op: u64) -> bool {
        self.deadlock.replace(op) != Some(op)
    }

    /// Choose a replica that reported this prepare as present, for a new primary that lacks it; `turn` rotates the
    /// choice.
    pub(crate) fn source_of(&self, op: u64, checksum: Option<u128>, turn: u8) -> Option<u8> {
        let holders: Vec<u8> = self
            .summaries
            .iter()
            .filter(|(replica, summary)| **replica != self.replica && summary.serves(op, checksum))
            .map(|(replica, _)| *replica)
            .collect();
        let index = usize::from(turn).checked_rem(holders.len())?;
        Some(holders[index])
    }
}
