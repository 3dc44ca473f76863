//! Publications: committed staged batches on their way into the partitions of this shard, and the report of completion.
//!
//! The catalog names the staged batches of a partition that are committed and not appended yet. The partition appends
//! them once and reports that to the control plane, which removes them from its list. The report is repeated until
//! then.

use std::{collections::BTreeMap, sync::Arc};

use headrace_catalog::{Catalog, Stages};
use headrace_model::{Level, Namespace, StageId, Timestamp};
use headrace_partition::Published;
use headrace_proto::{
    control::v1::{self as control, request::Operation},
    metadata::v1::{AppliedPublications, PublicationsApplied},
};

use super::{Partitions, lives::HostingState};
use crate::api::Effect;

/// Time after which an unacknowledged report to the control plane is repeated.
const REPORT_RETRY_MICROS: u64 = 5_000_000;
/// Maximum number of partitions in one report.
const REPORT_PARTITIONS_MAX: usize = 1000;

/// Publications of a partition that are complete up to a number.
struct Complete {
    incarnation: u64,
    number: u64,
    reported_at: Timestamp,
}

#[derive(Default)]
pub(super) struct Publications {
    /// Catalog that was applied last.
    applied_catalog: Catalog,
    /// Publications that are complete here but still pending in the catalog.
    complete: BTreeMap<Namespace, Complete>,
    /// Partitions whose completion was not reported yet.
    unreported: Vec<Namespace>,
}

impl Publications {
    fn completed(&mut self, namespace: Namespace, incarnation: u64, number: u64, now: Timestamp) {
        let known = self.complete.get(&namespace);
        if known.is_some_and(|known| (known.incarnation, known.number) >= (incarnation, number)) {
            return;
        }
        let complete = Complete {
            incarnation,
            number,
            reported_at: now,
        };
        self.complete.insert(namespace, complete);
        self.unreported.push(namespace);
    }

    /// Forget publications whose report the control plane has processed.
    fn forget_acknowledged(&mut self, catalog: &Catalog) {
        self.complete.retain(|namespace, complete| {
            let pending = catalog.publications_of(*namespace).first();
            pending.is_some_and(|pending| {
                pending.partition_incarnation == complete.incarnation
                    && pending.number <= complete.number
            })
        });
    }

    fn report(&self, places: &[Namespace], effects: &mut Vec<Effect>) {
        let applied = places.iter().filter_map(|namespace| {
            let complete = self.complete.get(namespace)?;
            Some(AppliedPublications {
                stream_id: namespace.stream().0,
                topic_id: namespace.topic().0,
                partition_id: namespace.partition().0,
                partition_incarnation: complete.incarnation,
                number: complete.number,
            })
        });
        let applied: Vec<AppliedPublications> = applied.collect();
        effects.extend(applied.chunks(REPORT_PARTITIONS_MAX).map(|partitions| {
            let notice = PublicationsApplied {
                partitions: partitions.to_vec(),
            };
            Effect::Notice {
                request: control::Request {
                    operation: Some(Operation::PublicationsApplied(notice)),
                    ..Default::default()
                },
            }
        }));
    }
}

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

    /// Repeat reports that the control plane should have processed by now.
    pub(super) fn repeat_publication_reports(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.publications.complete.is_empty() {
            return;
        }
        let followed = self.publications.applied_catalog.clone();
        self.publications.forget_acknowledged(&followed);
        let mut late = Vec::new();
        for (namespace, complete) in &mut self.publications.complete {
            if complete.reported_at.0 + REPORT_RETRY_MICROS <= now.0 {
                complete.reported_at = now;
                late.push(*namespace);
            }
        }
        self.publications.report(&late, effects);
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
