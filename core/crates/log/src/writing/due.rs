//! Order in which a turn starts the writes, syncs and index entries that are due.

use alloc::vec::Vec;

use headrace_model::Timestamp;

use crate::state::LogState;
use crate::storage::StorageRequest;
use crate::writing::Writer;
use crate::writing::sync::{is_index_up_to_date, start_trim};
use crate::writing::write::start_allocate;

impl Writer {
    /// Start what is due: a write, a sync, index entries, and space for more.
    pub(crate) fn start(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        self.start_write(now, state, out);
        self.start_sync(now, state, out);
        start_trim(state, out);
        self.start_save(state, out);
        start_allocate(state, out);
    }

    /// Return whether messages are to be written, or are being written.
    pub(crate) fn has_messages(&self, state: &LogState) -> bool {
        state.tail.queued_bytes() > 0 || self.write
    }

    /// Return whether all messages and their index entries are stored.
    pub(crate) fn has_drained(state: &LogState) -> bool {
        state.tail.queued_bytes() == 0
            && state.segments.iter().rev().all(|segment| {
                segment.synced == segment.size && is_index_up_to_date(segment, state)
            })
    }

    /// Retry whatever lacked space, if it is time.
    pub(crate) fn retry_after_shortage(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        if !state.health.take_retry(now, self.has_messages(state)) {
            return;
        }
        if state.config.durability.delays_writes() {
            self.flush_deadline = Some(now);
        }
        // A new segment waits for the sync of the one before.
        self.start_sync(now, state, out);
        self.start_write(now, state, out);
    }
}
