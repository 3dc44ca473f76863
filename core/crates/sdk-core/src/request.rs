//! Requests with the bytes of their frames.

use std::time::Duration;

use bytes::Bytes;
use headrace_wire::Command;
use headrace_wire::frame::RequestHeader;

use crate::Failure;

/// Parts of one frame, to be written one after the other: header and metadata, and for batches indexes and messages.
pub type Frame = [Bytes; 3];

/// Payload of a successful answer, or the reason why there is none.
pub type Outcome = Result<Bytes, Failure>;

/// Fate of a request whose connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Fail: it is only valid on the connection with this number (see [`crate::Effect::Opened`]).
    Bound(u64),
    /// Send it on the next connection if it was not written completely, and fail otherwise.
    IfUnsent,
    /// Send it on the next connection: executing it twice changes nothing.
    Always,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Code of the command.
    pub code: u32,
    /// Bytes of the frame.
    pub frame: Frame,
    /// Fate of the request if the connection breaks.
    pub repeat: Repeat,
    /// Time for the answer, from the moment at which it is submitted; `None`: as long as the session exists.
    pub timeout: Option<Duration>,
}

impl Request {
    /// Encode a command.
    pub fn new(command: &Command<'_>, repeat: Repeat) -> Result<Self, Failure> {
        let mut frame = Vec::new();
        command
            .try_encode_frame(&mut frame)
            .map_err(|status| Failure::Unrepresentable {
                reason: format!("{}: {}", command.code().name(), status.description()),
            })?;
        Ok(Self {
            code: command.code().code(),
            frame: [frame.into(), Bytes::new(), Bytes::new()],
            repeat,
            timeout: None,
        })
    }

    /// Frame a payload that is encoded already.
    pub fn encoded(code: u32, payload: &[u8], repeat: Repeat) -> Result<Self, Failure> {
        let header =
            RequestHeader::new(code, payload.len()).ok_or_else(|| Failure::Unrepresentable {
                reason: "the request exceeds 4 GiB".to_owned(),
            })?;
        let mut frame = header.encode().to_vec();
        frame.extend_from_slice(payload);
        Ok(Self {
            code,
            frame: [frame.into(), Bytes::new(), Bytes::new()],
            repeat,
            timeout: None,
        })
    }

    /// Limit the time for the answer.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}
