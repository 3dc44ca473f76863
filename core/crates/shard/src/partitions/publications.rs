//! What transactions have committed, on its way into the partitions of this shard, and the news that it is there.
//!
//! The catalogue says which stages of a partition are committed and not appended yet. The partition appends them, once; the
//! control plane is told, and takes them off its list. It is told again as long as it has not.

use std::{collections::BTreeMap, sync::Arc};

use headrace_catalog::{Catalog, Stages};
use headrace_model::{Namespace, StageId, Timestamp};
use headrace_partition::Published;
use headrace_proto::{
    control::v1::{self as control, request::Operation},
    metadata::v1::{AppliedPublications, PublicationsApplied},
};

use super::{Partitions, lives::Life};
use crate::api::Effect;

/// What the control plane does not seem to have heard is told again after so long.
const TOLD_AGAIN_MICROS: u64 = 5_000_000;
/// Partitions of which one notice tells.
const PARTITIONS_TOLD_MAX: usize = 1000;

/// Publications of a partition up to a number are complete.
struct Complete {
    incarnation: u64,
    number: u64,
    told_at: Timestamp,
}

#[derive(Default)]
pub(super) struct Publications {
    /// The catalogue that was followed last.
    followed: Catalog,
    /// What is complete here and stands in the catalogue as if it were not.
    complete: BTreeMap<Namespace, Complete>,
    /// Of these nobody was told.
    news: Vec<Namespace>,
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
            told_at: now,
        };
        self.complete.insert(namespace, complete);
        self.news.push(namespace);
    }

    /// Forget what the control plane has heard.
    fn forget_heard(&mut self, catalog: &Catalog) {
        self.complete.retain(|namespace, complete| {
            let pending = catalog.publications_of(*namespace).first();
            pending.is_some_and(|pending| {
                pending.partition_incarnation == complete.incarnation
                    && pending.number <= complete.number
            })
        });
    }

    fn tell(&self, places: &[Namespace], effects: &mut Vec<Effect>) {
        let told = places.iter().filter_map(|namespace| {
            let complete = self.complete.get(namespace)?;
            Some(AppliedPublications {
                stream_id: namespace.stream().0,
                topic_id: namespace.topic().0,
                partition_id: namespace.partition().0,
                partition_incarnation: complete.incarnation,
                number: complete.number,
            })
        });
        let told: Vec<AppliedPublications> = told.collect();
        effects.extend(told.chunks(PARTITIONS_TOLD_MAX).map(|partitions| {
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
    /// Have partitions append what is committed, and drop what is given up.
    pub(super) fn follow_publications(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if catalog.is_staged_like(&self.publications.followed) {
            return;
        }
        self.publications.forget_heard(catalog);
        for (namespace, stages) in catalog.publications() {
            self.publish_one(namespace, stages, now);
        }
        for (namespace, stages) in catalog.aborted_stages() {
            if let Some(hosted) = self.hosted.get_mut(&namespace)
                && hosted.incarnation == stages.partition_incarnation
                && matches!(hosted.life, Life::Open(_))
                && let Some(true) = (self.steps).take(&mut hosted.life, |partition, _| {
                    partition.drop_stages(&stages.ids)
                })
            {
                self.mark_dirty(namespace);
            }
        }
        self.publications.followed = catalog.clone();
        self.tell_publications(effects);
    }

    /// What a partition that has just been opened is yet to append, or has appended before it was closed.
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
        if !matches!(hosted.life, Life::Open(_)) || incarnation != stages.partition_incarnation {
            return;
        }
        let is_complete = self.steps.take(&mut hosted.life, |partition, _| {
            partition.publish(stages.number, &stages.ids)
        });
        if is_complete == Some(true) {
            self.publications
                .completed(namespace, incarnation, stages.number, now);
        }
        self.mark_dirty(namespace);
    }

    /// A partition has appended what was committed.
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

    /// Tell the control plane the news.
    pub(super) fn tell_publications(&mut self, effects: &mut Vec<Effect>) {
        if self.publications.news.is_empty() {
            return;
        }
        let news = core::mem::take(&mut self.publications.news);
        self.publications.tell(&news, effects);
    }

    /// Tell it again what it should have heard by now.
    pub(super) fn tell_publications_again(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.publications.complete.is_empty() {
            return;
        }
        let followed = self.publications.followed.clone();
        self.publications.forget_heard(&followed);
        let mut late = Vec::new();
        for (namespace, complete) in &mut self.publications.complete {
            if complete.told_at.0 + TOLD_AGAIN_MICROS <= now.0 {
                complete.told_at = now;
                late.push(*namespace);
            }
        }
        self.publications.tell(&late, effects);
    }

    /// No commit that is not in this catalogue names a stage that had expired by then.
    pub(crate) fn pass_stage_horizon(&mut self, catalog: &Catalog, horizon: Timestamp) {
        let mut touched = Vec::new();
        for (namespace, hosted) in &mut self.hosted {
            let Life::Open(partition) = &hosted.life else {
                continue;
            };
            if partition.stages_count() == 0 {
                continue;
            }
            let pending = catalog.publications_of(*namespace);
            let is_named = |id: StageId| pending.iter().any(|stages| stages.ids.contains(&id));
            let has_passed = self.steps.take(&mut hosted.life, |partition, _| {
                partition.pass_horizon(horizon, is_named)
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
