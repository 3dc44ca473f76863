//! Reads from the in-memory tail.

use headrace_model::Offset;

use crate::error::ReadError;
use crate::reading::job::Job;
use crate::state::LogState;

/// Take messages from the tail, which extends to the end of the log.
pub(crate) fn read_memory(job: &mut Job, from: Offset, state: &LogState) -> Result<(), ReadError> {
    let mut from = from;
    let visible_end = state.visible_end();
    let mut chunk_index = state.tail.chunk_index(from);
    while let Some(index) = chunk_index
        && let Some(chunk) = state.tail.chunk(index)
        && from < visible_end
        && job.count > 0
    {
        let segment = state
            .segments
            .index_of(chunk.segment)
            .expect("the tail's segments are in the log");
        let entries = &state.segments[segment].index;
        let wanted = from.advanced_by(u64::from(job.count));
        let mut end = chunk.end.min(visible_end).min(wanted);
        let start_at = chunk.start_of(from, entries);
        let mut end_at = chunk.start_of(end, entries);
        let is_first = job.found.messages_count == 0;
        let is_cut = (end_at - start_at) as u64 > job.bytes;
        if is_cut {
            (end_at, end) = chunk.fit((start_at, from), job.bytes, is_first, entries);
        }
        let bytes = (end_at - start_at) as u64;
        if is_first && bytes > job.bytes_max {
            return Err(ReadError::TooLarge { bytes });
        }
        if end_at > start_at {
            let taken = u32::try_from(end.0 - from.0).expect("at most the count");
            job.count -= taken;
            job.bytes = job.bytes.saturating_sub(bytes);
            job.found.messages_count += taken;
            job.found.size_bytes += bytes;
            job.found.last_offset = Some(Offset(end.0 - 1));
            job.found.slices.push(chunk.slice(start_at, end_at));
        }
        if is_cut {
            break;
        }
        from = end;
        chunk_index = Some(index + 1);
    }
    Ok(())
}
