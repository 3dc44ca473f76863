//! Bytes of one file: as programs see them, and as a power cut may leave them.

use std::collections::BTreeMap;

use fastrand::Rng;

/// Sector size. Drives write entire sectors, so a cut leaves a page in units of these.
const SECTOR_BYTES: usize = 512;
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a file, together with the bytes at its last sync.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    live: Vec<u8>,
    synced_length: usize,
    /// Contents at the last sync of the pages changed since, by page number. Shorter than a page at the end of the
    /// file.
    before: BTreeMap<usize, Vec<u8>>,
}

impl Bytes {
    pub fn length(&self) -> usize {
        self.live.len()
    }

    /// Return up to `length` bytes from `start`; fewer at the end of the file, none behind it.
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

    /// Truncate the file, or extend it with zeros.
    pub fn set_length(&mut self, length: usize) {
        self.keep(length.min(self.live.len()), length.max(self.live.len()));
        self.live.resize(length, 0);
    }

    /// Set a range to zero, within the length of the file.
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

    /// Lose power: for the writes since the last sync, `random` decides page by page what reached the drive.
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
                // The page was written beyond both lengths, and truncated again.
                continue;
            }
            // Keep all of the page, nothing of it, or its first sectors. Truncated bytes return if the old length does.
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

    /// Save the pages of a range, unless they were changed since the last sync already.
    fn keep(&mut self, start: usize, end: usize) {
        for page in start / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let first = page * PAGE_BYTES;
            // Bytes behind the synced length did not exist at the sync.
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
