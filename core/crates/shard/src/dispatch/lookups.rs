//! Lookup of streams and topics that requests name and that need not exist: permission is checked first.

use std::sync::Arc;

use headrace_catalog::{Catalog, Stream, Topic};
use headrace_model::{StreamId, TopicId};
use headrace_wire::{Identifier, Status};

/// Placeholder ids for unknown names. No stream or topic gets these ids, so a permission on a single one never matches.
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

/// Result of looking up a topic that need not exist.
pub(super) struct LookedUp<'a> {
    /// Ids of the stream and the topic, or those that they would have. Permission is checked for these.
    pub(super) stream: StreamId,
    pub(super) topic: TopicId,
    /// Topic, or the status for whichever of the two is missing.
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

/// Return a topic, or the status for whichever of the two is missing.
pub(super) fn find_topic<'a>(
    stream: Option<&'a Arc<Stream>>,
    topic: Identifier<'_>,
) -> Result<&'a Arc<Topic>, Status> {
    topic_of(stream.ok_or(Status::STREAM_ID_NOT_FOUND)?, topic).ok_or(Status::TOPIC_ID_NOT_FOUND)
}

/// Return the id of a stream, or the one that it would have.
pub(super) fn stream_number(identifier: Identifier<'_>, found: Option<&Arc<Stream>>) -> StreamId {
    match (found, identifier) {
        (Some(stream), _) => stream.id,
        (None, Identifier::Numeric(id)) => StreamId(id),
        (None, Identifier::Named(_)) => NO_STREAM,
    }
}

/// Return a topic of `stream`.
fn topic_of<'a>(stream: &'a Stream, topic: Identifier<'_>) -> Option<&'a Arc<Topic>> {
    match topic {
        Identifier::Numeric(id) => stream.topic_by_id(TopicId(id)),
        Identifier::Named(name) => stream.topic_by_name(name),
    }
}
