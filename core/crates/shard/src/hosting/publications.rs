//! Publications: committed staged batches on their way into the partitions of this shard, and the report of completion.
//!
//! The catalog names the staged batches of a partition that are committed and not appended yet. The partition appends
//! them once and reports that to the control plane, which removes them from its list. The report is repeated until
//! then.

use std::collections::BTreeMap;

use headrace_catalog::Catalog;
use headrace_model::{Namespace, Timestamp};
use headrace_proto::{
    control::v1::{self as control, request::Operation},
    metadata::v1::{AppliedPublications, PublicationsApplied},
};

use super::deadlines::Deadlines;
use crate::api::Effect;

/// Maximum number of partitions in one report.
const REPORT_PARTITIONS_MAX: usize = 1000;

/// Time after which an unacknowledged report to the control plane is repeated.
const REPORT_RETRY_MICROS: u64 = 5_000_000;

/// Publications of a partition that are complete up to a number.
pub(super) struct Complete {
    pub(super) incarnation: u64,
    pub(super) number: u64,
    /// Time at which the report is repeated.
    repeat_at: Option<Timestamp>,
}

#[derive(Default)]
pub(super) struct Publications {
    /// Catalog that was applied last.
    pub(super) applied_catalog: Catalog,
    /// Publications that are complete here but still pending in the catalog.
    pub(super) complete: BTreeMap<Namespace, Complete>,
    /// Partitions whose completion was not reported yet.
    pub(super) unreported: Vec<Namespace>,
    repeats: Deadlines,
}

impl Complete {
    /// Return whether the control plane has yet to process the report.
    fn is_pending(&self, catalog: &Catalog, namespace: Namespace) -> bool {
        let pending = catalog.publications_of(namespace).first();
        pending.is_some_and(|pending| {
            pending.partition_incarnation == self.incarnation && pending.number <= self.number
        })
    }
}

impl Publications {
    pub(super) fn completed(
        &mut self,
        namespace: Namespace,
        incarnation: u64,
        number: u64,
        now: Timestamp,
    ) {
        let known = self.complete.get(&namespace);
        if known.is_some_and(|known| (known.incarnation, known.number) >= (incarnation, number)) {
            return;
        }
        let mut repeat_at = known.and_then(|known| known.repeat_at);
        let retry = Timestamp(now.0 + REPORT_RETRY_MICROS);
        (self.repeats).set(namespace, &mut repeat_at, Some(retry));
        let complete = Complete {
            incarnation,
            number,
            repeat_at,
        };
        self.complete.insert(namespace, complete);
        self.unreported.push(namespace);
    }

    /// Forget publications whose report the control plane has processed.
    pub(super) fn forget_acknowledged(&mut self, catalog: &Catalog) {
        self.complete.retain(|namespace, complete| {
            let is_kept = complete.is_pending(catalog, *namespace);
            if !is_kept {
                self.repeats.set(*namespace, &mut complete.repeat_at, None);
            }
            is_kept
        });
    }

    /// Repeat the reports that the control plane should have processed by now.
    pub(super) fn repeat_reports(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut late = Vec::new();
        while let Some(namespace) = self.repeats.take_due(now) {
            let Some(complete) = self.complete.get_mut(&namespace) else {
                continue;
            };
            complete.repeat_at = None;
            if complete.is_pending(&self.applied_catalog, namespace) {
                let retry = Timestamp(now.0 + REPORT_RETRY_MICROS);
                (self.repeats).set(namespace, &mut complete.repeat_at, Some(retry));
                late.push(namespace);
            } else {
                self.complete.remove(&namespace);
            }
        }
        self.report(&late, effects);
    }

    pub(super) fn report(&self, partitions: &[Namespace], effects: &mut Vec<Effect>) {
        let applied = partitions.iter().filter_map(|namespace| {
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
