//! Consumer groups: who is a member, and who reads which partition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use headrace_model::limits::PARTITIONS_PER_TOPIC_MAX;
use headrace_model::{ClientId, ClientKey, GroupId, PartitionId, StreamId, Timestamp, TopicId};
use headrace_proto::catalog::v1;
use headrace_wire::Identifier;
use headrace_wire::response::{GroupDetails, GroupHeader, GroupMember};

use crate::ApplyError;

/// A consumer group: its name and its members.
#[derive(Debug, Clone)]
pub struct Group {
    /// The stream of its topic.
    pub stream_id: StreamId,
    /// Its topic.
    pub topic_id: TopicId,
    /// Its number within the topic; reused after a deletion.
    pub id: GroupId,
    /// Unique within the topic, compared byte for byte.
    pub name: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Never reused by any group: what partitions keep its offsets under.
    pub key: u32,
    /// Grows with every change of the members or of what they own.
    pub generation: u64,
    /// Partitions that are dealt out: those of the topic.
    pub partitions_count: u32,
    /// How long a member may hold on to a partition that it is to give up, in microseconds.
    pub revocation_timeout_micros: u64,
    /// Ascending by number.
    pub members: Vec<Member>,
    by_client: BTreeMap<ClientKey, usize>,
}

/// A connection that shares in the reading.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its number within the group; reused.
    pub id: u32,
    /// The connection.
    pub client: ClientKey,
    /// Who joined.
    pub user_id: u32,
    /// Never reused: tells this member from an earlier one with the same numbers.
    pub incarnation: u64,
    /// What it may read, ascending; includes what it is to give up.
    pub partitions: Vec<PartitionId>,
    /// What it is to give up, ascending by partition.
    pub revocations: Vec<Revocation>,
    /// What it owns and is not to give up, ascending.
    kept: Vec<PartitionId>,
    turns: Arc<Turns>,
}

/// A partition that is to move to another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revocation {
    /// The partition.
    pub partition: PartitionId,
    /// Number of the member that gets it.
    pub to_member: u32,
    /// With the partition, never reused.
    pub incarnation: u64,
    /// When it moves at the latest.
    pub deadline: Timestamp,
}

/// Which partition of a member is polled next, and which was last. The same object in every version of the
/// catalogue that knows the member.
#[derive(Debug)]
struct Turns {
    next: AtomicU32,
    last: AtomicU32,
}

const NOTHING_POLLED: u32 = u32::MAX;

impl Default for Turns {
    fn default() -> Self {
        Self {
            next: AtomicU32::new(0),
            last: AtomicU32::new(NOTHING_POLLED),
        }
    }
}

impl Group {
    /// Build the record; what outlives a version is taken from `previous`.
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

    /// The membership of a connection.
    pub fn member(&self, client: ClientKey) -> Option<&Member> {
        self.members.get(*self.by_client.get(&client)?)
    }

    /// The member of this number.
    pub fn member_by_id(&self, id: u32) -> Option<&Member> {
        let index = self
            .members
            .binary_search_by_key(&id, |member| member.id)
            .ok()?;
        self.members.get(index)
    }

    /// As a list of groups shows it.
    pub fn header(&self) -> GroupHeader<'_> {
        GroupHeader {
            id: self.id.0,
            partitions_count: self.partitions_count,
            members_count: u32::try_from(self.members.len()).unwrap_or(u32::MAX),
            name: &self.name,
        }
    }

    /// With its members.
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

    /// Whether it may read a partition, be it for the last time.
    pub fn owns(&self, partition: PartitionId) -> bool {
        self.partitions.binary_search(&partition).is_ok()
    }

    /// The revocation of a partition that it owns, if one is under way.
    pub fn revocation(&self, partition: PartitionId) -> Option<&Revocation> {
        find(&self.revocations, partition)
    }

    /// The partition whose turn it is: one after the other of those that it keeps. `None` when there are none.
    pub fn next_turn(&self) -> Option<PartitionId> {
        let turn = self.turns.next.fetch_add(1, Ordering::Relaxed) as usize;
        let partition = self.kept[turn.checked_rem(self.kept.len())?];
        self.turns.last.store(partition.0, Ordering::Relaxed);
        Some(partition)
    }

    /// The partitions whose turn it can be, ascending: what it owns and is not to give up.
    pub fn kept(&self) -> &[PartitionId] {
        &self.kept
    }

    /// A partition was polled out of turn, without being named.
    pub fn took_turn(&self, partition: PartitionId) {
        self.turns.last.store(partition.0, Ordering::Relaxed);
    }

    /// The partition that a stored offset is meant for when none is named: the one that was polled last without
    /// naming one, as long as it is the member's, or else the first that it owns.
    pub fn last_turn(&self) -> Option<PartitionId> {
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

/// The consumer groups of one topic.
#[derive(Debug, Clone, Default)]
pub struct TopicGroups {
    groups: BTreeMap<GroupId, Arc<Group>>,
    names: BTreeMap<Arc<str>, GroupId>,
}

impl TopicGroups {
    /// The group that a client names by number or by name.
    pub fn named(&self, identifier: &Identifier<'_>) -> Option<&Arc<Group>> {
        match *identifier {
            Identifier::Numeric(id) => self.by_id(GroupId(id)),
            Identifier::Named(name) => self.by_id(*self.names.get(name)?),
        }
    }

    /// The group of this number.
    pub fn by_id(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.groups.get(&id)
    }

    /// Every group, ascending by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether a group keeps its offsets under this key.
    pub fn has_key(&self, key: u32) -> bool {
        self.iter().any(|group| group.key == key)
    }

    /// Insert or replace a group. The name must be free or the group's own; `Err` gives its owner.
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
