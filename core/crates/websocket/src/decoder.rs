//! Decoder of received bytes to messages.

use core::ops::Range;

use crate::{
    CloseCode, Opcode, ProtocolError, apply_mask,
    frame::{Header, read_close},
    text::Utf8Check,
};

/// Side of the connection that decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The peer is a client: its frames have to be masked.
    Server,
    /// The peer is a server: its frames must not be masked.
    Client,
}

/// Limits on received data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of payload bytes of one frame.
    pub frame_bytes_max: u64,
    /// Maximum number of payload bytes of one message, all its frames together.
    pub message_bytes_max: u64,
}

/// Type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Arbitrary bytes.
    Binary,
}

impl From<Kind> for Opcode {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text,
            Kind::Binary => Self::Binary,
        }
    }
}

/// Item at the front of the received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Next bytes of a message, unmasked in place. May be empty.
    Data {
        /// Type of the message.
        kind: Kind,
        /// Range in the received bytes.
        payload: Range<usize>,
        /// True if the message ends with these bytes.
        ends_message: bool,
        /// True if the message is compressed by permessage-deflate: its text has not been checked.
        is_compressed: bool,
    },
    /// A ping, to be answered with a pong with the same payload.
    Ping {
        /// Range in the received bytes.
        payload: Range<usize>,
    },
    /// A pong: response to a ping, or an unsolicited heartbeat.
    Pong,
    /// A close frame: the peer sends nothing more, and waits for a close frame.
    Close {
        /// Close code, if the peer sent one.
        code: Option<CloseCode>,
    },
}

/// Result of [`Decoder::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A header or a control frame is incomplete: at most [`crate::CONTROL_FRAME_BYTES_MAX`] bytes.
    Incomplete,
    /// An item.
    Item {
        /// The item.
        item: Item,
        /// Number of consumed bytes, the item included.
        consumed: usize,
    },
}

/// A data frame whose payload is incomplete.
#[derive(Debug, Clone, Copy)]
struct Frame {
    key: Option<[u8; 4]>,
    position: u64,
    size: u64,
    is_final: bool,
}

/// A message whose last frame has not begun, or has not ended.
#[derive(Debug, Clone, Copy)]
struct Message {
    kind: Kind,
    /// Payload bytes of its frames so far, the current one included.
    size: u64,
    text: Utf8Check,
    is_compressed: bool,
}

/// Decoder that splits the bytes of one direction of a connection into messages and control frames.
///
/// It does not buffer bytes. It is unusable after an error.
#[derive(Debug, Clone)]
pub struct Decoder {
    role: Role,
    limits: Limits,
    may_compress: bool,
    frame: Option<Frame>,
    message: Option<Message>,
}

impl Decoder {
    /// A decoder at the start of a connection.
    pub fn new(role: Role, limits: Limits) -> Self {
        Self {
            role,
            limits,
            may_compress: false,
            frame: None,
            message: None,
        }
    }

    /// The same decoder after permessage-deflate was negotiated. It returns compressed payloads as they are.
    #[must_use]
    pub fn with_compression(self) -> Self {
        Self {
            may_compress: true,
            ..self
        }
    }

    /// Change the limits. They apply from the next frame header.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Take the next item from the front of `bytes`.
    ///
    /// # Errors
    /// A protocol violation of the peer.
    pub fn next(&mut self, bytes: &mut [u8]) -> Result<Step, ProtocolError> {
        if self.frame.is_some() {
            let available = self.payload_available(bytes.len());
            if available == 0 {
                return Ok(Step::Incomplete);
            }
            return self.data(bytes, 0..available);
        }
        let Some((header, header_bytes)) = Header::parse(bytes, self.may_compress)? else {
            return Ok(Step::Incomplete);
        };
        match (self.role, header.key) {
            (Role::Server, None) => return Err(ProtocolError::NotMasked),
            (Role::Client, Some(_)) => return Err(ProtocolError::Masked),
            _ => {}
        }
        if header.opcode.is_control() {
            return control(header, header_bytes, bytes);
        }
        self.begin(header)?;
        let available = self.payload_available(bytes.len() - header_bytes);
        self.data(bytes, header_bytes..header_bytes + available)
    }

    /// Consume bytes of the current frame that were received into a separate buffer, and unmask them in place. Returns
    /// the type of the message and whether the message ends with these bytes.
    ///
    /// # Errors
    /// The text is not UTF-8.
    ///
    /// # Panics
    /// If the frame has fewer than `bytes.len()` bytes left.
    pub fn payload(&mut self, bytes: &mut [u8]) -> Result<(Kind, bool), ProtocolError> {
        let frame = self.frame.as_mut().expect("inside a frame");
        let message = self
            .message
            .as_mut()
            .expect("a frame of data belongs to a message");
        assert!(
            bytes.len() as u64 <= frame.size - frame.position,
            "bytes of one frame"
        );
        if let Some(key) = frame.key {
            apply_mask(bytes, key, frame.position);
        }
        frame.position += bytes.len() as u64;
        let frame_ended = frame.position == frame.size;
        let ends_message = frame_ended && frame.is_final;
        let kind = message.kind;
        if kind == Kind::Text && !message.is_compressed {
            let mut judged = message.text.feed(bytes);
            if ends_message {
                judged = judged.and_then(|()| message.text.finish());
            }
            judged.map_err(|_not_utf8| ProtocolError::InvalidUtf8)?;
        }
        if frame_ended {
            self.frame = None;
        }
        if ends_message {
            self.message = None;
        }
        Ok((kind, ends_message))
    }

    /// Number of bytes of a binary message that come next, without a header between them; 0 if something else comes
    /// next.
    pub fn binary_bytes_left(&self) -> u64 {
        match (&self.frame, &self.message) {
            (Some(frame), Some(message)) if message.kind == Kind::Binary => {
                frame.size - frame.position
            }
            _ => 0,
        }
    }

    /// Return whether a frame or a message has begun and not ended.
    pub fn is_inside_message(&self) -> bool {
        self.message.is_some()
    }

    /// Return whether a frame of data has begun and not ended.
    pub fn is_inside_frame(&self) -> bool {
        self.frame.is_some()
    }

    /// Consume a part of the current frame.
    fn data(&mut self, bytes: &mut [u8], payload: Range<usize>) -> Result<Step, ProtocolError> {
        let is_compressed = (self.message).is_some_and(|message| message.is_compressed);
        let (kind, ends_message) = self.payload(&mut bytes[payload.clone()])?;
        Ok(Step::Item {
            consumed: payload.end,
            item: Item::Data {
                kind,
                payload,
                ends_message,
                is_compressed,
            },
        })
    }

    fn begin(&mut self, header: Header) -> Result<(), ProtocolError> {
        let kind = match (header.opcode, &self.message) {
            (Opcode::Continuation, None) => return Err(ProtocolError::NothingToContinue),
            (Opcode::Continuation, Some(message)) => message.kind,
            (_, Some(_)) => return Err(ProtocolError::MessageNotEnded),
            (Opcode::Text, None) => Kind::Text,
            (_, None) => Kind::Binary,
        };
        let size_bytes = header.payload_bytes;
        if size_bytes > self.limits.frame_bytes_max {
            return Err(ProtocolError::FrameTooLarge {
                size_bytes,
                limit_bytes: self.limits.frame_bytes_max,
            });
        }
        let message = self.message.get_or_insert(Message {
            kind,
            size: 0,
            text: Utf8Check::default(),
            is_compressed: header.is_compressed,
        });
        message.size = message.size.saturating_add(size_bytes);
        if message.size > self.limits.message_bytes_max {
            return Err(ProtocolError::MessageTooLarge {
                limit_bytes: self.limits.message_bytes_max,
            });
        }
        self.frame = Some(Frame {
            key: header.key,
            position: 0,
            size: size_bytes,
            is_final: header.is_final,
        });
        Ok(())
    }

    fn payload_available(&self, received: usize) -> usize {
        let left = self
            .frame
            .as_ref()
            .map_or(0, |frame| frame.size - frame.position);
        usize::try_from(left).map_or(received, |left| left.min(received))
    }
}

fn control(header: Header, header_bytes: usize, bytes: &mut [u8]) -> Result<Step, ProtocolError> {
    let end = header_bytes + usize::try_from(header.payload_bytes).expect("at most 125");
    let Some(payload) = bytes.get_mut(header_bytes..end) else {
        return Ok(Step::Incomplete);
    };
    if let Some(key) = header.key {
        apply_mask(payload, key, 0);
    }
    let item = match header.opcode {
        Opcode::Close => Item::Close {
            code: read_close(payload)?,
        },
        Opcode::Ping => Item::Ping {
            payload: header_bytes..end,
        },
        _ => Item::Pong,
    };
    Ok(Step::Item {
        item,
        consumed: end,
    })
}

#[cfg(test)]
mod tests;
