//! Unanswered calls.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_buffer::Slice;
use headrace_link::{EndWait, RequestId, WhenReady};
use headrace_model::{Namespace, Timestamp};

use super::budget::Charge;
use crate::calls::{ConnectionKey, Origin, Peer};

/// Kind of answer that a call expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    /// A poll that may wait at its partition.
    Wait {
        when_ready: WhenReady,
        /// Set once the poll was asked to stop in this way.
        stop: Option<EndWait>,
    },
}

/// State of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    /// Parked in its lane until this deadline.
    Parked { until: Timestamp },
    /// Sent to a node. Frames with a lower `position` on the same link precede it.
    Sent { to: Peer, position: u64 },
}

/// One call.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) origin: Origin,
    pub(super) namespace: Namespace,
    pub(super) incarnation: u64,
    pub(super) kind: Kind,
    /// True if the request changes nothing: after the loss of its answer it can be sent again.
    pub(super) is_idempotent: bool,
    /// Encoded frame; kept because it may have to be sent again.
    pub(super) frame: Vec<Slice>,
    pub(super) charge: Charge,
    pub(super) state: CallState,
    /// True if the link counts this call as one to be answered soon; such calls detect a silent node.
    pub(super) is_answer_expected: bool,
    /// Time of the request.
    pub(super) began: Timestamp,
    /// Deadline for waiting for a node; set at the first wait.
    pub(super) until: Option<Timestamp>,
}

impl PendingCall {
    /// Return whether a running node answers the call without waiting for other events.
    pub(super) fn is_answered_soon(&self) -> bool {
        match self.kind {
            Kind::Request => true,
            Kind::Wait { when_ready, stop } => {
                when_ready == WhenReady::AnswerNow
                    || matches!(stop, Some(EndWait::Take | EndWait::Refuse))
            }
        }
    }

    /// Return whether requests of the same lane must not overtake the call. A waiting poll may take long, and its
    /// connection has no other request in flight.
    pub(super) fn keeps_order(&self) -> bool {
        self.kind == Kind::Request
    }
}

/// All unanswered calls.
#[derive(Default)]
pub(super) struct Calls {
    last: u64,
    asked: HashMap<RequestId, PendingCall, FixedState>,
    /// Parked calls, by connection.
    parked: BTreeSet<(ConnectionKey, RequestId)>,
    /// Waiting polls, by the connection and partition that a stop request names.
    waits: HashMap<(ConnectionKey, Namespace), RequestId, FixedState>,
}

impl Calls {
    /// Return the number of a new call, which is higher than all before.
    pub(super) fn next(&mut self) -> RequestId {
        self.last += 1;
        RequestId(self.last)
    }

    pub(super) fn insert(&mut self, call: RequestId, asked: PendingCall) {
        if let Kind::Wait { .. } = asked.kind {
            let who = (asked.origin.connection, asked.namespace);
            self.waits.insert(who, call);
        }
        if let CallState::Parked { .. } = asked.state {
            self.parked.insert((asked.origin.connection, call));
        }
        self.asked.insert(call, asked);
    }

    pub(super) fn get(&self, call: RequestId) -> Option<&PendingCall> {
        self.asked.get(&call)
    }

    pub(super) fn get_mut(&mut self, call: RequestId) -> Option<&mut PendingCall> {
        self.asked.get_mut(&call)
    }

    pub(super) fn remove(&mut self, call: RequestId) -> Option<PendingCall> {
        let asked = self.asked.remove(&call)?;
        let connection = asked.origin.connection;
        if let CallState::Parked { .. } = asked.state {
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

    /// Record that a call was sent or parked.
    pub(super) fn put(&mut self, call: RequestId, state: CallState) {
        let Some(asked) = self.asked.get_mut(&call) else {
            return;
        };
        asked.state = state;
        let who = (asked.origin.connection, call);
        match state {
            CallState::Parked { .. } => self.parked.insert(who),
            CallState::Sent { .. } => self.parked.remove(&who),
        };
    }

    /// Return the waiting poll of a connection at a partition.
    pub(super) fn wait_of(
        &self,
        connection: ConnectionKey,
        namespace: Namespace,
    ) -> Option<RequestId> {
        self.waits.get(&(connection, namespace)).copied()
    }

    /// Take the parked calls of a connection.
    pub(super) fn take_parked(&mut self, connection: ConnectionKey) -> Vec<RequestId> {
        let all = (connection, RequestId(0))..=(connection, RequestId(u64::MAX));
        self.parked.range(all).map(|(_, call)| *call).collect()
    }

    /// Unanswered calls that were sent to a node, in order.
    pub(super) fn sent_to(&self, peer: Peer) -> Vec<RequestId> {
        let is_there =
            |asked: &PendingCall| matches!(asked.state, CallState::Sent { to, .. } if to == peer);
        let mut calls: Vec<RequestId> = (self.asked.iter())
            .filter(|(_, asked)| is_there(asked))
            .map(|(call, _)| *call)
            .collect();
        calls.sort_unstable();
        calls
    }
}
