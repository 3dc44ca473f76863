//! Consumer groups and membership in them.
//!
//! A membership belongs to the connection and ends with it. A member polls with a consumer of kind
//! [`Group`](headrace_wire::ConsumerKind::Group), without a partition: the server chooses one that the member owns.
//! Offsets are stored the same way; without a stored offset the member receives the same messages again.

use headrace_model::GroupId;
use headrace_wire::command::{CreateConsumerGroup, GroupPath, TopicPath};
use headrace_wire::response::{GroupDetails, GroupHeader, GroupMember, Membership, decode_list};
use headrace_wire::{Command, Identifier};

use crate::client::decode;
use crate::{Client, ClientError};

/// An existing consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Number of the group within its topic.
    pub id: GroupId,
    /// Name of the group.
    pub name: String,
    /// Number of partitions of the topic.
    pub partitions_count: u32,
    /// Number of connections that are members.
    pub members_count: u32,
    /// Members with their partitions; empty in listings.
    pub members: Vec<GroupMember>,
}

impl Group {
    fn new(header: GroupHeader<'_>, members: Vec<GroupMember>) -> Self {
        Self {
            id: GroupId(header.id),
            name: header.name.to_owned(),
            partitions_count: header.partitions_count,
            members_count: header.members_count,
            members,
        }
    }
}

impl Client {
    /// Create a group; its name must be free in the topic.
    pub fn create_group(
        &mut self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        name: &str,
    ) -> Result<Group, ClientError> {
        self.request_group(&Command::CreateConsumerGroup(CreateConsumerGroup {
            stream,
            topic,
            name,
        }))
    }

    /// Get a group with its members; [`ClientError::NotFound`] if it does not exist.
    pub fn get_group(&mut self, path: GroupPath<'_>) -> Result<Group, ClientError> {
        self.request_group(&Command::GetConsumerGroup(path))
    }

    /// List the groups of a topic, without their members.
    pub fn get_groups(
        &mut self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
    ) -> Result<Vec<Group>, ClientError> {
        let command = Command::GetConsumerGroups(TopicPath { stream, topic });
        let headers = decode(&command, self.request(&command)?, decode_list)?;
        Ok(headers
            .into_iter()
            .map(|header| Group::new(header, Vec::new()))
            .collect())
    }

    /// Delete a group with its offsets; its memberships end.
    pub fn delete_group(&mut self, path: GroupPath<'_>) -> Result<(), ClientError> {
        self.call(&Command::DeleteConsumerGroup(path))
    }

    /// Join the group with this connection.
    pub fn join_group(&mut self, path: GroupPath<'_>) -> Result<(), ClientError> {
        self.call(&Command::JoinConsumerGroup(path))
    }

    /// End the membership of this connection.
    pub fn leave_group(&mut self, path: GroupPath<'_>) -> Result<(), ClientError> {
        self.call(&Command::LeaveConsumerGroup(path))
    }

    /// Get the partitions that this connection owns as a member of the group. Counts as a heartbeat.
    pub fn get_membership(&mut self, path: GroupPath<'_>) -> Result<Membership, ClientError> {
        let command = Command::GetMembership(path);
        decode(&command, self.request(&command)?, Membership::decode)
    }

    fn request_group(&mut self, command: &Command<'_>) -> Result<Group, ClientError> {
        let GroupDetails { group, members } =
            decode(command, self.query(command)?, GroupDetails::decode)?;
        Ok(Group::new(group, members))
    }
}
