//! One immutable version of what exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_model::{ClientKey, GroupId, NodeId, StreamId, TopicId, UserId};
use headrace_wire::Identifier;

use crate::stages::StagesByPartition;
use crate::{
    AccessToken, Group, Node, Partition, Stream, Topic, TopicGroups, TopicPlacement, User,
};

/// One version of the catalogue. Cloning is cheap: everything below is shared until it changes.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub(crate) version: u64,
    pub(crate) streams: Arc<BTreeMap<StreamId, Arc<Stream>>>,
    pub(crate) stream_names: Arc<BTreeMap<Arc<str>, StreamId>>,
    pub(crate) users: Arc<BTreeMap<UserId, Arc<User>>>,
    pub(crate) user_names: Arc<BTreeMap<Arc<str>, UserId>>,
    /// Of topics that have any. Beside the topics, so that a member that comes or goes leaves these alone.
    pub(crate) groups: Arc<BTreeMap<(StreamId, TopicId), Arc<TopicGroups>>>,
    pub(crate) nodes: Arc<BTreeMap<NodeId, Arc<Node>>>,
    /// Of all topics as soon as a node was ever registered, of none before.
    pub(crate) placements: Arc<BTreeMap<(StreamId, TopicId), Arc<TopicPlacement>>>,
    /// Of partitions that have any. Beside the topics, so that a commit leaves these alone.
    pub(crate) publications: StagesByPartition,
    /// The same of what is given up.
    pub(crate) aborted_stages: StagesByPartition,
}

impl Catalog {
    /// The version: grows by 1 with every command that changed something; 0 is the empty catalogue.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The stream that a client names by number or by name.
    pub fn stream(&self, identifier: &Identifier<'_>) -> Option<&Arc<Stream>> {
        match *identifier {
            Identifier::Numeric(id) => self.stream_by_id(StreamId(id)),
            Identifier::Named(name) => self.stream_by_name(name),
        }
    }

    /// The stream of this number.
    pub fn stream_by_id(&self, id: StreamId) -> Option<&Arc<Stream>> {
        self.streams.get(&id)
    }

    /// The stream of exactly this name.
    pub fn stream_by_name(&self, name: &str) -> Option<&Arc<Stream>> {
        self.streams.get(self.stream_names.get(name)?)
    }

    /// Every stream, ascending by number.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &Arc<Stream>> {
        self.streams.values()
    }

    /// Every topic of every stream, ascending by number.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.streams().flat_map(|stream| stream.topics())
    }

    /// Every partition with its topic, ascending by number.
    pub fn partitions(&self) -> impl Iterator<Item = (&Arc<Topic>, &Partition)> {
        self.topics().flat_map(|topic| {
            topic
                .partitions
                .iter()
                .map(move |partition| (topic, partition))
        })
    }

    /// The user that a client names by number or by name.
    pub fn user(&self, identifier: &Identifier<'_>) -> Option<&Arc<User>> {
        match *identifier {
            Identifier::Numeric(id) => self.user_by_id(UserId(id)),
            Identifier::Named(name) => self.user_by_name(name),
        }
    }

    /// The user of this number.
    pub fn user_by_id(&self, id: UserId) -> Option<&Arc<User>> {
        self.users.get(&id)
    }

    /// The user of exactly this name.
    pub fn user_by_name(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(self.user_names.get(name)?)
    }

    /// Every user, ascending by number.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// The consumer groups of a topic; `None` when it has none.
    pub fn groups_of(&self, stream: StreamId, topic: TopicId) -> Option<&Arc<TopicGroups>> {
        self.groups.get(&(stream, topic))
    }

    /// The consumer group of these numbers.
    pub fn group(&self, stream: StreamId, topic: TopicId, group: GroupId) -> Option<&Arc<Group>> {
        self.groups_of(stream, topic)?.by_id(group)
    }

    /// Every consumer group of every topic, ascending by number.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values().flat_map(|groups| groups.iter())
    }

    /// The consumer groups of which a connection is a member, ascending by number.
    pub fn groups_of_client(&self, client: ClientKey) -> impl Iterator<Item = &Arc<Group>> {
        self.groups()
            .filter(move |group| group.member(client).is_some())
    }

    /// The partition node of this number.
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// Every partition node, ascending by number.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// Where the partitions of a topic are; `None`: on this very server.
    pub fn placement_of(&self, stream: StreamId, topic: TopicId) -> Option<&Arc<TopicPlacement>> {
        self.placements.get(&(stream, topic))
    }

    /// Every placement, ascending by number of stream and topic.
    pub fn placements(&self) -> impl ExactSizeIterator<Item = &Arc<TopicPlacement>> {
        self.placements.values()
    }

    /// The access tokens of a user, ascending by name; nothing for a user who does not exist.
    pub fn tokens_of(&self, user: UserId) -> impl Iterator<Item = &AccessToken> {
        self.user_by_id(user)
            .into_iter()
            .flat_map(|user| user.tokens())
    }
}
