//! Iteration step from message to message over bytes of the log.

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderView, checksum};

/// A message found at the expected place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Length of the message.
    pub(crate) bytes: usize,
    /// Server timestamp of the message.
    pub(crate) timestamp: u64,
}

/// Reason why there is no whole message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoMessage {
    /// The bytes end before the message does. `needed` is the length of the message, or of its header.
    Incomplete {
        /// Number of bytes from the start of the message.
        needed: u64,
    },
    /// The bytes are not the message with the expected offset.
    Damaged,
}

/// Length of the whole accepted message at the start of `bytes`, regardless of its offset.
#[inline]
pub fn accepted_bytes(bytes: &[u8]) -> Option<usize> {
    let header = HeaderView(bytes.first_chunk::<HEADER_BYTES>()?);
    let length = usize::try_from(header.message_bytes()).ok()?;
    (is_plausible(header) && length <= bytes.len()).then_some(length)
}

/// Find the message with this offset at the start of `bytes`, by its header alone.
///
/// Offsets have no gaps, so the expected offset is known. This offset and the limits of the lengths keep a walk from
/// being misled by damage.
#[inline]
pub(crate) fn message_at(bytes: &[u8], expected_offset: u64) -> Result<Found, NoMessage> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(NoMessage::Incomplete {
            needed: HEADER_BYTES as u64,
        });
    };
    let header = HeaderView(header);
    if header.offset() != expected_offset || !is_plausible(header) {
        return Err(NoMessage::Damaged);
    }
    let needed = header.message_bytes();
    match usize::try_from(needed) {
        Ok(length) if length <= bytes.len() => Ok(Found {
            bytes: length,
            timestamp: header.timestamp(),
        }),
        _ => Err(NoMessage::Incomplete { needed }),
    }
}

/// Find the message with this offset at the start of `bytes`, and verify its checksum.
#[inline]
pub(crate) fn verified_message_at(bytes: &[u8], expected_offset: u64) -> Result<Found, NoMessage> {
    let found = message_at(bytes, expected_offset)?;
    if checksum_matches(&bytes[..found.bytes]) {
        Ok(found)
    } else {
        Err(NoMessage::Damaged)
    }
}

/// Return whether a whole message's checksum matches its bytes.
#[inline]
pub(crate) fn checksum_matches(message: &[u8]) -> bool {
    let (stored, covered) = message.split_at(CHECKSUM_BYTES);
    stored == checksum(covered).to_le_bytes()
}

/// Return whether an accepted message can have these fields.
#[inline]
pub(crate) fn is_plausible(header: HeaderView<'_>) -> bool {
    header.reserved() == 0
        && header.payload_length() <= PAYLOAD_SIZE_BYTES_MAX
        && header.user_headers_length() <= USER_HEADERS_SIZE_BYTES_MAX
}
