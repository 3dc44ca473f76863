//! Conversion of whole versions to and from snapshots.

use std::sync::Arc;

use headrace_model::{GroupId, StreamId, Timestamp, TopicId, UserId};
use headrace_proto::catalog::v1;

use crate::{ApplyError, Catalog};

impl Catalog {
    /// Build a catalog from a snapshot alone: every counter starts anew.
    pub fn from_snapshot(snapshot: &v1::Snapshot) -> Result<Self, ApplyError> {
        Self::default().replaced_by(snapshot)
    }

    /// Return the version in `snapshot`, whatever the present version is.
    ///
    /// Partitions and topics of the same incarnation keep their statistics and balancing counters, members of consumer
    /// groups their rotation, and users and topics what they owe, because the shards refer to them.
    pub fn replaced_by(&self, snapshot: &v1::Snapshot) -> Result<Self, ApplyError> {
        let mut next = Self {
            version: snapshot.version,
            ..Self::default()
        };
        for stream in &snapshot.streams {
            next.put_stream(stream)?;
        }
        for topic in &snapshot.topics {
            let previous = self
                .stream_by_id(StreamId(topic.stream_id))
                .and_then(|stream| stream.topic_by_id(TopicId(topic.id)));
            next.put_topic(topic, previous.map(Arc::as_ref))?;
        }
        for user in &snapshot.users {
            let previous = self.user_by_id(UserId(user.id));
            next.put_user(user, previous.map(Arc::as_ref))?;
        }
        for token in &snapshot.access_tokens {
            next.put_token(token)?;
        }
        for group in &snapshot.consumer_groups {
            let previous = self.group(
                StreamId(group.stream_id),
                TopicId(group.topic_id),
                GroupId(group.id),
            );
            next.put_group(group, previous.map(Arc::as_ref))?;
        }
        for node in &snapshot.nodes {
            next.put_node(node)?;
        }
        for placement in &snapshot.topic_placements {
            next.put_placement(placement)?;
        }
        for publication in &snapshot.publications {
            next.put_publication(publication)?;
        }
        for stages in &snapshot.aborted_stages {
            next.put_aborted_stages(stages)?;
        }
        Ok(next)
    }

    /// Encode this version as a snapshot, ascending by id. Revoked logins are not part of it, because this catalog does
    /// not keep them.
    pub fn to_snapshot(&self) -> v1::Snapshot {
        v1::Snapshot {
            version: self.version,
            streams: self
                .streams()
                .map(|stream| v1::Stream {
                    id: stream.id.0,
                    name: stream.name.to_string(),
                    created_at_micros: stream.created_at.0,
                    incarnation: stream.incarnation,
                })
                .collect(),
            topics: self.topics().map(|topic| topic.to_record()).collect(),
            users: self.users().map(|user| user.to_record()).collect(),
            access_tokens: self
                .users()
                .flat_map(|user| {
                    user.tokens().map(|token| v1::AccessToken {
                        user_id: user.id.0,
                        name: token.name.to_string(),
                        expires_at_micros: token.expires_at.map_or(0, |Timestamp(micros)| micros),
                        incarnation: token.incarnation,
                    })
                })
                .collect(),
            consumer_groups: self.groups().map(|group| group.to_record()).collect(),
            nodes: self.nodes().map(|node| node.to_record()).collect(),
            topic_placements: self
                .placements()
                .map(|placement| placement.to_record())
                .collect(),
            revoked_logins: Vec::new(),
            publications: self
                .publications()
                .map(|(namespace, stages)| stages.to_publication(namespace))
                .collect(),
            aborted_stages: self
                .aborted_stages()
                .map(|(namespace, stages)| stages.to_aborted(namespace))
                .collect(),
        }
    }
}
