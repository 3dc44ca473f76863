//! A stream and the topics in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_model::{StreamId, Timestamp, TopicId};
use headrace_wire::Identifier;

use crate::{Topic, Totals};

/// A stream: a name and the topics in it.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Id on the wire; reused after a deletion.
    pub id: StreamId,
    /// Name, unique on the server, compared byte for byte.
    pub name: Arc<str>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Incarnation, never reused: distinguishes this stream from a deleted one with the same id.
    pub incarnation: u64,
    topics: BTreeMap<TopicId, Arc<Topic>>,
    topic_names: BTreeMap<Arc<str>, TopicId>,
}

impl Stream {
    /// Make a stream without name and topics.
    pub(crate) fn new(id: StreamId, incarnation: u64) -> Self {
        Self {
            id,
            name: Arc::default(),
            created_at: Timestamp(0),
            incarnation,
            topics: BTreeMap::new(),
            topic_names: BTreeMap::new(),
        }
    }

    /// Find a topic by id or by name.
    pub fn topic(&self, identifier: &Identifier<'_>) -> Option<&Arc<Topic>> {
        match *identifier {
            Identifier::Numeric(id) => self.topic_by_id(TopicId(id)),
            Identifier::Named(name) => self.topic_by_name(name),
        }
    }

    /// Find a topic by id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    /// Find a topic by its exact name.
    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(self.topic_names.get(name)?)
    }

    /// All topics, ascending by id.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// Number of topics.
    pub fn topics_count(&self) -> usize {
        self.topics.len()
    }

    /// Current totals over the partitions of all topics.
    pub fn totals(&self) -> Totals {
        self.topics().map(|topic| topic.totals()).sum()
    }

    /// Insert or replace a topic. The name must be free or the topic's own; `Err` contains its owner.
    pub(crate) fn put_topic(&mut self, topic: Topic) -> Result<(), TopicId> {
        if let Some(&owner) = self.topic_names.get(&topic.name)
            && owner != topic.id
        {
            return Err(owner);
        }
        self.remove_topic(topic.id);
        self.topic_names.insert(Arc::clone(&topic.name), topic.id);
        self.topics.insert(topic.id, Arc::new(topic));
        Ok(())
    }

    pub(crate) fn remove_topic(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.remove(&id) {
            self.topic_names.remove(&topic.name);
        }
    }
}
