//! Flushes that wait for a write, or a sync.

use alloc::vec::Vec;

use headrace_log::Log;
use headrace_model::Offset;

use crate::api::{Outbox, PartitionError, RequestId, Response, respond};

#[derive(Debug, Default)]
pub(crate) struct Flushes(Vec<PendingFlush>);

#[derive(Debug)]
struct PendingFlush {
    request_id: RequestId,
    target: Offset,
    fsync: bool,
}

impl Flushes {
    /// Have the log write everything, and answer when it has.
    pub(crate) fn begin(&mut self, request_id: RequestId, fsync: bool, log: &mut Log) {
        log.flush(fsync);
        self.0.push(PendingFlush {
            request_id,
            target: log.next_offset(),
            fsync,
        });
    }

    /// Answer the flushes that are complete.
    pub(crate) fn settle(&mut self, log: &Log, out: &mut Outbox) {
        self.0.retain(|flush| {
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
    }

    /// Answer all flushes.
    pub(crate) fn end(&mut self, result: &Result<Response, PartitionError>, out: &mut Outbox) {
        for flush in self.0.drain(..) {
            respond(out, flush.request_id, result.clone());
        }
    }
}
