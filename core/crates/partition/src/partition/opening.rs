//! Opening: requests are queued until the files are loaded.

use headrace_log::Notice;
use headrace_log::storage::FileName;
use headrace_model::Timestamp;

use super::Partition;
use crate::api::{Outbox, PartitionError};
use crate::record::OFFSETS_SALT;

impl Partition {
    pub(super) fn offsets_tag(&self) -> u64 {
        self.log.generation().checksum_seed(OFFSETS_SALT)
    }

    /// Advance opening: load stored offsets and stages in parallel with the log's recovery, complete a publication in
    /// progress, and handle the queued requests.
    pub(super) fn advance_opening(&mut self, now: Timestamp, out: &mut Outbox) {
        if self.waiting.is_none() {
            return;
        }
        if let Some(failure) = self.unreadable() {
            if let Some(waiting) = self.waiting.take() {
                waiting.refuse(&PartitionError::Failed(failure), out);
            }
            return;
        }
        if let Some(bytes) = self.log.offsets_bytes()
            && !self.offsets.is_loaded()
        {
            self.offsets.set_tag(self.offsets_tag());
            if let Err(reason) = self.offsets.load(bytes, &mut out.storage) {
                self.log.refuse_to_open(reason);
                return self.advance_opening(now, out);
            }
        }
        self.stages
            .load(|| self.log.take_transaction_files(), &mut out.storage);
        if !self.log.is_open() || !self.offsets.is_loaded() || !self.stages.is_loaded() {
            return;
        }
        if !self
            .offsets
            .correct(self.log.next_offset(), &mut out.storage)
        {
            return;
        }
        let mut publisher = self.publisher();
        publisher.resume();
        publisher.advance(now, out);
        let is_refusing = self.log.failure().is_some() || self.withheld().is_some();
        if self.stages.publishing.holds_appends() && !is_refusing {
            return;
        }
        if self.offsets.damaged() > 0 {
            out.notices.push(Notice::Dropped {
                file: FileName::Offsets,
                records_count: self.offsets.damaged(),
            });
        }
        let waiting = self.waiting.take().unwrap_or_default();
        for (request_id, request) in waiting.requests {
            self.handle(now, request_id, request, out);
        }
        self.log.end_of_turn(now, &mut out.storage);
    }
}
