//! Changes of consumer groups in the catalog, applied to the partitions.

use headrace_catalog::Catalog;
use headrace_model::Namespace;
use headrace_partition::{ConsumerKey, Partition};

use super::{HostingState, Partitions};
use crate::{api::Effect, owner::Owner};

impl Partitions {
    /// Forget offsets of deleted groups, and find partitions that can move to another member.
    pub(super) fn follow_groups(&mut self, catalog: &Catalog, effects: &mut Vec<Effect>) {
        let mut changed = Vec::new();
        for (namespace, hosted) in &mut self.hosted {
            if matches!(hosted.state, HostingState::Open(_)) {
                let groups = catalog.groups_of(namespace.stream(), namespace.topic());
                let exists = |key| groups.is_some_and(|groups| groups.has_key(key));
                let step = |partition: &mut Partition, _: &mut _| {
                    partition.delete_offsets_of_missing_groups(exists)
                };
                if self.steps.take(&mut hosted.state, step) == Some(true) {
                    changed.push(*namespace);
                }
            }
        }
        for namespace in changed {
            self.mark_dirty(namespace);
        }
        let config = &self.config;
        let is_here = |namespace| config.owner(catalog, namespace) == Owner::Here;
        let partitions = self.members.follow(catalog, is_here);
        self.report_if_processed(partitions, effects);
    }

    /// Report those of these partitions and groups that can move to another member.
    pub(super) fn report_if_processed(
        &mut self,
        mut partitions: Vec<(Namespace, u32)>,
        effects: &mut Vec<Effect>,
    ) {
        partitions.retain(|&(namespace, key)| {
            let stored = match self.hosted.get(&namespace).map(|hosted| &hosted.state) {
                Some(HostingState::Open(partition)) => {
                    partition.stored_offset(ConsumerKey::Group(key))
                }
                _ => None,
            };
            self.members.is_processed((namespace, key), stored)
        });
        self.members.report(&partitions, effects);
    }
}
