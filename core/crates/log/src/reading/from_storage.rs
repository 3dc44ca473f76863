//! Reads from log files: size of read requests, extraction of messages, and handling of damage.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::Offset;

use crate::entry::COARSE_INTERVAL_BYTES;
use crate::error::ReadError;
use crate::log::{Log, Pending};
use crate::reading::cursor::Place;
use crate::reading::read::{Job, Messages, SkipUntil};
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

impl Log {
    /// Request the storage read that the job needs next.
    pub(crate) fn request(
        &mut self,
        job: &mut Job,
        place: Place,
        from: Offset,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        let end = self.readable_end(place.segment);
        if place.position >= end || job.needed > end - place.position {
            return self.damaged(job, true, out);
        }
        if job.needed > job.bytes_max && job.found.messages_count == 0 {
            return Some(Err(ReadError::TooLarge { bytes: job.needed }));
        }
        if self.reads.is_full() {
            return Some(Err(ReadError::Busy));
        }
        if self.needs_first_message(place.segment) {
            self.wait_for_first_message(job, place.segment, out);
            return None;
        }
        let wanted = self.wanted_bytes(job, place, from);
        let wanted = wanted.min(job.asked_max);
        let length = wanted.max(job.needed).min(end - place.position);
        job.asked = length;
        let operation = StorageOperation::Read {
            file: FileName::Log(place.segment),
            position: place.position,
            length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
        };
        self.operations.start(Pending::Read(job.id), operation, out);
        None
    }

    /// End of the bytes of a segment that have to be read from storage.
    pub(crate) fn readable_end(&self, base: Offset) -> u64 {
        let index = self.segment_index(base).expect("the place is in a segment");
        let written = self.segments[index].written;
        match self.tail.front() {
            Some(front) if front.segment == base => written.min(front.position),
            _ => written,
        }
    }

    pub(crate) fn wanted_bytes(&self, job: &Job, place: Place, from: Offset) -> u64 {
        let index = self
            .segment_index(place.segment)
            .expect("the place is in a segment");
        let last = from.0.saturating_add(u64::from(job.count));
        let by_count = match self.segments[index].index.ceiling(last) {
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
    pub(crate) fn extract_messages(&mut self, job: &mut Job) -> ExtractResult {
        let place = job.place.expect("bytes have a place");
        job.needed = 0;
        let visible_end = self.visible_end();
        let index = self
            .segment_index(place.segment)
            .expect("the place is in a segment");
        let sealed_end = (index + 1 < self.segments.len()).then_some(self.segments[index].size);
        let segment = &mut self.segments[index];
        segment
            .verified
            .expire(self.reads.now, self.config.verified_micros);
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

    /// Handle bytes at `job.place` that are not the expected message.
    pub(crate) fn damaged(
        &mut self,
        job: &mut Job,
        is_on_path: bool,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        job.read_ahead = Slice::default();
        job.needed = 0;
        let place = job.place.take().expect("damage has a place");
        if job.found.messages_count > 0 {
            return Some(Ok(self.finish(job)));
        }
        let index = self.segment_index(place.segment);
        let is_rebuilt = index.is_none_or(|index| self.segments[index].index.rebuilt);
        if is_on_path
            && !is_rebuilt
            && !job.has_rebuilt
            && place.offset < self.load_end(place.segment).1
        {
            // Either the index is wrong, which is decided by the log (LOG-14), or a rebuilt index leads around the
            // damage.
            job.has_rebuilt = true;
            return self.wait_for_index(job, place.segment, true, out);
        }
        Some(Err(ReadError::Damaged {
            namespace: self.config.namespace,
            offset: Offset(place.offset),
            file: FileName::Log(place.segment),
            position: place.position,
        }))
    }
}
