//! State of a load of a segment's index.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::Offset;

use crate::entry::Entry;
use crate::recovery::scan::Scan;
use crate::segment::FirstMessage;
use crate::state::LogState;

/// State of a load. At most one load is under way per log.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) segment: Offset,
    /// Entries that are kept in memory.
    pub(crate) entries: Vec<Entry>,
    /// The last valid entry.
    pub(crate) last: Entry,
    pub(crate) source: Source,
}

#[derive(Debug)]
pub(crate) enum Source {
    /// The index file, read up to this position.
    File { position: u64 },
    /// The log itself.
    Log { scan: Box<Scan>, asked: u32 },
    /// The first message of the log, which identifies the log. Then the index is loaded, if it is
    /// needed: from the log, or from its file.
    FirstMessage { then: Option<Then> },
    /// The last message, which identifies the log where the first message is damaged.
    LastMessage { then: Option<Then> },
}

/// Source of the index that is loaded after a comparison of the first message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    File,
    Log,
}

/// End of the range of entries to be loaded: messages behind it were appended since the log was opened.
pub(crate) fn load_end(state: &LogState, base: Offset) -> (u64, u64) {
    let index = state
        .segments
        .index_of(base)
        .expect("checked by the caller");
    let segment = &state.segments[index];
    let end = segment.index.recent_start();
    let entry = segment.index.floor_by_position(end);
    if entry.position == end && end < segment.size {
        (end, entry.offset)
    } else {
        (end, segment.end.0)
    }
}

/// Return whether a log was found on disk and has not been compared with the record of its first message.
pub(crate) fn needs_first_message(state: &LogState, base: Offset) -> bool {
    state.segments.index_of(base).is_some_and(|index| {
        matches!(
            state.segments[index].first_message,
            FirstMessage::Recorded(_) | FirstMessage::Exchanged(_)
        )
    })
}
