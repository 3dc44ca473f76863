//! The eight-byte headers of requests and responses.

/// Bytes before the payload of a request.
pub const REQUEST_HEADER_BYTES: usize = 8;
/// Bytes before the payload of a response.
pub const RESPONSE_HEADER_BYTES: usize = 8;
/// Bytes of the command code, which is included in the length of a request.
const CODE_BYTES: u32 = 4;

/// Header of a request. Layout: `u32 length · u32 code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Number of bytes after this field: four for the code, plus the payload.
    pub length: u32,
    /// Command code; may be undefined.
    pub code: u32,
}

impl RequestHeader {
    /// Header of a request with a payload of `payload_bytes`; `None` if the length does not fit 32 bits.
    pub fn new(code: u32, payload_bytes: usize) -> Option<Self> {
        let length = u32::try_from(payload_bytes).ok()?.checked_add(CODE_BYTES)?;
        Some(Self { length, code })
    }

    /// Parse a header. Any eight bytes are accepted; [`Self::payload_bytes`] validates the length.
    pub fn parse(bytes: &[u8; REQUEST_HEADER_BYTES]) -> Self {
        let (length, code) = split(*bytes);
        Self { length, code }
    }

    /// Number of payload bytes that follow; `None` if the length does not even cover the code. Such a request is
    /// answered with status 3, and the next frame starts directly after these eight bytes.
    pub fn payload_bytes(&self) -> Option<u32> {
        self.length.checked_sub(CODE_BYTES)
    }

    /// Encode the header.
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        join(self.length, self.code)
    }
}

/// Header of a response. Layout: `u32 status · u32 length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// 0 for success, otherwise an error code of the registry.
    pub status: crate::Status,
    /// Number of payload bytes; always 0 with an error. Never 1: official clients do not read a single byte.
    pub length: u32,
}

impl ResponseHeader {
    /// Success without a payload.
    pub const EMPTY: Self = Self {
        status: crate::Status::OK,
        length: 0,
    };

    /// Header of an error response, which consists of the status only.
    pub const fn error(status: crate::Status) -> Self {
        Self { status, length: 0 }
    }

    /// Parse a header. Any eight bytes are accepted.
    pub fn parse(bytes: &[u8; RESPONSE_HEADER_BYTES]) -> Self {
        let (status, length) = split(*bytes);
        Self {
            status: crate::Status(status),
            length,
        }
    }

    /// Encode the header.
    pub fn encode(&self) -> [u8; RESPONSE_HEADER_BYTES] {
        join(self.status.0, self.length)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the two halves of the word"
)]
fn split(bytes: [u8; 8]) -> (u32, u32) {
    let word = u64::from_le_bytes(bytes);
    (word as u32, (word >> 32) as u32)
}

fn join(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) | u64::from(second) << 32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Status;

    #[test]
    fn matches_the_published_bytes() {
        let ping = RequestHeader::new(1, 0).expect("fits");
        assert_eq!(ping.encode(), [4, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(ResponseHeader::EMPTY.encode(), [0; 8]);
        assert_eq!(
            ResponseHeader::error(Status(1009)).encode(),
            [0xf1, 3, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn a_length_that_does_not_cover_the_code_has_no_payload() {
        for length in 0..4 {
            assert_eq!(RequestHeader { length, code: 1 }.payload_bytes(), None);
        }
        assert_eq!(
            RequestHeader { length: 4, code: 1 }.payload_bytes(),
            Some(0)
        );
        assert_eq!(RequestHeader::new(1, u32::MAX as usize), None);
    }

    proptest! {
        #[test]
        fn headers_come_back(bytes: [u8; 8]) {
            prop_assert_eq!(RequestHeader::parse(&bytes).encode(), bytes);
            prop_assert_eq!(ResponseHeader::parse(&bytes).encode(), bytes);
        }
    }
}
