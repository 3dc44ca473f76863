//! Messages and stored offsets: all requests that a partition answers.

use std::{ops::Range, sync::Arc};

use headrace_catalog::{Action, Partition, Rate, Topic};
use headrace_model::{Namespace, Offset, PartitionId};
use headrace_partition::{Committer, ConsumerKey, Poll, Request};
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
    moment::Moment,
    sessions::connection::{SendRoute, Session},
};

/// A validated and authorised batch with its partition.
pub(crate) struct Prepared {
    pub(crate) namespace: Namespace,
    pub(crate) messages: Range<usize>,
    pub(crate) messages_count: u32,
    /// Rate of the topic, if it has a quota.
    pub(crate) rate: Option<Arc<Rate>>,
}

/// Perform every check of a send request, in the documented order.
pub(crate) fn prepare_send(
    moment: Moment<'_>,
    session: &mut Session,
    payload: &[u8],
) -> Result<Prepared, Status> {
    let user = session
        .current_user(moment)
        .ok_or(Status::UNAUTHENTICATED)?;
    let payload_bytes = u32::try_from(payload.len()).map_err(|_| Status::INVALID_COMMAND)?;
    let prefix = &payload[..payload.len().min(METADATA_PREFIX_BYTES_MAX)];
    let metadata = SendMetadata::decode_prefix(prefix, payload_bytes)?;
    let request = metadata.with_payload(payload)?;
    batch::validate(request.indexes, request.messages, request.messages_count)?;

    let catalog = moment.catalog;
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
