//! Requests of newer clients, from 0.9 on, which frame the protocol in another way: headers of 256 bytes in both directions.
//!
//! This protocol is not spoken here. Its clients would take the answers of the other one for silence, so they get one
//! answer in their own frames: the versions that are accepted. They report these to their users at once.

/// Bytes of a header, in both directions.
pub const HEADER_BYTES: usize = 256;
/// The version that is accepted, 0.8.0, in the form of that protocol: ten bits for each number.
const ACCEPTED_VERSION: u32 = 8 << 10;

const SIZE: usize = 48;
const KIND: usize = 60;
const REQUEST: u8 = 5;
const REPLY: u8 = 8;
const EVICTION: u8 = 13;
/// Maximum size of a request, with its header.
const SIZE_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// Explanation for operators.
pub const EXPLANATION: &str = "its client speaks the protocol of Iggy 0.9 or later; clients of 0.8, and the HTTP interface, are accepted";

/// A request of a newer client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewerRequest {
    /// Bytes after the header.
    pub payload_bytes: u32,
}

/// Return the request that a header belongs to; `None` if it is not of a newer client. Every known client leaves the
/// checksums at the beginning empty, where a request of the other protocol has its length.
pub fn parse(header: &[u8; HEADER_BYTES]) -> Option<NewerRequest> {
    let size = u32_at(header, SIZE);
    let payload_bytes = size.checked_sub(u32::try_from(HEADER_BYTES).ok()?)?;
    let is_request = header[..SIZE].iter().all(|byte| *byte == 0)
        && header[KIND] == REQUEST
        && size <= SIZE_BYTES_MAX;
    is_request.then_some(NewerRequest { payload_bytes })
}

/// Answer to a request: an empty reply to a ping, which these clients send before they log in, and otherwise the end of
/// the session because of its version.
pub fn answer(request: &[u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
    const CHECKSUM: usize = 144;
    const CLIENT: usize = 128;
    const NUMBER: usize = 168;
    const OPERATION: usize = 176;
    const CODE: usize = 196;
    /// Operation of requests that have a command code.
    const WITH_CODE: u8 = 2;
    const PING: u32 = 1;
    /// Reason of an eviction: the version.
    const INCOMPATIBLE: u8 = 14;

    let mut answer = [0; HEADER_BYTES];
    let size = u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX);
    answer[SIZE..SIZE + 4].copy_from_slice(&size.to_le_bytes());
    if request[OPERATION] == WITH_CODE && u32_at(request, CODE) == PING {
        answer[KIND] = REPLY;
        answer[128..144].copy_from_slice(&request[CHECKSUM..CHECKSUM + 16]);
        answer[160..176].copy_from_slice(&request[CLIENT..CLIENT + 16]);
        answer[200..208].copy_from_slice(&request[NUMBER..NUMBER + 8]);
        answer[208] = WITH_CODE;
    } else {
        answer[KIND] = EVICTION;
        answer[128..144].copy_from_slice(&request[CLIENT..CLIENT + 16]);
        answer[144..148].copy_from_slice(&ACCEPTED_VERSION.to_le_bytes());
        answer[148..152].copy_from_slice(&ACCEPTED_VERSION.to_le_bytes());
        answer[255] = INCOMPATIBLE;
    }
    answer
}

fn u32_at(bytes: &[u8; HEADER_BYTES], start: usize) -> u32 {
    bytes[start..]
        .first_chunk()
        .map_or(0, |field| u32::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: u8, code: u32) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[48..52].copy_from_slice(&300_u32.to_le_bytes());
        header[60] = 5;
        header[128..144].copy_from_slice(&[7; 16]);
        header[144..160].copy_from_slice(&[9; 16]);
        header[168..176].copy_from_slice(&3_u64.to_le_bytes());
        header[176] = operation;
        header[196..200].copy_from_slice(&code.to_le_bytes());
        header
    }

    #[test]
    fn a_header_is_known_by_its_kind_and_its_empty_beginning() {
        let header = request(1, 0);
        assert_eq!(parse(&header), Some(NewerRequest { payload_bytes: 44 }));
        for (position, byte) in [(0, 1), (47, 1), (49, 0), (51, 255), (60, 8)] {
            let mut other = header;
            other[position] = byte;
            assert_eq!(parse(&other), None, "{position}");
        }
        assert_eq!(parse(&[0; HEADER_BYTES]), None);
    }

    #[test]
    fn a_ping_is_answered() {
        let reply = answer(&request(2, 1));
        assert_eq!((reply[48], reply[49], reply[60]), (0, 1, 8));
        assert_eq!(reply[128..144], [9; 16]);
        assert_eq!(reply[160..176], [7; 16]);
        assert_eq!((reply[200], reply[208]), (3, 2));
        assert_eq!(reply[216..220], [0; 4], "the status");
    }

    #[test]
    fn a_login_is_answered_with_the_accepted_versions() {
        for (operation, code) in [(1, 0), (2, 2), (160, 1)] {
            let eviction = answer(&request(operation, code));
            assert_eq!((eviction[60], eviction[255]), (13, 14));
            assert_eq!(eviction[128..144], [7; 16]);
            assert_eq!(eviction[144..152], [0, 0x20, 0, 0, 0, 0x20, 0, 0]);
        }
    }
}
