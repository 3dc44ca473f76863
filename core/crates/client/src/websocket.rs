//! A socket that carries its bytes in WebSocket messages.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use headrace_websocket::{
    Decoder, Item, Kind, Limits, Opcode, Role, Step, check_response, encode_control, encode_header,
    mask_into, request,
};

use crate::socket::Stream;

/// Size of the buffer for headers and short answers.
const INBOX_BYTES: usize = 8 * 1024;
/// Default of the server's maximum frame size. A larger request is split into several messages.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Number of bytes that are masked and written at a time, small enough to stay in the cache.
const MASKED_BYTES: usize = 128 * 1024;
/// Number of masking keys that are generated at a time.
const KEYS: usize = 64;

/// A WebSocket connection.
#[derive(Debug)]
pub(crate) struct WebSocket {
    stream: Stream,
    decoder: Decoder,
    inbox: Box<[u8; INBOX_BYTES]>,
    /// Decoded bytes of a message in the inbox, in front of `raw`.
    plain: Range<usize>,
    /// Received bytes that are not decoded yet.
    raw: Range<usize>,
    masked: Vec<u8>,
    keys: [[u8; 4]; KEYS],
    keys_left: usize,
}

impl WebSocket {
    /// Request the upgrade from the server behind `stream`.
    pub(crate) fn open(stream: Stream, host: &str) -> io::Result<Self> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)?;
        let (request, accept) = request(host, "/", nonce);
        // No message is too long for a client: it reads as much as it has requested.
        let limits = Limits {
            frame_bytes_max: u64::MAX,
            message_bytes_max: u64::MAX,
        };
        let mut websocket = Self {
            stream,
            decoder: Decoder::new(Role::Client, limits),
            inbox: Box::new([0; INBOX_BYTES]),
            plain: 0..0,
            raw: 0..0,
            masked: Vec::with_capacity(1024),
            keys: [[0; 4]; KEYS],
            keys_left: 0,
        };
        websocket.stream.write_all(&request)?;
        websocket.stream.flush()?;
        loop {
            let received = &websocket.inbox[websocket.raw.clone()];
            match check_response(received, &accept) {
                Ok(Some(consumed)) => {
                    websocket.raw.start += consumed;
                    return Ok(websocket);
                }
                Ok(None) if received.len() < INBOX_BYTES => {}
                Ok(None) => return Err(invalid("the response to the upgrade has no end")),
                Err(bad) => return Err(invalid(bad)),
            }
            if websocket.fill()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Underlying TCP connection.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.tcp()
    }

    /// Read bytes of the protocol; 0: the server has closed. Data of one frame is read directly into `out`.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.plain.is_empty() {
                let count = self.plain.len().min(out.len());
                let waiting = self.plain.start..self.plain.start + count;
                out[..count].copy_from_slice(&self.inbox[waiting]);
                self.plain.start += count;
                return Ok(count);
            }
            let left = self.decoder.binary_bytes_left();
            if left > 0 && self.raw.is_empty() {
                let room = usize::try_from(left).map_or(out.len(), |left| left.min(out.len()));
                let count = self.stream.read(&mut out[..room])?;
                self.decoder.payload(&mut out[..count]).map_err(invalid)?;
                return Ok(count);
            }
            let received = &mut self.inbox[self.raw.clone()];
            match self.decoder.next(received).map_err(invalid)? {
                Step::Incomplete => {
                    if self.fill()? == 0 {
                        return Ok(0);
                    }
                }
                Step::Item { item, consumed } => {
                    let start = self.raw.start;
                    self.raw.start += consumed;
                    match item {
                        Item::Data {
                            kind: Kind::Binary,
                            payload,
                            ..
                        } => self.plain = start + payload.start..start + payload.end,
                        Item::Data { .. } | Item::Pong => {}
                        Item::Ping { payload } => {
                            let payload = received[payload].to_vec();
                            self.control(Opcode::Pong, &payload)?;
                        }
                        Item::Close { .. } => {
                            self.control(Opcode::Close, &[])?;
                            return Ok(0);
                        }
                    }
                }
            }
        }
    }

    /// Write a request as one message, or as several if it exceeds the maximum message size.
    pub(crate) fn write(&mut self, parts: [&[u8]; 3]) -> io::Result<()> {
        let mut unwritten: usize = parts.iter().map(|part| part.len()).sum();
        let mut masked = std::mem::take(&mut self.masked);
        masked.clear();
        let (mut key, mut position, mut left) = ([0; 4], 0_u64, 0);
        for mut part in parts {
            while !part.is_empty() {
                if left == 0 {
                    left = unwritten.min(MESSAGE_BYTES_MAX);
                    key = self.key()?;
                    position = 0;
                    let header = encode_header(Opcode::Binary, left, Some(key));
                    masked.extend_from_slice(header.as_slice());
                }
                let count = part.len().min(left).min(MASKED_BYTES);
                let (front, rest) = part.split_at(count);
                mask_into(&mut masked, front, key, position);
                position += count as u64;
                left -= count;
                unwritten -= count;
                part = rest;
                if masked.len() >= MASKED_BYTES {
                    self.stream.write_all(&masked)?;
                    masked.clear();
                }
            }
        }
        self.stream.write_all(&masked)?;
        self.masked = masked;
        self.stream.flush()
    }

    fn control(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let key = self.key()?;
        let mut frame = Vec::new();
        encode_control(&mut frame, opcode, payload, Some(key));
        self.stream.write_all(&frame)?;
        self.stream.flush()
    }

    /// Take an unpredictable masking key.
    fn key(&mut self) -> io::Result<[u8; 4]> {
        if self.keys_left == 0 {
            getrandom::fill(self.keys.as_flattened_mut())?;
            self.keys_left = KEYS;
        }
        self.keys_left -= 1;
        Ok(self.keys[self.keys_left])
    }

    /// Receive more after the bytes in the inbox. Only called if no decoded bytes wait.
    fn fill(&mut self) -> io::Result<usize> {
        self.inbox.copy_within(self.raw.clone(), 0);
        self.raw = 0..self.raw.len();
        let count = self.stream.read(&mut self.inbox[self.raw.end..])?;
        self.raw.end += count;
        Ok(count)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
