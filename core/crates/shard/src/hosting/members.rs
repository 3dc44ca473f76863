//! Members of consumer groups at the partitions of this shard: who may poll, what was delivered to them, and when a
//! revoked partition can move.
//!
//! The control plane assigns partitions, and the catalog publishes the assignment. Every request of a member is checked
//! here again, by the shard that answers and in the order of the answers. A request that was in flight when the
//! partition moved is refused, so no two members get the same messages in one generation.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_catalog::{Catalog, Group, Member};
use headrace_link::{Membership, Refusal};
use headrace_model::{GroupId, Namespace, Offset};
use headrace_partition::{PartitionError, Response};
use headrace_proto::{
    control::v1::{self as control, request::Operation},
    metadata::v1::{CompleteRevocation, CompletedRevocation},
};

use crate::api::Effect;

/// Identity of a member of a group.
pub(crate) fn membership(group: &Group, member: &Member) -> Membership {
    Membership {
        group: group.id,
        key: group.key,
        client: member.client,
        incarnation: member.incarnation,
    }
}

/// Return the member's record if the membership is still valid.
pub(crate) fn find_member(
    membership: Membership,
    catalog: &Catalog,
    namespace: Namespace,
) -> Option<&Member> {
    catalog
        .group(namespace.stream(), namespace.topic(), membership.group)
        .filter(|group| group.key == membership.key)?
        .member(membership.client)
        .filter(|member| member.incarnation == membership.incarnation)
}

/// Return whether a partition is assigned to a member.
pub(crate) fn owns(membership: Membership, catalog: &Catalog, namespace: Namespace) -> bool {
    find_member(membership, catalog, namespace)
        .is_some_and(|member| member.owns(namespace.partition()))
}

/// A partition, and the key of a group that reads it.
type GroupPartition = (Namespace, u32);

/// Delivery to the member that polled last.
struct Delivered {
    incarnation: u64,
    in_flight: u32,
    last: Option<Offset>,
}

/// A revocation in progress.
struct PendingRevocation {
    group: GroupId,
    /// Incarnation of the member that is to release the partition.
    owner: u64,
    revocation: u64,
    reported: bool,
}

#[derive(Default)]
pub(crate) struct Members {
    given: HashMap<GroupPartition, Delivered, FixedState>,
    endings: HashMap<GroupPartition, PendingRevocation, FixedState>,
}

impl Members {
    /// Check whether a member may poll, or change its offset.
    pub(crate) fn admit(
        &self,
        catalog: &Catalog,
        namespace: Namespace,
        membership: Membership,
        is_poll: bool,
    ) -> Result<(), Refusal> {
        let is_owner = owns(membership, catalog, namespace);
        // The messages delivered must not grow after they were reported as processed.
        let is_over = is_poll
            && self
                .endings
                .get(&(namespace, membership.key))
                .is_some_and(|ending| ending.reported && ending.owner == membership.incarnation);
        match (is_owner && !is_over, is_poll) {
            (true, _) => Ok(()),
            (false, true) => Err(Refusal::NothingAssigned),
            (false, false) => Err(Refusal::NotOwner),
        }
    }

    /// Record that a member's request goes to the partition.
    pub(crate) fn began(&mut self, namespace: Namespace, membership: Membership) {
        let fresh = || Delivered {
            incarnation: membership.incarnation,
            in_flight: 0,
            last: None,
        };
        let given = self
            .given
            .entry((namespace, membership.key))
            .or_insert_with(fresh);
        if given.incarnation != membership.incarnation {
            *given = fresh();
        }
        given.in_flight += 1;
    }

    /// Record the partition's answer. Returns true if it may complete a revocation.
    pub(crate) fn ended(
        &mut self,
        namespace: Namespace,
        membership: Membership,
        result: &Result<Response, PartitionError>,
    ) -> bool {
        let partition = (namespace, membership.key);
        if let Some(given) = self.given.get_mut(&partition)
            && given.incarnation == membership.incarnation
        {
            given.in_flight = given.in_flight.saturating_sub(1);
            if let Ok(Response::Polled(polled)) = result {
                given.last = given.last.max(polled.last_offset);
            }
        }
        self.endings
            .get(&partition)
            .is_some_and(|ending| !ending.reported)
    }

    /// Forget deliveries of a partition whose messages and offsets were all removed.
    pub(crate) fn forget(&mut self, namespace: Namespace) {
        self.given.retain(|partition, _| partition.0 != namespace);
    }

    /// Apply a catalog. Returns the local partitions with a revocation in progress that has not been reported.
    pub(crate) fn follow(
        &mut self,
        catalog: &Catalog,
        is_here: impl Fn(Namespace) -> bool,
    ) -> Vec<GroupPartition> {
        let mut before = core::mem::take(&mut self.endings);
        for group in catalog.groups() {
            for member in &group.members {
                for revocation in &member.revocations {
                    let Ok(namespace) =
                        Namespace::new(group.stream_id, group.topic_id, revocation.partition)
                    else {
                        continue;
                    };
                    if !is_here(namespace) {
                        continue;
                    }
                    let partition = (namespace, group.key);
                    let reported = before.remove(&partition).is_some_and(|known| {
                        known.reported && known.revocation == revocation.incarnation
                    });
                    let ending = PendingRevocation {
                        group: group.id,
                        owner: member.incarnation,
                        revocation: revocation.incarnation,
                        reported,
                    };
                    self.endings.insert(partition, ending);
                }
            }
        }
        self.given.retain(|(namespace, key), _| {
            catalog
                .groups_of(namespace.stream(), namespace.topic())
                .is_some_and(|groups| groups.has_key(*key))
        });
        let mut partitions: Vec<GroupPartition> = self
            .endings
            .iter()
            .filter(|(_, ending)| !ending.reported)
            .map(|(partition, _)| *partition)
            .collect();
        partitions.sort_unstable();
        partitions
    }

    /// Return true, once, if a partition can move because its owner has processed everything that was delivered.
    pub(crate) fn is_processed(
        &mut self,
        partition: GroupPartition,
        stored: Option<Offset>,
    ) -> bool {
        let Some(ending) = self.endings.get_mut(&partition) else {
            return false;
        };
        let is_processed = self
            .given
            .get(&partition)
            .filter(|given| given.incarnation == ending.owner)
            .is_none_or(|given| given.in_flight == 0 && given.last <= stored);
        let is_news = is_processed && !ending.reported;
        ending.reported |= is_processed;
        is_news
    }

    /// Report partitions that can move, all of a group at once.
    ///
    /// A lost report does no harm: the revocations then end at their deadline.
    pub(crate) fn report(&self, partitions: &[GroupPartition], effects: &mut Vec<Effect>) {
        let mut by_group: BTreeMap<u32, CompleteRevocation> = BTreeMap::new();
        for partition in partitions {
            let Some(ending) = self.endings.get(partition) else {
                continue;
            };
            let (namespace, group_key) = *partition;
            let report = by_group
                .entry(group_key)
                .or_insert_with(|| CompleteRevocation {
                    stream_id: namespace.stream().0,
                    topic_id: namespace.topic().0,
                    group_id: ending.group.0,
                    group_key,
                    revocations: Vec::new(),
                });
            report.revocations.push(CompletedRevocation {
                partition_id: namespace.partition().0,
                incarnation: ending.revocation,
            });
        }
        effects.extend(by_group.into_values().map(|report| Effect::Notice {
            request: control::Request {
                operation: Some(Operation::CompleteRevocation(report)),
                ..Default::default()
            },
        }));
    }
}
