//! Comparison of the partition that a gateway means with the one that is here.
//!
//! The gateway's catalog and the local one are versions of the same catalog, and either may be newer. A frame that
//! requires a newer local catalog waits; a gateway whose catalog is older is notified of the change.

use hashbrown::HashSet;
use headrace_catalog::Catalog;
use headrace_link::{Membership, PartitionRef, RequestId};
use headrace_model::Namespace;

use super::{GatewayLink, Refused};
use crate::{
    hosting::{Partitions, find, members},
    owner::Owner,
};

/// Decision about a request.
pub(crate) enum Decision {
    /// Accept: the partition belongs to this shard.
    Take,
    /// Wait: the gateway has a newer catalog.
    Behind,
    /// Refuse: the partition is elsewhere according to this catalog version.
    NotHere(u64),
    /// Refuse: the partition does not exist (any more).
    NotFound,
}

impl GatewayLink {
    /// Return the catalog version of an earlier refusal if this call was sent before the gateway received that refusal.
    /// A gateway that repeats a refused call has received all refusals.
    fn overtakes(&mut self, call: RequestId, namespace: Namespace) -> Option<u64> {
        let refused = self.not_here.get(&namespace)?;
        if refused.calls.contains(&call) {
            self.not_here.remove(&namespace);
            return None;
        }
        Some(refused.version)
    }

    /// Record a call that is refused because its partition is not here.
    pub(crate) fn refuse(&mut self, call: RequestId, namespace: Namespace, version: u64) {
        let refused = self.not_here.entry(namespace).or_insert_with(|| Refused {
            version,
            calls: HashSet::default(),
        });
        refused.version = refused.version.max(version);
        refused.calls.insert(call);
    }

    /// Decide about a call, or about a watch, which has no order relative to other requests.
    pub(crate) fn decide(
        &mut self,
        partitions: &Partitions,
        catalog: &Catalog,
        call: Option<RequestId>,
        place: PartitionRef,
        member: Option<Membership>,
    ) -> Decision {
        let namespace = place.namespace;
        if let Some(call) = call
            && let Some(version) = self.overtakes(call, namespace)
        {
            return Decision::NotHere(version);
        }
        let is_behind = catalog.version() < self.announced;
        // Fast path for nearly all calls.
        if let Some((incarnation, purge_epoch)) = partitions.life_at(catalog.version(), namespace)
            && incarnation == place.incarnation
            && purge_epoch >= place.purge_epoch
            && !(is_behind && member.is_some())
        {
            return Decision::Take;
        }
        let Some((topic, partition)) = find(catalog, namespace) else {
            return if is_behind {
                Decision::Behind
            } else {
                Decision::NotFound
            };
        };
        if partition.incarnation != place.incarnation {
            // Later incarnations have larger numbers.
            return if is_behind && partition.incarnation < place.incarnation {
                Decision::Behind
            } else {
                Decision::NotFound
            };
        }
        let is_here = partitions.owner(catalog, namespace) == Owner::Here;
        let is_purged = topic.purge_epoch >= place.purge_epoch;
        // Without this check a member that has just been assigned the partition would be refused, and would wait for
        // the next change before it retries.
        let is_known = || member.is_none_or(|member| members::owns(member, catalog, namespace));
        if is_behind && !(is_here && is_purged && is_known()) {
            return Decision::Behind;
        }
        if is_here {
            Decision::Take
        } else {
            Decision::NotHere(catalog.version())
        }
    }
}
