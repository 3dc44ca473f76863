//! Whether what a gateway means is what is here.
//!
//! Its catalogue and the one here are versions of the same one, and either may be the newer. What the gateway knows and
//! this node does not is waited for; what this node knows and the gateway does not is told.

use hashbrown::HashSet;
use headrace_catalog::Catalog;
use headrace_link::{Call, Membership, Place};
use headrace_model::Namespace;

use super::{Refused, Served};
use crate::{
    config::ShardConfig,
    members,
    owner::Owner,
    partitions::{Partitions, find},
};

/// What is to be done with a request.
pub(super) enum Verdict {
    /// It is about a partition of this shard.
    Take,
    /// The gateway knows something that is not known here yet.
    Behind,
    /// The partition is somewhere else, as this version of the catalogue has it.
    NotHere(u64),
    /// There is no such partition (any more).
    NotFound,
}

impl Served {
    /// Whether a call was on its way before the gateway heard that one before it was refused, and by which version of the
    /// catalogue. A gateway that makes one again that was refused has heard of all that were.
    fn overtakes(&mut self, call: Call, namespace: Namespace) -> Option<u64> {
        let refused = self.not_here.get(&namespace)?;
        if refused.calls.contains(&call) {
            self.not_here.remove(&namespace);
            return None;
        }
        Some(refused.version)
    }

    /// A call is refused, because its partition is not here.
    pub(super) fn refuse(&mut self, call: Call, namespace: Namespace, version: u64) {
        let refused = self.not_here.entry(namespace).or_insert_with(|| Refused {
            version,
            calls: HashSet::default(),
        });
        refused.version = refused.version.max(version);
        refused.calls.insert(call);
    }

    /// What becomes of a call; or of a watch, which keeps no order with anything.
    pub(super) fn judge(
        &mut self,
        (partitions, config): (&Partitions, &ShardConfig),
        catalog: &Catalog,
        (call, place): (Option<Call>, Place),
        member: Option<Membership>,
    ) -> Verdict {
        let namespace = place.namespace;
        if let Some(call) = call
            && let Some(version) = self.overtakes(call, namespace)
        {
            return Verdict::NotHere(version);
        }
        let is_behind = catalog.version() < self.announced;
        // Nearly all of them.
        if let Some((incarnation, purge_epoch)) = partitions.life_at(catalog.version(), namespace)
            && incarnation == place.incarnation
            && purge_epoch >= place.purge_epoch
            && !(is_behind && member.is_some())
        {
            return Verdict::Take;
        }
        let Some((topic, partition)) = find(catalog, namespace) else {
            return if is_behind {
                Verdict::Behind
            } else {
                Verdict::NotFound
            };
        };
        if partition.incarnation != place.incarnation {
            // Later ones have larger numbers.
            return if is_behind && partition.incarnation < place.incarnation {
                Verdict::Behind
            } else {
                Verdict::NotFound
            };
        }
        let is_here = config.owner(catalog, namespace) == Owner::Here;
        let is_purged = topic.purge_epoch >= place.purge_epoch;
        // Without this a member that has just been given the partition would be sent away with nothing, and would wait for
        // the next change to come again.
        let is_known = || member.is_none_or(|member| members::owns(member, catalog, namespace));
        if is_behind && !(is_here && is_purged && is_known()) {
            return Verdict::Behind;
        }
        if is_here {
            Verdict::Take
        } else {
            Verdict::NotHere(catalog.version())
        }
    }
}
