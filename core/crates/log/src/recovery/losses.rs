//! Losses: messages that were on the device, by the manifest, and are not there any more.
//!
//! The offsets of lost messages are not used again: readers that had them would take others for them.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::error::Notice;
use crate::manifest::SyncedEnd;
use crate::record::Record;
use crate::recovery::Recovery;
use crate::segment::Segment;
use crate::state::LogState;
use crate::storage::FileName;

impl Recovery {
    /// Report the listed logs that are missing or became shorter, except the last one that has bytes: its scan finds
    /// what it lacks.
    pub(crate) fn report_losses(&self, state: &mut LogState) {
        let logs = self.logs();
        let scanned = self.scanned_segment.0;
        let Some(manifest) = state.record.on_disk() else {
            return;
        };
        let Some(listed) = &manifest.segments else {
            return;
        };
        let has_bytes_behind =
            |base: Offset| logs.iter().any(|(other, size)| *other > base && *size > 0);
        let mut losses = Vec::new();
        for (index, segment) in listed.iter().enumerate() {
            let base = segment.base;
            let synced = manifest.synced.filter(|synced| synced.segment >= base);
            let was_filled =
                synced.is_some_and(|synced| synced.segment > base) || has_bytes_behind(base);
            let end = match listed.get(index + 1) {
                Some(next) if was_filled => next.base,
                _ => synced.map_or(base, |synced| synced.offset),
            };
            // Manifests of earlier formats do not say which segments were removed.
            if manifest.owner.is_none() || base < manifest.first || end <= base {
                continue;
            }
            let file = FileName::Log(base);
            match (logs.iter().find(|(other, _)| *other == base), segment.size) {
                (None | Some((_, 0)), _) => losses.push(Notice::Lost {
                    offset: base,
                    messages_count: end.0 - base.0,
                    file,
                }),
                (Some((_, size)), Some(expected)) if *size < expected && base != scanned => {
                    losses.push(Notice::Shortened {
                        file,
                        missing_bytes: expected - size,
                    });
                }
                _ => {}
            }
        }
        if !losses.is_empty() {
            state.record.outdate();
        }
        state.findings.notices.append(&mut losses);
    }

    /// Remove the logs that the manifest states to be removed. A crash left them.
    pub(crate) fn finish_removals(&mut self, state: &mut LogState) {
        let Some(first) = state.record.on_disk().map(|manifest| manifest.first) else {
            return;
        };
        let files = &mut self.files;
        let is_removed = |(file, _): &mut (FileName, u64)| matches!(file, FileName::Log(base) | FileName::Index(base) | FileName::Cut(base, _) if *base < first);
        let removed: Vec<_> = files.extract_if(.., is_removed).collect();
        for (file, _) in removed {
            state.removals.push(file);
        }
    }
}

/// Offset after the last message that was on the device, by the manifest.
pub(crate) fn synced_before(record: &Record) -> Offset {
    let manifest = record.on_disk();
    let first = manifest.map_or(Offset(0), |manifest| manifest.first);
    let synced = manifest.and_then(|manifest| manifest.synced);
    synced.map_or(first, |synced| synced.offset.max(first))
}

/// Boundary in the log of this segment up to which everything was on the device, by the manifest.
pub(crate) fn floor_of(base: Offset, record: &Record) -> Option<SyncedEnd> {
    let manifest = record.on_disk()?;
    let synced = manifest.synced.filter(|synced| synced.segment >= base)?;
    if synced.segment == base {
        return Some(synced);
    }
    // A segment gets its first byte only after everything before it is on the device.
    let position = record.listed(base)?.size?;
    let listed = manifest.segments.as_ref()?;
    let next = listed.iter().find(|listed| listed.base > base)?;
    Some(SyncedEnd {
        segment: base,
        offset: next.base,
        position,
        timestamp: synced.timestamp,
    })
}

/// Continue behind the messages that were on the device, if the last of them are gone. `logs` are all log files: one that
/// begins there is the open segment.
pub(crate) fn skip_lost_end(logs: &[(Offset, u64)], state: &mut LogState) {
    let end = synced_before(&state.record);
    if end <= state.ends.next {
        return;
    }
    // The messages are missing at the end of the last segment.
    while state.segments.back().is_some_and(|last| last.size == 0) {
        state.segments.pop_back();
    }
    if let Some(last) = state.segments.pop_back() {
        state.segments.push_back(Segment {
            last_timestamp: last.last_timestamp,
            first_message: last.first_message,
            last_message: last.last_message,
            ..Segment::sealed(last.base, end, last.size)
        });
        if logs.iter().all(|(base, _)| *base != end) {
            state
                .segments
                .push_back(Segment::new(end, state.ends.last_timestamp));
        }
    }
    state.ends.next = end;
    state.ends.synced = end;
}

/// Forget the listed segments behind the end that have no log. They were to be begun, and nothing of them was on the
/// device: the segment before them goes on with their offsets.
pub(crate) fn forget_never_begun(logs: &[(Offset, u64)], state: &mut LogState) {
    let end = state.ends.next.max(synced_before(&state.record));
    let begun = |base: Offset| {
        logs.iter().any(|(other, _)| *other == base)
            || state.segments.iter().any(|segment| segment.base == base)
    };
    state.record.forget_from(end, begun);
}
