//! Messages and stored offsets: all requests that a partition answers.

use std::{ops::Range, sync::Arc};

use headrace_buffer::Buffer;
use headrace_catalog::{Action, Partition, Rate, Topic};
use headrace_link::TraceContext;
use headrace_model::{Namespace, Offset, PartitionId};
use headrace_partition::{Batch, Committer, ConsumerKey, Poll, Request};
use headrace_ticket::Access;
use headrace_wire::{
    ConsumerKind, Partitioning, SendMetadata, Status, batch,
    command::{
        ConsumerOffsetPath, FlushUnsavedBuffer, METADATA_PREFIX_BYTES_MAX, PollMessages,
        StoreConsumerOffset,
    },
};

use super::{Context, Handled, Outcome, holders, lookups::LookedUp};
use crate::{
    Shard,
    api::{Effect, Mail, Origin, PartitionCall},
    hosting::BorrowedBatch,
    owner::Owner,
    sessions::{
        catching_up::may_be_stale_catalog,
        connection::{Pipeline, Requester, SendRoute, Session},
    },
};

/// A validated and authorised batch with its partition.
struct Prepared {
    namespace: Namespace,
    messages: Range<usize>,
    messages_count: u32,
    /// Rate of the topic, if it has a quota.
    rate: Option<Arc<Rate>>,
}

impl Shard {
    /// Send a batch whose bytes are in the receive buffer. Returns false if it stays there to be tried again.
    pub(super) fn send_in_place(
        &mut self,
        requester: &mut Requester<'_>,
        payload: &mut [u8],
        effects: &mut Vec<Effect>,
    ) -> bool {
        let mut prepared = match self.prepare_send(requester.session, payload) {
            Ok(prepared) => prepared,
            Err(status) => {
                return self.refuse_append(
                    requester,
                    super::SEND_MESSAGES,
                    payload,
                    status,
                    effects,
                );
            }
        };
        let Some(origin) = self.begin_append(requester, payload, &mut prepared, effects) else {
            return false;
        };
        let namespace = prepared.namespace;
        let owner = self.owner(namespace);
        self.count_affinity(requester.session, owner);
        let batch = BorrowedBatch {
            messages: &mut payload[prepared.messages],
            messages_count: prepared.messages_count,
        };
        if owner == Owner::Here {
            let call = PartitionCall {
                origin,
                namespace,
                request: batch,
            };
            let catalog = self.catalog.load();
            self.partitions.append(catalog, call, self.now, effects);
        } else {
            let batch = batch.copy(self.memory.pool());
            let call = PartitionCall {
                origin,
                namespace,
                request: Request::Append { batch },
            };
            self.route(requester.pipeline, owner, call, effects);
        }
        true
    }

    /// Send a batch with a buffer of its own, without copying it. Returns the buffer if the batch is to be tried again.
    pub(crate) fn send_owned(
        &mut self,
        requester: &mut Requester<'_>,
        payload: Buffer,
        effects: &mut Vec<Effect>,
    ) -> Option<Buffer> {
        let mut prepared = match self.prepare_send(requester.session, &payload) {
            Ok(prepared) => prepared,
            Err(status) => {
                let taken =
                    self.refuse_append(requester, super::SEND_MESSAGES, &payload, status, effects);
                return (!taken).then_some(payload);
            }
        };
        let Some(origin) = self.begin_append(requester, &payload, &mut prepared, effects) else {
            return Some(payload);
        };
        let Prepared {
            namespace,
            messages,
            messages_count,
            ..
        } = prepared;
        let owner = self.owner(namespace);
        self.count_affinity(requester.session, owner);
        let batch = Batch::new(payload, messages, messages_count);
        let call = PartitionCall {
            origin,
            namespace,
            request: Request::Append { batch },
        };
        self.route(requester.pipeline, owner, call, effects);
        None
    }

    /// Answer a batch that is refused. Returns false if it is to be tried again with a newer catalog instead.
    pub(super) fn refuse_append(
        &mut self,
        requester: &mut Requester<'_>,
        code: u32,
        payload: &[u8],
        status: Status,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let key = requester.key;
        if may_be_stale_catalog(status) && self.catches_up(key, requester.session, effects) {
            return false;
        }
        self.note_refusal(requester.session, code, status, effects);
        self.refuse(requester, code, payload, status);
        true
    }

    /// Begin an append; `None` if it waits because of the quota of its topic.
    fn begin_append(
        &mut self,
        requester: &mut Requester<'_>,
        payload: &[u8],
        prepared: &mut Prepared,
        effects: &mut Vec<Effect>,
    ) -> Option<Origin> {
        let topic = (prepared.namespace.stream(), prepared.namespace.topic());
        let (code, rate) = (super::SEND_MESSAGES, prepared.rate.take());
        if !self.pay(requester, code, topic, rate, payload.len(), effects) {
            return None;
        }
        self.meter.took(payload.len() as u64);
        let pipeline = &mut *requester.pipeline;
        if self.meter.tracer.is_on() && !pipeline.is_traced() {
            pipeline.trace(TraceContext::of_first(&payload[prepared.messages.clone()]));
        }
        Some(requester.begin_append(payload.len()))
    }

    /// Perform every check of a send request, in the documented order.
    fn prepare_send(&mut self, session: &mut Session, payload: &[u8]) -> Result<Prepared, Status> {
        let user = self.current_user(session).ok_or(Status::UNAUTHENTICATED)?;
        let payload_bytes = u32::try_from(payload.len()).map_err(|_| Status::INVALID_COMMAND)?;
        let prefix = &payload[..payload.len().min(METADATA_PREFIX_BYTES_MAX)];
        let metadata = SendMetadata::decode_prefix(prefix, payload_bytes)?;
        let request = metadata.with_payload(payload)?;
        batch::validate(request.indexes, request.messages, request.messages_count)?;

        let catalog = self.catalog.load();
        let destination = &payload[..metadata.metadata_bytes - size_of::<u32>()];
        let known = session
            .route
            .as_ref()
            .filter(|route| route.matches(destination, catalog.version(), user));
        let topic = if let Some(route) = known {
            &route.topic
        } else {
            let looked_up = LookedUp::new(catalog, metadata.stream, metadata.topic);
            let action = Action::Send(looked_up.stream, looked_up.topic);
            if !holders::may(catalog, user, session.ticket.as_ref(), action) {
                return Err(Status::UNAUTHORIZED);
            }
            let topic = looked_up.found?;
            let route = SendRoute {
                metadata: destination.to_vec(),
                catalog_version: catalog.version(),
                user,
                topic: Arc::clone(topic),
            };
            &session.route.insert(route).topic
        };
        let partition = choose_partition(topic, metadata.partitioning)?;
        holders::check_ticket_access(session.ticket.as_ref(), topic, partition, Access::WRITE)?;
        Ok(Prepared {
            namespace: partition.namespace,
            messages: metadata.messages_range(payload.len()),
            messages_count: metadata.messages_count,
            rate: topic.rates.sent.clone(),
        })
    }

    /// Route a call to the owner of its partition.
    pub(super) fn route(
        &mut self,
        pipeline: &Pipeline,
        owner: Owner,
        call: PartitionCall,
        effects: &mut Vec<Effect>,
    ) {
        if call.origin.trace.is_some() {
            self.routing.links.trace(pipeline.context_last());
        }
        self.route_mail(owner, Mail::Call(call), effects);
    }
}

fn choose_partition<'a>(
    topic: &'a Topic,
    partitioning: Partitioning<'_>,
) -> Result<&'a Partition, Status> {
    match partitioning {
        Partitioning::Balanced => topic.next_balanced().ok_or(Status::TOPIC_ID_NOT_FOUND),
        Partitioning::PartitionId(id) => topic
            .partition(PartitionId(id))
            .ok_or(Status::PARTITION_NOT_FOUND),
        Partitioning::MessagesKey(key) => {
            let id = Partitioning::partition_for_key(key, topic.partitions_count())
                .ok_or(Status::TOPIC_ID_NOT_FOUND)?;
            topic
                .partition(PartitionId(id))
                .ok_or(Status::PARTITION_NOT_FOUND)
        }
    }
}

/// Build the partition's poll for a request that accepts any answer.
pub(super) fn poll_of(
    request: &PollMessages<'_>,
    consumer: ConsumerKey,
    by: Option<Committer>,
) -> Poll {
    Poll {
        strategy: request.strategy,
        count: request.count,
        consumer: Some(consumer),
        auto_commit: request.auto_commit,
        by,
        minimum_bytes: 0,
        bytes_max: Poll::UNLIMITED,
    }
}

/// Build the request that stores (`Some`) or deletes an offset.
pub(super) fn offset_change(
    consumer: ConsumerKey,
    offset: Option<Offset>,
    by: Option<Committer>,
) -> Request {
    match offset {
        Some(offset) => Request::StoreOffset {
            consumer,
            offset,
            by,
        },
        None => Request::DeleteOffset { consumer, by },
    }
}

impl Context<'_> {
    /// Return the partition of a request; a consumer outside a group that names none means partition 0.
    pub(super) fn place_of(
        &self,
        topic: &Topic,
        partition_id: Option<u32>,
        wanted: Access,
    ) -> Result<Namespace, Status> {
        let partition = topic
            .partition(PartitionId(partition_id.unwrap_or(0)))
            .ok_or(Status::PARTITION_NOT_FOUND)?;
        holders::check_ticket_access(self.ticket.as_ref(), topic, partition, wanted)?;
        Ok(partition.namespace)
    }

    pub(super) fn poll_messages(&self, request: &PollMessages<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::Poll)?;
        if request.consumer.kind == ConsumerKind::Group {
            return self.poll_as_member(topic, request);
        }
        Ok(Outcome::Partition {
            member: None,
            namespace: self.place_of(topic, request.partition_id, Access::READ)?,
            request: Request::Poll(self.plain_poll(topic, request)),
            rate: topic.rates.read.clone(),
        })
    }

    /// Build the poll of a plain consumer.
    pub(super) fn plain_poll(&self, topic: &Topic, request: &PollMessages<'_>) -> Poll {
        let consumer = ConsumerKey::Consumer(request.consumer.key());
        let by = if request.auto_commit {
            self.committer(topic)
        } else {
            None
        };
        poll_of(request, consumer, by)
    }

    /// Return whose the offset of a plain consumer becomes. The holder of a ticket is its issuer, without the right to
    /// manage; a service that issued a ticket to itself is no user.
    fn committer(&self, topic: &Topic) -> Option<Committer> {
        let user = match &self.ticket {
            Some(ticket) => ticket.issuer()?,
            None => self.user,
        };
        let manage = Action::ManageTopic(topic.stream_id, topic.id);
        Some(Committer {
            user,
            manages: self.allow(manage).is_ok(),
        })
    }

    pub(super) fn flush_unsaved_buffer(&self, request: &FlushUnsavedBuffer<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::Send)?;
        Ok(Outcome::Partition {
            member: None,
            namespace: self.place_of(topic, Some(request.partition_id), Access::WRITE)?,
            request: Request::Flush {
                fsync: request.fsync,
            },
            rate: None,
        })
    }

    /// Returns an empty success for every error except missing permission: no offset is stored.
    pub(super) fn get_consumer_offset(&self, request: &ConsumerOffsetPath<'_>) -> Handled {
        let found = self.topic_if(request.stream, request.topic, Action::Poll)?;
        let Some(topic) = found else {
            return Ok(Outcome::Missing);
        };
        let consumer = match request.consumer.kind {
            ConsumerKind::Consumer => Ok(ConsumerKey::Consumer(request.consumer.key())),
            ConsumerKind::Group => self.group_key(topic, request.consumer.id),
        };
        let place = self.place_of(topic, request.partition_id, Access::READ);
        match (consumer, place) {
            (Ok(consumer), Ok(namespace)) => Ok(Outcome::Partition {
                member: None,
                namespace,
                request: Request::GetOffset { consumer },
                rate: None,
            }),
            (_, Err(Status::UNAUTHORIZED)) => Err(Status::UNAUTHORIZED),
            _ => Ok(Outcome::Missing),
        }
    }

    pub(super) fn store_consumer_offset(&self, request: &StoreConsumerOffset<'_>) -> Handled {
        self.change_offset(&request.path, Some(Offset(request.offset)))
    }

    pub(super) fn delete_consumer_offset(&self, request: &ConsumerOffsetPath<'_>) -> Handled {
        self.change_offset(request, None)
    }

    fn change_offset(&self, path: &ConsumerOffsetPath<'_>, offset: Option<Offset>) -> Handled {
        let topic = self.topic(path.stream, path.topic, Action::Poll)?;
        if path.consumer.kind == ConsumerKind::Group {
            return self.change_offset_as_member(topic, path, offset);
        }
        let consumer = ConsumerKey::Consumer(path.consumer.key());
        Ok(Outcome::Partition {
            member: None,
            namespace: self.place_of(topic, path.partition_id, Access::READ)?,
            request: offset_change(consumer, offset, self.committer(topic)),
            rate: None,
        })
    }
}
