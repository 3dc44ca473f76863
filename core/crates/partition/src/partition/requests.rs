//! Requests of an open partition.

use headrace_log::storage::FileName;
use headrace_log::{AppendError, PlanId};
use headrace_model::{Offset, Timestamp};

use super::Partition;
use crate::api::{
    Committer, ConsumerKey, Outbox, PartitionError, Request, RequestId, Response, StoredOffset,
    respond,
};
use crate::plan;
use crate::polls::last_visible;
use crate::stages::stage::Chunk;

impl Partition {
    /// Handle a request of an open partition.
    pub(super) fn handle(
        &mut self,
        now: Timestamp,
        request_id: RequestId,
        request: Request,
        out: &mut Outbox,
    ) {
        match request {
            Request::Append { batch } => {
                let bytes = batch.size_bytes();
                if let Some(error) = self.withheld() {
                    return respond(out, request_id, Err(error));
                }
                let is_held = self.stages.publishing.holds_appends();
                let appended = if is_held && self.log.failure().is_none() {
                    Err(AppendError::Busy)
                } else {
                    self.log.append(now, batch)
                };
                let visible_end = self.log.visible_end();
                (self.appends).acknowledge(request_id, bytes, appended, visible_end, out);
            }
            Request::Stage {
                stage,
                lifetime_micros,
                chunk,
                is_last,
                batch,
            } => {
                let chunk = Chunk {
                    stage,
                    lifetime_micros,
                    number: chunk,
                    is_last,
                    batch,
                };
                self.stage(now, request_id, chunk, out);
            }
            Request::Poll(poll) => self.polling().begin(request_id, poll, out),
            Request::PlanRange(range) => {
                (self.log).plan(PlanId(request_id.0), range, &mut out.storage);
                plan::settle(&mut self.log, out);
            }
            Request::GetOffset { consumer } => {
                let stored = self.offsets.get(consumer).map(|stored| StoredOffset {
                    current: last_visible(&self.log),
                    stored,
                });
                respond(out, request_id, Ok(Response::Offset(stored)));
            }
            Request::StoreOffset {
                consumer,
                offset,
                by,
            } => {
                if offset >= self.log.visible_end() {
                    let error = PartitionError::InvalidOffset { requested: offset };
                    return respond(out, request_id, Err(error));
                }
                self.change_offset(request_id, consumer, Some(offset), by, out);
            }
            Request::DeleteOffset { consumer, by } => {
                if self.offsets.get(consumer).is_none() {
                    return respond(out, request_id, Err(PartitionError::OffsetNotFound));
                }
                self.change_offset(request_id, consumer, None, by, out);
            }
            Request::Flush { fsync } => {
                if let Some(failure) = self.log.failure() {
                    let error = PartitionError::Failed(failure.clone());
                    return respond(out, request_id, Err(error));
                }
                self.flushes.begin(request_id, fsync, &mut self.log);
            }
            Request::DeleteSegments { count } => {
                // Removal is allowed during a lack of space, because it frees some.
                let failure = self.log.failure().filter(|_| !self.log.is_out_of_space());
                if let Some(failure) = failure {
                    let error = PartitionError::Failed(failure.clone());
                    return respond(out, request_id, Err(error));
                }
                let barrier = self.offsets.smallest();
                (self.removals).begin(request_id, count, barrier, &mut self.log);
            }
        }
    }

    fn change_offset(
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
        let durability = self.log.config().durability;
        let synced = durability.awaits_offset_sync();
        let answer = (request_id, Response::Done);
        (self.commits).answer(&mut self.offsets, durability, answer, change, synced, out);
    }
}
