//! Assembly of request frames from received bytes.
//!
//! Small frames are parsed where they were received. The payload of a large frame gets a buffer of exactly its size:
//! the part that has arrived is copied there once and the rest is received straight into it, so that a batch is written
//! to memory once. An idle connection holds only the smallest buffer.
//!
//! On a WebSocket the protocol bytes are first extracted from the received frames; of a large payload only the frame
//! headers between its parts pass through the receive buffer.

use std::net::SocketAddr;

use headrace_buffer::{Buffer, BufferPool, PoolExhausted};
use headrace_wire::{
    frame::{REQUEST_HEADER_BYTES, RequestHeader},
    newer,
};

use super::websocket::{self, WebSocket};
use crate::{
    memory::{Claim, Memory, ReceiverId, Turn},
    proxy,
};

/// Maximum payload that is handled inside the receive buffer; larger ones get a buffer of their own.
pub(crate) const SMALL_PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// Size of an idle connection's buffer.
const CAPACITY_BYTES_MIN: usize = 512;
/// Maximum size of the receive buffer, reached with many small requests in flight.
const CAPACITY_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of the receive buffer before authentication: logins fit completely.
const UNAUTHENTICATED_BUFFER_BYTES: usize = 4 * 1024;
const UNAUTHENTICATED_UPGRADE_BYTES: usize = 8 * 1024;
/// Payload above which requests are refused before authentication.
pub(crate) const UNAUTHENTICATED_PAYLOAD_BYTES_MAX: usize =
    UNAUTHENTICATED_BUFFER_BYTES - REQUEST_HEADER_BYTES;
/// A receive that ends inside a frame with at most this much missing re-arms immediate acknowledgement: the sender may
/// delay its next segment until then (Nagle's algorithm against the delayed acknowledgement).
const QUICKACK_BYTES_MAX: usize = 128 * 1024;
/// Number of receives in a row that use little of a large buffer before it is exchanged for a smaller one.
const SHRINK_AFTER: u32 = 64;

/// Header of the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// Fewer bytes than a frame header.
    Incomplete,
    /// The length field is too small to include the command code.
    TooShort,
    /// A complete header.
    Request { code: u32, payload_bytes: usize },
}

/// A receive to be started by the host.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) buffer: Buffer,
    pub(crate) start: usize,
    pub(crate) minimum: usize,
    pub(crate) quickack: bool,
}

#[derive(Debug)]
struct LargePayload {
    buffer: Option<Buffer>,
    filled: usize,
    size: usize,
    code: u32,
}

/// Received bytes that have not been processed yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Receive buffer; `None` while the host receives into it, and before the first receive.
    buffer: Option<Buffer>,
    start: usize,
    end: usize,
    /// Bytes behind `end` that a WebSocket cannot decode before more arrives; 0 without a WebSocket.
    waiting: usize,
    capacity_wanted: usize,
    lightly_used: u32,
    large: Option<LargePayload>,
    discard: u64,
    /// Place in the memory queue while the current payload waits for memory.
    turn: Option<Turn>,
    /// Part of the user's memory share that the current large payload holds.
    claim: Option<Claim>,
    websocket: Option<Box<WebSocket>>,
    source: Source,
}

/// State of a connection's source address, which a load balancer may send in a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The source is known, or was taken.
    Known,
    /// The header has not arrived yet.
    Awaited,
    /// The header has just arrived; `None` if the balancer connects on its own behalf.
    Received(Option<SocketAddr>),
    /// The first bytes are not a header.
    Missing,
}

impl Inbox {
    /// Create an inbox. `websocket` is set if the bytes are framed by a WebSocket. `is_proxied` is set if they begin
    /// with a PROXY header.
    pub(crate) fn new(websocket: Option<Box<WebSocket>>, is_proxied: bool) -> Self {
        Self {
            buffer: None,
            start: 0,
            end: 0,
            waiting: 0,
            capacity_wanted: CAPACITY_BYTES_MIN,
            lightly_used: 0,
            large: None,
            discard: 0,
            turn: None,
            claim: None,
            websocket,
            source: if is_proxied {
                Source::Awaited
            } else {
                Source::Known
            },
        }
    }

    /// Return the state of the source; a header that has arrived is returned once.
    pub(crate) fn take_source(&mut self) -> Source {
        let source = self.source;
        if let Source::Received(_) = source {
            self.source = Source::Known;
        }
        source
    }

    /// Remove the PROXY header from the received bytes.
    fn take_proxy_header(&mut self) {
        let received = self.start..self.end;
        let bytes = self
            .buffer
            .as_deref()
            .map_or(&[][..], |buffer| &buffer[received]);
        match proxy::read(bytes) {
            Ok(None) => {}
            Ok(Some(header)) => {
                self.source = Source::Received(header.source);
                self.consume(header.bytes);
                if self.websocket.is_some() {
                    self.waiting = self.end - self.start;
                    self.end = self.start;
                }
            }
            Err(proxy::Malformed) => self.source = Source::Missing,
        }
    }

    /// WebSocket of the connection, if any.
    pub(crate) fn websocket_mut(&mut self) -> Option<&mut WebSocket> {
        self.websocket.as_deref_mut()
    }

    /// Process a completed [`Receive`] that put `count` more bytes into the buffer.
    pub(crate) fn received(&mut self, mut buffer: Buffer, count: usize) {
        if let Some(large) = self.large.as_mut().filter(|large| large.buffer.is_none()) {
            if let Some(websocket) = &mut self.websocket {
                // The length was reduced to the part that lies in one message.
                buffer.set_len(large.size);
                websocket.received_apart(&mut buffer[large.filled..large.filled + count]);
            }
            large.filled += count;
            large.buffer = Some(buffer);
            return;
        }
        self.adapt_capacity(buffer.capacity(), count);
        self.buffer = Some(buffer);
        if self.source == Source::Awaited {
            self.end += count;
            self.take_proxy_header();
            if self.source == Source::Awaited {
                return;
            }
            if self.websocket.is_some() {
                self.extract_plain();
            }
        } else if self.websocket.is_some() {
            self.waiting += count;
            self.extract_plain();
        } else {
            self.end += count;
        }
        self.drop_discarded();
    }

    /// Grow the buffer when receives fill it, and shrink it after they long have not.
    fn adapt_capacity(&mut self, capacity: usize, count: usize) {
        let filled = self.end + self.waiting + count;
        if filled == capacity && capacity < CAPACITY_BYTES_MAX {
            self.capacity_wanted = (capacity * 4).min(CAPACITY_BYTES_MAX);
            self.lightly_used = 0;
        } else if count < capacity / 8 && capacity > CAPACITY_BYTES_MIN {
            self.lightly_used += 1;
            if self.lightly_used >= SHRINK_AFTER {
                self.capacity_wanted = (capacity / 4).max(CAPACITY_BYTES_MIN);
                self.lightly_used = 0;
            }
        } else {
            self.lightly_used = 0;
        }
    }

    /// Reduce received WebSocket frames to their protocol bytes.
    fn extract_plain(&mut self) {
        let (Some(websocket), Some(buffer)) = (&mut self.websocket, &mut self.buffer) else {
            return;
        };
        let received = self.end..self.end + self.waiting;
        let (plain, waiting) = websocket.extract(buffer, self.start..self.end, received);
        self.start = plain.start;
        self.end = plain.end;
        self.waiting = waiting.len();
        if waiting.start != plain.end {
            buffer.copy_within(waiting, plain.end);
        }
        if self.large.is_some() {
            self.fill_large();
        }
    }

    /// Skip the next `bytes` bytes, received already or not.
    pub(crate) fn discard(&mut self, bytes: usize) {
        self.claim = None;
        self.discard += bytes as u64;
        self.drop_discarded();
    }

    fn drop_discarded(&mut self) {
        let available = (self.end - self.start) as u64;
        let dropped = available.min(self.discard);
        self.discard -= dropped;
        self.consume(usize::try_from(dropped).expect("at most the buffer's size"));
    }

    /// Return the header of the next frame, unless a PROXY header, a large payload or skipped bytes come first.
    pub(crate) fn head(&self) -> Head {
        let is_unknown = matches!(self.source, Source::Awaited | Source::Missing);
        if self.discard > 0 || self.large.is_some() || is_unknown {
            return Head::Incomplete;
        }
        let Some(bytes) = self.unread().first_chunk::<REQUEST_HEADER_BYTES>() else {
            return Head::Incomplete;
        };
        let header = RequestHeader::parse(bytes);
        match header.payload_bytes() {
            None => Head::TooShort,
            Some(payload_bytes) => Head::Request {
                code: header.code,
                payload_bytes: payload_bytes as usize,
            },
        }
    }

    fn unread(&self) -> &[u8] {
        self.buffer
            .as_ref()
            .map_or(&[], |buffer| &buffer[self.start..self.end])
    }

    /// Return the header of a newer client's request, if these are the next bytes. Such a client sends it in one piece:
    /// fewer bytes are taken for a short frame.
    pub(crate) fn newer_request(&self) -> Option<(&[u8; newer::HEADER_BYTES], usize)> {
        let header = self.unread().first_chunk()?;
        let request = newer::parse(header)?;
        Some((header, request.payload_bytes as usize))
    }

    /// Return the payload of the current frame if it has arrived completely in the receive buffer.
    pub(crate) fn payload_mut(&mut self, payload_bytes: usize) -> Option<&mut [u8]> {
        let start = self.start + REQUEST_HEADER_BYTES;
        let end = start.checked_add(payload_bytes)?;
        if end > self.end {
            return None;
        }
        self.buffer.as_mut().map(|buffer| &mut buffer[start..end])
    }

    /// Drop processed bytes.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
        if self.start == self.end && self.waiting == 0 {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Return whether the current large payload has a claim on memory.
    pub(crate) fn has_claim(&self) -> bool {
        self.claim.is_some()
    }

    /// Keep a claim on memory for the current large payload.
    pub(crate) fn hold(&mut self, claim: Option<Claim>) {
        self.claim = claim;
    }

    /// Take the claim, as the payload is now being processed.
    pub(crate) fn take_claim(&mut self) -> Option<Claim> {
        self.claim.take()
    }

    /// Allocate a buffer for the payload of the current frame, and move there what has arrived. On an error the payload
    /// waits for memory, and this must be called again.
    pub(crate) fn begin_large(
        &mut self,
        code: u32,
        payload_bytes: usize,
        memory: &Memory,
        receiver: ReceiverId,
    ) -> Result<(), PoolExhausted> {
        let buffer = memory.acquire_in_turn(payload_bytes, &mut self.turn, receiver)?;
        self.consume(REQUEST_HEADER_BYTES);
        self.large = Some(LargePayload {
            buffer: Some(buffer),
            filled: 0,
            size: payload_bytes,
            code,
        });
        self.fill_large();
        Ok(())
    }

    /// Move the received part of a large payload into its buffer.
    fn fill_large(&mut self) {
        let (Some(large), Some(received)) = (&mut self.large, &self.buffer) else {
            return;
        };
        let Some(buffer) = &mut large.buffer else {
            return;
        };
        let count = (large.size - large.filled).min(self.end - self.start);
        let part = &received[self.start..self.start + count];
        buffer[large.filled..large.filled + count].copy_from_slice(part);
        large.filled += count;
        self.consume(count);
    }

    /// Return whether the current large payload has arrived completely.
    pub(crate) fn is_large_whole(&self) -> bool {
        self.large
            .as_ref()
            .is_some_and(|large| large.filled == large.size)
    }

    /// Return whether a large payload has begun and is incomplete.
    pub(crate) fn awaits_large(&self) -> bool {
        self.large
            .as_ref()
            .is_some_and(|large| large.filled < large.size)
    }

    /// Return whether a complete request is queued.
    pub(crate) fn has_whole_request(&self) -> bool {
        match self.head() {
            Head::Incomplete => self.is_large_whole(),
            Head::TooShort => true,
            Head::Request { payload_bytes, .. } => {
                payload_bytes > SMALL_PAYLOAD_BYTES_MAX
                    || self.end - self.start >= REQUEST_HEADER_BYTES + payload_bytes
            }
        }
    }

    /// Take the current large payload with its command code, if it is complete.
    pub(crate) fn take_large(&mut self) -> Option<(u32, Buffer)> {
        if !self.is_large_whole() {
            return None;
        }
        let large = self.large.take()?;
        large.buffer.map(|buffer| (large.code, buffer))
    }

    /// Put back a complete large payload that cannot be processed yet.
    pub(crate) fn restore_large(&mut self, code: u32, buffer: Buffer) {
        let size = buffer.len();
        self.large = Some(LargePayload {
            buffer: Some(buffer),
            filled: size,
            size,
            code,
        });
    }

    /// Return the receive to start next; `None` if everything that the current frame needs has arrived. The buffer
    /// stays small until the client is authenticated.
    pub(crate) fn next_receive(
        &mut self,
        pool: &BufferPool,
        is_authenticated: bool,
    ) -> Result<Option<Receive>, PoolExhausted> {
        if let Some(large) = &mut self.large {
            let missing = large.size - large.filled;
            if missing == 0 {
                return Ok(None);
            }
            let in_one_piece = match &self.websocket {
                None => missing,
                Some(websocket) => usize::try_from(websocket.bytes_left())
                    .map_or(missing, |left| left.min(missing)),
            };
            if in_one_piece > 0 {
                let Some(mut buffer) = large.buffer.take() else {
                    return Ok(None);
                };
                buffer.set_len(large.filled + in_one_piece);
                return Ok(Some(Receive {
                    buffer,
                    start: large.filled,
                    minimum: in_one_piece,
                    quickack: in_one_piece <= QUICKACK_BYTES_MAX,
                }));
            }
        }
        let held = self.end - self.start + self.waiting;
        let frame_bytes = match self.head() {
            Head::Request { payload_bytes, .. } => {
                REQUEST_HEADER_BYTES + payload_bytes.min(SMALL_PAYLOAD_BYTES_MAX)
            }
            Head::Incomplete | Head::TooShort => REQUEST_HEADER_BYTES,
        };
        let overhead_bytes = match &self.websocket {
            None => 0,
            Some(_) => websocket::WAITING_BYTES_MAX,
        };
        let capacity_max = match &self.websocket {
            _ if is_authenticated => CAPACITY_BYTES_MAX,
            None => UNAUTHENTICATED_BUFFER_BYTES,
            Some(_) => UNAUTHENTICATED_UPGRADE_BYTES,
        };
        let capacity_wanted = self.capacity_wanted.min(capacity_max);
        let wanted = capacity_wanted.max(frame_bytes + overhead_bytes);
        let exchange = match &self.buffer {
            None => true,
            Some(buffer) => {
                buffer.capacity() < wanted
                    || (held == 0 && buffer.capacity() > wanted.max(CAPACITY_BYTES_MIN) * 2)
            }
        };
        let range = self.start..self.start + held;
        if exchange {
            let mut larger = pool.acquire(wanted)?;
            let capacity = larger.capacity();
            larger.set_len(capacity);
            if let Some(buffer) = &self.buffer {
                larger[..held].copy_from_slice(&buffer[range]);
            }
            self.buffer = Some(larger);
        } else if self.start > 0
            && let Some(buffer) = &mut self.buffer
        {
            buffer.copy_within(range, 0);
        }
        self.end -= self.start;
        self.start = 0;
        let Some(buffer) = self.buffer.take() else {
            return Ok(None);
        };
        let is_inside_message = || {
            self.websocket
                .as_ref()
                .is_some_and(|websocket| websocket.is_inside_message())
        };
        Ok(Some(Receive {
            buffer,
            start: held,
            minimum: 1,
            quickack: held > 0 || is_inside_message(),
        }))
    }
}

#[cfg(test)]
mod tests;
