//! Assembles request frames from received bytes.
//!
//! Small frames are parsed where they were received. The payload of a large frame gets a buffer of exactly its
//! size: what has arrived is copied there once and the rest is received straight into it, so that a batch
//! lands once. A connection at rest holds only the smallest buffer.
//!
//! On a WebSocket the bytes of the protocol are sorted out of what arrived before anything else is done with them; of a
//! large payload only the headers between its parts pass through the receive buffer.

use std::net::SocketAddr;

use headrace_buffer::{Buffer, BufferPool, PoolExhausted};
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader};

use super::websocket::{self, WebSocket};
use crate::{
    memory::{Claim, Memory, Place, Turn},
    proxy,
};

/// Payloads up to this size are handled inside the receive buffer, larger ones get a buffer of their own.
pub(crate) const SMALL_PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// What a connection at rest keeps.
const CAPACITY_BYTES_MIN: usize = 512;
/// What a connection with many small requests in flight grows to.
const CAPACITY_BYTES_MAX: usize = 64 * 1024;
/// What a connection keeps as long as nobody has logged in: whole logins fit, and a request for an upgrade.
const STRANGERS_CAPACITY_BYTES: usize = 4 * 1024;
const STRANGERS_UPGRADE_BYTES: usize = 8 * 1024;
/// Payloads above this are refused as long as nobody has logged in.
pub(crate) const STRANGERS_PAYLOAD_BYTES_MAX: usize =
    STRANGERS_CAPACITY_BYTES - REQUEST_HEADER_BYTES;
/// A receive that ends inside a frame with at most this much missing re-arms immediate acknowledgement: the
/// sender may hold its next segment back until then (Nagle's algorithm against the delayed acknowledgement).
const QUICKACK_BYTES_MAX: usize = 128 * 1024;
/// Receives that must use little of a large buffer before it is exchanged for a smaller one.
const SHRINK_AFTER: u32 = 64;

/// The start of the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// Fewer bytes than a frame header.
    Incomplete,
    /// The length field is smaller than the code that it must count.
    TooShort,
    /// A request.
    Request { code: u32, payload_bytes: usize },
}

/// A receive that the host shall start.
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

/// Received bytes that have not been handled yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// `None` while the host receives into it, and before the first receive.
    buffer: Option<Buffer>,
    start: usize,
    end: usize,
    /// Bytes behind `end` that a WebSocket cannot sort before more arrives; otherwise none.
    waiting: usize,
    capacity_wanted: usize,
    lightly_used: u32,
    large: Option<LargePayload>,
    discard: u64,
    /// While the payload at hand waits for memory.
    turn: Option<Turn>,
    /// The part of its user's share that the large payload at hand holds.
    claim: Option<Claim>,
    websocket: Option<Box<WebSocket>>,
    source: Source,
}

/// Where a connection comes from, when somebody stands in between who says so first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// It is known, or was taken.
    Known,
    /// It has not been said yet.
    Awaited,
    /// It was just said; `None`: the one in between speaks for itself.
    Said(Option<SocketAddr>),
    /// What came first says nothing about it.
    Unsaid,
}

impl Inbox {
    /// `websocket`: what the bytes come in, when they are not those of the protocol themselves. `is_proxied`: they begin
    /// with where they come from.
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

    /// What was said about the connection's source, once.
    pub(crate) fn take_source(&mut self) -> Source {
        let source = self.source;
        if let Source::Said(_) = source {
            self.source = Source::Known;
        }
        source
    }

    /// Take the header of the PROXY protocol off what has arrived.
    fn take_proxy_header(&mut self) {
        let received = self.start..self.end;
        let bytes = self
            .buffer
            .as_deref()
            .map_or(&[][..], |buffer| &buffer[received]);
        match proxy::read(bytes) {
            Ok(None) => {}
            Ok(Some(header)) => {
                self.source = Source::Said(header.source);
                self.consume(header.bytes);
                if self.websocket.is_some() {
                    self.waiting = self.end - self.start;
                    self.end = self.start;
                }
            }
            Err(proxy::Malformed) => self.source = Source::Unsaid,
        }
    }

    /// The WebSocket, on a connection that is one.
    pub(crate) fn websocket_mut(&mut self) -> Option<&mut WebSocket> {
        self.websocket.as_deref_mut()
    }

    /// The host returns the buffer of a [`Receive`] with `count` more bytes in it.
    pub(crate) fn received(&mut self, mut buffer: Buffer, count: usize) {
        if let Some(large) = self.large.as_mut().filter(|large| large.buffer.is_none()) {
            if let Some(websocket) = &mut self.websocket {
                // It was shortened to the part that lies in one message.
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
                self.sort();
            }
        } else if self.websocket.is_some() {
            self.waiting += count;
            self.sort();
        } else {
            self.end += count;
        }
        self.drop_discarded();
    }

    /// Grow when receives fill the buffer, shrink when they long have not.
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

    /// Leave the bytes of the protocol of what a WebSocket received.
    fn sort(&mut self) {
        let (Some(websocket), Some(buffer)) = (&mut self.websocket, &mut self.buffer) else {
            return;
        };
        let received = self.end..self.end + self.waiting;
        let (plain, waiting) = websocket.sort(buffer, self.start..self.end, received);
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

    /// The next frame's header, when nothing stands before it.
    pub(crate) fn head(&self) -> Head {
        let is_unknown = matches!(self.source, Source::Awaited | Source::Unsaid);
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

    /// The whole payload of the frame at hand, when it has arrived in the receive buffer.
    pub(crate) fn payload_mut(&mut self, payload_bytes: usize) -> Option<&mut [u8]> {
        let start = self.start + REQUEST_HEADER_BYTES;
        let end = start.checked_add(payload_bytes)?;
        if end > self.end {
            return None;
        }
        self.buffer.as_mut().map(|buffer| &mut buffer[start..end])
    }

    /// Drop handled bytes.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
        if self.start == self.end && self.waiting == 0 {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Returns true when there is a claim on memory for the large payload at hand.
    pub(crate) fn has_claim(&self) -> bool {
        self.claim.is_some()
    }

    /// Keep a claim on memory for the large payload at hand.
    pub(crate) fn hold(&mut self, claim: Option<Claim>) {
        self.claim = claim;
    }

    /// Take it out: the payload is being handled.
    pub(crate) fn take_claim(&mut self) -> Option<Claim> {
        self.claim.take()
    }

    /// Give the payload of the frame at hand a buffer for itself and move there what has arrived. With an error it waits for its
    /// turn, and this is called again then.
    pub(crate) fn begin_large(
        &mut self,
        code: u32,
        payload_bytes: usize,
        (memory, place): (&Memory, Place),
    ) -> Result<(), PoolExhausted> {
        let buffer = memory.acquire_in_turn(payload_bytes, &mut self.turn, place)?;
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

    /// Move what has arrived of a large payload to where it belongs.
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

    /// Whether the large payload at hand has arrived.
    pub(crate) fn is_large_whole(&self) -> bool {
        self.large
            .as_ref()
            .is_some_and(|large| large.filled == large.size)
    }

    /// Whether a large payload has begun and waits for the rest.
    pub(crate) fn awaits_large(&self) -> bool {
        self.large
            .as_ref()
            .is_some_and(|large| large.filled < large.size)
    }

    /// Whether a whole request is at hand.
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

    /// The large payload at hand with its command code, when it is whole.
    pub(crate) fn take_large(&mut self) -> Option<(u32, Buffer)> {
        if !self.is_large_whole() {
            return None;
        }
        let large = self.large.take()?;
        large.buffer.map(|buffer| (large.code, buffer))
    }

    /// Put a whole large payload back: its turn has not come yet.
    pub(crate) fn restore_large(&mut self, code: u32, buffer: Buffer) {
        let size = buffer.len();
        self.large = Some(LargePayload {
            buffer: Some(buffer),
            filled: size,
            size,
            code,
        });
    }

    /// The receive to start next; `None` when everything that this frame needs has arrived. Little is kept as long as
    /// nobody has logged in (`is_somebody`).
    pub(crate) fn next_receive(
        &mut self,
        pool: &BufferPool,
        is_somebody: bool,
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
            _ if is_somebody => CAPACITY_BYTES_MAX,
            None => STRANGERS_CAPACITY_BYTES,
            Some(_) => STRANGERS_UPGRADE_BYTES,
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
