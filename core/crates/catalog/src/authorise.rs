//! Evaluation of permissions. All permission checks go through this module.

use headrace_model::{StreamId, TopicId, UserId};

use crate::{Catalog, GlobalRights, Permissions, StreamRights, TopicRights};

/// Action of a user, as fine-grained as permissions distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reading statistics and diagnostics, listing clients.
    ReadServers,
    /// Disconnecting clients.
    ManageServers,
    /// Reading users other than oneself.
    ReadUsers,
    /// Creating, changing and deleting users.
    ManageUsers,
    /// Listing streams.
    ListStreams,
    /// Reading one stream.
    ReadStream(StreamId),
    /// Creating a stream.
    CreateStream,
    /// Renaming, purging and deleting a stream.
    ManageStream(StreamId),
    /// Listing the topics of a stream.
    ListTopics(StreamId),
    /// Reading a topic, and all operations on its consumer groups.
    ReadTopic(StreamId, TopicId),
    /// Creating a topic.
    CreateTopic(StreamId),
    /// Changing, purging and deleting a topic, its partitions and segments.
    ManageTopic(StreamId, TopicId),
    /// Polling, and all operations on stored offsets.
    Poll(StreamId, TopicId),
    /// Sending and flushing.
    Send(StreamId, TopicId),
}

/// Return whether `user` may perform `action`.
///
/// Root may perform every action. A user that does not exist or has no permissions may perform none. Whether the user
/// is active is checked for the session: see [`Catalog::accepts`].
pub fn authorise(catalog: &Catalog, user: UserId, action: Action) -> bool {
    user == UserId::ROOT
        || catalog
            .user_by_id(user)
            .and_then(|user| user.permissions.as_ref())
            .is_some_and(|permissions| permissions.grant(action))
}

/// Return whether `user` may perform `action` on the user `target`. No permission is needed for oneself.
///
/// Used for reading a user ([`Action::ReadUsers`]) and changing a password ([`Action::ManageUsers`]).
pub fn authorise_unless_self(
    catalog: &Catalog,
    user: UserId,
    target: UserId,
    action: Action,
) -> bool {
    user == target || authorise(catalog, user, action)
}

/// Rights each of which is sufficient for an action.
#[derive(Clone, Copy)]
pub(crate) struct AnyOf {
    global: GlobalRights,
    stream: StreamRights,
    topic: TopicRights,
}

impl AnyOf {
    const fn global(global: GlobalRights) -> Self {
        Self {
            global,
            stream: StreamRights::NONE,
            topic: TopicRights::NONE,
        }
    }

    const fn or_global(self, global: GlobalRights) -> Self {
        Self {
            global: self.global.or(global),
            ..self
        }
    }

    const fn or_stream(self, stream: StreamRights) -> Self {
        Self {
            stream: self.stream.or(stream),
            ..self
        }
    }

    const fn or_topic(self, topic: TopicRights) -> Self {
        Self {
            topic: self.topic.or(topic),
            ..self
        }
    }
}

// The predicates, each built from the one that it extends: managing implies reading, and reading the surrounding object
// implies reading the inner one. Reading implies polling; only managing implies sending.
const READ_SERVERS: AnyOf =
    AnyOf::global(GlobalRights::MANAGE_SERVERS.or(GlobalRights::READ_SERVERS));
const MANAGE_SERVERS: AnyOf = AnyOf::global(GlobalRights::MANAGE_SERVERS);
const MANAGE_USERS: AnyOf = AnyOf::global(GlobalRights::MANAGE_USERS);
const READ_USERS: AnyOf = MANAGE_USERS.or_global(GlobalRights::READ_USERS);
const CREATE_STREAM: AnyOf = AnyOf::global(GlobalRights::MANAGE_STREAMS);
const LIST_STREAMS: AnyOf = CREATE_STREAM.or_global(GlobalRights::READ_STREAMS);
const READ_STREAM: AnyOf =
    LIST_STREAMS.or_stream(StreamRights::MANAGE_STREAM.or(StreamRights::READ_STREAM));
const MANAGE_STREAM: AnyOf = CREATE_STREAM.or_stream(StreamRights::MANAGE_STREAM);
const CREATE_TOPIC: AnyOf = MANAGE_STREAM
    .or_global(GlobalRights::MANAGE_TOPICS)
    .or_stream(StreamRights::MANAGE_TOPICS);
const LIST_TOPICS: AnyOf = READ_STREAM
    .or_global(GlobalRights::MANAGE_TOPICS.or(GlobalRights::READ_TOPICS))
    .or_stream(StreamRights::MANAGE_TOPICS.or(StreamRights::READ_TOPICS));
const READ_TOPIC: AnyOf =
    LIST_TOPICS.or_topic(TopicRights::MANAGE_TOPIC.or(TopicRights::READ_TOPIC));
const MANAGE_TOPIC: AnyOf = CREATE_TOPIC.or_topic(TopicRights::MANAGE_TOPIC);
const POLL: AnyOf = READ_TOPIC
    .or_global(GlobalRights::POLL_MESSAGES)
    .or_stream(StreamRights::POLL_MESSAGES)
    .or_topic(TopicRights::POLL_MESSAGES);
const SEND: AnyOf = MANAGE_TOPIC
    .or_global(GlobalRights::SEND_MESSAGES)
    .or_stream(StreamRights::SEND_MESSAGES)
    .or_topic(TopicRights::SEND_MESSAGES);

/// All predicates.
pub(crate) const PREDICATES: [AnyOf; 14] = [
    READ_SERVERS,
    MANAGE_SERVERS,
    MANAGE_USERS,
    READ_USERS,
    CREATE_STREAM,
    LIST_STREAMS,
    READ_STREAM,
    MANAGE_STREAM,
    CREATE_TOPIC,
    LIST_TOPICS,
    READ_TOPIC,
    MANAGE_TOPIC,
    POLL,
    SEND,
];

impl Permissions {
    /// Return whether these permissions grant `action`.
    pub fn grant(&self, action: Action) -> bool {
        match action {
            Action::ReadServers => self.grant_any(READ_SERVERS, None, None),
            Action::ManageServers => self.grant_any(MANAGE_SERVERS, None, None),
            Action::ReadUsers => self.grant_any(READ_USERS, None, None),
            Action::ManageUsers => self.grant_any(MANAGE_USERS, None, None),
            Action::ListStreams => self.grant_any(LIST_STREAMS, None, None),
            Action::CreateStream => self.grant_any(CREATE_STREAM, None, None),
            Action::ReadStream(stream) => self.grant_any(READ_STREAM, Some(stream), None),
            Action::ManageStream(stream) => self.grant_any(MANAGE_STREAM, Some(stream), None),
            Action::ListTopics(stream) => self.grant_any(LIST_TOPICS, Some(stream), None),
            Action::CreateTopic(stream) => self.grant_any(CREATE_TOPIC, Some(stream), None),
            Action::ReadTopic(stream, topic) => {
                self.grant_any(READ_TOPIC, Some(stream), Some(topic))
            }
            Action::ManageTopic(stream, topic) => {
                self.grant_any(MANAGE_TOPIC, Some(stream), Some(topic))
            }
            Action::Poll(stream, topic) => self.grant_any(POLL, Some(stream), Some(topic)),
            Action::Send(stream, topic) => self.grant_any(SEND, Some(stream), Some(topic)),
        }
    }

    pub(crate) fn grant_any(
        &self,
        any: AnyOf,
        stream: Option<StreamId>,
        topic: Option<TopicId>,
    ) -> bool {
        if self.global.has_any(any.global) {
            return true;
        }
        let Some(stream) = stream.and_then(|id| self.streams.get(&id)) else {
            return false;
        };
        stream.rights.has_any(any.stream)
            || topic
                .and_then(|id| stream.topics.get(&id))
                .is_some_and(|rights| rights.has_any(any.topic))
    }
}
