//! Requests to a program and its responses, over its standard input and output.
//!
//! A request is its length (u32), its kind (u8) and its bytes; a response is its length, 0 or 1, and its bytes. 1 means
//! that the program reports an error, and the bytes describe it. All numbers are little-endian, and lengths count the
//! bytes after them. At most one request is outstanding, so that the responses are a function of the requests.
//!
//! | kind | bytes of the request | bytes of the response |
//! | --- | --- | --- |
//! | 0 draw | run u64, word u64 | a command; the program may inspect the state of its machine |
//! | 1 open | | digest of the first state, 16 bytes |
//! | 2 apply | op u64, nanoseconds u64, count u32, and for each command its length u32 and its bytes | digest of the state, 16 bytes; digest of the notifications to subscribers, 16 bytes; for each command status u32, length u32 and the reply |
//! | 3 snapshot | | the state |
//! | 4 restore | a state | digest of the resulting state, 16 bytes |

use std::io::{self, Read, Write};

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Draw = 0,
    Open = 1,
    Apply = 2,
    Snapshot = 3,
    Restore = 4,
}

/// Maximum size of a response; longer ones are invalid.
const ANSWER_BYTES_MAX: u32 = 64 << 20;

/// Response of a program: bytes, or its error.
pub(super) type Answered = Result<Vec<u8>, String>;

/// Send a request and wait for the response.
pub(super) fn ask(
    to: &mut impl Write,
    from: &mut impl Read,
    kind: Kind,
    bytes: &[u8],
) -> io::Result<Answered> {
    let length = u32::try_from(bytes.len() + 1).map_err(io::Error::other)?;
    let mut question = Vec::with_capacity(bytes.len() + 5);
    question.extend(length.to_le_bytes());
    question.push(kind as u8);
    question.extend(bytes);
    to.write_all(&question)?;
    to.flush()?;
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if !(1..=ANSWER_BYTES_MAX).contains(&length) {
        return Err(io::Error::other(format!("an answer of {length} bytes")));
    }
    let mut answer = vec![0; length as usize];
    from.read_exact(&mut answer)?;
    match answer.remove(0) {
        0 => Ok(Ok(answer)),
        1 => Ok(Err(String::from_utf8_lossy(&answer).into_owned())),
        other => Err(io::Error::other(format!(
            "an answer that begins with {other}"
        ))),
    }
}

/// Reader of a response.
#[derive(Debug)]
pub(super) struct Parts<'a>(pub(super) &'a [u8]);

impl<'a> Parts<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes(4)?.first_chunk()?))
    }

    pub(super) fn digest(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(*self.bytes(16)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answer: &[u8]) -> io::Result<Answered> {
        ask(&mut Vec::new(), &mut &answer[..], Kind::Open, b"")
    }

    #[test]
    fn a_question_is_framed_and_its_answer_unframed() {
        let mut asked = Vec::new();
        let answer = ask(
            &mut asked,
            &mut &b"\x04\0\0\0\0yes"[..],
            Kind::Restore,
            b"ab",
        );
        assert_eq!(asked, b"\x03\0\0\0\x04ab");
        assert_eq!(answer.unwrap().unwrap(), b"yes");
    }

    #[test]
    fn objections_and_broken_answers_are_distinguished() {
        assert_eq!(answered(b"\x03\0\0\0\x01no").unwrap().unwrap_err(), "no");
        for broken in [&b""[..], b"\x09\0\0\0\0x", b"\0\0\0\0", b"\x02\0\0\0\x07x"] {
            assert!(answered(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn parts_end_where_the_answer_ends() {
        let mut parts = Parts(b"\x02\0\0\0ab");
        assert_eq!(parts.number(), Some(2));
        assert_eq!(parts.bytes(2), Some(&b"ab"[..]));
        assert_eq!(parts.number(), None);
    }
}
