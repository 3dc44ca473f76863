//! Consumer groups: the catalogue knows none yet, so every answer is the one for a group that does not exist.

use headrace_catalog::Action;
use headrace_wire::{
    Status,
    command::{CreateConsumerGroup, GroupPath, TopicPath},
};

use super::{Context, Handled, Outcome};

impl Context<'_> {
    /// Nothing found is an empty success, whether the topic or the group is missing.
    pub(super) fn get_consumer_group(&self, request: &GroupPath<'_>) -> Handled {
        if let Some(topic) = self.find_topic(request.stream, request.topic) {
            self.allow(Action::ReadTopic(topic.stream_id, topic.id))?;
        }
        Ok(Outcome::empty())
    }

    pub(super) fn get_consumer_groups(&self, request: &TopicPath<'_>) -> Handled {
        if let Some(topic) = self.find_topic(request.stream, request.topic) {
            self.allow(Action::ReadTopic(topic.stream_id, topic.id))?;
        }
        Ok(Outcome::empty())
    }

    pub(super) fn create_consumer_group(&self, request: &CreateConsumerGroup<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic)?;
        self.allow(Action::ReadTopic(topic.stream_id, topic.id))?;
        Err(Status::FEATURE_UNAVAILABLE)
    }

    /// Delete, join, leave: stream, then topic, then group.
    pub(super) fn unknown_group(&self, request: &GroupPath<'_>) -> Handled {
        self.topic(request.stream, request.topic)?;
        Err(Status::CONSUMER_GROUP_ID_NOT_FOUND)
    }
}
