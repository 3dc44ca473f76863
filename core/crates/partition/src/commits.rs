//! Responses that wait until a change of stored offsets is in their file.

use alloc::collections::VecDeque;

use headrace_log::storage::FileName;
use headrace_model::{Durability, Namespace};

use crate::api::{Outbox, PartitionError, RequestId, Response, respond};
use crate::offsets::StoredOffsets;
use crate::retry::not_stored;

/// Responses in the order of the changes.
#[derive(Debug, Default)]
pub(crate) struct Commits(VecDeque<PendingOffsetCommit>);

#[derive(Debug)]
struct PendingOffsetCommit {
    request_id: RequestId,
    change: u64,
    synced: bool,
    response: Response,
}

impl Commits {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Answer once a change of the stored offsets is as durable as configured; `synced` if that includes the device.
    pub(crate) fn answer(
        &mut self,
        offsets: &mut StoredOffsets,
        durability: Durability,
        (request_id, response): (RequestId, Response),
        change: u64,
        synced: bool,
        out: &mut Outbox,
    ) {
        if !durability.awaits_offset_write() {
            return respond(out, request_id, Ok(response));
        }
        if synced {
            offsets.sync(change);
        }
        self.0.push_back(PendingOffsetCommit {
            request_id,
            change,
            synced,
            response,
        });
    }

    /// Answer the requests whose changes are stored, or cannot be stored at present.
    pub(crate) fn settle(
        &mut self,
        offsets: &StoredOffsets,
        namespace: Namespace,
        out: &mut Outbox,
    ) {
        self.0.retain_mut(|commit| {
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
        if let Some(source) = offsets.failure() {
            let error = not_stored(namespace, FileName::Offsets, source);
            self.fail(&error, out);
        }
    }

    /// Answer the requests whose changes are not stored.
    pub(crate) fn fail(&mut self, error: &PartitionError, out: &mut Outbox) {
        for commit in self.0.drain(..) {
            let result = match commit.response {
                // The messages can be returned: losing the committed offset only repeats them after the next start.
                polled @ Response::Polled(_) => Ok(polled),
                _ => Err(error.clone()),
            };
            respond(out, commit.request_id, result);
        }
    }
}
