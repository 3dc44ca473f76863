//! One client connection: its bytes, its requests in flight, its session.

mod inbox;
mod pipeline;
mod session;
mod websocket;

use headrace_buffer::{Buffer, Slice};
use headrace_model::{ShardId, Timestamp};
use headrace_wire::{CommandCode, Status, frame::ResponseHeader, response::encode_frame};

pub(crate) use inbox::{Head, Inbox, SMALL_PAYLOAD_BYTES_MAX, STRANGERS_PAYLOAD_BYTES_MAX, Source};
pub(crate) use pipeline::Pipeline;
pub use pipeline::Sequence;
pub(crate) use session::{Affinity, Login, SendRoute, Session, Standing};
pub(crate) use websocket::WebSocket;

use crate::{api::ConnectionKey, arrival::Framing, config::WebSocketConfig, served::Served};

/// A connection.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts: each of the two directions, and two marks"
)]
pub(crate) struct Connection {
    pub(crate) key: ConnectionKey,
    pub(crate) inbox: Inbox,
    pub(crate) pipeline: Pipeline,
    pub(crate) session: Session,
    /// Set when a gateway is at the other end: it speaks frames of its own.
    pub(crate) served: Option<Box<Served>>,
    /// The host receives for it.
    pub(crate) receiving: bool,
    /// The host sends for it.
    pub(crate) sending: bool,
    /// No more requests; closes when everything that is on its way out was sent.
    pub(crate) closing: bool,
    /// All was sent. What the peer still sends is dropped until it closes, or until then: to close at once would
    /// reset the connection, and the answers that the peer has not received yet would be lost on the way.
    pub(crate) lingers_until: Option<Timestamp>,
    /// Its traffic belongs to this shard: it takes no new requests and moves there when all is answered.
    pub(crate) moving_to: Option<ShardId>,
    /// By when the payload that has a buffer for itself has to be there.
    pub(crate) payload_until: Timestamp,
    /// Stands among those that are looked after for it.
    pub(crate) is_payload_awaited: bool,
    /// Its turn among those that wait until their user holds less memory; 0: it does not.
    pub(crate) share_turn: u64,
    /// Stands in the list of connections with something to do at the end of the turn.
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
            served: None,
            receiving: false,
            sending: false,
            closing: false,
            lingers_until: None,
            moving_to: None,
            payload_until: Timestamp(0),
            is_payload_awaited: false,
            share_turn: 0,
            touched: false,
        }
    }

    /// Whether nothing is under way that ties the connection to its shard.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.receiving && !self.sending && self.pipeline.is_idle() && !self.pipeline.has_outgoing()
    }

    /// Whether a request may start beside those in flight.
    pub(crate) fn may_start(&self, code: u32) -> bool {
        if code == CommandCode::SendMessages.code() {
            self.pipeline.may_append()
        } else {
            self.pipeline.may_run_alone()
        }
    }

    /// The host returns the buffer of a receive with `count` more bytes in it.
    pub(crate) fn received(&mut self, buffer: Buffer, count: usize) {
        self.inbox.received(buffer, count);
        if let Some(replies) = self.inbox.websocket_mut().and_then(WebSocket::take_replies) {
            self.pipeline.say_between(replies);
        }
    }

    /// Whether its WebSocket has come to its end, or a response that is not sent has ended it: then what is said last is
    /// on its way, behind the answers to everything in flight.
    pub(crate) fn conclude(&mut self) -> bool {
        // Its end has begun, perhaps because the server stops, and comes with the last answer.
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
        } else if let Some(words) = websocket.take_last_words() {
            self.pipeline.say_last(words);
        }
        self.closing = true;
        true
    }

    /// The server stops: say so, behind the answers to everything in flight, and take no more requests.
    pub(crate) fn say_goodbye(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if self.served.is_some() {
            // A gateway is told when it was answered everything.
            return;
        }
        let words = match self.inbox.websocket_mut() {
            None => status_response(Status::DISCONNECTED),
            Some(websocket) => websocket.goodbye(),
        };
        self.pipeline.say_last(words);
    }

    /// Whether nothing is to be received before something else has happened.
    pub(crate) fn is_held_back(&self) -> bool {
        match &self.served {
            None => self.pipeline.is_full(),
            Some(served) => served.is_deaf(&self.pipeline),
        }
    }

    /// Whether everything was answered and said, on a connection that closes.
    pub(crate) fn has_ended(&self) -> bool {
        let has_parted = |served: &Served| served.has_parted();
        self.pipeline.is_idle() && self.served.as_deref().is_none_or(has_parted)
    }

    /// Whether a request has arrived that waits for its turn.
    pub(crate) fn has_whole_request(&self) -> bool {
        self.inbox.has_whole_request()
    }
}

/// A response without payload.
pub(crate) fn status_response(status: Status) -> Slice {
    static SUCCESS: [u8; 8] = [0; 8];
    if status == Status::OK {
        return Slice::from_static(&SUCCESS);
    }
    Slice::from_vec(ResponseHeader::error(status).encode().to_vec())
}

/// A refusal with a text for people, for connections that have asked for it.
pub(crate) fn explained_response(status: Status, explanation: Option<&str>) -> Slice {
    let Some(text) = explanation else {
        return status_response(status);
    };
    let header = ResponseHeader {
        status,
        length: u32::try_from(text.len()).expect("an explanation is short"),
    };
    Slice::from_vec([&header.encode(), text.as_bytes()].concat())
}

/// A successful response around the payload that `encode` appends.
pub(crate) fn payload_response(encode: impl FnOnce(&mut Vec<u8>)) -> Slice {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, encode);
    Slice::from_vec(bytes)
}
