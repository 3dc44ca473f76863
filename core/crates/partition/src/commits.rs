//! Changes of stored offsets, and the responses that wait for them.

use headrace_log::storage::{FileName, StorageCompletion};
use headrace_model::{Offset, Timestamp};

use crate::api::{Committer, ConsumerKey, Outbox, PartitionError, RequestId, Response};
use crate::partition::{Partition, respond};

/// Response that waits until a change of stored offsets is in their file.
#[derive(Debug)]
pub(crate) struct PendingOffsetCommit {
    request_id: RequestId,
    change: u64,
    synced: bool,
    response: Response,
}

impl Partition {
    /// Handle the completion of an operation on the file of stored offsets.
    pub(crate) fn complete_offsets(
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

    pub(crate) fn change_offset(
        &mut self,
        request_id: RequestId,
        consumer: ConsumerKey,
        offset: Option<Offset>,
        by: Option<Committer>,
        out: &mut Outbox,
    ) {
        if let Some(failure) = self.log.failure() {
            return respond(
                out,
                request_id,
                Err(PartitionError::Failed(failure.clone())),
            );
        }
        if let Some(source) = self.offsets.failure() {
            return respond(
                out,
                request_id,
                Err(self.not_stored(FileName::Offsets, source)),
            );
        }
        let allowed = match offset {
            Some(_) => self.offsets.check_store(consumer, by),
            None => self.offsets.check_owner(consumer, by),
        };
        if let Err(error) = allowed {
            return respond(out, request_id, Err(error));
        }
        let change = self.offsets.change(consumer, offset, by);
        let synced = self.log.config().durability.awaits_offset_sync();
        self.respond_when_stored(request_id, change, synced, Response::Done, out);
    }

    /// Answer once a change of the stored offsets is as durable as configured.
    pub(crate) fn respond_when_stored(
        &mut self,
        request_id: RequestId,
        change: u64,
        synced: bool,
        response: Response,
        out: &mut Outbox,
    ) {
        if !self.log.config().durability.awaits_offset_write() {
            return respond(out, request_id, Ok(response));
        }
        if synced {
            self.offsets.sync(change);
        }
        self.commits.push_back(PendingOffsetCommit {
            request_id,
            change,
            synced,
            response,
        });
    }

    /// Answer the requests whose changes are stored.
    pub(crate) fn settle_commits(&mut self, out: &mut Outbox) {
        let offsets = &self.offsets;
        self.commits.retain_mut(|commit| {
            let is_done = if commit.synced {
                offsets.is_synced(commit.change)
            } else {
                offsets.is_written(commit.change)
            };
            if is_done {
                let response = core::mem::replace(&mut commit.response, Response::Done);
                respond(out, commit.request_id, Ok(response));
            }
            !is_done
        });
        if let Some(source) = self.offsets.failure() {
            let error = self.not_stored(FileName::Offsets, source);
            self.fail_commits(&error, out);
        }
    }

    /// Answer the requests whose changes are not stored.
    pub(crate) fn fail_commits(&mut self, error: &PartitionError, out: &mut Outbox) {
        for commit in self.commits.drain(..) {
            let result = match commit.response {
                // The messages can be returned: losing the committed offset only repeats them after the next start.
                polled @ Response::Polled(_) => Ok(polled),
                _ => Err(error.clone()),
            };
            respond(out, commit.request_id, result);
        }
    }
}
