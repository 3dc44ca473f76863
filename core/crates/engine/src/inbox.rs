//! Memory for what is received.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Room for short answers.
pub(crate) const INBOX_BYTES: usize = 64 * 1024;
/// Memory that is kept for later answers, at most.
const SPARE_BYTES_MAX: usize = 32 << 20;
/// Sizes of memory for long answers are multiples of this: answers of nearly the same size fit into each other's memory.
const STEP_BYTES: usize = 256 * 1024;

/// Bytes that were received.
///
/// Memory of long answers is used again once nothing refers to them: the pages of new memory cost as much as the copy of
/// an answer into them.
#[derive(Debug)]
pub(crate) struct Inbox {
    memory: Memory,
    /// Memory whose answers were handed out, the oldest first.
    spares: VecDeque<Memory>,
}

#[derive(Debug)]
struct Memory {
    bytes: BytesMut,
    /// Size of the allocation, which answers share.
    size: usize,
}

impl Memory {
    fn new(size: usize) -> Self {
        Self {
            bytes: BytesMut::with_capacity(size),
            size,
        }
    }
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            memory: Memory::new(INBOX_BYTES),
            spares: VecDeque::new(),
        }
    }

    /// Bytes that were received and not taken; more may be appended to them.
    pub(crate) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.memory.bytes
    }

    /// Take the first bytes.
    pub(crate) fn take(&mut self, count: usize) -> BytesMut {
        if count <= INBOX_BYTES {
            // While answers are short, the memory of long ones is given back.
            self.spares.pop_front();
        }
        self.memory.bytes.split_to(count)
    }

    /// Have room for so many more bytes.
    pub(crate) fn reserve(&mut self, added: usize) {
        let bytes = &self.memory.bytes;
        if bytes.capacity() - bytes.len() >= added {
            return;
        }
        let mut memory = self.memory_of(bytes.len() + added);
        memory.bytes.extend_from_slice(&self.memory.bytes);
        let mut former = std::mem::replace(&mut self.memory, memory);
        if former.size > INBOX_BYTES {
            former.bytes.clear();
            self.spares.push_back(former);
        }
        while self.spares.iter().map(|spare| spare.size).sum::<usize>() > SPARE_BYTES_MAX {
            self.spares.pop_front();
        }
    }

    fn memory_of(&mut self, wanted: usize) -> Memory {
        let is_free = |spare: &mut Memory| spare.bytes.try_reclaim(wanted);
        let free = self.spares.iter_mut().position(is_free);
        if let Some(spare) = free.and_then(|index| self.spares.remove(index)) {
            return spare;
        }
        Memory::new(if wanted <= INBOX_BYTES {
            INBOX_BYTES
        } else {
            wanted.next_multiple_of(STEP_BYTES)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_BYTES: usize = 3 * STEP_BYTES - 100;

    /// Receive an answer, after a part of it that shows its length.
    fn receive(inbox: &mut Inbox, byte: u8, length: usize) -> bytes::Bytes {
        inbox.reserve(INBOX_BYTES);
        inbox.bytes().extend_from_slice(&vec![byte; 1000]);
        inbox.reserve(length - 1000);
        inbox.bytes().extend_from_slice(&vec![byte; length - 1000]);
        let answer = inbox.take(length).freeze();
        assert!(answer.iter().all(|found| *found == byte) && answer.len() == length);
        answer
    }

    #[test]
    fn memory_of_answers_is_used_again_once_nothing_refers_to_them() {
        let mut inbox = Inbox::new();
        let first = receive(&mut inbox, 1, LONG_BYTES);
        let second = receive(&mut inbox, 2, LONG_BYTES);
        assert!(first.iter().all(|byte| *byte == 1));
        assert_ne!(first.as_ptr(), second.as_ptr());
        let place = first.as_ptr();
        drop(first);
        let third = receive(&mut inbox, 3, LONG_BYTES + 50);
        assert_eq!(third.as_ptr(), place);
        assert!(second.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn kept_memory_is_bounded_and_given_back_while_answers_are_short() {
        let mut inbox = Inbox::new();
        let answers: Vec<_> = (0..60)
            .map(|_| receive(&mut inbox, 1, LONG_BYTES))
            .collect();
        drop(answers);
        let kept: usize = inbox.spares.iter().map(|spare| spare.size).sum();
        assert!((SPARE_BYTES_MAX / 2..=SPARE_BYTES_MAX).contains(&kept));
        for _ in 0..60 {
            receive(&mut inbox, 2, 2000);
        }
        assert!(inbox.spares.is_empty());
    }

    #[test]
    fn what_was_received_early_stays_in_its_place() {
        let mut inbox = Inbox::new();
        inbox.bytes().extend_from_slice(b"onetwo");
        assert_eq!(inbox.take(3), b"one"[..]);
        inbox.reserve(LONG_BYTES);
        assert_eq!(inbox.bytes()[..], b"two"[..]);
    }
}
