//! What was asked and is not answered, by call.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_buffer::Slice;
use headrace_link::{Call, StopWaiting, WhenReady};
use headrace_model::{Namespace, Timestamp};

use super::{Peer, budget::Charge};
use crate::api::{ConnectionKey, Origin};

/// What kind of answer there will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    /// A poll that may wait at its partition.
    Wait {
        when_ready: WhenReady,
        /// It was told to stop in this way.
        stop: Option<StopWaiting>,
    },
}

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In its lane, until then.
    Parked { until: Timestamp },
    /// On the way to a node or back. What the link was given before the place `position` goes before it.
    Sent { to: Peer, position: u64 },
}

/// One call.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) origin: Origin,
    pub(super) namespace: Namespace,
    pub(super) incarnation: u64,
    pub(super) kind: Kind,
    /// It changes nothing: when its answer is lost it can be asked again.
    pub(super) is_harmless: bool,
    /// As it is sent; kept because it may have to be sent again.
    pub(super) frame: Vec<Slice>,
    pub(super) charge: Charge,
    pub(super) place: Place,
    /// The link that it was sent over owes an answer to it, or should see that there is none.
    pub(super) is_owed: bool,
    /// When it was asked.
    pub(super) began: Timestamp,
    /// When it gives up waiting for a node; set when it first has to.
    pub(super) until: Option<Timestamp>,
}

impl Asked {
    /// Whether a node that is at work answers it without waiting for anything.
    pub(super) fn is_answered_soon(&self) -> bool {
        match self.kind {
            Kind::Request => true,
            Kind::Wait { when_ready, stop } => {
                when_ready == WhenReady::AtOnce
                    || matches!(stop, Some(StopWaiting::Take | StopWaiting::GiveUp))
            }
        }
    }

    /// Whether requests of its lane may not overtake it. A poll that waits may wait for long, and nothing else of its
    /// connection is under way meanwhile.
    pub(super) fn keeps_order(&self) -> bool {
        self.kind == Kind::Request
    }
}

/// All calls.
#[derive(Default)]
pub(super) struct Calls {
    last: u64,
    asked: HashMap<Call, Asked, FixedState>,
    /// Those that are parked, by connection.
    parked: BTreeSet<(ConnectionKey, Call)>,
    /// Polls that wait, by what they are told to stop by.
    waits: HashMap<(ConnectionKey, Namespace), Call, FixedState>,
}

impl Calls {
    /// A number for one more: higher than all before.
    pub(super) fn next(&mut self) -> Call {
        self.last += 1;
        Call(self.last)
    }

    pub(super) fn insert(&mut self, call: Call, asked: Asked) {
        if let Kind::Wait { .. } = asked.kind {
            let who = (asked.origin.connection, asked.namespace);
            self.waits.insert(who, call);
        }
        if let Place::Parked { .. } = asked.place {
            self.parked.insert((asked.origin.connection, call));
        }
        self.asked.insert(call, asked);
    }

    pub(super) fn get(&self, call: Call) -> Option<&Asked> {
        self.asked.get(&call)
    }

    pub(super) fn get_mut(&mut self, call: Call) -> Option<&mut Asked> {
        self.asked.get_mut(&call)
    }

    pub(super) fn remove(&mut self, call: Call) -> Option<Asked> {
        let asked = self.asked.remove(&call)?;
        let connection = asked.origin.connection;
        if let Place::Parked { .. } = asked.place {
            self.parked.remove(&(connection, call));
        }
        if let Kind::Wait { .. } = asked.kind {
            let who = (connection, asked.namespace);
            if self.waits.get(&who) == Some(&call) {
                self.waits.remove(&who);
            }
        }
        Some(asked)
    }

    /// A call has found its way, or has to wait for one.
    pub(super) fn put(&mut self, call: Call, place: Place) {
        let Some(asked) = self.asked.get_mut(&call) else {
            return;
        };
        asked.place = place;
        let who = (asked.origin.connection, call);
        match place {
            Place::Parked { .. } => self.parked.insert(who),
            Place::Sent { .. } => self.parked.remove(&who),
        };
    }

    /// The poll of a connection that waits at a partition.
    pub(super) fn wait_of(&self, connection: ConnectionKey, namespace: Namespace) -> Option<Call> {
        self.waits.get(&(connection, namespace)).copied()
    }

    /// The parked calls of a connection.
    pub(super) fn take_parked(&mut self, connection: ConnectionKey) -> Vec<Call> {
        let all = (connection, Call(0))..=(connection, Call(u64::MAX));
        self.parked.range(all).map(|(_, call)| *call).collect()
    }

    /// The calls that a node has not answered, in their order.
    pub(super) fn sent_to(&self, peer: Peer) -> Vec<Call> {
        let is_there = |asked: &Asked| matches!(asked.place, Place::Sent { to, .. } if to == peer);
        let mut calls: Vec<Call> = (self.asked.iter())
            .filter(|(_, asked)| is_there(asked))
            .map(|(call, _)| *call)
            .collect();
        calls.sort_unstable();
        calls
    }
}
