//! Streams and topics that requests name, which need not exist: permission is asked first.

use std::sync::Arc;

use headrace_catalog::{Catalog, Stream, Topic};
use headrace_model::{StreamId, TopicId};
use headrace_wire::{Identifier, Status};

/// The numbers of names that nothing has. No stream and no topic gets these, so that rights to one are not for them.
pub(super) const NO_STREAM: StreamId = StreamId(u32::MAX);
pub(super) const NO_TOPIC: TopicId = TopicId(u32::MAX);

pub(super) fn find_stream<'a>(
    catalog: &'a Catalog,
    identifier: Identifier<'_>,
) -> Option<&'a Arc<Stream>> {
    match identifier {
        Identifier::Numeric(id) => catalog.stream_by_id(StreamId(id)),
        Identifier::Named(name) => catalog.stream_by_name(name),
    }
}

/// A topic that a request names, which need not exist.
pub(super) struct LookedUp<'a> {
    /// The numbers of both, or those that they would have: permission is asked for these.
    pub(super) stream: StreamId,
    pub(super) topic: TopicId,
    /// The topic, or which of the two is missing.
    pub(super) found: Result<&'a Arc<Topic>, Status>,
}

impl<'a> LookedUp<'a> {
    pub(super) fn new(catalog: &'a Catalog, stream: Identifier<'_>, topic: Identifier<'_>) -> Self {
        let found_stream = find_stream(catalog, stream);
        let found = find_topic(found_stream, topic);
        Self {
            stream: stream_number(stream, found_stream),
            topic: match (found, topic) {
                (Ok(found), _) => found.id,
                (Err(_), Identifier::Numeric(id)) => TopicId(id),
                (Err(_), Identifier::Named(_)) => NO_TOPIC,
            },
            found,
        }
    }
}

/// A topic, or which of the two is missing.
pub(super) fn find_topic<'a>(
    stream: Option<&'a Arc<Stream>>,
    topic: Identifier<'_>,
) -> Result<&'a Arc<Topic>, Status> {
    topic_of(stream.ok_or(Status::STREAM_ID_NOT_FOUND)?, topic).ok_or(Status::TOPIC_ID_NOT_FOUND)
}

/// The number of a stream, or the one that it would have.
pub(super) fn stream_number(identifier: Identifier<'_>, found: Option<&Arc<Stream>>) -> StreamId {
    match (found, identifier) {
        (Some(stream), _) => stream.id,
        (None, Identifier::Numeric(id)) => StreamId(id),
        (None, Identifier::Named(_)) => NO_STREAM,
    }
}

/// A topic of `stream`.
fn topic_of<'a>(stream: &'a Stream, topic: Identifier<'_>) -> Option<&'a Arc<Topic>> {
    match topic {
        Identifier::Numeric(id) => stream.topic_by_id(TopicId(id)),
        Identifier::Named(name) => stream.topic_by_name(name),
    }
}
