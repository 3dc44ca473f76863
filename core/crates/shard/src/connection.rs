//! One client connection: its bytes, its requests in flight, its session.

mod inbox;
mod pipeline;
mod session;

use headrace_buffer::Slice;
use headrace_model::{ShardId, Timestamp};
use headrace_wire::{CommandCode, Status, frame::ResponseHeader, response::encode_frame};

pub(crate) use inbox::{Head, Inbox, SMALL_PAYLOAD_BYTES_MAX};
pub(crate) use pipeline::Pipeline;
pub use pipeline::Sequence;
pub(crate) use session::{Affinity, SendRoute, Session};

use crate::api::ConnectionKey;

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
    /// Stands in the list of connections with something to do at the end of the turn.
    pub(crate) touched: bool,
}

impl Connection {
    pub(crate) fn new(key: ConnectionKey, session: Session) -> Self {
        Self {
            key,
            inbox: Inbox::new(),
            pipeline: Pipeline::default(),
            session,
            receiving: false,
            sending: false,
            closing: false,
            lingers_until: None,
            moving_to: None,
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

/// A successful response around the payload that `encode` appends.
pub(crate) fn payload_response(encode: impl FnOnce(&mut Vec<u8>)) -> Slice {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, encode);
    Slice::from_vec(bytes)
}
