//! Repair of bodies: fetched from other replicas by checksum, or read back from the journal.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{FatalReason, Notice, Status};
use crate::frame::area::{NoPrepare, NoPrepareReason, RequestPrepare};
use crate::frame::{Header, PrepareFrame};
use crate::rules::{BodyState, Rules};

use crate::replica::{Flow, Replica};

/// Maximum number of outstanding requests per peer.
const REQUESTS_PER_PEER_MAX: usize = 2;

/// Maximum number of operations per request.
const RANGE_MAX: u64 = 64;

/// Number of repair rounds after which a request is sent to another peer.
const ROUNDS_UNTIL_RETRY: u64 = 4;

#[derive(Debug)]
struct Question {
    peer: u8,
    from: u64,
    to: u64,
    nonce: u64,
    until_ns: u64,
}

/// Reason why a body is read from the journal.
#[derive(Debug, Clone, Copy)]
pub(in crate::replica) enum Purpose {
    /// Execution, or use in memory.
    Own,
    /// Repair of another replica.
    Serve { peer: u8, nonce: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(in crate::replica) struct Load {
    op: u64,
    checksum: u128,
    purpose: Purpose,
}

#[derive(Debug, Default)]
pub(in crate::replica) struct BodyRepair {
    questions: Vec<Question>,
    loads: BTreeMap<u64, Load>,
    next_nonce: u64,
    next_peer: u8,
    /// True if something has arrived: request more in this step.
    request_now: bool,
}

impl BodyRepair {
    pub(in crate::replica) fn leave_view(&mut self) {
        self.questions.clear();
    }

    /// Record the arrival of a body; a request is complete when its last body has arrived.
    pub(in crate::replica) fn arrived(&mut self, op: u64) {
        let before = self.questions.len();
        self.questions.retain(|question| question.to != op);
        self.request_now |= self.questions.len() != before;
    }

    pub(in crate::replica) fn is_loading(&self, op: u64) -> bool {
        self.loads
            .values()
            .any(|load| load.op == op && matches!(load.purpose, Purpose::Own))
    }

    pub(in crate::replica) fn loading(&mut self, token: u64, op: u64, checksum: u128) {
        self.load(token, op, checksum, Purpose::Own);
    }

    pub(in crate::replica) fn load(
        &mut self,
        token: u64,
        op: u64,
        checksum: u128,
        purpose: Purpose,
    ) {
        self.loads.insert(
            token,
            Load {
                op,
                checksum,
                purpose,
            },
        );
    }

    pub(in crate::replica) fn loads_for_peers(&self) -> usize {
        self.loads
            .values()
            .filter(|load| matches!(load.purpose, Purpose::Serve { .. }))
            .count()
    }

    fn asked(&self, op: u64) -> bool {
        self.questions
            .iter()
            .any(|question| (question.from..=question.to).contains(&op))
    }
}

impl<R: Rules> Replica<R> {
    /// Operations with a verified header and a missing body, lowest first: those to be executed, then damaged records
    /// of executed operations that are kept for other replicas.
    fn wanted_bodies(&self) -> Vec<u64> {
        if !self.in_log_view() || self.lacks_room() {
            return Vec::new();
        }
        let lowest = self.link_floor.max(self.commit_min + 1);
        let enough = usize::try_from(RANGE_MAX * 8).unwrap_or(usize::MAX);
        let mut wanted: Vec<u64> = (lowest..=self.head)
            .filter(|op| {
                matches!(self.log.body(*op), BodyState::Missing | BodyState::Faulty)
                    && self.log.header(*op).is_some()
            })
            .take(enough)
            .collect();
        wanted.extend(self.damaged_below());
        wanted
    }

    /// Damaged records of executed operations that no checkpoint of this replica covers.
    fn damaged_below(&self) -> impl Iterator<Item = u64> {
        self.log.faulty().filter(|op| {
            *op > self.checkpoint.op
                && *op <= self.commit_min
                && self.log.header(*op).is_some()
                && self.log.body(*op) == BodyState::Faulty
        })
    }

    /// Run a round of repair at once if an entry is missing and no round is scheduled, or if this step has made new
    /// requests possible. Called at the end of a step.
    pub(in crate::replica) fn keep_repairing(&mut self) {
        let request_now = core::mem::take(&mut self.body_repair.request_now)
            | core::mem::take(&mut self.header_repair.soon);
        if self.config.replica_count == 1 || !self.in_log_view() {
            return;
        }
        let begins = !self.timers.repair.armed() && (self.wants_headers() || self.wants_bodies());
        if begins || request_now {
            self.repair_round();
        }
    }

    fn wants_bodies(&self) -> bool {
        // Cheap in the normal case: every operation up to the head is executed or in memory.
        let lowest = self.link_floor.max(self.commit_min + 1);
        let wants = (lowest..=self.head).any(|op| !self.log.is_available(op))
            || self.damaged_below().next().is_some();
        wants && !self.lacks_room()
    }

    pub(in crate::replica) fn on_repair_timeout(&mut self) {
        let now = self.now.monotonic_ns;
        self.body_repair
            .questions
            .retain(|question| question.until_ns > now);
        if self.wants_headers() || !self.wanted_bodies().is_empty() {
            self.repair_round();
        }
    }

    fn repair_round(&mut self) {
        if self.wants_headers() {
            self.request_headers();
        }
        let mut wanted = self
            .wanted_bodies()
            .into_iter()
            .filter(|op| !self.body_repair.asked(*op))
            .collect::<Vec<u64>>()
            .into_iter()
            .peekable();
        while let Some(from) = wanted.next() {
            let mut to = from;
            while to - from + 1 < RANGE_MAX && wanted.peek() == Some(&(to + 1)) {
                wanted.next();
                to += 1;
            }
            if !self.ask_for_bodies(from, to) {
                break;
            }
        }
        self.arm_repair();
    }

    fn ask_for_bodies(&mut self, from: u64, to: u64) -> bool {
        let Some(peer) = self.next_body_peer(from) else {
            return false;
        };
        let Some(checksum) = self.header(from).map(|header| header.checksum) else {
            return true;
        };
        self.body_repair.next_nonce += 1;
        let nonce = self.body_repair.next_nonce;
        let wait = u64::from(self.config.timeouts.repair_ms) * 1_000_000 * ROUNDS_UNTIL_RETRY;
        self.body_repair.questions.push(Question {
            peer,
            from,
            to,
            nonce,
            until_ns: self.now.monotonic_ns + wait,
        });
        let area = RequestPrepare {
            prepare_checksum: checksum,
            op: from,
            op_max: if to > from { to } else { 0 },
            nonce,
        };
        self.send(peer, area, Slice::default());
        true
    }

    /// Choose the peer for the next request: the primary first, sometimes another one, because the primary may lack the
    /// body.
    fn next_body_peer(&mut self, op: u64) -> Option<u8> {
        let has_room = |replica: &Self, peer: u8| {
            let open = replica
                .body_repair
                .questions
                .iter()
                .filter(|question| question.peer == peer)
                .count();
            open < REQUESTS_PER_PEER_MAX
        };
        if self.status == Status::Starting {
            let turn = self.random.u8(..);
            if let Some(holder) = self.source_of(op, turn)
                && has_room(self, holder)
            {
                return Some(holder);
            }
        }
        let primary = self.primary_of(self.view);
        if primary != self.config.replica && self.random.u8(0..3) > 0 && has_room(self, primary) {
            return Some(primary);
        }
        let count = self.config.replica_count;
        for _ in 0..count {
            let peer = (self.body_repair.next_peer + 1) % count;
            self.body_repair.next_peer = peer;
            if peer != self.config.replica && has_room(self, peer) {
                return Some(peer);
            }
        }
        None
    }

    /// Handle a refusal. A refusal never counts as a nack in a view change.
    pub(in crate::replica) fn on_no_prepare(&mut self, header: &Header, area: NoPrepare) {
        let before = self.body_repair.questions.len();
        self.body_repair
            .questions
            .retain(|question| question.nonce != area.nonce || question.peer != header.replica);
        if self.body_repair.questions.len() == before {
            return;
        }
        let gone = matches!(
            area.reason,
            NoPrepareReason::Evicted | NoPrepareReason::Faulty
        );
        if gone && area.op > self.commit_min {
            self.consider_transfer(header.replica);
        }
    }

    pub(in crate::replica) fn on_read_done(
        &mut self,
        token: u64,
        frame: Option<PrepareFrame>,
    ) -> Flow {
        let Some(load) = self.body_repair.loads.remove(&token) else {
            return Err(FatalReason::Invariant("a token is completed once"));
        };
        let frame = frame.filter(|frame| frame.header.checksum == load.checksum);
        match (frame, load.purpose) {
            (Some(frame), Purpose::Own) => self.log.cache(frame),
            (Some(frame), Purpose::Serve { peer, .. }) => self.send_frame(peer, frame.any()),
            (None, purpose) => {
                if self.log.mark_faulty(load.op, load.checksum) {
                    self.notice(Notice::Faulty { op: load.op });
                    if self.config.replica_count == 1 {
                        return Err(FatalReason::Invariant("the only replica's log is readable"));
                    }
                    self.header_repair.soon = true;
                }
                if let Purpose::Serve { peer, nonce } = purpose {
                    self.refuse(peer, load.op, load.checksum, nonce, NoPrepareReason::Faulty);
                }
            }
        }
        self.advance()
    }

    /// Handle missing progress of commits: ask another replica for its checkpoint.
    pub(in crate::replica) fn on_repair_sync_timeout(&mut self) {
        if self.status != Status::Normal || self.config.replica_count == 1 {
            return;
        }
        let lags = self.commit_max > self.commit_min || self.wants_headers();
        if lags && !self.lacks_room() {
            let lowest = self.commit_min + 1;
            let peer = self
                .next_body_peer(lowest)
                .unwrap_or(self.primary_of(self.view));
            if peer != self.config.replica {
                self.consider_transfer(peer);
            }
        }
        self.arm_repair_sync();
    }
}
