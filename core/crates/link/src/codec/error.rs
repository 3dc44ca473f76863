//! Decoding errors.

use headrace_wire::Malformed;

/// The received bytes are not a valid frame of this direction. The link must be closed: the start of the next frame is
/// known, but the state of the peer is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The code is undefined in this direction.
    #[error("there is no frame of code {0}")]
    UnknownFrame(u32),
    /// The payload of the frame is malformed.
    #[error("a frame of code {code} is malformed: {reason}")]
    Malformed {
        /// Code of the frame.
        code: u32,
        /// Defect of the payload.
        reason: Malformed,
    },
}
