//! Reads from log files: size of read requests, extraction of messages, and handling of damage.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

use crate::entry::COARSE_INTERVAL_BYTES;
use crate::error::ReadError;
use crate::operations::pending::Pending;
use crate::reading::Reader;
use crate::reading::cursor::Place;
use crate::reading::job::{Job, Messages, SkipUntil};
use crate::reading::load::{load_end, needs_first_message};
use crate::state::LogState;
use crate::storage::{FileName, StorageOperation, StorageRequest};
use crate::walk::{NoMessage, checksum_matches, message_at};

/// Maximum size of one storage read, unless a single message is larger.
const READ_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Minimum size of a sequential reader's reads.
const AHEAD_BYTES: u64 = 1024 * 1024;
/// Number of successive polls after which a reader counts as sequential.
const SEQUENTIAL_FROM: u8 = 2;

pub(crate) enum ExtractResult {
    /// All wanted or all available messages were taken.
    Complete,
    /// More has to be read.
    Partly,
    /// No valid message starts at `place`. `way` is true if that place lies on the way to the wanted message.
    Damaged { way: bool },
    /// The first message is larger than the read may return.
    TooLarge { bytes: u64 },
}

impl Reader {
    /// Request the storage read that the job needs next.
    pub(crate) fn request(
        &mut self,
        job: &mut Job,
        place: Place,
        from: Offset,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        let end = readable_end(state, place.segment);
        if place.position >= end || job.needed > end - place.position {
            return self.damaged(job, true, state, out);
        }
        if job.needed > job.bytes_max && job.found.messages_count == 0 {
            return Some(Err(ReadError::TooLarge { bytes: job.needed }));
        }
        if self.is_full() {
            return Some(Err(ReadError::Busy));
        }
        if needs_first_message(state, place.segment) {
            self.wait_for_first_message(job, place.segment, state, out);
            return None;
        }
        let wanted = wanted_bytes(state, job, place, from);
        let wanted = wanted.min(job.asked_max);
        let length = wanted.max(job.needed).min(end - place.position);
        job.asked = length;
        let operation = StorageOperation::Read {
            file: FileName::Log(place.segment),
            position: place.position,
            length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
        };
        state
            .operations
            .start(Pending::Read(job.id), operation, out);
        None
    }

    /// Boundary from which the walk to `from` is short: the end of the last poll, or an index entry.
    pub(crate) fn start_place(
        &mut self,
        job: &mut Job,
        from: Offset,
        state: &mut LogState,
    ) -> Option<Place> {
        let base = state.segments.base_of(from);
        if let Some(place) = job.place
            && place.segment == base
        {
            return Some(place);
        }
        job.read_ahead = Slice::default();
        if let Some(place) = job.place
            && job.found.messages_count > 0
            && place.offset == base.0
        {
            return Some(Place {
                segment: base,
                position: 0,
                offset: base.0,
            });
        }
        if job.found.messages_count == 0
            && let Some(cursor) = self.cursors.take(from.0)
            && state.segments.index_of(cursor.place.segment).is_some()
        {
            job.read_ahead = cursor.read_ahead;
            job.message_bytes = cursor.message_bytes;
            job.sequential = cursor.sequential.saturating_add(1);
            if cursor.place.segment == base {
                return Some(cursor.place);
            }
            // The reader stopped at the end of the segment before.
            job.read_ahead = Slice::default();
            return Some(Place {
                segment: base,
                position: 0,
                offset: base.0,
            });
        }
        self.clock += 1;
        let clock = self.clock;
        let index = &mut state.segments.at_mut(base)?.index;
        index.used = clock;
        let entry = index.floor(from.0)?;
        Some(Place {
            segment: base,
            position: entry.position,
            offset: entry.offset,
        })
    }

    pub(crate) fn wait_for_index(
        &mut self,
        job: &mut Job,
        segment: Offset,
        from_log: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        if self.is_full() {
            return Some(Err(ReadError::Busy));
        }
        job.waits_for = Some(segment);
        self.start_load(segment, from_log, state, out);
        None
    }

    /// Handle bytes at `job.place` that are not the expected message.
    pub(crate) fn damaged(
        &mut self,
        job: &mut Job,
        is_on_path: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        job.read_ahead = Slice::default();
        job.needed = 0;
        let place = job.place.take().expect("damage has a place");
        if job.found.messages_count > 0 {
            return Some(Ok(self.finish(job, state)));
        }
        let index = state.segments.index_of(place.segment);
        let is_rebuilt = index.is_none_or(|index| state.segments[index].index.rebuilt);
        if is_on_path
            && !is_rebuilt
            && !job.has_rebuilt
            && place.offset < load_end(state, place.segment).1
        {
            // Either the index is wrong, which is decided by the log (LOG-14), or a rebuilt index leads around the
            // damage.
            job.has_rebuilt = true;
            return self.wait_for_index(job, place.segment, true, state, out);
        }
        Some(Err(ReadError::Damaged {
            namespace: state.config.namespace,
            offset: Offset(place.offset),
            file: FileName::Log(place.segment),
            position: place.position,
        }))
    }
}

/// End of the bytes of a segment that have to be read from storage.
fn readable_end(state: &LogState, base: Offset) -> u64 {
    let index = state
        .segments
        .index_of(base)
        .expect("the place is in a segment");
    let written = state.segments[index].written;
    match state.tail.front() {
        Some(front) if front.segment == base => written.min(front.position),
        _ => written,
    }
}

fn wanted_bytes(state: &LogState, job: &Job, place: Place, from: Offset) -> u64 {
    let index = state
        .segments
        .index_of(place.segment)
        .expect("the place is in a segment");
    let last = from.0.saturating_add(u64::from(job.count));
    let by_count = match state.segments[index].index.ceiling(last) {
        Some(entry) if entry.position > place.position => entry.position - place.position,
        _ if job.message_bytes > 0 => {
            u64::from(job.count).saturating_mul(job.message_bytes / 4 * 5 + 64)
        }
        _ => u64::MAX,
    };
    let passed_over = if place.offset < from.0 || matches!(job.skip, SkipUntil::OlderThan(_)) {
        COARSE_INTERVAL_BYTES
    } else {
        0
    };
    let wanted = by_count.min(job.bytes.saturating_add(passed_over));
    let at_least = if job.sequential >= SEQUENTIAL_FROM {
        AHEAD_BYTES
    } else {
        COARSE_INTERVAL_BYTES / 4
    };
    wanted.max(at_least).min(READ_BYTES_MAX)
}

/// Take messages out of `job.ahead`, which starts at `job.place`, and verify those not verified before.
pub(crate) fn extract_messages(
    job: &mut Job,
    now: Timestamp,
    state: &mut LogState,
) -> ExtractResult {
    let place = job.place.expect("bytes have a place");
    job.needed = 0;
    let visible_end = state.visible_end();
    let index = state
        .segments
        .index_of(place.segment)
        .expect("the place is in a segment");
    let sealed_end = state
        .segments
        .is_sealed(index)
        .then_some(state.segments[index].size);
    let segment = &mut state.segments[index];
    segment.verified.expire(now, state.config.verified_micros);
    let end = segment.end.min(visible_end).0;
    let bytes = core::mem::take(&mut job.read_ahead);
    let (mut at, mut offset) = (0, place.offset);
    let mut taken = None;
    let walked = loop {
        if offset >= end {
            let more = segment.end.0 == offset && segment.end < visible_end;
            break if more {
                ExtractResult::Partly
            } else {
                ExtractResult::Complete
            };
        }
        if job.count == 0 {
            break ExtractResult::Complete;
        }
        let found = match message_at(&bytes[at..], offset) {
            Ok(found) => found,
            Err(NoMessage::Incomplete { needed }) => {
                job.needed = needed;
                break ExtractResult::Partly;
            }
            Err(NoMessage::Damaged) => break ExtractResult::Damaged { way: true },
        };
        let is_skipped = match job.skip {
            SkipUntil::Until(wanted) => offset < wanted,
            SkipUntil::OlderThan(timestamp) => found.timestamp < timestamp,
        };
        if !is_skipped {
            if found.bytes as u64 > job.bytes && job.found.messages_count > 0 {
                job.count = 0;
                break ExtractResult::Complete;
            }
            if job.found.messages_count == 0 && found.bytes as u64 > job.bytes_max {
                let bytes = found.bytes as u64;
                break ExtractResult::TooLarge { bytes };
            }
            let start = place.position + at as u64;
            if !segment.verified.covers(start, start + found.bytes as u64)
                && !checksum_matches(&bytes[at..at + found.bytes])
            {
                break ExtractResult::Damaged { way: false };
            }
            taken.get_or_insert(at);
            // All following messages are taken, even those with earlier timestamps after the clock was set back.
            job.skip = SkipUntil::Until(offset);
            job.count -= 1;
            job.bytes = job.bytes.saturating_sub(found.bytes as u64);
            job.found.messages_count += 1;
            job.found.size_bytes += found.bytes as u64;
            job.found.last_offset = Some(Offset(offset));
        }
        at += found.bytes;
        offset += 1;
    };
    if let Some(start) = taken {
        let position = place.position;
        segment
            .verified
            .add(position + start as u64, position + at as u64, sealed_end);
        job.found.slices.push(bytes.slice(start..at));
    }
    job.place = Some(Place {
        position: place.position + at as u64,
        offset,
        ..place
    });
    // After `Partly` the remainder is the beginning of a message that has to be read as a whole.
    if matches!(walked, ExtractResult::Complete) {
        job.read_ahead = bytes.slice(at..);
    }
    walked
}
