//! Stored offsets and stages: the files beside the log, and what a partition does with them.

use headrace_log::storage::{FileName, StorageCompletion, StorageError};
use headrace_model::{StageId, Timestamp};

use super::Partition;
use crate::api::{Outbox, PartitionError, RequestId, respond};
use crate::retry::not_stored;
use crate::stages::publishing::Publisher;
use crate::stages::stage::Chunk;
use crate::stages::state::CompletionEffect;

impl Partition {
    pub(super) fn publisher(&mut self) -> Publisher<'_> {
        Publisher {
            is_opening: self.waiting.is_some(),
            is_closing: self.closing,
            is_withheld: self.offsets.withholds_messages().is_some(),
            stages: &mut self.stages,
            log: &mut self.log,
            appends: &mut self.appends,
        }
    }

    /// Publish the stages of a committed transaction, once, in this order.
    ///
    /// `number` grows with every commit. The host calls this in ascending order, before the end of a turn, with
    /// everything pending in the catalog, as often as it likes; and after the purge that preceded the commit. Returns
    /// whether the publication is complete. If not, [`Outbox::published`] reports its completion.
    pub fn publish(&mut self, number: u64, stages: &[StageId]) -> bool {
        self.stages.publishing.add(number, stages)
    }

    /// Number of the last complete publication: messages of the publications up to it are on the device and are not
    /// published again. 0 before the first one, and before the partition is open.
    pub fn applied(&self) -> u64 {
        self.stages.publishing.applied()
    }

    /// Drop the stages of aborted transactions, except those being published. Returns true if the next
    /// [`end_of_turn`](Self::end_of_turn) has work to do.
    pub fn drop_stages(&mut self, stages: &[StageId]) -> bool {
        self.stages.drop_unpublished(stages);
        !self.stages.is_drained()
    }

    /// Drop expired stages, except those that a pending publication of the catalog names.
    ///
    /// `horizon` is the timestamp of an operation of the metadata log; the catalog behind `is_named` contains all
    /// changes up to that operation. A commit that is not contained yet comes later and is refused for such a stage.
    /// Returns what [`drop_stages`](Self::drop_stages) returns.
    pub fn drop_expired_stages(
        &mut self,
        horizon: Timestamp,
        is_named: impl Fn(StageId) -> bool,
    ) -> bool {
        let mut expired = self.stages.expired(horizon);
        expired.retain(|stage| !is_named(*stage));
        !expired.is_empty() && self.drop_stages(&expired)
    }

    /// Number of stages, complete or not.
    pub fn stages_count(&self) -> usize {
        self.stages.count()
    }

    /// Number of files that were set aside: bytes cut from the log, foreign logs and damaged stages.
    pub fn set_aside_count(&self) -> usize {
        self.log.set_aside_count() + self.stages.set_aside_count()
    }

    /// Total size of the stage files in bytes.
    pub fn staged_bytes(&self) -> u64 {
        self.stages.bytes()
    }

    pub(super) fn stage(
        &mut self,
        now: Timestamp,
        request_id: RequestId,
        chunk: Chunk,
        out: &mut Outbox,
    ) {
        let taken = match self.log.failure() {
            Some(failure) => Err(PartitionError::Failed(failure.clone())),
            None => self.stages.take(now, request_id, chunk),
        };
        if let Err(error) = taken {
            respond(out, request_id, Err(error));
        }
    }

    /// Handle the completion of an operation of these files.
    pub(super) fn complete_stages(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Outbox,
    ) {
        match self.stages.complete(now, completion, out) {
            CompletionEffect::Read(blocks, result) => {
                self.publisher().staged_read(now, blocks, result, out);
            }
            CompletionEffect::NotLoaded(file, error) => {
                (self.log).fail_companion_file(now, ("reading", file), error, false, true);
            }
            CompletionEffect::LacksSpace(error) => {
                let what = ("replacing", FileName::Transactions);
                (self.log).fail_companion_file(now, what, error, true, false);
            }
            CompletionEffect::FileInvalid(reason) => self.log.refuse_to_open(reason),
            CompletionEffect::Nothing => {}
        }
    }

    /// Handle the completion of an operation on the file of stored offsets.
    pub(super) fn complete_offsets(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Outbox,
    ) {
        if let Err((error, is_repeatable)) =
            self.offsets.complete(now, completion, &mut out.storage)
        {
            let is_opening = self.waiting.is_some() && !self.offsets.is_loaded();
            let what = ("writing", FileName::Offsets);
            return (self.log).fail_companion_file(now, what, error, is_repeatable, is_opening);
        }
        if self.offsets.failure().is_some() || !self.offsets.needs_full_rewrite() {
            // The file does not lack space now, so producers need not wait for it.
            self.log.offsets_written();
        }
    }

    /// File that cannot be written or read at present, with the reason. It is tried again every second; meanwhile only
    /// what depends on it is refused.
    pub fn failing_file(&self) -> Option<(FileName, StorageError)> {
        let offsets = self
            .offsets
            .failure()
            .map(|error| (FileName::Offsets, error));
        offsets.or_else(|| self.stages.publishing.failure())
    }

    /// Reason why messages are refused that may be appended once a file is written or read.
    pub(super) fn withheld(&self) -> Option<PartitionError> {
        let offsets = self.offsets.withholds_messages();
        let (file, source) = match offsets.map(|error| (FileName::Offsets, error)) {
            Some(offsets) => offsets,
            None if self.stages.publishing.holds_appends() => self.stages.publishing.failure()?,
            None => return None,
        };
        Some(self.not_stored(file, source))
    }

    pub(super) fn not_stored(&self, file: FileName, source: StorageError) -> PartitionError {
        not_stored(self.namespace(), file, source)
    }
}
