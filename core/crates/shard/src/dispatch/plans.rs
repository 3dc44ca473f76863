//! Splitting of offset ranges for readers that share them.

use headrace_catalog::Action;
use headrace_model::Offset;
use headrace_partition::{RangePlan, RangeToPlan, Request};
use headrace_ticket::Access;
use headrace_wire::{
    command::PlanRange,
    response::{PlannedRange, RangeSplit},
};

use super::{Context, Handled, Outcome};

impl Context<'_> {
    pub(super) fn plan_range(&self, request: &PlanRange<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::Poll)?;
        Ok(Outcome::Partition {
            member: None,
            namespace: self.place_of(topic, Some(request.partition_id), Access::READ)?,
            request: Request::PlanRange(RangeToPlan {
                start: Offset(request.start),
                end: Offset(request.end),
                target_bytes: request.target_bytes,
            }),
            rate: None,
        })
    }
}

/// Convert a plan to the binary protocol.
pub(super) fn planned_range(plan: &RangePlan) -> PlannedRange {
    let splits = plan.splits.iter().map(|split| RangeSplit {
        offset: split.offset.0,
        bytes: split.bytes,
    });
    PlannedRange {
        first_offset: plan.first_offset.0,
        next_offset: plan.next_offset.0,
        splits: splits.collect(),
    }
}
