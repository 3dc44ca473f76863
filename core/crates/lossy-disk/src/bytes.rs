//! The bytes of one file: as programs see them, and as a power cut may leave them.

use std::collections::BTreeMap;

use fastrand::Rng;

/// Drives write whole sectors. What a cut leaves of a page is in units of these.
const SECTOR_BYTES: usize = 512;
pub const PAGE_BYTES: usize = 4096;

/// A file's bytes, and what they were when it was last synced.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    live: Vec<u8>,
    synced_length: usize,
    /// Pages as they were at the last sync, of those that were changed since: by their number. Shorter than a page at the
    /// end of the file.
    before: BTreeMap<usize, Vec<u8>>,
}

impl Bytes {
    pub fn length(&self) -> usize {
        self.live.len()
    }

    /// Returns up to `length` bytes from `start`; fewer at the end, none behind it.
    pub fn read(&self, start: usize, length: usize) -> &[u8] {
        let start = start.min(self.live.len());
        &self.live[start..self.live.len().min(start.saturating_add(length))]
    }

    pub fn write(&mut self, start: usize, data: &[u8]) {
        let end = start + data.len();
        self.keep(start.min(self.live.len()), end);
        if self.live.len() < end {
            self.live.resize(end, 0);
        }
        self.live[start..end].copy_from_slice(data);
    }

    /// Cuts the file, or extends it with zeros.
    pub fn set_length(&mut self, length: usize) {
        self.keep(length.min(self.live.len()), length.max(self.live.len()));
        self.live.resize(length, 0);
    }

    /// Sets a range to zero, as far as the file reaches.
    pub fn clear(&mut self, start: usize, end: usize) {
        let end = end.min(self.live.len());
        if start < end {
            self.keep(start, end);
            self.live[start..end].fill(0);
        }
    }

    pub fn sync(&mut self) {
        self.before.clear();
        self.synced_length = self.live.len();
    }

    /// Loses power: of what was written since the last sync, `random` decides page by page what had come to the drive.
    pub fn lose_power(&mut self, random: &mut Rng) {
        let before = std::mem::take(&mut self.before);
        let written = self.live.len();
        let (shorter, longer) = (
            self.synced_length.min(written),
            self.synced_length.max(written),
        );
        let length = if random.bool() {
            self.synced_length
        } else {
            random.usize(shorter..=longer)
        };
        self.live.resize(longer, 0);
        for (page, old) in before {
            let start = page * PAGE_BYTES;
            let end = longer.min(start + PAGE_BYTES);
            if end <= start {
                // Written behind both ends, and cut off again.
                continue;
            }
            // All of the page, nothing of it, or its first sectors. What the file was cut by is there again if its length is.
            let sectors = match random.u8(0..3) {
                0 => PAGE_BYTES / SECTOR_BYTES,
                1 => 0,
                _ => random.usize(0..=PAGE_BYTES / SECTOR_BYTES),
            };
            let kept = (SECTOR_BYTES * sectors).min(written.saturating_sub(start));
            for (index, byte) in self.live[start..end].iter_mut().enumerate().skip(kept) {
                *byte = old.get(index).copied().unwrap_or(0);
            }
        }
        self.live.truncate(length);
        self.synced_length = self.live.len();
    }

    /// Keeps the pages of a range as they are, unless they were changed since the last sync already.
    fn keep(&mut self, start: usize, end: usize) {
        for page in start / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let first = page * PAGE_BYTES;
            // What is behind the length that was synced was not there.
            let last = self
                .synced_length
                .min(first + PAGE_BYTES)
                .min(self.live.len());
            self.before
                .entry(page)
                .or_insert_with(|| self.live.get(first..last).unwrap_or_default().to_vec());
        }
    }
}
