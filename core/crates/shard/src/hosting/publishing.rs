//! Committed staged batches are appended, and the appending is reported.

use super::{Partitions, state::HostingState};
use crate::api::Effect;
use headrace_catalog::{Catalog, Stages};
use headrace_model::{Level, Namespace, StageId, Timestamp};
use headrace_partition::Published;
use std::sync::Arc;

impl Partitions {
    /// Have partitions append committed batches, and drop aborted ones.
    pub(super) fn follow_publications(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if catalog.shares_stages_with(&self.publications.applied_catalog) {
            return;
        }
        self.publications.forget_acknowledged(catalog);
        for (namespace, stages) in catalog.publications() {
            self.publish_one(namespace, stages, now);
        }
        for (namespace, stages) in catalog.aborted_stages() {
            if let Some(hosted) = self.hosted.get_mut(&namespace)
                && hosted.incarnation == stages.partition_incarnation
                && matches!(hosted.state, HostingState::Open(_))
                && let Some(true) = (self.steps).take(&mut hosted.state, |partition, _| {
                    partition.drop_stages(&stages.ids)
                })
            {
                self.mark_dirty(namespace);
            }
        }
        self.publications.applied_catalog = catalog.clone();
        self.report_publications(effects);
    }

    /// Have a newly opened partition append what is pending, or detect that it had appended that before it was closed.
    pub(super) fn publish_pending(
        &mut self,
        namespace: Namespace,
        catalog: &Catalog,
        now: Timestamp,
    ) {
        for stages in catalog.publications_of(namespace) {
            self.publish_one(namespace, stages, now);
        }
    }

    fn publish_one(&mut self, namespace: Namespace, stages: &Arc<Stages>, now: Timestamp) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        let incarnation = hosted.incarnation;
        if !matches!(hosted.state, HostingState::Open(_))
            || incarnation != stages.partition_incarnation
        {
            return;
        }
        let is_complete = self.steps.take(&mut hosted.state, |partition, _| {
            partition.publish(stages.number, &stages.ids)
        });
        if is_complete == Some(true) {
            self.publications
                .completed(namespace, incarnation, stages.number, now);
        }
        self.mark_dirty(namespace);
    }

    /// Process a partition's completed publication.
    pub(super) fn published(
        &mut self,
        namespace: Namespace,
        published: Published,
        effects: &mut Vec<Effect>,
    ) {
        let Published {
            number,
            messages_count,
            stages_missing,
            ..
        } = published;
        self.meter.published(messages_count, stages_missing);
        if stages_missing > 0 {
            effects.push(Effect::Report {
                level: Level::Error,
                message: format!(
                    "partition {namespace}: messages of a committed transaction are lost: {stages_missing} stages of \
                     publication {number} are not there"
                ),
            });
        }
        if let Some(hosted) = self.hosted.get(&namespace) {
            let now = Timestamp(self.meter.now());
            self.publications
                .completed(namespace, hosted.incarnation, number, now);
        }
    }

    /// Report new completions to the control plane.
    pub(super) fn report_publications(&mut self, effects: &mut Vec<Effect>) {
        if self.publications.unreported.is_empty() {
            return;
        }
        let news = core::mem::take(&mut self.publications.unreported);
        self.publications.report(&news, effects);
    }

    /// Advance the horizon: commits missing from this catalog never name a staged batch that had expired before it.
    pub(crate) fn pass_stage_horizon(&mut self, catalog: &Catalog, horizon: Timestamp) {
        let mut touched = Vec::new();
        for namespace in &self.agenda.with_stages {
            let Some(hosted) = self.hosted.get_mut(namespace) else {
                continue;
            };
            if !matches!(hosted.state, HostingState::Open(_)) {
                continue;
            }
            let pending = catalog.publications_of(*namespace);
            let is_named = |id: StageId| pending.iter().any(|stages| stages.ids.contains(&id));
            let has_passed = self.steps.take(&mut hosted.state, |partition, _| {
                partition.drop_expired_stages(horizon, is_named)
            });
            if has_passed == Some(true) {
                touched.push(*namespace);
            }
        }
        for namespace in touched {
            self.mark_dirty(namespace);
        }
    }
}
