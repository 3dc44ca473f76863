//! Work after every step: pending responses, and the operations that they enable.

use headrace_model::Timestamp;

use crate::api::{Outbox, PartitionError, Response};
use crate::partition::{Partition, appended_response, respond};

impl Partition {
    /// Answer requests whose results are known, and start the operations that are now possible.
    pub(crate) fn advance(&mut self, now: Timestamp, out: &mut Outbox) {
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
        self.advance_publishing(now, out);
        self.stages.settle(out);
        self.advance_removals(now, out);
        let visible_end = self.log.visible_end();
        while let Some(append) = self.appends.front()
            && append.appended.end_offset <= visible_end
        {
            if let Some(request_id) = append.request_id {
                respond(out, request_id, Ok(appended_response(append.appended)));
            }
            self.visible_bytes += append.bytes;
            self.appends.pop_front();
        }
        self.settle_polls(out);
        self.settle_plans(out);
        self.settle_commits(out);
        let log = &self.log;
        self.flushes.retain(|flush| {
            let end = if flush.fsync {
                log.synced_end()
            } else {
                log.written_end()
            };
            let is_done = end >= flush.target;
            if is_done {
                respond(out, flush.request_id, Ok(Response::Done));
            }
            !is_done
        });
        self.removals.retain(|removal| {
            if removal.begun.remaining > 0 {
                return true;
            }
            let Some(result) = log.removals_done(removal.begun.sequence) else {
                return true;
            };
            let result =
                result
                    .map(|()| Response::Done)
                    .map_err(|(file, source)| PartitionError::Remove {
                        namespace: log.config().namespace,
                        file,
                        source,
                    });
            respond(out, removal.request_id, result);
            false
        });
        self.fail_waiting_requests(out);
        self.offsets_held.set(self.offsets.memory_bytes());
        self.update_statistics();
    }

    /// Continue removals that waited for segments to be synced.
    fn advance_removals(&mut self, now: Timestamp, out: &mut Outbox) {
        let barrier = self.offsets.smallest();
        for removal in &mut self.removals {
            if removal.begun.remaining == 0 {
                continue;
            }
            let before = removal.begun;
            removal.begun = self.log.delete_segments(before.remaining, barrier);
            if removal.begun.sequence != before.sequence {
                self.log.end_of_turn(now, &mut out.storage);
            }
        }
    }

    /// Write changed offsets, unless their file is about to be removed.
    pub(crate) fn start_offsets(&mut self, out: &mut Outbox) {
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
        for append in &mut self.appends {
            if let Some(request_id) = append.request_id.take() {
                respond(out, request_id, Err(error.clone()));
            }
        }
        if !self.log.is_out_of_space() {
            self.offsets.drop_waiting();
            self.stages.publishing.recovered();
            self.appends.clear();
            for removal in self.removals.drain(..) {
                respond(out, removal.request_id, Err(error.clone()));
            }
        }
        for flush in self.flushes.drain(..) {
            respond(out, flush.request_id, Err(error.clone()));
        }
        self.fail_commits(&error, out);
    }

    /// Update the shared statistics.
    pub(crate) fn update_statistics(&self) {
        let statistics = &*self.statistics;
        let messages = self.log.next_offset().0 - self.log.first_offset().0;
        statistics.set_messages_count(messages);
        statistics.set_size_bytes(self.log.size_bytes());
        statistics.set_segments_count(u32::try_from(self.log.segments_count()).unwrap_or(u32::MAX));
        statistics.set_current_offset(self.current_offset().0);
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
