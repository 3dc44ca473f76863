//! Format of messages on the wire and on disk: a 64-byte header, the payload, the user headers.
//!
//! | bytes | field | set by |
//! |---|---|---|
//! | 0..8 | checksum: XXH3-64 of everything after it | server |
//! | 8..24 | id | client, or server if 0 |
//! | 24..32 | offset in the partition | server |
//! | 32..40 | timestamp of the append, microseconds | server |
//! | 40..48 | origin timestamp, microseconds | client |
//! | 48..52 | length of the user headers | client |
//! | 52..56 | length of the payload | client |
//! | 56..64 | reserved, 0 | client |

use crate::{Malformed, hash};

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of the checksum, which is the first field and covers the rest of the message.
pub const CHECKSUM_BYTES: usize = 8;

/// Read access to the fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderView<'a>(pub &'a [u8; HEADER_BYTES]);

/// Write access to the fields of a header in place.
#[derive(Debug)]
pub struct HeaderMut<'a>(pub &'a mut [u8; HEADER_BYTES]);

macro_rules! fields {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $type:ty = $start:literal..$end:literal;)+) => {
        impl HeaderView<'_> {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $get(&self) -> $type {
                    let mut bytes = [0; $end - $start];
                    bytes.copy_from_slice(&self.0[$start..$end]);
                    <$type>::from_le_bytes(bytes)
                }
            )+
        }

        impl HeaderMut<'_> {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $set(&mut self, value: $type) {
                    self.0[$start..$end].copy_from_slice(&value.to_le_bytes());
                }
            )+
        }
    };
}

fields! {
    /// XXH3-64 of the message after this field; clients send 0.
    checksum, set_checksum: u64 = 0..8;
    /// Id of the message; 0 asks the server for a random one. The sixteen bytes of a UUID in their normal order are the
    /// little-endian bytes of this number.
    id, set_id: u128 = 8..24;
    /// Absolute offset in the partition; clients send 0.
    offset, set_offset: u64 = 24..32;
    /// Time at which the server appended the message, in microseconds since the Unix epoch; clients send 0.
    timestamp, set_timestamp: u64 = 32..40;
    /// Time at which the client created the message, in microseconds since the Unix epoch; never changed by the server.
    origin_timestamp, set_origin_timestamp: u64 = 40..48;
    /// Bytes of the user headers, which follow the payload.
    user_headers_length, set_user_headers_length: u32 = 48..52;
    /// Bytes of the payload, which follows the header.
    payload_length, set_payload_length: u32 = 52..56;
    /// Reserved, must be 0: official clients refuse a polled message in which it is not.
    reserved, set_reserved: u64 = 56..64;
}

impl HeaderView<'_> {
    /// Number of bytes of the message according to the header.
    #[inline]
    pub fn message_bytes(&self) -> u64 {
        HEADER_BYTES as u64
            + u64::from(self.payload_length())
            + u64::from(self.user_headers_length())
    }
}

impl HeaderMut<'_> {
    /// Read access to the same header.
    #[inline]
    pub fn view(&self) -> HeaderView<'_> {
        HeaderView(self.0)
    }
}

/// Checksum of a message, given its bytes from 8 to its end. Offset, timestamp and id must be final.
#[inline]
pub fn checksum(bytes_after_checksum_field: &[u8]) -> u64 {
    hash::xxh3_64(bytes_after_checksum_field)
}

/// A complete message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageView<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_BYTES],
    payload: &'a [u8],
    user_headers: &'a [u8],
}

impl<'a> MessageView<'a> {
    /// Split the first message off `bytes`; the second element is the remainder.
    ///
    /// Fails with [`Malformed::Truncated`] if the bytes end inside the message.
    #[inline]
    pub fn split_first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(Malformed::Truncated)?;
        let view = HeaderView(header);
        let (payload, rest) = rest
            .split_at_checked(view.payload_length() as usize)
            .ok_or(Malformed::Truncated)?;
        let (user_headers, rest) = rest
            .split_at_checked(view.user_headers_length() as usize)
            .ok_or(Malformed::Truncated)?;
        let message = Self {
            bytes: &bytes[..bytes.len() - rest.len()],
            header,
            payload,
            user_headers,
        };
        Ok((message, rest))
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> HeaderView<'a> {
        HeaderView(self.header)
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The user headers, opaque to the server; [`crate::headers::pairs`] reads them.
    #[inline]
    pub fn user_headers(&self) -> &'a [u8] {
        self.user_headers
    }

    /// All bytes of the message.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Return whether the stored checksum matches the bytes.
    pub fn checksum_matches(&self) -> bool {
        self.header().checksum() == checksum(&self.bytes[CHECKSUM_BYTES..])
    }
}

/// Iterator over messages that lie back to back.
///
/// An incomplete message is reported once, as [`Malformed::Truncated`], and ends the iteration.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Iterate over messages that lie back to back, without bytes before, between or after them.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not iterated over yet; empty after an error.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<MessageView<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match MessageView::split_first(self.rest) {
            Ok((message, rest)) => {
                self.rest = rest;
                Some(Ok(message))
            }
            Err(malformed) => {
                self.rest = &[];
                Some(Err(malformed))
            }
        }
    }
}

impl core::iter::FusedIterator for Messages<'_> {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn packed(messages: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (payload, user_headers) in messages {
            let mut header = [0; HEADER_BYTES];
            let mut view = HeaderMut(&mut header);
            view.set_payload_length(u32::try_from(payload.len()).expect("short"));
            view.set_user_headers_length(u32::try_from(user_headers.len()).expect("short"));
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(payload);
            bytes.extend_from_slice(user_headers);
        }
        bytes
    }

    /// LOG-3: layout of the header.
    #[test]
    fn every_field_has_its_place() {
        let mut header = [0; HEADER_BYTES];
        let mut fields = HeaderMut(&mut header);
        fields.set_checksum(0x01);
        fields.set_id(0x02);
        fields.set_offset(0x03);
        fields.set_timestamp(0x04);
        fields.set_origin_timestamp(0x05);
        fields.set_user_headers_length(0x06);
        fields.set_payload_length(0x07);
        fields.set_reserved(0x08);
        let view = fields.view();
        assert_eq!(
            (view.checksum(), view.id(), view.offset(), view.timestamp()),
            (1, 2, 3, 4)
        );
        assert_eq!(
            (
                view.origin_timestamp(),
                view.user_headers_length(),
                view.payload_length(),
                view.reserved()
            ),
            (5, 6, 7, 8)
        );
        assert_eq!(view.message_bytes(), 64 + 6 + 7);
        let places: Vec<usize> = (0..HEADER_BYTES).filter(|&i| header[i] != 0).collect();
        assert_eq!(places, [0, 8, 24, 32, 40, 48, 52, 56]);
    }

    #[test]
    fn a_cut_message_is_reported_once() {
        let whole = packed(&[(b"ab".to_vec(), b"c".to_vec()), (Vec::new(), Vec::new())]);
        let walk = Messages::new(&whole).collect::<Result<Vec<_>, _>>();
        let walk = walk.expect("whole messages");
        assert_eq!(
            (walk[0].payload(), walk[0].user_headers()),
            (&b"ab"[..], &b"c"[..])
        );
        assert_eq!(walk[0].bytes().len(), 67);
        for cut in 1..whole.len() {
            let results: Vec<_> = Messages::new(&whole[..cut]).collect();
            let whole_messages = usize::from(cut >= 67);
            assert!(results[..whole_messages].iter().all(Result::is_ok));
            if cut != 67 {
                assert_eq!(results[whole_messages], Err(Malformed::Truncated));
                assert_eq!(results.len(), whole_messages + 1);
            }
        }
    }

    #[test]
    fn lengths_near_the_top_of_their_range_do_not_wrap() {
        let mut header = [0xff; HEADER_BYTES];
        assert_eq!(MessageView::split_first(&header), Err(Malformed::Truncated));
        assert_eq!(
            HeaderMut(&mut header).view().message_bytes(),
            64 + 2 * u64::from(u32::MAX)
        );
    }

    #[test]
    fn a_changed_byte_breaks_the_checksum() {
        let mut bytes = packed(&[(b"payload".to_vec(), b"headers".to_vec())]);
        let sum = checksum(&bytes[CHECKSUM_BYTES..]);
        bytes[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        for index in 0..bytes.len() {
            assert!(
                MessageView::split_first(&bytes)
                    .expect("whole")
                    .0
                    .checksum_matches()
            );
            // Excluded: changed lengths move the end of the message.
            if !(48..56).contains(&index) {
                bytes[index] ^= 1;
                assert!(
                    !MessageView::split_first(&bytes)
                        .expect("whole")
                        .0
                        .checksum_matches()
                );
                bytes[index] ^= 1;
            }
        }
    }

    proptest! {
        #[test]
        fn walking_returns_what_was_packed(
            messages in vec((vec(any::<u8>(), 0..50), vec(any::<u8>(), 0..20)), 0..10),
        ) {
            let bytes = packed(&messages);
            let walked: Vec<_> = Messages::new(&bytes)
                .map(|message| message.map(|m| (m.payload().to_vec(), m.user_headers().to_vec())))
                .collect::<Result<_, _>>()
                .expect("whole messages");
            prop_assert_eq!(walked, messages);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
            for message in Messages::new(&bytes).flatten() {
                message.checksum_matches();
            }
        }
    }
}
