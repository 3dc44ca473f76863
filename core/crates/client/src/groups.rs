//! Consumer groups: what they are, and being a member.
//!
//! A membership belongs to the connection and ends with it. A member polls with a consumer of kind
//! [`Group`](headrace_wire::ConsumerKind::Group), without a partition: the server chooses one that the member owns. It
//! stores offsets likewise; where it stores none, it gets the same messages again.

use headrace_model::GroupId;
use headrace_wire::command::{CreateConsumerGroup, GroupPath, TopicPath};
use headrace_wire::response::{GroupDetails, GroupHeader, GroupMember, decode_list};
use headrace_wire::{Command, Identifier};

use crate::client::decode;
use crate::{Client, ClientError};

/// A consumer group that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number within the topic.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// Partitions of the topic.
    pub partitions_count: u32,
    /// Connections that are members.
    pub members_count: u32,
    /// They, with what they own; empty in listings.
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

    /// A group with its members; [`ClientError::NotFound`] if there is none.
    pub fn get_group(&mut self, path: GroupPath<'_>) -> Result<Group, ClientError> {
        self.request_group(&Command::GetConsumerGroup(path))
    }

    /// The groups of a topic, without their members.
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

    /// Delete a group with its offsets; its members are none any more.
    pub fn delete_group(&mut self, path: GroupPath<'_>) -> Result<(), ClientError> {
        self.call(&Command::DeleteConsumerGroup(path))
    }

    /// Make this connection a member.
    pub fn join_group(&mut self, path: GroupPath<'_>) -> Result<(), ClientError> {
        self.call(&Command::JoinConsumerGroup(path))
    }

    /// End the membership of this connection.
    pub fn leave_group(&mut self, path: GroupPath<'_>) -> Result<(), ClientError> {
        self.call(&Command::LeaveConsumerGroup(path))
    }

    fn request_group(&mut self, command: &Command<'_>) -> Result<Group, ClientError> {
        let GroupDetails { group, members } =
            decode(command, self.query(command)?, GroupDetails::decode)?;
        Ok(Group::new(group, members))
    }
}
