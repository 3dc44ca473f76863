//! What is different between two versions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headrace_model::{StreamId, TopicId, UserId};

use crate::{Catalog, Stream};

/// What has to be looked at again by whoever has judged something by an earlier version.
///
/// Records that did not change are the same in both, so that this costs a comparison of pointers for each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Changes {
    users: BTreeSet<UserId>,
    topics: BTreeSet<(StreamId, TopicId)>,
}

impl Changes {
    /// Whether nothing that anybody looks at has changed.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.topics.is_empty()
    }

    /// Changes of one user alone.
    pub fn of_user(user: UserId) -> Self {
        Self {
            users: BTreeSet::from([user]),
            topics: BTreeSet::new(),
        }
    }

    /// Returns true when any user came, went, or was changed.
    pub fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Returns true when a user came, went, or has other rights, tokens, another status, password or name.
    pub fn has_user(&self, user: UserId) -> bool {
        self.users.contains(&user)
    }

    /// Whether a topic came, went, or has other partitions, consumer groups, settings or a new name; or its stream has.
    pub fn has_topic(&self, stream: StreamId, topic: TopicId) -> bool {
        self.topics.contains(&(stream, topic))
    }
}

impl Catalog {
    /// Whether everything is where it is in `other`, as far as can be told without looking closely.
    pub fn is_placed_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.nodes, &other.nodes)
            && Arc::ptr_eq(&self.placements, &other.placements)
            && Arc::ptr_eq(&self.streams, &other.streams)
    }

    /// What is different from `earlier`.
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

/// Calls `each` for what is not the same in both.
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
    // Requests name streams as well: all of it is another.
    let streams = before.into_iter().chain(after);
    streams
        .flat_map(|stream| stream.topics().map(|topic| topic.id))
        .collect()
}
