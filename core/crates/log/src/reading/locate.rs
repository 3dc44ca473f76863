//! Look-up of the place in a file, or of the message in memory, at which a read starts.

use headrace_model::Offset;

use crate::reading::cursor::Place;
use crate::segment::Segment;
use crate::state::LogState;
use crate::writing::tail::Chunk;

/// Place of the first message with a timestamp.
pub(crate) enum Located {
    InMemory(Offset),
    InStorage(Place),
    NotFound,
    /// The index of this segment has to be loaded first.
    NeedsIndex(Offset),
}

/// Locate the first message that is not older than `timestamp`.
pub(crate) fn locate(state: &LogState, timestamp: u64) -> Located {
    if let Some(front) = state.tail.front()
        && timestamp > front.timestamp_before
    {
        return match locate_in_memory(state, timestamp) {
            Some(offset) => Located::InMemory(offset),
            None => Located::NotFound,
        };
    }
    let (mut first, mut end) = (0, state.segments.len());
    while first < end {
        let middle = first.midpoint(end);
        match state.segments.last_timestamp_of(middle) {
            Err(segment) => return Located::NeedsIndex(segment),
            Ok(last) if last < timestamp => first = middle + 1,
            Ok(_) => end = middle,
        }
    }
    let Some(segment) = state.segments.get(first) else {
        return Located::NotFound;
    };
    match segment.index.floor_by_timestamp(timestamp) {
        Some(entry) => Located::InStorage(Place {
            segment: segment.base,
            position: entry.position,
            offset: entry.offset,
        }),
        None => Located::NeedsIndex(segment.base),
    }
}

fn locate_in_memory(state: &LogState, timestamp: u64) -> Option<Offset> {
    let front = state.tail.front()?;
    let before = state.segments.index_of(front.segment)?;
    let is_older = |segment: &&Segment| segment.last_timestamp.is_some_and(|last| last < timestamp);
    let segment = state
        .segments
        .iter()
        .skip(before)
        .find(|segment| !is_older(segment))?;
    match state.tail.chunk_since(timestamp) {
        Some(chunk) if chunk.segment == segment.base => first_since(state, chunk, timestamp),
        // The clock was set back: chunks of the segment before that one are not older than `timestamp` either.
        _ => locate_in_memory_from(state, segment.base.max(front.base), timestamp),
    }
}

/// First message in memory from `from` on that is not older. Messages before `from` may be later if the clock was
/// set back.
pub(crate) fn locate_in_memory_from(
    state: &LogState,
    from: Offset,
    timestamp: u64,
) -> Option<Offset> {
    let first = state.tail.chunk_index(from)?;
    let chunk = (first..)
        .map_while(|index| state.tail.chunk(index))
        .find(|chunk| chunk.last_timestamp >= timestamp)?;
    first_since(state, chunk, timestamp)
}

fn first_since(state: &LogState, chunk: &Chunk, timestamp: u64) -> Option<Offset> {
    let index = state.segments.index_of(chunk.segment)?;
    Some(chunk.first_since(timestamp, &state.segments[index].index))
}
