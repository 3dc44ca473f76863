//! Consumer groups: members and assignment of partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use headrace_model::limits::PARTITIONS_PER_TOPIC_MAX;
use headrace_model::{
    ClientId, ClientKey, GroupId, PartitionId, StreamId, Timestamp, TopicId, UserId,
};
use headrace_proto::catalog::v1;
use headrace_wire::Identifier;
use headrace_wire::response::{GroupDetails, GroupHeader, GroupMember};

use crate::ApplyError;

/// A consumer group: its name and its members.
#[derive(Debug, Clone)]
pub struct Group {
    /// Stream of the group's topic.
    pub stream_id: StreamId,
    /// Topic of the group.
    pub topic_id: TopicId,
    /// Id within the topic; reused after a deletion.
    pub id: GroupId,
    /// Name, unique within the topic, compared byte for byte.
    pub name: Arc<str>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Key under which partitions store the group's offsets. Never reused by any group.
    pub key: u32,
    /// Generation: grows with every change of the members or their assignment.
    pub generation: u64,
    /// Number of partitions to assign: those of the topic.
    pub partitions_count: u32,
    /// Maximum time in microseconds for which a member may keep a partition that is being revoked.
    pub revocation_timeout_micros: u64,
    /// User who created the group; `None` for groups of earlier releases, which belong to no user.
    pub owner: Option<UserId>,
    /// Members, ascending by id.
    pub members: Vec<Member>,
    by_client: BTreeMap<ClientKey, usize>,
}

/// A member of a group: one connection.
#[derive(Debug, Clone)]
pub struct Member {
    /// Id within the group; reused.
    pub id: u32,
    /// The connection.
    pub client: ClientKey,
    /// User that joined.
    pub user_id: u32,
    /// Incarnation, never reused: distinguishes this member from an earlier one with the same ids.
    pub incarnation: u64,
    /// Assigned partitions, ascending, including those being revoked.
    pub partitions: Vec<PartitionId>,
    /// Revocations under way, ascending by partition.
    pub revocations: Vec<Revocation>,
    /// Assigned partitions that are not being revoked, ascending.
    kept: Vec<PartitionId>,
    turns: Arc<Rotation>,
}

/// Revocation of a partition that is to move to another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revocation {
    /// The partition.
    pub partition: PartitionId,
    /// Id of the member that gets the partition.
    pub to_member: u32,
    /// Incarnation of the revocation; never reused for the same partition.
    pub incarnation: u64,
    /// Time at which the partition moves at the latest.
    pub deadline: Timestamp,
}

/// Next and last partition in a member's rotation. All versions of the catalog that have the member share this object.
#[derive(Debug)]
struct Rotation {
    next: AtomicU32,
    last: AtomicU32,
}

const NOTHING_POLLED: u32 = u32::MAX;

impl Default for Rotation {
    fn default() -> Self {
        Self {
            next: AtomicU32::new(0),
            last: AtomicU32::new(NOTHING_POLLED),
        }
    }
}

impl Group {
    /// Build the record; state that outlives a version is taken from `previous`.
    pub(crate) fn from_record(
        record: &v1::ConsumerGroup,
        previous: Option<&Self>,
    ) -> Result<Self, ApplyError> {
        let mut group = Self {
            stream_id: StreamId(record.stream_id),
            topic_id: TopicId(record.topic_id),
            id: GroupId(record.id),
            name: Arc::from(record.name.as_str()),
            created_at: Timestamp(record.created_at_micros),
            key: record.key,
            generation: record.generation,
            partitions_count: record.partitions_count,
            revocation_timeout_micros: record.revocation_timeout_micros,
            owner: record.owner_user_id.map(UserId),
            members: Vec::with_capacity(record.members.len()),
            by_client: BTreeMap::new(),
        };
        if record.partitions_count > PARTITIONS_PER_TOPIC_MAX {
            return Err(group.invalid("its partitions exceed the range"));
        }
        let mut owned = vec![false; record.partitions_count as usize];
        for record in &record.members {
            let known = previous.and_then(|group| group.member_by_id(record.id));
            let member = Member::from_record(record, known);
            for partition in &member.partitions {
                match owned.get_mut(partition.0 as usize) {
                    Some(taken) if !*taken => *taken = true,
                    _ => return Err(group.invalid("a partition has two owners or does not exist")),
                }
            }
            if group
                .members
                .last()
                .is_some_and(|last| last.id >= member.id)
            {
                return Err(group.invalid("its members are not ascending"));
            }
            if group
                .by_client
                .insert(member.client, group.members.len())
                .is_some()
            {
                return Err(group.invalid("a connection is a member twice"));
            }
            group.members.push(member);
        }
        Ok(group)
    }

    pub(crate) fn invalid(&self, reason: &'static str) -> ApplyError {
        ApplyError::InvalidGroup {
            stream_id: self.stream_id,
            topic_id: self.topic_id,
            group_id: self.id,
            reason,
        }
    }

    /// Return whether a user who may only read the topic may delete the group: it is the user's own, or it belongs to no
    /// user and has no members of others.
    pub fn is_free_to(&self, user: UserId) -> bool {
        match self.owner {
            Some(owner) => owner == user,
            None => self.members.iter().all(|member| member.user_id == user.0),
        }
    }

    /// Find the member of a connection.
    pub fn member(&self, client: ClientKey) -> Option<&Member> {
        self.members.get(*self.by_client.get(&client)?)
    }

    /// Find a member by id.
    pub fn member_by_id(&self, id: u32) -> Option<&Member> {
        let index = self
            .members
            .binary_search_by_key(&id, |member| member.id)
            .ok()?;
        self.members.get(index)
    }

    /// Entry in a list of groups.
    pub fn header(&self) -> GroupHeader<'_> {
        GroupHeader {
            id: self.id.0,
            partitions_count: self.partitions_count,
            members_count: u32::try_from(self.members.len()).unwrap_or(u32::MAX),
            name: &self.name,
        }
    }

    /// Group with its members.
    pub fn details(&self) -> GroupDetails<'_> {
        let member = |member: &Member| GroupMember {
            id: member.id,
            partitions: member.partitions.iter().map(|id| id.0).collect(),
        };
        GroupDetails {
            group: self.header(),
            members: self.members.iter().map(member).collect(),
        }
    }

    pub(crate) fn to_record(&self) -> v1::ConsumerGroup {
        v1::ConsumerGroup {
            stream_id: self.stream_id.0,
            topic_id: self.topic_id.0,
            id: self.id.0,
            name: self.name.to_string(),
            created_at_micros: self.created_at.0,
            key: self.key,
            generation: self.generation,
            partitions_count: self.partitions_count,
            revocation_timeout_micros: self.revocation_timeout_micros,
            owner_user_id: self.owner.map(|owner| owner.0),
            members: self.members.iter().map(Member::to_record).collect(),
        }
    }
}

impl Member {
    fn from_record(record: &v1::GroupMember, previous: Option<&Self>) -> Self {
        let revocation = |record: &v1::Revocation| Revocation {
            partition: PartitionId(record.partition_id),
            to_member: record.to_member_id,
            incarnation: record.incarnation,
            deadline: Timestamp(record.deadline_micros),
        };
        let partitions: Vec<_> = record.partitions.iter().copied().map(PartitionId).collect();
        let revocations: Vec<_> = record.revocations.iter().map(revocation).collect();
        Self {
            id: record.id,
            client: ClientKey {
                gateway: record.gateway_id,
                client: ClientId(record.client_id),
            },
            user_id: record.user_id,
            incarnation: record.incarnation,
            kept: partitions
                .iter()
                .copied()
                .filter(|partition| find(&revocations, *partition).is_none())
                .collect(),
            partitions,
            revocations,
            turns: previous
                .filter(|member| member.incarnation == record.incarnation)
                .map_or_else(Arc::default, |member| Arc::clone(&member.turns)),
        }
    }

    /// Return whether the member may read a partition, even if the partition is being revoked.
    pub fn owns(&self, partition: PartitionId) -> bool {
        self.partitions.binary_search(&partition).is_ok()
    }

    /// Revocation of a partition that the member owns, if one is under way.
    pub fn revocation(&self, partition: PartitionId) -> Option<&Revocation> {
        find(&self.revocations, partition)
    }

    /// Advance the rotation and return the next partition among the kept ones. `None` if there are none.
    pub fn next_partition(&self) -> Option<PartitionId> {
        let turn = self.turns.next.fetch_add(1, Ordering::Relaxed) as usize;
        let partition = self.kept[turn.checked_rem(self.kept.len())?];
        self.turns.last.store(partition.0, Ordering::Relaxed);
        Some(partition)
    }

    /// Partitions in the rotation, ascending: those owned and not being revoked.
    pub fn rotation_partitions(&self) -> &[PartitionId] {
        &self.kept
    }

    /// Note that a partition was polled out of turn, without being named in the request.
    pub fn set_last_polled(&self, partition: PartitionId) {
        self.turns.last.store(partition.0, Ordering::Relaxed);
    }

    /// Partition that a stored offset refers to if the request names none: the last one polled without being named if
    /// the member still owns it, or else the first one owned.
    pub fn last_polled(&self) -> Option<PartitionId> {
        let last = PartitionId(self.turns.last.load(Ordering::Relaxed));
        if self.owns(last) {
            return Some(last);
        }
        self.partitions.first().copied()
    }

    fn to_record(&self) -> v1::GroupMember {
        v1::GroupMember {
            id: self.id,
            gateway_id: self.client.gateway,
            client_id: self.client.client.0,
            user_id: self.user_id,
            incarnation: self.incarnation,
            partitions: self.partitions.iter().map(|id| id.0).collect(),
            revocations: self
                .revocations
                .iter()
                .map(|revocation| v1::Revocation {
                    partition_id: revocation.partition.0,
                    to_member_id: revocation.to_member,
                    incarnation: revocation.incarnation,
                    deadline_micros: revocation.deadline.0,
                })
                .collect(),
        }
    }
}

fn find(revocations: &[Revocation], partition: PartitionId) -> Option<&Revocation> {
    let index = revocations
        .binary_search_by_key(&partition, |revocation| revocation.partition)
        .ok()?;
    revocations.get(index)
}

/// Consumer groups of one topic.
#[derive(Debug, Clone, Default)]
pub struct TopicGroups {
    groups: BTreeMap<GroupId, Arc<Group>>,
    names: BTreeMap<Arc<str>, GroupId>,
}

impl TopicGroups {
    /// Find a group by id or by name.
    pub fn named(&self, identifier: &Identifier<'_>) -> Option<&Arc<Group>> {
        match *identifier {
            Identifier::Numeric(id) => self.by_id(GroupId(id)),
            Identifier::Named(name) => self.by_id(*self.names.get(name)?),
        }
    }

    /// Find a group by id.
    pub fn by_id(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.groups.get(&id)
    }

    /// All groups, ascending by id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    /// Return whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Return whether a group stores its offsets under this key.
    pub fn has_key(&self, key: u32) -> bool {
        self.iter().any(|group| group.key == key)
    }

    /// Insert or replace a group. The name must be free or the group's own; `Err` contains its owner.
    pub(crate) fn put(&mut self, group: Group) -> Result<(), GroupId> {
        if let Some(&owner) = self.names.get(&group.name)
            && owner != group.id
        {
            return Err(owner);
        }
        self.remove(group.id);
        self.names.insert(Arc::clone(&group.name), group.id);
        self.groups.insert(group.id, Arc::new(group));
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: GroupId) {
        if let Some(group) = self.groups.remove(&id) {
            self.names.remove(&group.name);
        }
    }
}
