//! Staged messages of transactions, which are invisible until the commit.

use std::sync::Arc;

use headrace_buffer::BufferPool;
use headrace_catalog::{Action, Rate};
use headrace_model::{Namespace, PartitionId, StageId, limits};
use headrace_partition::{Batch, Request};
use headrace_ticket::Access;
use headrace_wire::{Command, Partitioning, Status, batch, command::StageMessages};

use super::{Context, Handled, Outcome, STAGE_MESSAGES, holders};
use crate::{
    hosting::copy_batch,
    moment::Moment,
    sessions::{connection::Session, registry::ClientRegistry},
};

const MICROS_PER_SECOND: u64 = 1_000_000;
/// Default lifetime of a staged batch, after which it cannot be committed.
const LIFETIME_SECONDS: u32 = 24 * 60 * 60;

/// A validated and authorised chunk.
pub(crate) struct Prepared {
    pub(crate) namespace: Namespace,
    pub(crate) stage: Option<StageId>,
    pub(crate) lifetime_micros: u64,
    pub(crate) chunk: u32,
    pub(crate) is_last: bool,
    pub(crate) messages_bytes: usize,
    pub(crate) messages_count: u32,
    /// Rate of the topic, if it has a quota.
    pub(crate) rate: Option<Arc<Rate>>,
}

impl Prepared {
    pub(crate) fn request(self, batch: Batch) -> Request {
        Request::Stage {
            stage: self.stage,
            lifetime_micros: self.lifetime_micros,
            chunk: self.chunk,
            is_last: self.is_last,
            batch,
        }
    }
}

impl Context<'_> {
    /// Store a chunk whose bytes are in the receive buffer.
    pub(super) fn stage_messages(&self, request: &StageMessages<'_>, pool: &BufferPool) -> Handled {
        let prepared = self.prepare_stage(request)?;
        let messages = request.batch.messages;
        let batch = copy_batch(pool, messages, prepared.messages_count);
        Ok(Outcome::Partition {
            member: None,
            namespace: prepared.namespace,
            rate: prepared.rate.clone(),
            request: prepared.request(batch),
        })
    }

    /// Perform the checks of a send request, except that the partition is always named and the last chunk may be empty.
    fn prepare_stage(&self, request: &StageMessages<'_>) -> Result<Prepared, Status> {
        let sent = &request.batch;
        let is_end = request.is_last && sent.messages_count == 0 && sent.messages.is_empty();
        if !is_end {
            batch::validate(sent.indexes, sent.messages, sent.messages_count)?;
        }
        let Partitioning::PartitionId(partition_id) = sent.partitioning else {
            return Err(Status::INVALID_COMMAND);
        };
        let topic = self.topic(sent.stream, sent.topic, Action::Send)?;
        let partition = topic
            .partition(PartitionId(partition_id))
            .ok_or(Status::PARTITION_NOT_FOUND)?;
        holders::check_ticket_access(self.ticket.as_ref(), topic, partition, Access::WRITE)?;
        let lifetime = match request.lifetime_seconds {
            0 => LIFETIME_SECONDS,
            seconds => seconds.min(limits::STAGE_LIFETIME_SECONDS_MAX),
        };
        Ok(Prepared {
            namespace: partition.namespace,
            stage: (request.stage != 0).then_some(StageId(request.stage)),
            lifetime_micros: u64::from(lifetime) * MICROS_PER_SECOND,
            chunk: request.chunk,
            is_last: request.is_last,
            messages_bytes: sent.messages.len(),
            messages_count: sent.messages_count,
            rate: topic.rates.sent.clone(),
        })
    }
}

pub(crate) fn prepare_owned(
    moment: Moment<'_>,
    clients: &ClientRegistry,
    session: &Session,
    payload: &[u8],
) -> Result<Prepared, Status> {
    let user = session
        .current_user(moment)
        .ok_or(Status::UNAUTHENTICATED)?;
    let Command::StageMessages(request) = Command::decode(STAGE_MESSAGES, payload)? else {
        return Err(Status::INVALID_COMMAND);
    };
    let context = Context::new(moment, clients, session, user);
    context.prepare_stage(&request)
}
