//! Assembles request frames from received bytes.
//!
//! Small frames are parsed where they were received. The payload of a large frame gets a buffer of exactly its
//! size: what has arrived is copied there once and the rest is received straight into it, so that a batch
//! lands once. A connection at rest holds only the smallest buffer.

use headrace_buffer::{Buffer, BufferPool, PoolExhausted};
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader};

/// Payloads up to this size are handled inside the receive buffer, larger ones get a buffer of their own.
pub(crate) const SMALL_PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// What a connection at rest keeps.
const CAPACITY_BYTES_MIN: usize = 512;
/// What a connection with many small requests in flight grows to.
const CAPACITY_BYTES_MAX: usize = 64 * 1024;
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
    capacity_wanted: usize,
    lightly_used: u32,
    large: Option<LargePayload>,
    discard: u64,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            buffer: None,
            start: 0,
            end: 0,
            capacity_wanted: CAPACITY_BYTES_MIN,
            lightly_used: 0,
            large: None,
            discard: 0,
        }
    }

    /// The host returns the buffer of a [`Receive`] with `count` more bytes in it.
    pub(crate) fn received(&mut self, buffer: Buffer, count: usize) {
        if let Some(large) = &mut self.large {
            large.filled += count;
            large.buffer = Some(buffer);
            return;
        }
        let capacity = buffer.capacity();
        self.end += count;
        self.buffer = Some(buffer);
        if self.end == capacity && capacity < CAPACITY_BYTES_MAX {
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
        self.drop_discarded();
    }

    /// Skip the next `bytes` bytes, received already or not.
    pub(crate) fn discard(&mut self, bytes: usize) {
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
        if self.discard > 0 || self.large.is_some() {
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
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Give the payload of the frame at hand a buffer of its own and move there what has arrived.
    pub(crate) fn begin_large(
        &mut self,
        code: u32,
        payload_bytes: usize,
        pool: &BufferPool,
    ) -> Result<(), PoolExhausted> {
        let mut buffer = pool.acquire(payload_bytes)?;
        self.consume(REQUEST_HEADER_BYTES);
        let filled = payload_bytes.min(self.end - self.start);
        buffer[..filled].copy_from_slice(&self.unread()[..filled]);
        self.consume(filled);
        self.large = Some(LargePayload {
            buffer: Some(buffer),
            filled,
            size: payload_bytes,
            code,
        });
        Ok(())
    }

    /// Whether the large payload at hand has arrived.
    pub(crate) fn is_large_whole(&self) -> bool {
        self.large
            .as_ref()
            .is_some_and(|large| large.filled == large.size)
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

    /// The receive to start next; `None` when everything that this frame needs has arrived.
    pub(crate) fn next_receive(
        &mut self,
        pool: &BufferPool,
    ) -> Result<Option<Receive>, PoolExhausted> {
        if let Some(large) = &mut self.large {
            let missing = large.size - large.filled;
            if missing == 0 {
                return Ok(None);
            }
            let Some(buffer) = large.buffer.take() else {
                return Ok(None);
            };
            return Ok(Some(Receive {
                buffer,
                start: large.filled,
                minimum: missing,
                quickack: missing <= QUICKACK_BYTES_MAX,
            }));
        }
        let unread = self.end - self.start;
        let frame_bytes = match self.head() {
            Head::Request { payload_bytes, .. } => {
                REQUEST_HEADER_BYTES + payload_bytes.min(SMALL_PAYLOAD_BYTES_MAX)
            }
            Head::Incomplete | Head::TooShort => REQUEST_HEADER_BYTES,
        };
        let wanted = self.capacity_wanted.max(frame_bytes);
        let exchange = match &self.buffer {
            None => true,
            Some(buffer) => {
                buffer.capacity() < wanted
                    || (unread == 0 && buffer.capacity() > wanted.max(CAPACITY_BYTES_MIN) * 2)
            }
        };
        if exchange {
            let mut larger = pool.acquire(wanted)?;
            let capacity = larger.capacity();
            larger.set_len(capacity);
            larger[..unread].copy_from_slice(self.unread());
            self.buffer = Some(larger);
            self.start = 0;
            self.end = unread;
        } else if self.start > 0 {
            let range = self.start..self.end;
            if let Some(buffer) = &mut self.buffer {
                buffer.copy_within(range, 0);
            }
            self.start = 0;
            self.end = unread;
        }
        let Some(buffer) = self.buffer.take() else {
            return Ok(None);
        };
        Ok(Some(Receive {
            buffer,
            start: self.end,
            minimum: 1,
            quickack: unread > 0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(code: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len() + 4).expect("short");
        [&length.to_le_bytes()[..], &code.to_le_bytes(), payload].concat()
    }

    /// Feed `stream` in pieces of the given sizes and collect the frames that come out.
    fn assemble(stream: &[u8], pieces: &[usize]) -> Vec<(u32, Vec<u8>)> {
        let pool = BufferPool::new(64 * 1024 * 1024);
        let mut inbox = Inbox::new();
        let mut frames = Vec::new();
        let mut position = 0;
        let mut pieces = pieces.iter().cycle();
        loop {
            if let Some((code, payload)) = inbox.take_large() {
                frames.push((code, payload.to_vec()));
                continue;
            }
            if let Head::Request {
                code,
                payload_bytes,
            } = inbox.head()
            {
                if payload_bytes > SMALL_PAYLOAD_BYTES_MAX {
                    inbox
                        .begin_large(code, payload_bytes, &pool)
                        .expect("the pool is large");
                    continue;
                }
                if let Some(payload) = inbox.payload_mut(payload_bytes) {
                    frames.push((code, payload.to_vec()));
                    inbox.consume(REQUEST_HEADER_BYTES + payload_bytes);
                    continue;
                }
            }
            let Some(mut receive) = inbox.next_receive(&pool).expect("the pool is large") else {
                continue;
            };
            let room = receive.buffer.len() - receive.start;
            let piece = if receive.minimum > 1 {
                receive.minimum
            } else {
                *pieces.next().expect("cycles")
            };
            let count = piece.min(room).min(stream.len() - position);
            if count == 0 {
                return frames;
            }
            receive.buffer[receive.start..receive.start + count]
                .copy_from_slice(&stream[position..position + count]);
            position += count;
            inbox.received(receive.buffer, count);
        }
    }

    proptest! {
        /// GW-1: however the bytes are cut, the same frames come out, small and large, in order.
        #[test]
        fn frames_survive_any_segmentation(
            sizes in prop::collection::vec(prop_oneof![0_usize..300, 15_000..40_000_usize], 1..12),
            pieces in prop::collection::vec(1_usize..70_000, 1..6),
        ) {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for (index, size) in sizes.iter().enumerate() {
                let code = u32::try_from(index).expect("few");
                let payload: Vec<u8> =
                    (0..*size).map(|byte| (byte * 31 + index).to_le_bytes()[0]).collect();
                stream.extend(frame(code, &payload));
                expected.push((code, payload));
            }
            prop_assert_eq!(assemble(&stream, &pieces), expected);
        }
    }

    #[test]
    fn discarded_bytes_may_still_be_on_their_way() {
        let pool = BufferPool::new(64 * 1024 * 1024);
        let mut inbox = Inbox::new();
        inbox.discard(100);
        let mut receive = inbox.next_receive(&pool).expect("room").expect("wanted");
        let bytes = [&[7_u8; 100][..], &frame(1, b"")].concat();
        receive.buffer[..bytes.len()].copy_from_slice(&bytes);
        inbox.received(receive.buffer, bytes.len());
        assert_eq!(
            inbox.head(),
            Head::Request {
                code: 1,
                payload_bytes: 0
            }
        );
    }

    #[test]
    fn a_length_below_four_is_reported() {
        let pool = BufferPool::new(64 * 1024 * 1024);
        let mut inbox = Inbox::new();
        let mut receive = inbox.next_receive(&pool).expect("room").expect("wanted");
        receive.buffer[..8].copy_from_slice(&[3, 0, 0, 0, 1, 0, 0, 0]);
        inbox.received(receive.buffer, 8);
        assert_eq!(inbox.head(), Head::TooShort);
    }
}
