//! A connection that carries its bytes in WebSocket messages.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use headrace_websocket::{
    Decoder, Item, Kind, Limits, Opcode, Role, Step, apply_mask, check_response, encode_control,
    encode_header, request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::outbox::Outbox;
use crate::transport::{Bytestream, Progress, closed};

/// Default of the server's maximum message size. A larger request is split into several messages.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Longest response to the request for an upgrade.
const RESPONSE_BYTES_MAX: usize = 8 * 1024;
const RECEIVE_BYTES: usize = 64 * 1024;
/// Longest header of a message, with its key.
const HEADER_BYTES_MAX: usize = 14;

/// A WebSocket connection.
pub(crate) struct WebSocket {
    stream: Box<dyn Bytestream>,
    decoder: Decoder,
    /// Received and not decoded yet.
    raw: BytesMut,
    /// Encoded and not written yet.
    encoded: BytesMut,
}

impl WebSocket {
    /// Request the upgrade from the server behind `stream`.
    pub(crate) async fn open(mut stream: Box<dyn Bytestream>, host: &str) -> io::Result<Self> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)?;
        let (request, accept) = request(host, "/", nonce);
        stream.write_all(&request).await?;
        stream.flush().await?;
        let mut raw = BytesMut::with_capacity(RECEIVE_BYTES);
        let consumed = loop {
            if let Some(consumed) = check_response(&raw, &accept).map_err(invalid)? {
                break consumed;
            }
            if raw.len() >= RESPONSE_BYTES_MAX {
                return Err(invalid("the response to the upgrade has no end"));
            }
            if stream.read_buf(&mut raw).await? == 0 {
                return Err(closed());
            }
        };
        raw.advance(consumed);
        // No message is too long for a client: it receives as much as it has requested.
        let limits = Limits {
            frame_bytes_max: u64::MAX,
            message_bytes_max: u64::MAX,
        };
        Ok(Self {
            stream,
            decoder: Decoder::new(Role::Client, limits),
            raw,
            encoded: BytesMut::new(),
        })
    }

    /// See [`crate::transport::Transport::poll_progress`].
    pub(crate) fn poll_progress(
        &mut self,
        context: &mut Context<'_>,
        outbox: &mut Outbox,
        inbox: &mut BytesMut,
    ) -> Poll<io::Result<Progress>> {
        if self.encoded.is_empty()
            && let Some(frame) = outbox.pop_frame()
        {
            self.encode(&frame)?;
        }
        if self.encoded.has_remaining() {
            match pin!(self.stream.write_buf(&mut self.encoded)).poll(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(_)) => return Poll::Ready(Ok(Progress::Written)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        } else if let Poll::Ready(Err(error)) = pin!(self.stream.flush()).poll(context) {
            return Poll::Ready(Err(error));
        }
        let unwritten = self.encoded.remaining();
        loop {
            if self.decode(inbox)? {
                return Poll::Ready(Ok(Progress::Received));
            }
            if self.encoded.remaining() > unwritten {
                // An answer to a ping: it is written with the next call.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.raw.reserve(RECEIVE_BYTES);
            if ready!(pin!(self.stream.read_buf(&mut self.raw)).poll(context))? == 0 {
                return Poll::Ready(Err(closed()));
            }
        }
    }

    /// Append a frame of the protocol as one message, or as several if it exceeds the maximum.
    fn encode(&mut self, parts: &[Bytes]) -> io::Result<()> {
        let mut left: usize = parts.iter().map(Bytes::len).sum();
        self.encoded.reserve(left + HEADER_BYTES_MAX);
        // Of the message: its key, the bytes it has, and those that it lacks.
        let (mut key, mut position, mut missing) = ([0; 4], 0, 0);
        for mut part in parts.iter().map(|part| &part[..]) {
            while !part.is_empty() {
                if missing == 0 {
                    (key, position, missing) = (masking_key()?, 0, left.min(MESSAGE_BYTES_MAX));
                    let header = encode_header(Opcode::Binary, missing, Some(key));
                    self.encoded.extend_from_slice(header.as_slice());
                }
                let (bytes, rest) = part.split_at(part.len().min(missing));
                let start = self.encoded.len();
                self.encoded.extend_from_slice(bytes);
                apply_mask(&mut self.encoded[start..], key, position);
                position += bytes.len() as u64;
                missing -= bytes.len();
                left -= bytes.len();
                part = rest;
            }
        }
        Ok(())
    }

    /// Move decoded bytes to the inbox. Returns whether there were any.
    fn decode(&mut self, inbox: &mut BytesMut) -> io::Result<bool> {
        let mut has_received = false;
        while !self.raw.is_empty() {
            let Step::Item { item, consumed } =
                self.decoder.next(&mut self.raw).map_err(invalid)?
            else {
                break;
            };
            match item {
                Item::Data {
                    kind: Kind::Binary,
                    payload,
                    ..
                } => {
                    has_received |= !payload.is_empty();
                    inbox.extend_from_slice(&self.raw[payload]);
                }
                Item::Data { .. } | Item::Pong => {}
                Item::Ping { payload } => {
                    let payload = self.raw[payload].to_vec();
                    self.encode_control(Opcode::Pong, &payload)?;
                }
                Item::Close { .. } => return Err(closed()),
            }
            self.raw.advance(consumed);
        }
        Ok(has_received)
    }

    fn encode_control(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let mut frame = Vec::new();
        encode_control(&mut frame, opcode, payload, Some(masking_key()?));
        self.encoded.extend_from_slice(&frame);
        Ok(())
    }
}

/// Draw an unpredictable masking key.
fn masking_key() -> io::Result<[u8; 4]> {
    let mut key = [0; 4];
    getrandom::fill(&mut key)?;
    Ok(key)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
