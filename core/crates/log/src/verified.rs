//! Which blocks of a segment were read and found undamaged a short while ago (LOG-12).

use alloc::vec::Vec;

use headrace_model::Timestamp;

/// Bytes that one bit stands for.
const BLOCK_BYTES: u64 = 64 * 1024;

/// One bit per block; takes no memory before the first read.
///
/// Consumers that read the same messages shortly after each other share one verification. Nothing shows when a block has
/// left the page cache and comes from the device again, so all of them are verified anew after some time. A block counts
/// as verified when messages that were verified one after the other, in however many polls, cover all of it.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    blocks: Vec<u64>,
    /// The bytes covered by the latest run of adjoining messages.
    span_start: u64,
    span_end: u64,
    /// No block was verified earlier than this.
    since: Timestamp,
}

impl Verified {
    /// Forgets what may have been verified longer ago than `micros`.
    pub(crate) fn expire(&mut self, now: Timestamp, micros: u64) {
        // A clock that was set back makes nothing last longer.
        if now < self.since || now.0 - self.since.0 >= micros {
            self.blocks.clear();
            (self.span_start, self.span_end) = (0, 0);
            self.since = now;
        }
    }

    /// Whether all blocks that `start..end` touches are verified.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let first = start / BLOCK_BYTES;
        let last = end.saturating_sub(1) / BLOCK_BYTES;
        (first..=last).all(|block| {
            let (word, bit) = place(block);
            self.blocks.get(word).is_some_and(|bits| bits & bit != 0)
        })
    }

    /// Messages that fill `start..end` were verified. `segment_end` is where the last block ends when nothing more
    /// will be written to the segment.
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

    /// LOG-12: what was found good long ago may have rotten since, whatever the clock does.
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
