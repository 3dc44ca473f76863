//! Requests for bodies: to other replicas by checksum, and to the journal.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{Output, Status};
use crate::frame::area::{NoPrepare, RequestPrepare};
use crate::replica::log::Log;
use crate::replica::outbox::Outbox;
use crate::replica::timers::Moment;
use crate::replica::view::View;
use crate::replica::view_changes::evidence::ViewChange;

/// Maximum number of outstanding requests per peer.
const REQUESTS_PER_PEER_MAX: usize = 2;

/// Maximum number of operations per request.
const RANGE_MAX: u64 = 64;

/// Maximum number of operations that are considered in one round.
pub(crate) const ROUND_OPS_MAX: usize = 512;

/// Number of repair rounds after which a request is sent to another peer.
const ROUNDS_UNTIL_RETRY: u64 = 4;

/// Maximum number of concurrent journal reads for other replicas.
const READS_FOR_PEERS_MAX: usize = 128;

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
pub(crate) enum Purpose {
    /// Execution, or use in memory.
    Own,
    /// Repair of another replica.
    Serve { peer: u8, nonce: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) op: u64,
    pub(crate) checksum: u128,
    pub(crate) purpose: Purpose,
}

#[derive(Debug)]
pub(crate) struct BodyRepair {
    /// Requests to other replicas: at most [`REQUESTS_PER_PEER_MAX`] to each. No operation is in two of them.
    questions: Vec<Question>,
    /// Reads of the journal by token: each operation at most once for this replica itself.
    loads: BTreeMap<u64, Load>,
    last_nonce: u64,
    last_peer: u8,
    /// True if something has arrived: request more in this step.
    request_now: bool,
    /// Time after which a request is sent to another peer.
    wait_ns: u64,
}

impl BodyRepair {
    pub(crate) fn new(repair_ms: u32) -> Self {
        Self {
            questions: Vec::new(),
            loads: BTreeMap::new(),
            last_nonce: 0,
            last_peer: 0,
            request_now: false,
            wait_ns: u64::from(repair_ms) * 1_000_000 * ROUNDS_UNTIL_RETRY,
        }
    }

    pub(crate) fn leave_view(&mut self) {
        self.questions.clear();
    }

    /// Return whether more can be requested because something has arrived in this step.
    pub(crate) fn take_request_now(&mut self) -> bool {
        core::mem::take(&mut self.request_now)
    }

    /// Record the arrival of a body; a request is complete when its last body has arrived.
    pub(crate) fn arrived(&mut self, op: u64) {
        let before = self.questions.len();
        self.questions.retain(|question| question.to != op);
        self.request_now |= self.questions.len() != before;
    }

    /// Record a refusal. Returns whether it answers a request.
    pub(crate) fn refused(&mut self, peer: u8, area: NoPrepare) -> bool {
        let before = self.questions.len();
        self.questions
            .retain(|question| question.nonce != area.nonce || question.peer != peer);
        self.questions.len() != before
    }

    /// Give up requests that were not answered in time.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        self.questions.retain(|question| question.until_ns > now_ns);
    }

    /// Read a body from the journal into memory, once.
    pub(crate) fn load(&mut self, op: u64, log: &Log, outbox: &mut Outbox) {
        let Some(checksum) = log.entry(op).map(|header| header.checksum) else {
            return;
        };
        let is_loading = |load: &Load| load.op == op && matches!(load.purpose, Purpose::Own);
        if !self.loads.values().any(is_loading) {
            self.read(op, checksum, Purpose::Own, outbox);
        }
    }

    /// Read a body for another replica, unless too many are being read.
    pub(crate) fn load_for_peer(
        &mut self,
        op: u64,
        checksum: u128,
        purpose: Purpose,
        outbox: &mut Outbox,
    ) -> bool {
        let for_peers = |load: &&Load| matches!(load.purpose, Purpose::Serve { .. });
        let has_room = self.loads.values().filter(for_peers).count() < READS_FOR_PEERS_MAX;
        if has_room {
            self.read(op, checksum, purpose, outbox);
        }
        has_room
    }

    fn read(&mut self, op: u64, checksum: u128, purpose: Purpose, outbox: &mut Outbox) {
        let token = outbox.token();
        let load = Load {
            op,
            checksum,
            purpose,
        };
        self.loads.insert(token, load);
        outbox.push(Output::Read {
            token,
            op,
            checksum,
        });
    }

    /// Complete a read.
    pub(crate) fn loaded(&mut self, token: u64) -> Option<Load> {
        self.loads.remove(&token)
    }

    /// Request these bodies, as far as the peers have room for requests.
    pub(crate) fn request(
        &mut self,
        wanted: Vec<u64>,
        log: &Log,
        view: &View,
        change: &ViewChange,
        moment: &mut Moment,
        outbox: &mut Outbox,
    ) {
        let mut wanted = wanted
            .into_iter()
            .filter(|op| !self.is_asked(*op))
            .collect::<Vec<u64>>()
            .into_iter()
            .peekable();
        while let Some(from) = wanted.next() {
            let mut to = from;
            while to - from + 1 < RANGE_MAX && wanted.peek() == Some(&(to + 1)) {
                wanted.next();
                to += 1;
            }
            let Some(peer) = self.next_peer(from, log, view, change, moment) else {
                return;
            };
            if let Some(checksum) = log.checksum(from) {
                self.ask(peer, (from, to), checksum, moment.ns(), outbox);
            }
        }
    }

    fn is_asked(&self, op: u64) -> bool {
        self.questions
            .iter()
            .any(|question| (question.from..=question.to).contains(&op))
    }

    fn ask(
        &mut self,
        peer: u8,
        (from, to): (u64, u64),
        checksum: u128,
        now_ns: u64,
        outbox: &mut Outbox,
    ) {
        self.last_nonce += 1;
        let nonce = self.last_nonce;
        self.questions.push(Question {
            peer,
            from,
            to,
            nonce,
            until_ns: now_ns + self.wait_ns,
        });
        let area = RequestPrepare {
            prepare_checksum: checksum,
            op: from,
            op_max: if to > from { to } else { 0 },
            nonce,
        };
        outbox.send(peer, area, Slice::default());
    }

    fn has_room(&self, peer: u8) -> bool {
        let open = self.questions.iter();
        open.filter(|question| question.peer == peer).count() < REQUESTS_PER_PEER_MAX
    }

    /// Choose the peer for the next request: the primary first, sometimes another one, because the primary may lack the
    /// body.
    pub(crate) fn next_peer(
        &mut self,
        op: u64,
        log: &Log,
        view: &View,
        change: &ViewChange,
        moment: &mut Moment,
    ) -> Option<u8> {
        if view.status() == Status::Starting {
            let turn = moment.byte(..);
            if let Some(holder) = change.source_of(op, log.checksum(op), turn)
                && self.has_room(holder)
            {
                return Some(holder);
            }
        }
        let primary = view.primary();
        if !view.is_primary() && moment.byte(0..3) > 0 && self.has_room(primary) {
            return Some(primary);
        }
        for _ in 0..view.members() {
            let peer = (self.last_peer + 1) % view.members();
            self.last_peer = peer;
            if peer != view.replica() && self.has_room(peer) {
                return Some(peer);
            }
        }
        None
    }
}
