//! Differences between two versions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headrace_model::{StreamId, TopicId, UserId};

use crate::{Catalog, Stream};

/// Users and topics whose earlier checks have to be repeated for a newer version.
///
/// Unchanged records are shared between versions, so the comparison is one of pointers.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Changes {
    users: BTreeSet<UserId>,
    topics: BTreeSet<(StreamId, TopicId)>,
}

impl Changes {
    /// Return whether no user and no topic has changed.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.topics.is_empty()
    }

    /// Make the changes of a single user.
    pub fn of_user(user: UserId) -> Self {
        Self {
            users: BTreeSet::from([user]),
            topics: BTreeSet::new(),
        }
    }

    /// Return true if any user was created, deleted or changed.
    pub fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Return true if a user was created or deleted, or has different rights, tokens, status, password or name.
    pub fn has_user(&self, user: UserId) -> bool {
        self.users.contains(&user)
    }

    /// Return whether a topic was created or deleted, or has different partitions, consumer groups, settings or a new
    /// name; or whether its stream has.
    pub fn has_topic(&self, stream: StreamId, topic: TopicId) -> bool {
        self.topics.contains(&(stream, topic))
    }
}

impl Catalog {
    /// Return whether all placements are those of `other`, by comparison of pointers: false may be a false alarm.
    pub fn shares_placements_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.nodes, &other.nodes)
            && Arc::ptr_eq(&self.placements, &other.placements)
            && Arc::ptr_eq(&self.streams, &other.streams)
    }

    /// Compute the changes since `earlier`.
    pub fn changes_since(&self, earlier: &Self) -> Changes {
        let mut changes = Changes::default();
        compare(&earlier.users, &self.users, |id, _, _| {
            changes.users.insert(id);
        });
        compare(&earlier.groups, &self.groups, |topic, _, _| {
            changes.topics.insert(topic);
        });
        compare(&earlier.streams, &self.streams, |id, before, after| {
            for topic in changed_topics(before, after) {
                changes.topics.insert((id, topic));
            }
        });
        changes
    }
}

/// Call `each` for every record that differs.
fn compare<K: Ord + Copy, V>(
    earlier: &Arc<BTreeMap<K, Arc<V>>>,
    later: &Arc<BTreeMap<K, Arc<V>>>,
    mut each: impl FnMut(K, Option<&V>, Option<&V>),
) {
    if Arc::ptr_eq(earlier, later) {
        return;
    }
    for (key, after) in later.iter() {
        let before = earlier.get(key);
        if !before.is_some_and(|before| Arc::ptr_eq(before, after)) {
            each(*key, before.map(|before| &**before), Some(after));
        }
    }
    for (key, before) in earlier.iter() {
        if !later.contains_key(key) {
            each(*key, Some(before), None);
        }
    }
}

fn changed_topics(before: Option<&Stream>, after: Option<&Stream>) -> Vec<TopicId> {
    if let (Some(before), Some(after)) = (before, after)
        && (before.incarnation, &before.name) == (after.incarnation, &after.name)
    {
        let is_other = |topic: &Arc<_>, stream: &Stream, id| {
            !(stream.topic_by_id(id)).is_some_and(|other| Arc::ptr_eq(other, topic))
        };
        let gone = (before.topics()).filter(|topic| is_other(topic, after, topic.id));
        let new = (after.topics()).filter(|topic| is_other(topic, before, topic.id));
        return gone.chain(new).map(|topic| topic.id).collect();
    }
    // Requests name streams as well: all topics of the stream count as changed.
    let streams = before.into_iter().chain(after);
    streams
        .flat_map(|stream| stream.topics().map(|topic| topic.id))
        .collect()
}
