//! Messages and stored offsets: everything that a partition answers.

use std::{ops::Range, sync::Arc};

use headrace_buffer::Buffer;
use headrace_catalog::{Action, Topic, authorise};
use headrace_model::{Namespace, Offset, PartitionId};
use headrace_partition::{Batch, ConsumerKey, Poll, Request};
use headrace_wire::{
    ConsumerKind, Partitioning, SendMetadata, Status, batch,
    command::{
        ConsumerOffsetPath, FlushUnsavedBuffer, METADATA_PREFIX_BYTES_MAX, PollMessages,
        StoreConsumerOffset,
    },
};

use super::{Context, Handled, Outcome, topic_of};
use crate::{
    Shard,
    api::{ConnectionKey, Effect, Mail, Origin},
    connection::{Pipeline, SendRoute, Session, status_response},
    partitions::SmallBatch,
    tracer::TraceContext,
};

/// A batch that may be appended: validated, authorised, its partition chosen.
struct Prepared {
    namespace: Namespace,
    messages: Range<usize>,
    messages_count: u32,
}

impl Shard {
    /// A batch whose bytes stand in the receive buffer.
    pub(super) fn send_in_place(
        &mut self,
        key: ConnectionKey,
        session: &mut Session,
        pipeline: &mut Pipeline,
        payload: &mut [u8],
        effects: &mut Vec<Effect>,
    ) {
        let prepared = match self.prepare_send(session, payload) {
            Ok(prepared) => prepared,
            Err(status) => return pipeline.respond(status_response(status)),
        };
        let origin = self.begin_append(key, pipeline, payload, &prepared);
        let messages = &mut payload[prepared.messages];
        let namespace = prepared.namespace;
        let owner = self.partitions.owner(namespace);
        self.count_affinity(session, owner);
        if owner == self.config.shard {
            let appended = self.partitions.append_in_place(
                self.catalog.load(),
                origin,
                SmallBatch {
                    namespace,
                    messages: &mut *messages,
                    messages_count: prepared.messages_count,
                },
                self.now,
                effects,
            );
            if appended {
                return;
            }
        }
        let batch = match self.pool.acquire(messages.len()) {
            Ok(mut buffer) => {
                buffer.copy_from_slice(messages);
                Batch::new(buffer, 0..messages.len(), prepared.messages_count)
            }
            // At most the size of a receive buffer, and the batches of a connection are bounded.
            Err(_) => Batch::copied(messages, prepared.messages_count),
        };
        self.route(origin, namespace, Request::Append { batch }, effects);
    }

    /// A batch with a buffer of its own: appended from where it landed.
    pub(crate) fn send_owned(
        &mut self,
        key: ConnectionKey,
        session: &mut Session,
        pipeline: &mut Pipeline,
        payload: Buffer,
        effects: &mut Vec<Effect>,
    ) {
        match self.prepare_send(session, &payload) {
            Ok(prepared) => {
                let origin = self.begin_append(key, pipeline, &payload, &prepared);
                let Prepared {
                    namespace,
                    messages,
                    messages_count,
                } = prepared;
                self.count_affinity(session, self.partitions.owner(namespace));
                let batch = Batch::new(payload, messages, messages_count);
                self.route(origin, namespace, Request::Append { batch }, effects);
            }
            Err(status) => pipeline.respond(status_response(status)),
        }
    }

    fn begin_append(
        &self,
        key: ConnectionKey,
        pipeline: &mut Pipeline,
        payload: &[u8],
        prepared: &Prepared,
    ) -> Origin {
        self.meter.took(payload.len() as u64);
        if self.meter.tracer.is_on() && !pipeline.is_traced() {
            pipeline.trace(TraceContext::of_first(&payload[prepared.messages.clone()]));
        }
        Origin {
            shard: self.config.shard,
            connection: key,
            sequence: pipeline.begin_append(payload.len()),
            member: None,
            trace: pipeline.traced_last(),
        }
    }

    /// Every check of a send request, in the documented order.
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
            let stream = match metadata.stream {
                headrace_wire::Identifier::Numeric(id) => {
                    catalog.stream_by_id(headrace_model::StreamId(id))
                }
                headrace_wire::Identifier::Named(name) => catalog.stream_by_name(name),
            };
            let topic = topic_of(stream.ok_or(Status::STREAM_ID_NOT_FOUND)?, metadata.topic)
                .ok_or(Status::TOPIC_ID_NOT_FOUND)?;
            if !authorise(catalog, user, Action::Send(topic.stream_id, topic.id)) {
                return Err(Status::UNAUTHORIZED);
            }
            let route = SendRoute {
                metadata: destination.to_vec(),
                catalog_version: catalog.version(),
                user,
                topic: Arc::clone(topic),
            };
            &session.route.insert(route).topic
        };
        Ok(Prepared {
            namespace: choose_partition(topic, metadata.partitioning)?,
            messages: metadata.messages_range(payload.len()),
            messages_count: metadata.messages_count,
        })
    }

    /// Bring a request to the shard that owns its partition.
    pub(super) fn route(
        &mut self,
        origin: Origin,
        namespace: Namespace,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        let owner = self.partitions.owner(namespace);
        if owner == self.config.shard {
            let catalog = self.catalog.load();
            self.partitions
                .submit(catalog, origin, namespace, request, self.now, effects);
        } else {
            effects.push(Effect::Mail {
                to: owner,
                mail: Mail::Request {
                    origin,
                    namespace,
                    request,
                },
            });
        }
    }
}

fn choose_partition(topic: &Topic, partitioning: Partitioning<'_>) -> Result<Namespace, Status> {
    let partition = match partitioning {
        Partitioning::Balanced => topic.next_balanced().ok_or(Status::TOPIC_ID_NOT_FOUND)?,
        Partitioning::PartitionId(id) => topic
            .partition(PartitionId(id))
            .ok_or(Status::PARTITION_NOT_FOUND)?,
        Partitioning::MessagesKey(key) => {
            let id = Partitioning::partition_for_key(key, topic.partitions_count())
                .ok_or(Status::TOPIC_ID_NOT_FOUND)?;
            topic
                .partition(PartitionId(id))
                .ok_or(Status::PARTITION_NOT_FOUND)?
        }
    };
    Ok(partition.namespace)
}

/// What a partition is asked for, when any answer will do.
pub(super) fn poll_of(request: &PollMessages<'_>, consumer: ConsumerKey) -> Poll {
    Poll {
        strategy: request.strategy,
        count: request.count,
        consumer: Some(consumer),
        auto_commit: request.auto_commit,
        minimum_bytes: 0,
    }
}

/// A plain consumer that names no partition means partition 0.
pub(super) fn partition_of(topic: &Topic, partition_id: Option<u32>) -> Result<Namespace, Status> {
    topic
        .partition(PartitionId(partition_id.unwrap_or(0)))
        .map(|partition| partition.namespace)
        .ok_or(Status::PARTITION_NOT_FOUND)
}

impl Context<'_> {
    pub(super) fn poll_messages(&self, request: &PollMessages<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic)?;
        self.allow(Action::Poll(topic.stream_id, topic.id))?;
        if request.consumer.kind == ConsumerKind::Group {
            return self.poll_as_member(topic, request);
        }
        Ok(Outcome::Partition {
            namespace: partition_of(topic, request.partition_id)?,
            request: Request::Poll(poll_of(
                request,
                ConsumerKey::Consumer(request.consumer.key()),
            )),
        })
    }

    pub(super) fn flush_unsaved_buffer(&self, request: &FlushUnsavedBuffer<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic)?;
        self.allow(Action::Send(topic.stream_id, topic.id))?;
        Ok(Outcome::Partition {
            namespace: partition_of(topic, Some(request.partition_id))?,
            request: Request::Flush {
                fsync: request.fsync,
            },
        })
    }

    /// Whatever goes wrong here but the permission is an empty success: nothing is stored.
    pub(super) fn get_consumer_offset(&self, request: &ConsumerOffsetPath<'_>) -> Handled {
        let Some(topic) = self.find_topic(request.stream, request.topic) else {
            return Ok(Outcome::empty());
        };
        self.allow(Action::Poll(topic.stream_id, topic.id))?;
        let consumer = match request.consumer.kind {
            ConsumerKind::Consumer => Ok(ConsumerKey::Consumer(request.consumer.key())),
            ConsumerKind::Group => self.group_key(topic, request.consumer.id),
        };
        let found = consumer
            .and_then(|consumer| Ok((consumer, partition_of(topic, request.partition_id)?)));
        Ok(found.map_or_else(
            |_| Outcome::empty(),
            |(consumer, namespace)| Outcome::Partition {
                namespace,
                request: Request::GetOffset { consumer },
            },
        ))
    }

    pub(super) fn store_consumer_offset(&self, request: &StoreConsumerOffset<'_>) -> Handled {
        self.change_offset(&request.path, Some(Offset(request.offset)))
    }

    pub(super) fn delete_consumer_offset(&self, request: &ConsumerOffsetPath<'_>) -> Handled {
        self.change_offset(request, None)
    }

    fn change_offset(&self, path: &ConsumerOffsetPath<'_>, offset: Option<Offset>) -> Handled {
        let topic = self.topic(path.stream, path.topic)?;
        self.allow(Action::Poll(topic.stream_id, topic.id))?;
        if path.consumer.kind == ConsumerKind::Group {
            return self.change_offset_as_member(topic, path, offset);
        }
        let consumer = ConsumerKey::Consumer(path.consumer.key());
        Ok(Outcome::Partition {
            namespace: partition_of(topic, path.partition_id)?,
            request: match offset {
                Some(offset) => Request::StoreOffset { consumer, offset },
                None => Request::DeleteOffset { consumer },
            },
        })
    }
}
