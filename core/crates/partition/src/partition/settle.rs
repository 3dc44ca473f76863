//! Work after every step: pending responses, and the operations that they enable.

use headrace_model::Timestamp;

use super::Partition;
use crate::api::{Outbox, PartitionError};
use crate::plan;
use crate::polls::last_visible;

impl Partition {
    /// Answer requests whose results are known, and start the operations that are now possible.
    pub(super) fn advance(&mut self, now: Timestamp, out: &mut Outbox) {
        self.offsets.repeat(now, &mut out.storage);
        self.stages.repeat(now, &mut out.storage);
        self.advance_opening(now, out);
        out.notices.append(&mut self.log.take_notices());
        self.log.defer_wipe(!self.offsets.is_drained());
        if self.log.is_wiping() && self.offsets.is_drained() {
            self.log.end_of_turn(now, &mut out.storage);
        }
        self.offsets
            .sync_in_background(now, self.log.config().sync_interval_micros);
        self.start_offsets(out);
        self.publisher().advance(now, out);
        self.stages.settle(out);
        self.removals
            .advance(now, self.offsets.smallest(), &mut self.log, out);
        self.appends.settle(self.log.visible_end(), out);
        self.polling().settle(out);
        self.start_offsets(out);
        plan::settle(&mut self.log, out);
        self.commits
            .settle(&self.offsets, self.log.config().namespace, out);
        self.flushes.settle(&self.log, out);
        self.removals.settle(&self.log, out);
        self.fail_waiting_requests(out);
        self.offsets_held.set(self.offsets.memory_bytes());
        self.update_statistics();
    }

    /// Write changed offsets, unless their file is about to be removed.
    pub(super) fn start_offsets(&mut self, out: &mut Outbox) {
        let is_up = self.log.is_open() || self.log.is_closed();
        let is_served = self.log.failure().is_none() || self.log.take_offsets_retry();
        if is_up && self.waiting.is_none() && !self.log.is_wiping() && is_served {
            self.offsets.start(&mut out.storage);
        }
    }

    /// Answer requests that wait for a write with the failure of the log.
    fn fail_waiting_requests(&mut self, out: &mut Outbox) {
        let Some(failure) = self.log.failure() else {
            return;
        };
        let error = PartitionError::Failed(failure.clone());
        self.appends.fail(&error, out);
        if !self.log.is_out_of_space() {
            self.offsets.drop_waiting();
            self.stages.publishing.recovered();
            self.appends.clear();
            self.removals.fail(&error, out);
        }
        self.flushes.end(&Err(error.clone()), out);
        self.commits.fail(&error, out);
    }

    /// Update the shared statistics.
    pub(super) fn update_statistics(&self) {
        let statistics = &*self.statistics;
        let messages = self.log.next_offset().0 - self.log.first_offset().0;
        statistics.set_messages_count(messages);
        statistics.set_size_bytes(self.log.size_bytes());
        statistics.set_segments_count(u32::try_from(self.log.segments_count()).unwrap_or(u32::MAX));
        statistics.set_current_offset(last_visible(&self.log).0);
        statistics.set_first_offset(self.log.first_offset().0);
        statistics.set_unsynced_bytes(self.log.unsynced_bytes());
        let is_failed = self.log.failure().is_some() || self.failing_file().is_some();
        statistics.set_failed(is_failed);
        let oldest = self.log.oldest_segment_timestamp();
        statistics.set_oldest_segment_timestamp(oldest.map_or(0, |timestamp| timestamp.0));
        let removed = self.log.removed_by_retention();
        statistics.set_removed_segments(removed.segments);
        statistics.set_removed_bytes(removed.bytes);
    }
}
