//! Why bytes are no frame.

use headrace_wire::Malformed;

/// What came is no frame of this direction. The link cannot go on: where the next one starts is known, but not what the
/// peer believes to have said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Nothing of this code is said in this direction.
    #[error("there is no frame of code {0}")]
    UnknownFrame(u32),
    /// Its payload is not what it should be.
    #[error("a frame of code {code} is malformed: {reason}")]
    Malformed {
        /// The frame.
        code: u32,
        /// In what way.
        reason: Malformed,
    },
}
