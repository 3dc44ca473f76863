//! Delivery of partitions' storage requests and answers.

use headrace_link::Refusal;
use headrace_model::{Level, Namespace};
use headrace_partition::PartitionError;

use super::{HostingState, Partitions, RequestPurpose};
use crate::{api::Effect, calls::PartitionAnswer};

impl Partitions {
    /// Empty the outbox of the partition that was called last.
    pub(super) fn drain(&mut self, namespace: Namespace, effects: &mut Vec<Effect>) {
        if self.steps.have_broken() {
            self.settle_broken(effects);
        }
        if !self.steps.outbox.storage.is_empty()
            && let Some(hosted) = self.hosted.get_mut(&namespace)
        {
            hosted.operations += self.steps.outbox.storage.len();
        }
        for request in self.steps.outbox.storage.drain(..) {
            effects.push(Effect::Storage { namespace, request });
        }
        self.deliver(namespace, effects);
    }

    /// Deliver answers and events to their destinations.
    pub(super) fn deliver(&mut self, namespace: Namespace, effects: &mut Vec<Effect>) {
        let mut may_move = Vec::new();
        let mut answered = core::mem::take(&mut self.steps.outbox.responses);
        for (request_id, result) in answered.drain(..) {
            if let Err(error) = &result {
                self.damage.report(error, effects);
            }
            let Some(asked) = self.steps.origins.remove(request_id) else {
                continue;
            };
            let (origin, has_ended) = match asked {
                RequestPurpose::Request(origin) => {
                    if origin.trace.is_some() {
                        let meter = &*self.meter;
                        (self.steps.traces).end(request_id, &result, meter.now(), &meter.tracer);
                    }
                    let has_ended = origin.member.is_some_and(|membership| {
                        self.members.ended(namespace, membership, &result)
                    });
                    let result = result.map_err(|error| self.refusal(namespace, error));
                    self.answers.push(PartitionAnswer {
                        origin,
                        namespace,
                        result,
                    });
                    (origin, has_ended)
                }
                RequestPurpose::Wait(origin, when_ready) => {
                    let may_move = self.waiter_polled(origin, when_ready, namespace, result);
                    (origin, may_move)
                }
            };
            if let Some(membership) = origin.member.filter(|_| has_ended) {
                may_move.push((namespace, membership.key));
            }
        }
        self.steps.outbox.responses = answered;
        let mut published = core::mem::take(&mut self.steps.outbox.published);
        for published in published.drain(..) {
            self.published(namespace, published, effects);
        }
        self.steps.outbox.published = published;
        for notice in self.steps.outbox.notices.drain(..) {
            effects.push(Effect::Report {
                level: Level::Error,
                message: format!("partition {namespace}: {notice}"),
            });
        }
        if !may_move.is_empty() {
            self.report_if_processed(may_move, effects);
        }
    }

    /// Convert a partition's error into a refusal. A closed partition does not know the reason.
    fn refusal(&self, namespace: Namespace, error: PartitionError) -> Refusal {
        let life = self.hosted.get(&namespace).map(|hosted| &hosted.state);
        match (&error, life) {
            (PartitionError::Closed, Some(HostingState::Leaving(_))) => Refusal::Elsewhere,
            (PartitionError::Closed, Some(HostingState::Retiring(_))) => Refusal::NotFound,
            _ => Refusal::Partition(error),
        }
    }
}
