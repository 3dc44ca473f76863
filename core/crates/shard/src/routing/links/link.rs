//! One connection to one shard of one node: its state and its bytes in both directions.

use std::sync::Arc;

use headrace_buffer::{BufferPool, Slice};
use headrace_catalog::Node;
use headrace_link::ToNode;
use headrace_model::Timestamp;

use crate::{
    api::Effect,
    calls::{ConnectionKey, LinkNumber},
    moment::Moment,
    sessions::connection::Inbox,
};

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No connection, and no attempt before this time.
    Resting { until: Timestamp },
    /// The host is connecting.
    Connecting { number: LinkNumber },
    /// The opening request was sent; the node has to answer by the deadline.
    Opening {
        connection: ConnectionKey,
        until: Timestamp,
    },
    /// The link is open for requests.
    Open { connection: ConnectionKey },
}

/// One link, or the attempts to open it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts: each of the two directions, and marks"
)]
pub(super) struct Link {
    pub(super) state: State,
    /// Incarnation of the node's process that the link leads to.
    pub(super) incarnation: u64,
    pub(super) address: Arc<str>,
    pub(super) inbox: Inbox,
    outgoing: Vec<Slice>,
    /// Number of frames queued since the connection was opened.
    queued_count: u64,
    /// Number of frames handed to the host for sending. Whether the node received them is unknown.
    pub(super) handed_frames: u64,
    /// Catalog version last announced to the node.
    announced: u64,
    /// Number of calls that should be answered soon.
    expected_answers: u32,
    /// Time of the last data from the node, or of the first of the calls to be answered soon, if later.
    pub(super) heard_at: Timestamp,
    /// Number of losses and failed attempts since the link was last open.
    pub(super) failures: u32,
    /// Time of the first of these losses.
    pub(super) lost_at: Timestamp,
    /// True once the loss was reported to the operator.
    pub(super) is_reported: bool,
    pub(super) is_receiving: bool,
    pub(super) is_sending: bool,
    /// True while the link waits for memory.
    pub(super) is_starved: bool,
    /// True if the link is listed for work at the end of the turn.
    pub(super) is_touched: bool,
}

impl Link {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            state: State::Resting {
                until: Timestamp(0),
            },
            incarnation: node.incarnation,
            address: Arc::clone(&node.binary_address),
            inbox: Inbox::new(None, false),
            outgoing: Vec::new(),
            queued_count: 0,
            handed_frames: 0,
            announced: 0,
            expected_answers: 0,
            heard_at: Timestamp(0),
            failures: 0,
            lost_at: Timestamp(0),
            is_reported: false,
            is_receiving: false,
            is_sending: false,
            is_starved: false,
            is_touched: false,
        }
    }

    /// Reset the link to the state without a connection.
    pub(super) fn reset(&mut self, until: Timestamp) {
        debug_assert_eq!(self.expected_answers, 0, "what it owes was taken from it");
        self.state = State::Resting { until };
        self.inbox = Inbox::new(None, false);
        self.outgoing.clear();
        self.queued_count = 0;
        self.handed_frames = 0;
        self.is_receiving = false;
        self.is_sending = false;
        self.is_starved = false;
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    pub(super) fn connection(&self) -> Option<ConnectionKey> {
        match self.state {
            State::Opening { connection, .. } | State::Open { connection } => Some(connection),
            State::Resting { .. } | State::Connecting { .. } => None,
        }
    }

    /// Queue the opening request of a connection.
    pub(super) fn greet(&mut self, words: Vec<u8>, catalog_version: u64) {
        self.outgoing.push(Slice::from_vec(words));
        self.announced = catalog_version;
    }

    /// Queue a frame that was built under the current catalog. Returns its position.
    pub(super) fn queue(&mut self, moment: Moment<'_>, frame: &[Slice]) -> u64 {
        let version = moment.catalog.version();
        if self.announced < version {
            self.announced = version;
            self.outgoing
                .extend(ToNode::CatalogVersion(version).encode());
        }
        self.outgoing.extend_from_slice(frame);
        self.queued_count += 1;
        self.queued_count - 1
    }

    /// Count a call that should be answered soon.
    pub(super) fn count_expected_answer(&mut self, now: Timestamp) {
        if self.expected_answers == 0 {
            self.heard_at = now;
        }
        self.expected_answers += 1;
    }

    /// Uncount such a call: it was answered, or no answer is expected any more.
    pub(super) fn uncount_expected_answer(&mut self) {
        self.expected_answers -= 1;
    }

    /// Return whether calls should have been answered and nothing was received since this time.
    pub(super) fn is_silent_since(&self, then: Timestamp) -> bool {
        self.expected_answers > 0 && self.heard_at < then
    }

    /// Send what is queued, and start to receive.
    pub(super) fn advance(&mut self, pool: &BufferPool, effects: &mut Vec<Effect>) {
        let Some(connection) = self.connection() else {
            return;
        };
        if !self.is_sending && !self.outgoing.is_empty() {
            self.is_sending = true;
            self.handed_frames = self.queued_count;
            let slices = core::mem::take(&mut self.outgoing);
            effects.push(Effect::Send { connection, slices });
        }
        if self.is_receiving || self.inbox.has_whole_request() {
            return;
        }
        match self.inbox.next_receive(pool, true) {
            Ok(Some(receive)) => {
                self.is_receiving = true;
                effects.push(Effect::Receive {
                    connection,
                    buffer: receive.buffer,
                    start: receive.start,
                    minimum: receive.minimum,
                    quickack: receive.quickack,
                });
            }
            Ok(None) => {}
            Err(_) => self.is_starved = true,
        }
    }
}
