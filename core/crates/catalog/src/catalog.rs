//! One immutable version of the catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_model::{ClientKey, GroupId, NodeId, StreamId, TopicId, UserId};
use headrace_wire::Identifier;

use crate::stages::StagesByPartition;
use crate::{
    AccessToken, Group, Node, Partition, Stream, Topic, TopicGroups, TopicPlacement, User,
};

/// One version of the catalog. Cloning is cheap: all records are shared until they change.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub(crate) version: u64,
    pub(crate) streams: Arc<BTreeMap<StreamId, Arc<Stream>>>,
    pub(crate) stream_names: Arc<BTreeMap<Arc<str>, StreamId>>,
    pub(crate) users: Arc<BTreeMap<UserId, Arc<User>>>,
    pub(crate) user_names: Arc<BTreeMap<Arc<str>, UserId>>,
    /// Consumer groups of the topics that have any. Kept apart from the topics, so that a change of members leaves
    /// those shared.
    pub(crate) groups: Arc<BTreeMap<(StreamId, TopicId), Arc<TopicGroups>>>,
    pub(crate) nodes: Arc<BTreeMap<NodeId, Arc<Node>>>,
    /// Placements of all topics, as soon as a node was ever registered; empty before.
    pub(crate) placements: Arc<BTreeMap<(StreamId, TopicId), Arc<TopicPlacement>>>,
    /// Pending publications of the partitions that have any. Kept apart from the topics, so that a commit leaves those
    /// shared.
    pub(crate) publications: StagesByPartition,
    /// Aborted stages of the partitions that have any.
    pub(crate) aborted_stages: StagesByPartition,
}

impl Catalog {
    /// Version number: grows by 1 with every command that changed anything; 0 is the empty catalog.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Find a stream by id or by name.
    pub fn stream(&self, identifier: &Identifier<'_>) -> Option<&Arc<Stream>> {
        match *identifier {
            Identifier::Numeric(id) => self.stream_by_id(StreamId(id)),
            Identifier::Named(name) => self.stream_by_name(name),
        }
    }

    /// Find a stream by id.
    pub fn stream_by_id(&self, id: StreamId) -> Option<&Arc<Stream>> {
        self.streams.get(&id)
    }

    /// Find a stream by its exact name.
    pub fn stream_by_name(&self, name: &str) -> Option<&Arc<Stream>> {
        self.streams.get(self.stream_names.get(name)?)
    }

    /// All streams, ascending by id.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &Arc<Stream>> {
        self.streams.values()
    }

    /// All topics of all streams, ascending by id.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.streams().flat_map(|stream| stream.topics())
    }

    /// All partitions with their topics, ascending by id.
    pub fn partitions(&self) -> impl Iterator<Item = (&Arc<Topic>, &Partition)> {
        self.topics().flat_map(|topic| {
            topic
                .partitions
                .iter()
                .map(move |partition| (topic, partition))
        })
    }

    /// Find a user by id or by name.
    pub fn user(&self, identifier: &Identifier<'_>) -> Option<&Arc<User>> {
        match *identifier {
            Identifier::Numeric(id) => self.user_by_id(UserId(id)),
            Identifier::Named(name) => self.user_by_name(name),
        }
    }

    /// Find a user by id.
    pub fn user_by_id(&self, id: UserId) -> Option<&Arc<User>> {
        self.users.get(&id)
    }

    /// Find a user by its exact name.
    pub fn user_by_name(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(self.user_names.get(name)?)
    }

    /// All users, ascending by id.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// Consumer groups of a topic; `None` if it has none.
    pub fn groups_of(&self, stream: StreamId, topic: TopicId) -> Option<&Arc<TopicGroups>> {
        self.groups.get(&(stream, topic))
    }

    /// Find a consumer group by its ids.
    pub fn group(&self, stream: StreamId, topic: TopicId, group: GroupId) -> Option<&Arc<Group>> {
        self.groups_of(stream, topic)?.by_id(group)
    }

    /// All consumer groups of all topics, ascending by id.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values().flat_map(|groups| groups.iter())
    }

    /// Consumer groups of which a connection is a member, ascending by id.
    pub fn groups_of_client(&self, client: ClientKey) -> impl Iterator<Item = &Arc<Group>> {
        self.groups()
            .filter(move |group| group.member(client).is_some())
    }

    /// Find a partition node by id.
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// All partition nodes, ascending by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// Placement of a topic's partitions; `None` if they are on this very server.
    pub fn placement_of(&self, stream: StreamId, topic: TopicId) -> Option<&Arc<TopicPlacement>> {
        self.placements.get(&(stream, topic))
    }

    /// All placements, ascending by stream and topic id.
    pub fn placements(&self) -> impl ExactSizeIterator<Item = &Arc<TopicPlacement>> {
        self.placements.values()
    }

    /// Access tokens of a user, ascending by name; empty if the user does not exist.
    pub fn tokens_of(&self, user: UserId) -> impl Iterator<Item = &AccessToken> {
        self.user_by_id(user)
            .into_iter()
            .flat_map(|user| user.tokens())
    }
}
