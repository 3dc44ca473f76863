//! One connection with one shard of one node: its bytes in both directions.

use std::sync::Arc;

use headrace_buffer::{BufferPool, Slice};
use headrace_catalog::Node;
use headrace_link::ToNode;
use headrace_model::Timestamp;

use super::Moment;
use crate::{
    api::{ConnectionKey, Effect, LinkNumber},
    connection::Inbox,
};

/// How far a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is none, and none is tried before this.
    Resting { until: Timestamp },
    /// The host connects.
    Connecting { number: LinkNumber },
    /// The node is asked whether it will, and has to answer until then.
    Opening {
        connection: ConnectionKey,
        until: Timestamp,
    },
    /// Requests go over it.
    Open { connection: ConnectionKey },
}

/// One link, or the attempt to have it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts: each of the two directions, and marks"
)]
pub(super) struct Link {
    pub(super) state: State,
    /// The run of the node's process that it leads to.
    pub(super) incarnation: u64,
    pub(super) address: Arc<str>,
    pub(super) inbox: Inbox,
    outgoing: Vec<Slice>,
    /// What was ever said, in frames that are counted,
    said: u64,
    /// and how much of that was given to the host: of this nobody knows whether the node has heard it.
    pub(super) handed: u64,
    /// The version of the catalogue that the node was told last.
    announced: u64,
    /// Calls that are not answered, and should be soon.
    owed: u32,
    /// Something came from the node, or nothing was asked before.
    pub(super) heard_at: Timestamp,
    /// Losses and failures since the last one that opened.
    pub(super) failures: u32,
    /// When the first of these was.
    pub(super) lost_at: Timestamp,
    /// People were told that there is none.
    pub(super) is_reported: bool,
    pub(super) is_receiving: bool,
    pub(super) is_sending: bool,
    /// It waits for memory.
    pub(super) is_starved: bool,
    /// Stands in the list of those with something to do at the end of the turn.
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
            said: 0,
            handed: 0,
            announced: 0,
            owed: 0,
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

    /// As it was before anything was connected.
    pub(super) fn rest(&mut self, until: Timestamp) {
        debug_assert_eq!(self.owed, 0, "what it owes was taken from it");
        self.state = State::Resting { until };
        self.inbox = Inbox::new(None, false);
        self.outgoing.clear();
        self.said = 0;
        self.handed = 0;
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

    /// What comes first on a connection.
    pub(super) fn greet(&mut self, words: Vec<u8>, catalog_version: u64) {
        self.outgoing.push(Slice::from_vec(words));
        self.announced = catalog_version;
    }

    /// Say something that was made under the catalogue of this moment. Returns its place.
    pub(super) fn say(&mut self, moment: Moment<'_>, frame: &[Slice]) -> u64 {
        let version = moment.catalog.version();
        if self.announced < version {
            self.announced = version;
            self.outgoing
                .extend(ToNode::CatalogVersion(version).encode());
        }
        self.outgoing.extend_from_slice(frame);
        self.said += 1;
        self.said - 1
    }

    /// Something was sent that is answered soon.
    pub(super) fn owes(&mut self, now: Timestamp) {
        if self.owed == 0 {
            self.heard_at = now;
        }
        self.owed += 1;
    }

    /// One is answered, or is not expected to be any more.
    pub(super) fn has_paid(&mut self) {
        self.owed -= 1;
    }

    /// Whether answers are owed though nothing was heard since then.
    pub(super) fn is_silent_since(&self, then: Timestamp) -> bool {
        self.owed > 0 && self.heard_at < then
    }

    /// Send what is to be sent, and receive.
    pub(super) fn advance(&mut self, pool: &BufferPool, effects: &mut Vec<Effect>) {
        let Some(connection) = self.connection() else {
            return;
        };
        if !self.is_sending && !self.outgoing.is_empty() {
            self.is_sending = true;
            self.handed = self.said;
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
