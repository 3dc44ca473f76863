//! Connection whose requests and responses are transported in WebSocket messages.
//!
//! Works between the receive buffer and the inbox: reduces the received bytes, in place, to those of the protocol. A
//! client's requests are one stream of bytes, however it is divided into messages. A response is one message.

use core::ops::Range;
use std::sync::Arc;

use headrace_buffer::Slice;
use headrace_websocket::{
    CloseCode, Decoder, Item, Kind, Limits, Opcode, Origins, Refused, Role, Step, close_payload,
    encode_control, encode_header, read_request, refusal, response,
};
use headrace_wire::{Status, frame::ResponseHeader};

use crate::config::WebSocketConfig;

/// Maximum bytes behind those of the protocol that wait for their end: a control frame of maximum size.
pub(crate) const WAITING_BYTES_MAX: usize = headrace_websocket::CONTROL_FRAME_BYTES_MAX;

#[derive(Debug)]
enum Phase {
    /// The upgrade request has not arrived completely.
    Handshake {
        bytes_max: usize,
        origins: Arc<Origins>,
    },
    /// The upgrade is complete: frames are decoded.
    Open(Decoder),
    /// The WebSocket has ended: nothing more is read.
    Over,
}

/// State of one WebSocket.
#[derive(Debug)]
pub(crate) struct WebSocket {
    phase: Phase,
    limits: Limits,
    /// Bytes that answer no request: the upgrade response, and pongs.
    replies: Vec<u8>,
    /// Final bytes, sent once everything that arrived before is answered.
    final_bytes: Option<Vec<u8>>,
}

impl WebSocket {
    pub(crate) fn new(config: &WebSocketConfig) -> Self {
        Self {
            phase: Phase::Handshake {
                bytes_max: config.handshake_bytes_max,
                origins: Arc::clone(&config.origins),
            },
            limits: config.limits,
            replies: Vec::new(),
            final_bytes: None,
        }
    }

    /// Take the bytes to be sent in front of the next responses.
    pub(crate) fn take_replies(&mut self) -> Option<Slice> {
        (!self.replies.is_empty()).then(|| Slice::from_vec(core::mem::take(&mut self.replies)))
    }

    /// Return whether the WebSocket has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Take the final bytes; `None` after the first call.
    pub(crate) fn take_final_bytes(&mut self) -> Option<Slice> {
        self.final_bytes.take().map(Slice::from_vec)
    }

    /// End a handshake whose deadline has passed.
    pub(crate) fn give_up_handshake(&mut self) {
        if matches!(self.phase, Phase::Handshake { .. }) {
            self.end(refusal(Refused::TooSlow));
        }
    }

    /// Number of protocol bytes that come next without a frame header between them.
    pub(crate) fn bytes_left(&self) -> u64 {
        match &self.phase {
            Phase::Open(decoder) => decoder.binary_bytes_left(),
            Phase::Handshake { .. } | Phase::Over => 0,
        }
    }

    /// Return whether a message or the upgrade request is incomplete.
    pub(crate) fn is_inside_message(&self) -> bool {
        match &self.phase {
            Phase::Open(decoder) => decoder.is_inside_message(),
            Phase::Handshake { .. } => true,
            Phase::Over => false,
        }
    }

    /// Decode bytes of the current message that were received into a separate buffer.
    pub(crate) fn received_apart(&mut self, bytes: &mut [u8]) {
        if let Phase::Open(decoder) = &mut self.phase {
            decoder
                .payload(bytes)
                .expect("only bytes of a binary message are received apart");
        }
    }

    /// Extract protocol bytes from received frames. `plain` holds protocol bytes extracted earlier, followed by
    /// `waiting`, the bytes received and not decoded yet. Returns both ranges anew: the protocol bytes are contiguous,
    /// with as little moved as possible, and the incomplete rest waits for more.
    pub(crate) fn extract(
        &mut self,
        buffer: &mut [u8],
        mut plain: Range<usize>,
        mut waiting: Range<usize>,
    ) -> (Range<usize>, Range<usize>) {
        loop {
            let bytes = &mut buffer[waiting.clone()];
            let (item, consumed) = match &mut self.phase {
                Phase::Over => return (plain, waiting.end..waiting.end),
                Phase::Handshake { bytes_max, origins } => match read_request(bytes, origins) {
                    Ok(Some(upgrade)) if upgrade.consumed <= *bytes_max => {
                        self.replies.extend(response(&upgrade));
                        waiting.start += upgrade.consumed;
                        self.phase = Phase::Open(Decoder::new(Role::Server, self.limits));
                        continue;
                    }
                    Ok(None) if bytes.len() <= *bytes_max => return (plain, waiting),
                    Ok(_) => {
                        self.end(refusal(Refused::TooLarge));
                        continue;
                    }
                    Err(refused) => {
                        self.end(refusal(refused));
                        continue;
                    }
                },
                Phase::Open(decoder) => match decoder.next(bytes) {
                    Ok(Step::Incomplete) => return (plain, waiting),
                    Ok(Step::Item { item, consumed }) => (item, consumed),
                    Err(error) => {
                        let payload = close_payload(error.close_code(), &error.to_string());
                        self.end(close_frame(&payload));
                        continue;
                    }
                },
            };
            match item {
                Item::Data {
                    kind: Kind::Binary,
                    payload,
                    ..
                } => {
                    let payload = waiting.start + payload.start..waiting.start + payload.end;
                    plain = append(buffer, plain, payload);
                }
                // Neither is an error, and neither needs an action.
                Item::Data { .. } | Item::Pong => {}
                Item::Ping { payload } => {
                    encode_control(&mut self.replies, Opcode::Pong, &bytes[payload], None);
                }
                Item::Close { code } => {
                    let payload = code.map_or_else(Vec::new, |code| close_payload(code, ""));
                    self.end(close_frame(&payload));
                }
            }
            waiting.start += consumed;
        }
    }

    /// End the WebSocket because of a shutdown, and return its closing frame.
    pub(crate) fn close_frame(&mut self) -> Slice {
        let words = match core::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Handshake { .. } => refusal(Refused::Stopping),
            Phase::Open(_) => {
                let status = ResponseHeader::error(Status::DISCONNECTED).encode();
                let mut words = message_header(status.len()).to_vec();
                words.extend(status);
                words.extend(close_frame(&close_payload(CloseCode::GOING_AWAY, "")));
                words
            }
            Phase::Over => self.final_bytes.take().unwrap_or_default(),
        };
        Slice::from_vec(words)
    }

    fn end(&mut self, last_words: Vec<u8>) {
        self.phase = Phase::Over;
        self.final_bytes = Some(last_words);
    }
}

/// Move `payload` behind `plain`.
fn append(buffer: &mut [u8], plain: Range<usize>, payload: Range<usize>) -> Range<usize> {
    if plain.is_empty() {
        return payload;
    }
    let end = plain.end + payload.len();
    if plain.end != payload.start {
        buffer.copy_within(payload, plain.end);
    }
    plain.start..end
}

fn close_frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_control(&mut frame, Opcode::Close, payload, None);
    frame
}

/// Header of a message of `bytes` bytes.
pub(crate) fn message_header(bytes: usize) -> Slice {
    const SHORT_BYTES_MAX: usize = 125;
    /// Most responses are short: their headers are precomputed.
    static SHORT: [[u8; 2]; SHORT_BYTES_MAX + 1] = {
        let mut headers = [[0x82, 0]; SHORT_BYTES_MAX + 1];
        let mut size = 0;
        while size <= SHORT_BYTES_MAX {
            #[allow(clippy::cast_possible_truncation, reason = "at most 125")]
            {
                headers[size][1] = size as u8;
            }
            size += 1;
        }
        headers
    };
    match SHORT.get(bytes) {
        Some(header) => Slice::from_static(header),
        None => Slice::from_vec(
            encode_header(Opcode::Binary, bytes, None)
                .as_slice()
                .to_vec(),
        ),
    }
}
