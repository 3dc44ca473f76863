//! One step from message to message over bytes of the log.

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderView, checksum};

/// A message found where one was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its length.
    pub(crate) bytes: usize,
    /// Its server timestamp.
    pub(crate) timestamp: u64,
}

/// Why there is no whole message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes end before the message does; it has this many, or the header needs this many.
    Incomplete {
        /// Bytes from the start of the message.
        needed: u64,
    },
    /// What is there is not the message with the expected offset.
    Damaged,
}

/// Bytes of the whole message that was accepted at the start of `bytes`, whatever offset it will get.
#[inline]
pub fn accepted_bytes(bytes: &[u8]) -> Option<usize> {
    let header = HeaderView(bytes.first_chunk::<HEADER_BYTES>()?);
    let length = usize::try_from(header.message_bytes()).ok()?;
    (is_plausible(header) && length <= bytes.len()).then_some(length)
}

/// The message with this offset at the start of `bytes`, by its header alone.
///
/// Offsets have no gaps, so the offset expected is known; that and the limits of the lengths are what keeps a walk
/// from being led astray by damage.
#[inline]
pub(crate) fn message_at(bytes: &[u8], expected_offset: u64) -> Result<Found, Stop> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(Stop::Incomplete {
            needed: HEADER_BYTES as u64,
        });
    };
    let header = HeaderView(header);
    if header.offset() != expected_offset || !is_plausible(header) {
        return Err(Stop::Damaged);
    }
    let needed = header.message_bytes();
    match usize::try_from(needed) {
        Ok(length) if length <= bytes.len() => Ok(Found {
            bytes: length,
            timestamp: header.timestamp(),
        }),
        _ => Err(Stop::Incomplete { needed }),
    }
}

/// The same, with the checksum verified.
#[inline]
pub(crate) fn verified_message_at(bytes: &[u8], expected_offset: u64) -> Result<Found, Stop> {
    let found = message_at(bytes, expected_offset)?;
    if checksum_matches(&bytes[..found.bytes]) {
        Ok(found)
    } else {
        Err(Stop::Damaged)
    }
}

/// Whether a whole message's checksum is that of its bytes.
#[inline]
pub(crate) fn checksum_matches(message: &[u8]) -> bool {
    let (stored, covered) = message.split_at(CHECKSUM_BYTES);
    stored == checksum(covered).to_le_bytes()
}

/// Whether the fields are ones that an accepted message can have.
#[inline]
pub(crate) fn is_plausible(header: HeaderView<'_>) -> bool {
    header.reserved() == 0
        && header.payload_length() <= PAYLOAD_SIZE_BYTES_MAX
        && header.user_headers_length() <= USER_HEADERS_SIZE_BYTES_MAX
}
