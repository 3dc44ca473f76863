//! Frames that wait to be written.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};
use headrace_sdk_core::Frame;

/// Frames that wait to be written, as one sequence of bytes that remembers where frames end.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    parts: VecDeque<(Bytes, bool)>,
    bytes: usize,
    /// Frames whose last byte was taken since the last query.
    completed: usize,
}

impl Outbox {
    pub(crate) fn push(&mut self, frame: Frame) {
        let last = frame.iter().rposition(|part| !part.is_empty());
        for (index, part) in frame.into_iter().enumerate() {
            if !part.is_empty() {
                self.bytes += part.len();
                self.parts.push_back((part, Some(index) == last));
            }
        }
    }

    /// Take the parts of a whole frame, if none of its bytes were taken.
    pub(crate) fn pop_frame(&mut self) -> Option<Vec<Bytes>> {
        let mut frame = Vec::new();
        while let Some((part, is_last)) = self.parts.pop_front() {
            self.bytes -= part.len();
            frame.push(part);
            if is_last {
                self.completed += 1;
                return Some(frame);
            }
        }
        None
    }

    pub(crate) fn take_completed(&mut self) -> usize {
        std::mem::take(&mut self.completed)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Buf for Outbox {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&[], |(part, _)| part)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let count = self.parts.len().min(slices.len());
        for (slice, (part, _)) in slices.iter_mut().zip(&self.parts) {
            *slice = IoSlice::new(part);
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        self.bytes -= count;
        while let Some((part, is_last)) = self.parts.front_mut() {
            if count < part.len() {
                part.advance(count);
                return;
            }
            count -= part.len();
            self.completed += usize::from(*is_last);
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_complete_with_their_last_byte() {
        let mut outbox = Outbox::default();
        let part = |text: &'static str| Bytes::from_static(text.as_bytes());
        outbox.push([part("ab"), part(""), part("cde")]);
        outbox.push([part("f"), part(""), part("")]);
        assert_eq!(outbox.remaining(), 6);
        outbox.advance(4);
        assert_eq!((outbox.take_completed(), outbox.chunk()), (0, &b"e"[..]));
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(outbox.chunks_vectored(&mut slices), 2);
        outbox.advance(2);
        assert_eq!((outbox.take_completed(), outbox.remaining()), (2, 0));
        outbox.push([part("x"), part("y"), part("")]);
        assert_eq!(outbox.pop_frame(), Some(vec![part("x"), part("y")]));
        assert_eq!((outbox.take_completed(), outbox.pop_frame()), (1, None));
    }
}
