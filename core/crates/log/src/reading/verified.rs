//! Record of the blocks of a segment that were recently read and found undamaged (LOG-12).

use alloc::vec::Vec;

use headrace_model::Timestamp;

/// Number of bytes per bit.
const BLOCK_BYTES: u64 = 64 * 1024;

/// Verified blocks, one bit per block; takes no memory before the first read.
///
/// Consumers that read the same messages shortly after each other share one verification. The eviction of a block from
/// the page cache cannot be observed, so all blocks are verified again after some time. A block counts as verified once
/// adjoining verified messages, of any number of polls, cover all of it.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    blocks: Vec<u64>,
    /// Range of bytes covered by the latest run of adjoining messages.
    span_start: u64,
    span_end: u64,
    /// Lower bound of the time at which any block was verified.
    since: Timestamp,
}

impl Verified {
    /// Forget all blocks if any may have been verified longer ago than `micros`.
    pub(crate) fn expire(&mut self, now: Timestamp, micros: u64) {
        // A clock that was set back must not extend the time.
        if now < self.since || now.0 - self.since.0 >= micros {
            self.blocks.clear();
            (self.span_start, self.span_end) = (0, 0);
            self.since = now;
        }
    }

    /// Return whether all blocks that `start..end` touches are verified.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let first = start / BLOCK_BYTES;
        let last = end.saturating_sub(1) / BLOCK_BYTES;
        (first..=last).all(|block| {
            let (word, bit) = place(block);
            self.blocks.get(word).is_some_and(|bits| bits & bit != 0)
        })
    }

    /// Add the verified range `start..end` of messages. `segment_end` is the end of the last block if nothing more will
    /// be written to the segment.
    pub(crate) fn add(&mut self, start: u64, end: u64, segment_end: Option<u64>) {
        if start <= self.span_end && start >= self.span_start {
            self.span_end = self.span_end.max(end);
        } else {
            self.span_start = start;
            self.span_end = end;
        }
        let first = start.max(self.span_start) / BLOCK_BYTES;
        let mut end_block = self.span_end / BLOCK_BYTES;
        if segment_end.is_some_and(|segment_end| self.span_end >= segment_end) {
            end_block = self.span_end.div_ceil(BLOCK_BYTES);
        }
        for block in first..end_block {
            if block * BLOCK_BYTES >= self.span_start {
                let (word, bit) = place(block);
                if self.blocks.len() <= word {
                    self.blocks.resize(word + 1, 0);
                }
                self.blocks[word] |= bit;
            }
        }
    }
}

fn place(block: u64) -> (usize, u64) {
    let word = usize::try_from(block / 64).expect("a segment has few blocks");
    (word, 1 << (block % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-12: only whole blocks count, however small the reads were.
    #[test]
    fn a_block_counts_when_adjoining_reads_cover_it() {
        let mut verified = Verified::default();
        verified.add(100, 40_000, None);
        verified.add(40_000, 140_000, None);
        assert!(
            !verified.covers(0, 1),
            "the first block's start was not read"
        );
        assert!(verified.covers(BLOCK_BYTES, 2 * BLOCK_BYTES));
        assert!(!verified.covers(BLOCK_BYTES, 2 * BLOCK_BYTES + 1));
        verified.add(0, 200, None);
        assert!(!verified.covers(0, 1), "a new run begins");
        verified.add(200, 70_000, None);
        assert!(verified.covers(0, 2 * BLOCK_BYTES));
    }

    #[test]
    fn the_last_block_of_a_sealed_segment_ends_with_it() {
        let mut verified = Verified::default();
        verified.add(0, 1000, None);
        assert!(!verified.covers(0, 1000));
        verified.add(0, 1000, Some(1000));
        assert!(verified.covers(0, 1000));
    }

    /// LOG-12: verification expires, because stored bytes may decay, whatever the clock does.
    #[test]
    fn nothing_counts_for_long() {
        let mut verified = Verified::default();
        let covers_at = |verified: &mut Verified, now| {
            verified.expire(Timestamp(now), 100);
            verified.covers(0, BLOCK_BYTES)
        };
        assert!(!covers_at(&mut verified, 1000));
        verified.add(0, BLOCK_BYTES, None);
        assert!(covers_at(&mut verified, 1099));
        assert!(!covers_at(&mut verified, 1100));
        verified.add(0, BLOCK_BYTES - 1, None);
        verified.expire(Timestamp(1200), 100);
        verified.add(BLOCK_BYTES - 1, BLOCK_BYTES, None);
        assert!(
            !covers_at(&mut verified, 1200),
            "a part of it was verified earlier"
        );
        verified.add(0, BLOCK_BYTES, None);
        assert!(!covers_at(&mut verified, 500), "the clock was set back");
        verified.add(0, BLOCK_BYTES, None);
        verified.expire(Timestamp(500), 0);
        assert!(!verified.covers(0, BLOCK_BYTES), "never");
    }
}
