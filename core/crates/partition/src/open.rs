//! Opening: requests are queued until the files are loaded.

use alloc::collections::VecDeque;

use headrace_log::Notice;
use headrace_log::storage::FileName;
use headrace_model::Timestamp;

use crate::api::{Outbox, PartitionError, Request, RequestId};
use crate::partition::{Partition, respond};

/// Maximum number of requests queued while a partition opens.
const REQUESTS_MAX: usize = 256;
/// Maximum number of bytes in the batches of queued requests.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Seed of the checksums of stored offsets, which distinguishes them from those of index files.
pub(crate) const OFFSETS_SALT: u64 = u64::MAX;

/// Queued requests in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct QueuedRequests {
    requests: VecDeque<(RequestId, Request)>,
    bytes: usize,
}

impl QueuedRequests {
    pub(crate) fn push(
        &mut self,
        request_id: RequestId,
        request: Request,
    ) -> Result<(), PartitionError> {
        let bytes = match &request {
            Request::Append { batch } | Request::Stage { batch, .. } => batch.size_bytes(),
            _ => 0,
        };
        if self.requests.len() == REQUESTS_MAX || self.bytes + bytes > BYTES_MAX {
            return Err(PartitionError::Busy);
        }
        self.bytes += bytes;
        self.requests.push_back((request_id, request));
        Ok(())
    }

    pub(crate) fn refuse(self, error: &PartitionError, out: &mut Outbox) {
        for (request_id, _) in self.requests {
            respond(out, request_id, Err(error.clone()));
        }
    }
}

impl Partition {
    pub(crate) fn offsets_tag(&self) -> u64 {
        self.log.generation().checksum_seed(OFFSETS_SALT)
    }

    /// Advance opening: load stored offsets and stages in parallel with the log's recovery, complete a publication in
    /// progress, and handle the queued requests.
    pub(crate) fn advance_opening(&mut self, now: Timestamp, out: &mut Outbox) {
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
        self.resume_publication();
        self.advance_publishing(now, out);
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
