//! Application of updates: from one version to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_model::limits::STREAMS_MAX;
use headrace_model::{GroupId, NodeId, PartitionId, StreamId, Timestamp, TopicId, UserId};
use headrace_proto::catalog::v1::{self, delta::Change};

use crate::{Catalog, Group, Stream, Topic, TopicGroups, User};

/// An update or snapshot that cannot be applied. The catalog stays unchanged; request a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Updates were lost, repeated or reordered.
    #[error("the catalog is at version {current}, the update makes version {update}")]
    VersionGap {
        /// Version to which the update was to be applied.
        current: u64,
        /// Version that the update produces.
        update: u64,
    },
    /// The kind of a change is unknown to this build.
    #[error("version {update} has a change of an unknown kind")]
    UnknownChange {
        /// Version that the update produces.
        update: u64,
    },
    /// A topic whose stream does not exist.
    #[error("topic {topic_id} belongs to stream {stream_id}, which does not exist")]
    UnknownStream {
        /// Missing stream.
        stream_id: StreamId,
        /// The topic.
        topic_id: TopicId,
    },
    /// An access token whose owner does not exist.
    #[error("access token {name:?} belongs to user {user_id}, who does not exist")]
    UnknownUser {
        /// Missing user.
        user_id: UserId,
        /// Name of the token.
        name: String,
    },
    /// A name is taken by another object of the same scope.
    #[error("the name {name:?} is taken by number {owner}")]
    DuplicateName {
        /// The name.
        name: String,
        /// Id of the object that has this name.
        owner: u32,
    },
    /// A stream with an invalid record.
    #[error("stream {stream_id}: {reason}")]
    InvalidStream {
        /// The stream.
        stream_id: StreamId,
        /// Reason.
        reason: &'static str,
    },
    /// A topic with an invalid record.
    #[error("stream {stream_id}, topic {topic_id}: {reason}")]
    InvalidTopic {
        /// The stream.
        stream_id: StreamId,
        /// The topic.
        topic_id: TopicId,
        /// Reason.
        reason: &'static str,
    },
    /// A consumer group with an invalid record, or whose topic does not exist.
    #[error("stream {stream_id}, topic {topic_id}, consumer group {group_id}: {reason}")]
    InvalidGroup {
        /// The stream.
        stream_id: StreamId,
        /// The topic.
        topic_id: TopicId,
        /// The group.
        group_id: GroupId,
        /// Reason.
        reason: &'static str,
    },
    /// A partition node with an invalid record.
    #[error("partition node {node_id}: {reason}")]
    InvalidNode {
        /// The node.
        node_id: NodeId,
        /// Reason.
        reason: &'static str,
    },
    /// A placement of a topic that does not exist.
    #[error("stream {stream_id}, topic {topic_id} is placed and does not exist")]
    UnknownTopic {
        /// Stream of the topic.
        stream_id: StreamId,
        /// The topic.
        topic_id: TopicId,
    },
    /// Staged messages with an invalid record, or whose partition does not exist.
    #[error("stages of stream {stream_id}, topic {topic_id}, partition {partition_id}: {reason}")]
    InvalidStages {
        /// The stream.
        stream_id: StreamId,
        /// The topic.
        topic_id: TopicId,
        /// The partition.
        partition_id: PartitionId,
        /// Reason.
        reason: &'static str,
    },
    /// A user with an invalid record.
    #[error("user {user_id}: {reason}")]
    InvalidUser {
        /// The user.
        user_id: UserId,
        /// Reason.
        reason: &'static str,
    },
}

impl Catalog {
    /// Return the next version. Deleting a missing object is not an error: a deletion includes the objects inside, so
    /// the deltas of one command may overlap.
    pub fn apply(&self, update: &v1::Update) -> Result<Self, ApplyError> {
        if self.version.checked_add(1) != Some(update.version) {
            return Err(ApplyError::VersionGap {
                current: self.version,
                update: update.version,
            });
        }
        let mut next = self.clone();
        next.version = update.version;
        for delta in &update.deltas {
            let Some(change) = &delta.change else {
                return Err(ApplyError::UnknownChange {
                    update: update.version,
                });
            };
            next.apply_change(change)?;
        }
        Ok(next)
    }

    fn apply_change(&mut self, change: &Change) -> Result<(), ApplyError> {
        match change {
            Change::StreamPut(record) => self.put_stream(record)?,
            Change::StreamDeleted(id) => {
                self.remove_stream(StreamId(*id));
                self.remove_topic_parts(|stream, _| stream == StreamId(*id));
            }
            Change::TopicPut(record) => {
                let previous = self
                    .stream_by_id(StreamId(record.stream_id))
                    .and_then(|stream| stream.topic_by_id(TopicId(record.id)))
                    .map(Arc::clone);
                self.put_topic(record, previous.as_deref())?;
            }
            Change::TopicDeleted(key) => {
                let (stream_id, topic_id) = (StreamId(key.stream_id), TopicId(key.topic_id));
                if let Some(stream) = self.stream_mut(stream_id) {
                    stream.remove_topic(topic_id);
                }
                self.remove_topic_parts(|stream, topic| (stream, topic) == (stream_id, topic_id));
            }
            Change::UserPut(record) => {
                let previous = self.user_by_id(UserId(record.id)).map(Arc::clone);
                self.put_user(record, previous.as_deref())?;
            }
            Change::UserDeleted(id) => self.remove_user(UserId(*id)),
            Change::AccessTokenPut(record) => self.put_token(record)?,
            Change::AccessTokenDeleted(key) => {
                if let Some(user) = self.user_mut(UserId(key.user_id)) {
                    user.remove_token(&key.name);
                }
            }
            Change::ConsumerGroupPut(record) => {
                let previous = self
                    .group(
                        StreamId(record.stream_id),
                        TopicId(record.topic_id),
                        GroupId(record.id),
                    )
                    .map(Arc::clone);
                self.put_group(record, previous.as_deref())?;
            }
            Change::ConsumerGroupDeleted(key) => self.remove_group(
                (StreamId(key.stream_id), TopicId(key.topic_id)),
                GroupId(key.group_id),
            ),
            Change::NodePut(record) => self.put_node(record)?,
            Change::NodeDeleted(id) => self.remove_node(NodeId(*id)),
            Change::TopicPlacementPut(record) => self.put_placement(record)?,
            // Used only by listeners that accept login tokens; the sessions served here never rest on one.
            Change::RevokedLoginPut(_) | Change::RevokedLoginDeleted(_) => {}
            Change::PublicationPut(record) => self.put_publication(record)?,
            Change::PublicationsDeleted(key) => self.remove_publications(key)?,
            Change::AbortedStagesPut(record) => self.put_aborted_stages(record)?,
            Change::AbortedStagesDeleted(key) => self.remove_aborted_stages(key)?,
        }
        Ok(())
    }

    pub(crate) fn put_stream(&mut self, record: &v1::Stream) -> Result<(), ApplyError> {
        let id = StreamId(record.id);
        if id.0 >= STREAMS_MAX {
            return Err(ApplyError::InvalidStream {
                stream_id: id,
                reason: "its number exceeds the range",
            });
        }
        if let Some(&owner) = self.stream_names.get(record.name.as_str())
            && owner != id
        {
            return Err(ApplyError::DuplicateName {
                name: record.name.clone(),
                owner: owner.0,
            });
        }
        let name: Arc<str> = Arc::from(record.name.as_str());
        let previous = self
            .stream_by_id(id)
            .filter(|stream| stream.incarnation == record.incarnation);
        let mut stream = previous.map_or_else(
            || Stream::new(id, record.incarnation),
            |stream| Stream::clone(stream),
        );
        if previous.is_none() {
            self.remove_topic_parts(|stream, _| stream == id);
        }
        stream.name = Arc::clone(&name);
        stream.created_at = Timestamp(record.created_at_micros);
        self.remove_stream(id);
        Arc::make_mut(&mut self.stream_names).insert(name, id);
        Arc::make_mut(&mut self.streams).insert(id, Arc::new(stream));
        Ok(())
    }

    /// Insert or replace a topic. State that outlives a version is taken from `previous`.
    pub(crate) fn put_topic(
        &mut self,
        record: &v1::Topic,
        previous: Option<&Topic>,
    ) -> Result<(), ApplyError> {
        let topic = Topic::from_record(record, previous)?;
        if previous.is_none_or(|previous| previous.incarnation != topic.incarnation) {
            let gone = (topic.stream_id, topic.id);
            self.remove_topic_parts(|stream, topic| (stream, topic) == gone);
        }
        let Some(stream) = self.stream_mut(topic.stream_id) else {
            return Err(ApplyError::UnknownStream {
                stream_id: topic.stream_id,
                topic_id: topic.id,
            });
        };
        stream
            .put_topic(topic)
            .map_err(|owner| ApplyError::DuplicateName {
                name: record.name.clone(),
                owner: owner.0,
            })
    }

    pub(crate) fn put_user(
        &mut self,
        record: &v1::User,
        previous: Option<&User>,
    ) -> Result<(), ApplyError> {
        let id = UserId(record.id);
        if let Some(&owner) = self.user_names.get(record.username.as_str())
            && owner != id
        {
            return Err(ApplyError::DuplicateName {
                name: record.username.clone(),
                owner: owner.0,
            });
        }
        let known = self.user_by_id(id).map(Arc::as_ref);
        let user = User::from_record(record, known, previous)?;
        self.remove_user(id);
        Arc::make_mut(&mut self.user_names).insert(Arc::clone(&user.username), id);
        Arc::make_mut(&mut self.users).insert(id, Arc::new(user));
        Ok(())
    }

    pub(crate) fn put_token(&mut self, record: &v1::AccessToken) -> Result<(), ApplyError> {
        let user_id = UserId(record.user_id);
        self.user_mut(user_id)
            .ok_or_else(|| ApplyError::UnknownUser {
                user_id,
                name: record.name.clone(),
            })?
            .put_token(record);
        Ok(())
    }

    /// Insert or replace a consumer group. State that outlives a version is taken from `previous`.
    pub(crate) fn put_group(
        &mut self,
        record: &v1::ConsumerGroup,
        previous: Option<&Group>,
    ) -> Result<(), ApplyError> {
        let group = Group::from_record(record, previous)?;
        let topic = (group.stream_id, group.topic_id);
        let exists = self
            .stream_by_id(topic.0)
            .is_some_and(|stream| stream.topic_by_id(topic.1).is_some());
        if !exists {
            return Err(group.invalid("its topic does not exist"));
        }
        let groups = Arc::make_mut(&mut self.groups).entry(topic).or_default();
        Arc::make_mut(groups)
            .put(group)
            .map_err(|owner| ApplyError::DuplicateName {
                name: record.name.clone(),
                owner: owner.0,
            })
    }

    fn remove_group(&mut self, topic: (StreamId, TopicId), id: GroupId) {
        // Look up before `make_mut`: an unchanged map must stay shared.
        if self.group(topic.0, topic.1, id).is_none() {
            return;
        }
        let groups = Arc::make_mut(&mut self.groups);
        if let Some(of_topic) = groups.get_mut(&topic) {
            let of_topic = Arc::make_mut(of_topic);
            of_topic.remove(id);
            if of_topic.is_empty() {
                groups.remove(&topic);
            }
        }
    }

    /// Remove the objects of topics that are kept in maps of their own.
    fn remove_topic_parts(&mut self, of: impl Fn(StreamId, TopicId) -> bool) {
        if self
            .groups
            .keys()
            .any(|(stream, topic)| of(*stream, *topic))
        {
            let groups: &mut BTreeMap<(StreamId, TopicId), Arc<TopicGroups>> =
                Arc::make_mut(&mut self.groups);
            groups.retain(|(stream, topic), _| !of(*stream, *topic));
        }
        self.remove_placements(&of);
        self.remove_stages(&of);
    }

    fn remove_stream(&mut self, id: StreamId) {
        if self.streams.contains_key(&id)
            && let Some(stream) = Arc::make_mut(&mut self.streams).remove(&id)
        {
            Arc::make_mut(&mut self.stream_names).remove(&stream.name);
        }
    }

    fn remove_user(&mut self, id: UserId) {
        if self.users.contains_key(&id)
            && let Some(user) = Arc::make_mut(&mut self.users).remove(&id)
        {
            Arc::make_mut(&mut self.user_names).remove(&user.username);
        }
    }

    fn stream_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        // Look up before `make_mut`: an unchanged map must stay shared.
        self.streams.get(&id)?;
        Arc::make_mut(&mut self.streams)
            .get_mut(&id)
            .map(Arc::make_mut)
    }

    fn user_mut(&mut self, id: UserId) -> Option<&mut User> {
        self.users.get(&id)?;
        Arc::make_mut(&mut self.users)
            .get_mut(&id)
            .map(Arc::make_mut)
    }
}
