//! Logs and their indexes.

use std::io;

use headrace_log::{
    check::{LogCheck, ManifestReport, SegmentReport, damaged_entries},
    storage::FileName,
};
use headrace_model::Offset;

use super::{Check, FindingKind};
use crate::storage::replace_file;

/// Knowledge of a log before it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedLog {
    pub(super) base: Offset,
    /// Offset after the last message, if the segment is sealed.
    pub(super) end: Option<Offset>,
    /// Offset and position up to which everything was on the device.
    floor: Option<(Offset, u64)>,
    segment: Option<SegmentReport>,
    /// True if the manifest has a list without it.
    is_foreign: bool,
}

impl Check<'_> {
    /// Find out what is known about all logs: those that the manifest lists, those that it does not, and the missing
    /// ones.
    pub(super) fn expected_logs(&self, manifest: Option<&ManifestReport>) -> Vec<ExpectedLog> {
        let bases = self.bases();
        let listed = manifest.and_then(|manifest| manifest.segments.as_ref());
        let first = manifest.map_or(Offset(0), |manifest| manifest.first);
        let truncated_at = manifest.and_then(|manifest| manifest.end);
        let entry = |base: Offset| {
            let listed = listed?;
            let index = listed.binary_search_by_key(&base, |segment| segment.base);
            Some(listed[index.ok()?])
        };
        let mut known: Vec<Offset> = bases.clone();
        known.extend(
            listed
                .iter()
                .flat_map(|listed| listed.iter().map(|segment| segment.base)),
        );
        // The next start removes what is left of a truncation.
        known.retain(|base| truncated_at.is_none_or(|end| *base < end));
        known.sort_unstable();
        known.dedup();
        let synced = manifest.and_then(|manifest| manifest.synced);
        let has_bytes = |base: &Offset| {
            self.files
                .get(&FileName::Log(*base))
                .is_some_and(|size| *size > 0)
        };
        let mut expected = Vec::new();
        for (index, base) in known.iter().enumerate() {
            if *base < first {
                // The next start removes what is left of it.
                continue;
            }
            let segment = entry(*base);
            let follower = known[index + 1..]
                .iter()
                .find(|next| entry(**next).is_some() || listed.is_none());
            let is_sealed = synced.is_some_and(|(segment, ..)| segment > *base)
                || known[index + 1..].iter().any(has_bytes);
            let end = match follower {
                Some(next) if is_sealed => Some(*next),
                _ => None,
            };
            let floor = match synced {
                Some((segment, offset, position)) if segment == *base => Some((offset, position)),
                _ => end.zip(segment.and_then(|segment| segment.size)),
            };
            expected.push(ExpectedLog {
                base: *base,
                end,
                floor,
                segment,
                is_foreign: listed.is_some() && segment.is_none(),
            });
        }
        expected
    }

    /// Check a log, and its index.
    pub(super) fn check_log(
        &mut self,
        expected: ExpectedLog,
        manifest: Option<&ManifestReport>,
    ) -> io::Result<()> {
        let ExpectedLog {
            base, end, floor, ..
        } = expected;
        let file = FileName::Log(base);
        if expected.is_foreign {
            let what = "the manifest does not list it: it is another partition's";
            self.find(file, FindingKind::Foreign, what.to_owned());
            return Ok(());
        }
        match self.files.get(&file).copied() {
            Some(size) if size > 0 => self.log(expected, size, manifest)?,
            _ => {
                if let Some((next, bytes)) = floor.or_else(|| end.map(|end| (end, 0)))
                    && next > base
                {
                    let finding = self.find(
                        file,
                        FindingKind::Missing,
                        "it is missing or empty".to_owned(),
                    );
                    (finding.position, finding.bytes) = (Some(0), Some(bytes));
                    finding.offset = Some(base.0);
                    finding.messages_count = Some(next.0 - base.0);
                }
            }
        }
        Ok(())
    }

    fn log(
        &mut self,
        ExpectedLog {
            base,
            end,
            floor,
            segment,
            ..
        }: ExpectedLog,
        size: u64,
        manifest: Option<&ManifestReport>,
    ) -> io::Result<()> {
        let file = FileName::Log(base);
        let handle = self.reading.open(&self.path(file))?;
        let mut check = LogCheck::new(base, size, end);
        let mut first = None;
        while let Some((position, length)) = check.wanted() {
            let bytes = self.reading.read_at(&handle, position, length as usize)?;
            if position == 0 {
                first = bytes.first_chunk().copied().map(u64::from_le_bytes);
            }
            check.feed(&bytes);
        }
        self.result.bytes += size;
        self.result.messages_count += check.next_offset().0 - base.0;
        let damaged = check.damaged();
        let recorded = segment.and_then(|segment| segment.first_checksum);
        let is_first_damaged = damaged.first().is_some_and(|region| region.start == 0);
        let is_anothers = match segment.and_then(|segment| segment.last) {
            _ if recorded.is_none() || recorded == first => false,
            Some(last) if is_first_damaged => {
                let is_last_intact = damaged
                    .iter()
                    .all(|region| region.end <= last.position || region.start > last.position);
                let found = self.reading.read_at(&handle, last.position, 8)?;
                is_last_intact && found != last.checksum.to_le_bytes()
            }
            _ => !is_first_damaged,
        };
        if is_anothers {
            let what = "it is the log of another partition, by its first message or, where that is damaged, by its last";
            let finding = self.find(file, FindingKind::Foreign, what.to_owned());
            finding.position = Some(0);
        }
        let synced_end = floor.map_or(0, |(_, position)| position);
        for region in &damaged {
            self.result.messages_count -= region
                .messages_count
                .unwrap_or(0)
                .min(self.result.messages_count);
            let is_torn =
                end.is_none() && region.messages_count.is_none() && region.start >= synced_end;
            let (kind, what) = if is_torn {
                (
                    FindingKind::Torn,
                    "the end of an interrupted write: the next start cuts it off",
                )
            } else {
                (FindingKind::Damaged, "messages are damaged")
            };
            let finding = self.find(file, kind, what.to_owned());
            finding.position = Some(region.start);
            finding.bytes = Some(region.end - region.start);
            finding.offset = Some(region.offset.0);
            finding.messages_count = region.messages_count;
        }
        if let Some((next, position)) = floor
            && size < position
            && damaged
                .last()
                .is_none_or(|region| region.end < size || region.messages_count.is_none())
        {
            let lost = next.0.saturating_sub(check.next_offset().0);
            let finding = self.find(file, FindingKind::Missing, "its end is missing".to_owned());
            (finding.position, finding.bytes) = (Some(size), Some(position - size));
            finding.offset = Some(check.next_offset().0);
            finding.messages_count = Some(lost);
        }
        self.index(base, &check, manifest, damaged.is_empty() && end.is_some())
    }

    /// Check an index; rebuild it if it is wrong and its log is sealed and whole.
    fn index(
        &mut self,
        base: Offset,
        check: &LogCheck,
        manifest: Option<&ManifestReport>,
        is_sealed_and_whole: bool,
    ) -> io::Result<()> {
        let file = FileName::Index(base);
        let Some(generation) = manifest.map(|manifest| manifest.generation) else {
            return Ok(());
        };
        if !self.files.contains_key(&file) {
            return Ok(());
        }
        let mut damaged = Vec::new();
        self.read_pieces(file, |start, piece| {
            let positions = damaged_entries(piece, generation, base);
            damaged.extend(positions.into_iter().map(|position| start + position));
        })?;
        if damaged.is_empty() {
            return Ok(());
        }
        let repaired = self.repair && is_sealed_and_whole;
        if repaired {
            replace_file(&self.path(file), &check.index(generation))?;
        }
        for position in damaged {
            let what = "an index entry is damaged, or another log's: indexes are rebuilt from their logs when they are read";
            let finding = self.find(file, FindingKind::Damaged, what.to_owned());
            finding.position = Some(position);
            finding.repaired = repaired;
        }
        Ok(())
    }
}
