//! Append of messages that are stamped already: a follower's log gets them at the place, and with the bytes, that they
//! have in the log of their leader.

use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};
use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::batch::{COPIED_BYTES_MAX, Run};
use crate::entry::{Entry, INTERVAL_BYTES};
use crate::error::{MessageFault, RunError};
use crate::manifest::KnownMessage;
use crate::segment::FirstMessage;
use crate::state::LogState;
use crate::walk::{Found, NoMessage, checksum_matches, message_at};
use crate::writing::Writer;
use crate::writing::append::{Appended, may_queue, set_clock_back};
use crate::writing::tail::AppendPosition;

/// Findings in the single pass over the messages of a run.
struct VerifiedRun {
    first: KnownMessage,
    last: KnownMessage,
    first_timestamp: u64,
    last_timestamp: u64,
    entries: Vec<Entry>,
}

impl Writer {
    /// Append a run as it is, or nothing of it.
    ///
    /// # Panics
    /// If the log is not open.
    pub(crate) fn append_stamped(
        &mut self,
        now: Timestamp,
        run: Run,
        state: &mut LogState,
    ) -> Result<Appended, RunError> {
        assert!(state.is_open(), "only an open log is appended to");
        if let Some(failure) = state.failure() {
            return Err(RunError::Failed(failure.clone()));
        }
        let length = run.batch.size_bytes();
        if !may_queue(length, state) {
            return Err(RunError::Busy);
        }
        let verified = verify(&run, state)?;
        let Run { batch, place } = run;
        // Nothing is refused from here on.
        if place.position == 0 {
            if verified.first_timestamp < state.ends.last_timestamp {
                set_clock_back(Timestamp(verified.first_timestamp), state);
            }
            if state
                .segments
                .back()
                .is_none_or(|open| open.base != place.segment)
            {
                state.begin_segment();
            }
        }
        let spot = AppendPosition {
            segment: place.segment,
            position: place.position,
            base: place.base,
            timestamp_before: state.ends.last_timestamp,
            now,
        };
        let end = place.base.advanced_by(u64::from(batch.messages_count()));
        let segment = state.segments.back_mut().expect("the run has a segment");
        segment.index.recent_mut().extend(verified.entries);
        segment.last_message = Some(verified.last);
        if place.position == 0 {
            segment.first_message = FirstMessage::Checked(verified.first.checksum);
        }
        let room = if length <= COPIED_BYTES_MAX {
            state.tail.reserve_small(length, spot, &state.pool)
        } else {
            None
        };
        if let Some(room) = room {
            room.copy_from_slice(batch.bytes());
            state
                .tail
                .commit_small(length, end, verified.last_timestamp);
        } else {
            let slice = batch.into_slice(&state.pool);
            state
                .tail
                .push_buffer(slice, spot, end, verified.last_timestamp);
        }
        let timestamps = (verified.first_timestamp, verified.last_timestamp);
        self.extended((now, length), end, timestamps, state);
        Ok(Appended {
            base_offset: place.base,
            end_offset: end,
        })
    }
}

/// Verify that a run continues the log: its place, and each of its messages.
fn verify(run: &Run, state: &LogState) -> Result<VerifiedRun, RunError> {
    let (place, end) = (run.place, state.end_place());
    let begins_segment =
        place.base == end.base && place.segment == place.base && place.position == 0;
    if place != end && !begins_segment {
        return Err(RunError::Place { place, end });
    }
    // Timestamps ascend within a segment; a clock that was set back begins another one.
    let (mut earliest, mut entry_position) = match state.segments.back() {
        Some(open) if place.position > 0 => (state.ends.last_timestamp, open.index.last_position()),
        _ => (0, 0),
    };
    let mut verified: Option<VerifiedRun> = None;
    let mut entries = Vec::new();
    let (mut offset, mut at, bytes) = (place.base, 0, run.batch.bytes());
    while at < bytes.len() {
        let found = verify_message(&bytes[at..], offset, earliest)
            .map_err(|fault| RunError::Message { offset, at, fault })?;
        let checksum = HeaderView(bytes[at..].first_chunk().expect("verified")).checksum();
        let position = place.position + at as u64;
        let last = KnownMessage { position, checksum };
        if position - entry_position >= INTERVAL_BYTES {
            entry_position = position;
            entries.push(Entry {
                offset: offset.0,
                position,
                timestamp: earliest,
            });
        }
        earliest = found.timestamp;
        match &mut verified {
            Some(verified) => verified.last = last,
            None => {
                verified = Some(VerifiedRun {
                    first: last,
                    last,
                    first_timestamp: found.timestamp,
                    last_timestamp: 0,
                    entries: Vec::new(),
                });
            }
        }
        at += found.bytes;
        offset = offset.advanced_by(1);
    }
    let stated = run.batch.messages_count();
    match verified {
        Some(verified) if offset.0 - place.base.0 == u64::from(stated) => Ok(VerifiedRun {
            last_timestamp: earliest,
            entries,
            ..verified
        }),
        _ => Err(RunError::Count {
            stated,
            found: offset.0 - place.base.0,
        }),
    }
}

/// Verify the message at the start of `bytes`, which has this offset and no earlier timestamp.
fn verify_message(bytes: &[u8], expected: Offset, earliest: u64) -> Result<Found, MessageFault> {
    let found = match message_at(bytes, expected.0) {
        Ok(found) => found,
        Err(NoMessage::Incomplete { .. }) => return Err(MessageFault::Incomplete),
        Err(NoMessage::Damaged) => {
            let header = bytes.first_chunk::<HEADER_BYTES>().map(HeaderView);
            let found = header.map_or(expected, |header| Offset(header.offset()));
            return Err(if found == expected {
                MessageFault::Fields
            } else {
                MessageFault::Offset { found }
            });
        }
    };
    if !checksum_matches(&bytes[..found.bytes]) {
        return Err(MessageFault::Checksum);
    }
    if found.timestamp < earliest {
        return Err(MessageFault::Timestamp {
            found: Timestamp(found.timestamp),
            before: Timestamp(earliest),
        });
    }
    Ok(found)
}
