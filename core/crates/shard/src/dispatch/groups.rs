//! Consumer groups: their commands, and requests of their members to partitions.

use std::sync::Arc;

use headrace_catalog::{Action, Group, Member, Topic};
use headrace_model::{ClientKey, Namespace, Offset, PartitionId};
use headrace_partition::{ConsumerKey, Request};
use headrace_proto::metadata::v1::{
    self as metadata,
    command::{Meant, Operation},
};
use headrace_wire::{
    Identifier, Status,
    command::{ConsumerOffsetPath, CreateConsumerGroup, GroupPath, PollMessages, TopicPath},
    response::{AssignedPartition, Membership},
};

use super::{
    Context, Handled, Outcome, check_new_name,
    messages::{offset_change, poll_of},
};
use crate::hosting::members::membership;

impl Context<'_> {
    /// Returns an empty success if the topic or the group does not exist.
    pub(super) fn get_consumer_group(&self, request: &GroupPath<'_>) -> Handled {
        let found = self.topic_if(request.stream, request.topic, Action::ReadTopic)?;
        let Some(group) = found.and_then(|topic| self.group(topic, request.group).ok()) else {
            return Ok(Outcome::Missing);
        };
        Ok(Outcome::payload(|out| group.details().encode(out)))
    }

    pub(super) fn get_consumer_groups(&self, request: &TopicPath<'_>) -> Handled {
        let found = self.topic_if(request.stream, request.topic, Action::ReadTopic)?;
        let Some(topic) = found else {
            return Ok(Outcome::Missing);
        };
        let groups = self.catalog.groups_of(topic.stream_id, topic.id);
        Ok(Outcome::payload(|out| {
            for group in groups.iter().flat_map(|groups| groups.iter()) {
                group.header().encode(out);
            }
        }))
    }

    pub(super) fn create_consumer_group(&self, request: &CreateConsumerGroup<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::ReadTopic)?;
        check_new_name(request.name, "")?;
        let command = metadata::CreateConsumerGroup {
            stream_id: topic.stream_id.0,
            topic_id: topic.id.0,
            name: request.name.to_owned(),
            // Set by the gateway.
            revocation_timeout_micros: 0,
            is_owned: true,
        };
        Ok(self.propose_on(topic, Operation::CreateConsumerGroup(command)))
    }

    pub(super) fn delete_consumer_group(&self, request: &GroupPath<'_>) -> Handled {
        let group = self.group_to_change(request)?;
        if !group.is_free_to(self.user) {
            self.topic(request.stream, request.topic, Action::ManageTopic)?;
        }
        let command = metadata::DeleteConsumerGroup {
            stream_id: group.stream_id.0,
            topic_id: group.topic_id.0,
            group_id: group.id.0,
        };
        Ok(self.propose_about(group, Operation::DeleteConsumerGroup(command)))
    }

    pub(super) fn join_consumer_group(&self, request: &GroupPath<'_>) -> Handled {
        let group = self.group_to_change(request)?;
        let command = metadata::JoinConsumerGroup {
            stream_id: group.stream_id.0,
            topic_id: group.topic_id.0,
            group_id: group.id.0,
            client_id: self.client.0,
            // Set by the gateway, which knows how long it may be silent.
            gateway: None,
        };
        Ok(self.propose_about(group, Operation::JoinConsumerGroup(command)))
    }

    pub(super) fn leave_consumer_group(&self, request: &GroupPath<'_>) -> Handled {
        let group = self.group_to_change(request)?;
        let command = metadata::LeaveConsumerGroup {
            stream_id: group.stream_id.0,
            topic_id: group.topic_id.0,
            group_id: group.id.0,
            gateway_id: self.moment.config.gateway,
            client_id: self.client.0,
        };
        Ok(self.propose_about(group, Operation::LeaveConsumerGroup(command)))
    }

    /// Return the partitions that this connection owns as a member, according to the current catalog.
    pub(super) fn get_membership(&self, request: &GroupPath<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::Poll)?;
        let (_, member) = self.membership(topic, request.group)?;
        let membership = Membership {
            member_id: member.id,
            partitions: (member.partitions.iter())
                .map(|partition| AssignedPartition {
                    partition_id: partition.0,
                    is_leaving: member.revocation(*partition).is_some(),
                })
                .collect(),
        };
        Ok(Outcome::payload(|out| membership.encode(out)))
    }

    /// Propose a command about a group, with the precondition that its number was not reused.
    fn propose_about(&self, group: &Group, operation: Operation) -> Outcome {
        self.command(Some(Meant::GroupKey(group.key)), operation)
    }

    /// Check permission first, followed by stream, topic and group.
    fn group_to_change(&self, request: &GroupPath<'_>) -> Result<&Arc<Group>, Status> {
        let topic = self.topic(request.stream, request.topic, Action::ReadTopic)?;
        self.group(topic, request.group)
    }

    fn group(&self, topic: &Topic, group: Identifier<'_>) -> Result<&Arc<Group>, Status> {
        self.catalog
            .groups_of(topic.stream_id, topic.id)
            .and_then(|groups| groups.named(&group))
            .ok_or(Status::CONSUMER_GROUP_ID_NOT_FOUND)
    }

    /// Return the group that a request names, and this connection's membership in it.
    pub(super) fn membership(
        &self,
        topic: &Topic,
        group: Identifier<'_>,
    ) -> Result<(&Arc<Group>, &Member), Status> {
        let group = self.group(topic, group)?;
        let client = ClientKey {
            gateway: self.moment.config.gateway,
            client: self.client,
        };
        let member = group
            .member(client)
            .ok_or(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND)?;
        Ok((group, member))
    }

    /// Poll as a member. Without a partition, poll the one whose turn it is. A member that does not own the partition,
    /// or owns none, gets no messages.
    pub(super) fn poll_as_member(&self, topic: &Topic, request: &PollMessages<'_>) -> Handled {
        let (group, member) = self.membership(topic, request.consumer.id)?;
        let partition = match request.partition_id.map(PartitionId) {
            Some(partition) => Some(partition).filter(|partition| member.owns(*partition)),
            None => member.next_partition(),
        };
        let Some(namespace) = partition.and_then(|partition| namespace_of(topic, partition)) else {
            return Ok(Outcome::Nothing);
        };
        Ok(Outcome::Partition {
            namespace,
            request: Request::Poll(poll_of(request, ConsumerKey::Group(group.key), None)),
            member: Some(membership(group, member)),
            rate: topic.rates.read.clone(),
        })
    }

    /// Return the key of a group, which any caller may use, member or not.
    pub(super) fn group_key(
        &self,
        topic: &Topic,
        group: Identifier<'_>,
    ) -> Result<ConsumerKey, Status> {
        Ok(ConsumerKey::Group(self.group(topic, group)?.key))
    }

    /// Store (`Some`) or delete an offset. Without a partition, use the one that was polled last.
    pub(super) fn change_offset_as_member(
        &self,
        topic: &Topic,
        path: &ConsumerOffsetPath<'_>,
        offset: Option<Offset>,
    ) -> Handled {
        let (group, member) = self.membership(topic, path.consumer.id)?;
        let namespace = path
            .partition_id
            .map(PartitionId)
            .or_else(|| member.last_polled())
            .filter(|partition| member.owns(*partition))
            .and_then(|partition| namespace_of(topic, partition))
            .ok_or(Status::NOT_RESOLVED_CONSUMER)?;
        let consumer = ConsumerKey::Group(group.key);
        Ok(Outcome::Partition {
            namespace,
            request: offset_change(consumer, offset, None),
            member: Some(membership(group, member)),
            rate: None,
        })
    }
}

pub(super) fn namespace_of(topic: &Topic, partition: PartitionId) -> Option<Namespace> {
    topic
        .partition(partition)
        .map(|partition| partition.namespace)
}
