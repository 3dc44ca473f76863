//! Opening and closing of partitions.
//!
//! The catalog decides which partitions exist and where. A partition opens when the catalog first places it here (or
//! when the first request for it arrives), purges when its topic's epoch has grown, and retires when it is gone from
//! the catalog or has another incarnation. A partition that is placed on another node is closed, but its directory
//! stays: the data is removed only with the partition. Nothing else opens or closes a partition.

use std::{collections::VecDeque, sync::Arc};

use headrace_catalog::{self as catalog, Catalog, Topic};
use headrace_link::Refusal;
use headrace_model::{Namespace, Timestamp};
use headrace_partition::{Partition, PartitionConfig, PartitionError};

use super::{
    Partitions,
    agenda::Counted,
    cleaning::retention_rule,
    state::{Broken, HostedPartition, HostingState, Next, find, remove_directory},
};
use crate::{api::Effect, calls::PartitionCall, owner::Owner};

/// State in the catalog of a partition that is, or was, open here.
enum CatalogState {
    Stays,
    Elsewhere,
    Gone,
}

impl Partitions {
    /// Make the hosted partitions agree with the catalog.
    pub(crate) fn reconcile(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if self.closing {
            return;
        }
        let mut gone = Vec::new();
        let mut elsewhere = Vec::new();
        for (namespace, hosted) in &self.hosted {
            match self.catalog_state(catalog, *namespace, hosted.incarnation) {
                CatalogState::Stays => {}
                CatalogState::Elsewhere => elsewhere.push(*namespace),
                CatalogState::Gone => gone.push(*namespace),
            }
        }
        for namespace in gone {
            self.retire(catalog, namespace, now, effects);
        }
        for namespace in elsewhere {
            self.leave(catalog, namespace, now, effects);
        }
        for (_, partition) in catalog.partitions() {
            let namespace = partition.namespace;
            if self.owner(catalog, namespace) == Owner::Here {
                // The partition exists and belongs here, so nothing is refused.
                let _ = self.agree(namespace, catalog, now, effects);
            }
        }
        self.follow_groups(catalog, effects);
        self.follow_publications(catalog, now, effects);
    }

    fn catalog_state(
        &self,
        catalog: &Catalog,
        namespace: Namespace,
        incarnation: u64,
    ) -> CatalogState {
        match find(catalog, namespace) {
            Some((_, partition)) if partition.incarnation == incarnation => {
                if self.config.hosts(catalog, namespace) {
                    CatalogState::Stays
                } else {
                    CatalogState::Elsewhere
                }
            }
            _ => CatalogState::Gone,
        }
    }

    /// Incarnation and purge epoch of an open partition that belongs here according to this catalog version. `None`
    /// means unknown.
    pub(crate) fn life_at(&self, version: u64, namespace: Namespace) -> Option<(u64, u64)> {
        let hosted = self.hosted.get(&namespace)?;
        (hosted.agreed_version == Some(version)).then_some((hosted.incarnation, hosted.purge_epoch))
    }

    /// Open `namespace` if necessary, and purge it if its topic was purged. Fails with the reason if it cannot take
    /// requests.
    #[inline]
    pub(super) fn ensure(
        &mut self,
        namespace: Namespace,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        // Fast path: the catalog changes much more rarely than requests arrive.
        if self.life_at(catalog.version(), namespace).is_some() {
            return Ok(());
        }
        self.agree(namespace, catalog, now, effects)
    }

    fn agree(
        &mut self,
        namespace: Namespace,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let Some((topic, record)) = find(catalog, namespace) else {
            return Err(Refusal::NotFound);
        };
        if !self.config.hosts(catalog, namespace) {
            return Err(Refusal::Elsewhere);
        }
        match self.hosted.get_mut(&namespace) {
            Some(hosted) if matches!(hosted.state, HostingState::Elsewhere) => {
                if self.closing {
                    return Err(PartitionError::Closed.into());
                }
                self.open(topic, record, now, effects);
                self.publish_pending(namespace, catalog, now);
            }
            Some(hosted) if hosted.incarnation == record.incarnation => {
                if hosted.purge_epoch < topic.purge_epoch {
                    hosted.purge_epoch = topic.purge_epoch;
                    self.members.forget(namespace);
                    if matches!(hosted.state, HostingState::Open(_)) {
                        let statistics = Arc::clone(&record.statistics);
                        statistics.set_is_cleaned(self.config.retention.interval_micros.is_some());
                        self.steps.take(&mut hosted.state, |partition, outbox| {
                            partition.purge(topic.purge_epoch, statistics, now, outbox);
                        });
                    }
                    self.waiters.invalidate_levels(namespace);
                    self.mark_dirty(namespace);
                    self.drain(namespace, effects);
                }
            }
            Some(hosted) => {
                if matches!(
                    hosted.state,
                    HostingState::Open(_) | HostingState::Broken(_)
                ) {
                    self.retire(catalog, namespace, now, effects);
                }
            }
            None => {
                self.open(topic, record, now, effects);
                self.publish_pending(namespace, catalog, now);
            }
        }
        if let Some(hosted) = self.hosted.get_mut(&namespace) {
            let is_open = matches!(hosted.state, HostingState::Open(_));
            let agrees = is_open && hosted.incarnation == record.incarnation;
            hosted.agreed_version = agrees.then_some(catalog.version());
            hosted.is_bounded = topic.quota.held_bytes > 0;
            let is_cleaned = self.config.retention.interval_micros.is_some();
            let rule = is_cleaned.then(|| retention_rule(topic)).flatten();
            if hosted.retention != rule {
                hosted.retention = rule;
                self.agenda.follow(namespace, hosted);
            }
            if let HostingState::Broken(Broken { failure, .. }) = &hosted.state {
                return Err(PartitionError::Failed(Arc::clone(failure)).into());
            }
        }
        Ok(())
    }

    fn open(
        &mut self,
        topic: &Topic,
        record: &catalog::Partition,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let namespace = record.namespace;
        let config = PartitionConfig {
            namespace,
            incarnation: record.incarnation,
            purge_epoch: topic.purge_epoch,
            durability: topic.durability.unwrap_or(self.config.partition.durability),
            ..self.config.partition.clone()
        };
        let (pool, seed) = (self.pool.clone(), self.seeds.u64(..));
        let statistics = Arc::clone(&record.statistics);
        statistics.set_is_cleaned(self.config.retention.interval_micros.is_some());
        let life = self.steps.open(namespace, &record.statistics, |outbox| {
            Partition::open(config, statistics, pool, seed, now, outbox)
        });
        if let Some(before) = self.hosted.get_mut(&namespace) {
            self.agenda.forget(namespace, before);
        }
        let mut hosted = HostedPartition {
            state: life,
            incarnation: record.incarnation,
            purge_epoch: topic.purge_epoch,
            is_bounded: false,
            agreed_version: None,
            dirty: false,
            operations: 0,
            waiting: VecDeque::new(),
            retention: None,
            deadline: None,
            retention_due: None,
            counted: Counted::default(),
        };
        // A start is complete when no partition recovers: this one counts from now on.
        self.agenda.follow(namespace, &mut hosted);
        self.hosted.insert(namespace, hosted);
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
    }

    /// Process the removal of a deleted partition's directory: open its successor if there is one.
    pub(crate) fn directory_removed(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut hosted) = self.hosted.remove(&namespace) else {
            return;
        };
        self.agenda.forget(namespace, &mut hosted);
        self.succeed(catalog, namespace, hosted.waiting, now, effects);
    }

    /// Open the next incarnation, if one belongs here, and submit the requests that waited for it.
    fn succeed(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        waiting: VecDeque<PartitionCall>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if self.closing {
            for call in waiting {
                self.refuse(call.origin, namespace, Refusal::NotFound);
            }
            self.end_waits(namespace, &Refusal::NotReady);
            return;
        }
        if self.ensure(namespace, catalog, now, effects).is_err() {
            self.end_waits(namespace, &Refusal::NotReady);
            self.watchers.forget(namespace);
        }
        for call in waiting {
            self.submit(catalog, call, now, effects);
        }
    }

    /// Close a deleted partition, and remove its directory.
    fn retire(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        // Its successor has other messages under the same offsets.
        self.members.forget(namespace);
        hosted.agreed_version = None;
        // Batches that wait for memory of the deleted partition; later requests are for its successor.
        let refused = match hosted.state {
            HostingState::Open(_) | HostingState::Leaving(_) => {
                core::mem::take(&mut hosted.waiting)
            }
            _ => VecDeque::new(),
        };
        let was_open = matches!(hosted.state, HostingState::Open(_));
        let life = core::mem::replace(&mut hosted.state, HostingState::Removing);
        hosted.state = match life {
            HostingState::Open(partition) | HostingState::Leaving(partition) => {
                HostingState::Retiring(partition)
            }
            HostingState::Broken(broken) => HostingState::Broken(Broken {
                next: Next::Removal,
                ..broken
            }),
            HostingState::Elsewhere => {
                effects.push(remove_directory(namespace, hosted.incarnation));
                HostingState::Removing
            }
            under_way => {
                hosted.state = under_way;
                return;
            }
        };
        if was_open {
            self.steps.take(&mut hosted.state, |partition, outbox| {
                partition.close(now, outbox);
            });
        }
        self.drain(namespace, effects);
        self.mark_dirty(namespace);
        for call in refused {
            self.refuse(call.origin, namespace, Refusal::NotFound);
        }
        self.end_waits(namespace, &Refusal::NotReady);
        self.after_closing(catalog, namespace, now, effects);
    }

    /// Close a partition that is placed on another node.
    fn leave(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        hosted.agreed_version = None;
        let life = core::mem::replace(&mut hosted.state, HostingState::Elsewhere);
        hosted.state = match life {
            HostingState::Open(partition) => HostingState::Leaving(partition),
            HostingState::Broken(broken) if broken.next == Next::Nothing => {
                HostingState::Broken(Broken {
                    next: Next::Departure,
                    ..broken
                })
            }
            _ => {
                hosted.state = life;
                return;
            }
        };
        self.steps.take(&mut hosted.state, |partition, outbox| {
            partition.close(now, outbox);
        });
        self.members.forget(namespace);
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
        self.end_waits(namespace, &Refusal::Elsewhere);
        self.watchers.lose(namespace);
        self.after_closing(catalog, namespace, now, effects);
    }

    /// Continue after the files of a partition were closed.
    pub(super) fn after_closing(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        match &hosted.state {
            HostingState::Retiring(partition) if partition.is_closed() => {
                hosted.state = HostingState::Removing;
                effects.push(Effect::ReleaseFiles { namespace });
                effects.push(remove_directory(namespace, hosted.incarnation));
            }
            HostingState::Leaving(partition) if partition.is_closed() => {
                hosted.state = HostingState::Elsewhere;
                let waiting = core::mem::take(&mut hosted.waiting);
                effects.push(Effect::ReleaseFiles { namespace });
                self.succeed(catalog, namespace, waiting, now, effects);
            }
            HostingState::Broken(_) => self.after_breaking(namespace, effects),
            _ => {}
        }
    }

    /// Flush, sync and close all partitions.
    pub(crate) fn close_all(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.closing = true;
        let namespaces: Vec<Namespace> = self.hosted.keys().copied().collect();
        for namespace in namespaces {
            if let Some(hosted) = self.hosted.get_mut(&namespace)
                && matches!(hosted.state, HostingState::Open(_))
            {
                self.steps.take(&mut hosted.state, |partition, outbox| {
                    partition.close(now, outbox);
                });
            }
            self.mark_dirty(namespace);
            self.drain(namespace, effects);
        }
    }

    /// Return whether all partitions are closed.
    pub(crate) fn all_closed(&self) -> bool {
        let is_closed = |hosted: &HostedPartition| match &hosted.state {
            HostingState::Broken(_) => hosted.operations == 0,
            life => life.partition().is_none_or(Partition::is_closed),
        };
        self.hosted.values().all(is_closed)
    }
}
