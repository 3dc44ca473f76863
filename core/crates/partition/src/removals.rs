//! Requests to remove segments, which wait for syncs and for the storage.

use alloc::vec::Vec;

use headrace_log::{Log, RemovalProgress};
use headrace_model::{Offset, Timestamp};

use crate::api::{Outbox, PartitionError, RequestId, Response, respond};

#[derive(Debug, Default)]
pub(crate) struct Removals(Vec<PendingRemoval>);

#[derive(Debug)]
struct PendingRemoval {
    request_id: RequestId,
    begun: RemovalProgress,
}

impl Removals {
    /// Remove that many segments up to the barrier, and answer when they are gone.
    pub(crate) fn begin(
        &mut self,
        request_id: RequestId,
        count: u32,
        barrier: Option<Offset>,
        log: &mut Log,
    ) {
        log.retry_removals();
        let begun = log.delete_segments(count, barrier);
        self.0.push(PendingRemoval { request_id, begun });
    }

    /// Continue removals that waited for segments to be synced.
    pub(crate) fn advance(
        &mut self,
        now: Timestamp,
        barrier: Option<Offset>,
        log: &mut Log,
        out: &mut Outbox,
    ) {
        for removal in &mut self.0 {
            if removal.begun.remaining == 0 {
                continue;
            }
            let before = removal.begun;
            removal.begun = log.delete_segments(before.remaining, barrier);
            if removal.begun.sequence != before.sequence {
                log.end_of_turn(now, &mut out.storage);
            }
        }
    }

    /// Answer the removals that are complete.
    pub(crate) fn settle(&mut self, log: &Log, out: &mut Outbox) {
        self.0.retain(|removal| {
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
    }

    /// Answer all removals with an error.
    pub(crate) fn fail(&mut self, error: &PartitionError, out: &mut Outbox) {
        for removal in self.0.drain(..) {
            respond(out, removal.request_id, Err(error.clone()));
        }
    }
}
