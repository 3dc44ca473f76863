//! One client connection: its buffers, its requests in flight and its session.

mod holder;
mod inbox;
mod pace;
mod pipeline;
mod requester;
mod responses;
mod session;
mod websocket;

use headrace_buffer::Buffer;
use headrace_model::{ShardId, Timestamp};
use headrace_wire::{CommandCode, Status};

pub(crate) use holder::{TICKET_HOLDER, TicketHolder, credential};
pub(crate) use inbox::{
    Head, Inbox, SMALL_PAYLOAD_BYTES_MAX, Source, UNAUTHENTICATED_PAYLOAD_BYTES_MAX,
};
pub(crate) use pace::Pace;
pub(crate) use pipeline::Pipeline;
pub(crate) use requester::Requester;
pub(crate) use responses::{explained_response, nothing_polled, payload_response, status_response};
pub(crate) use session::{Affinity, CatchingUp, Login, Registration, SendRoute, Session};
pub(crate) use websocket::WebSocket;

use crate::{
    calls::ConnectionKey, config::WebSocketConfig, sessions::arrival::Framing,
    sessions::served::GatewayLink,
};

/// Send of the host that is in flight, or the last one.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) bytes: u64,
    pub(crate) since: Timestamp,
}

/// Deadline for the arrival of a payload with a dedicated buffer.
#[derive(Debug, Default)]
pub(crate) struct PayloadDeadline {
    pub(crate) until: Timestamp,
    /// True if the connection has an entry for the deadline.
    pub(crate) is_awaited: bool,
}

/// State of a connection.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts: each of the two directions, and marks"
)]
pub(crate) struct Connection {
    pub(crate) key: ConnectionKey,
    pub(crate) inbox: Inbox,
    pub(crate) pipeline: Pipeline,
    pub(crate) session: Session,
    /// Set if the peer is a gateway, which uses frames of its own.
    pub(crate) gateway_link: Option<Box<GatewayLink>>,
    /// True while a receive of the host is in flight.
    pub(crate) receiving: bool,
    /// True while a send of the host is in flight.
    pub(crate) sending: bool,
    pub(crate) last_send: Transfer,
    /// True if no more requests are accepted. The connection closes after everything outgoing was sent.
    pub(crate) closing: bool,
    /// True if the connection has a deadline for its last send.
    pub(crate) is_end_awaited: bool,
    /// Set once everything was sent. What the peer still sends is discarded until it closes or until this deadline.
    /// Closing at once would reset the connection, and answers not yet received by the peer would be lost.
    pub(crate) lingers_until: Option<Timestamp>,
    /// Shard that owns the partitions of this connection's traffic. The connection accepts no new requests and moves
    /// there when all are answered.
    pub(crate) moving_to: Option<ShardId>,
    pub(crate) payload: PayloadDeadline,
    /// Number of its turn among connections that wait until their user holds less memory; 0 if it does not wait.
    pub(crate) share_turn: u64,
    /// True if the connection waits for the next turn of its user.
    pub(crate) awaits_turn: bool,
    /// True if the connection is listed for work at the end of the turn.
    pub(crate) touched: bool,
}

impl Connection {
    pub(crate) fn new(key: ConnectionKey, session: Session, config: &WebSocketConfig) -> Self {
        let is_proxied = session.arrival.is_proxied;
        let (inbox, mut pipeline) = match session.arrival.framing {
            Framing::Plain => (Inbox::new(None, is_proxied), Pipeline::default()),
            Framing::WebSocket => (
                Inbox::new(Some(Box::new(WebSocket::new(config))), is_proxied),
                Pipeline::in_messages(),
            ),
        };
        if session.arrival.is_in_process() {
            pipeline.explain();
        }
        Self {
            key,
            inbox,
            pipeline,
            session,
            gateway_link: None,
            receiving: false,
            sending: false,
            last_send: Transfer::default(),
            closing: false,
            is_end_awaited: false,
            lingers_until: None,
            moving_to: None,
            payload: PayloadDeadline::default(),
            share_turn: 0,
            awaits_turn: false,
            touched: false,
        }
    }

    /// Return whether no I/O and no request ties the connection to its shard.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.receiving && !self.sending && self.pipeline.is_idle() && !self.pipeline.has_outgoing()
    }

    /// Return whether a request may start in addition to those in flight.
    pub(crate) fn may_start(&self, code: u32) -> bool {
        if code == CommandCode::SendMessages.code() {
            self.pipeline.may_append()
        } else {
            self.pipeline.may_run_alone()
        }
    }

    /// Process a completed receive that put `count` more bytes into the buffer.
    pub(crate) fn received(&mut self, buffer: Buffer, count: usize) {
        self.inbox.received(buffer, count);
        if let Some(replies) = self.inbox.websocket_mut().and_then(WebSocket::take_replies) {
            self.pipeline.queue_between_responses(replies);
        }
    }

    /// Begin to close the connection if its WebSocket has ended, or if an unsent response ends it. Returns true if so;
    /// the closing frame then follows the answers to all requests in flight.
    pub(crate) fn conclude(&mut self) -> bool {
        // Closing has already begun, perhaps because of a shutdown, and completes with the last answer.
        if self.closing {
            return false;
        }
        let has_whole_request = self.has_whole_request();
        let Some(websocket) = self.inbox.websocket_mut() else {
            return false;
        };
        if self.pipeline.has_ended() {
            self.pipeline.abandon();
        } else if !websocket.is_over() || has_whole_request {
            return false;
        } else if let Some(words) = websocket.take_final_bytes() {
            self.pipeline.queue_final(words);
        }
        self.closing = true;
        true
    }

    /// Announce the shutdown after the answers to all requests in flight, and accept no more requests.
    pub(crate) fn begin_graceful_close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if self.gateway_link.is_some() {
            // A gateway is notified after its last answer.
            return;
        }
        let words = match self.inbox.websocket_mut() {
            None => status_response(Status::DISCONNECTED),
            Some(websocket) => websocket.close_frame(),
        };
        self.pipeline.queue_final(words);
    }

    /// Return whether receiving is paused because of back-pressure.
    pub(crate) fn is_held_back(&self) -> bool {
        match &self.gateway_link {
            None => self.pipeline.is_full(),
            Some(served) => served.is_paused(&self.pipeline),
        }
    }

    /// Return whether a closing connection has sent all answers and its closing frame.
    pub(crate) fn has_ended(&self) -> bool {
        let has_parted = |served: &GatewayLink| served.is_drained();
        self.pipeline.is_idle() && self.gateway_link.as_deref().is_none_or(has_parted)
    }

    /// Return whether a complete request is queued.
    pub(crate) fn has_whole_request(&self) -> bool {
        self.inbox.has_whole_request()
    }
}
