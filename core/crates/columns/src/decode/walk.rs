//! Iteration over the messages of a payload.

use headrace_wire::Malformed;
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderView, MessageView, checksum};
use headrace_wire::response::Polled;

use super::error::{DecodeError, Defect};

/// Iterator over the whole messages of a payload, whose offsets have no gaps.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    payload: &'a [u8],
    rest: &'a [u8],
    verify: bool,
    /// Position of the current message.
    message_byte: usize,
    announced: u32,
    found: u32,
    /// Offset after the last message; None before the first.
    next_offset: Option<u64>,
}

impl<'a> Walk<'a> {
    /// Begin to iterate. None if there are no messages. `verify` enables the check of checksums.
    pub(super) fn begin(
        payload: &'a [u8],
        partition: u32,
        verify: bool,
    ) -> Result<Option<Self>, DecodeError> {
        if payload.is_empty() {
            return Ok(None);
        }
        let at_start = |defect| DecodeError {
            defect,
            offset: None,
            byte: 0,
        };
        let polled = Polled::decode(payload).map_err(|_: Malformed| at_start(Defect::Truncated))?;
        if polled.header.messages_count == 0 && polled.message_bytes.is_empty() {
            return Ok(None);
        }
        if polled.header.partition_id != partition {
            return Err(at_start(Defect::Partition {
                expected: partition,
                found: polled.header.partition_id,
            }));
        }
        Ok(Some(Self {
            payload,
            rest: polled.message_bytes,
            verify,
            message_byte: 0,
            announced: polled.header.messages_count,
            found: 0,
            next_offset: None,
        }))
    }

    /// Return the next message; None at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<MessageView<'a>>, DecodeError> {
        self.message_byte = self.payload.len() - self.rest.len();
        if self.rest.is_empty() || self.found == self.announced {
            return self.end();
        }
        let Ok((message, rest)) = MessageView::split_first(self.rest) else {
            return Err(DecodeError {
                defect: Defect::Truncated,
                offset: self
                    .rest
                    .first_chunk::<HEADER_BYTES>()
                    .map(|header| HeaderView(header).offset()),
                byte: self.message_byte,
            });
        };
        if self.verify {
            // Checked before the offset, so that damage is not reported as missing messages.
            let stored = message.header().checksum();
            let computed = checksum(&message.bytes()[CHECKSUM_BYTES..]);
            if stored != computed {
                return Err(self.error_at(&message, Defect::Checksum { stored, computed }));
            }
        }
        let offset = message.header().offset();
        if let Some(expected) = self.next_offset
            && expected != offset
        {
            return Err(self.error_at(&message, Defect::Offset { expected }));
        }
        self.next_offset = offset.checked_add(1);
        self.found += 1;
        self.rest = rest;
        Ok(Some(message))
    }

    /// Make an error at the current message.
    pub(super) fn error_at(&self, message: &MessageView<'_>, defect: Defect) -> DecodeError {
        DecodeError {
            defect,
            offset: Some(message.header().offset()),
            byte: self.message_byte,
        }
    }

    fn end(&self) -> Result<Option<MessageView<'a>>, DecodeError> {
        if self.rest.is_empty() && self.found == self.announced {
            return Ok(None);
        }
        Err(DecodeError {
            defect: Defect::Count {
                announced: self.announced,
                found: self.found + u32::from(!self.rest.is_empty()),
            },
            offset: None,
            byte: self.message_byte,
        })
    }
}
