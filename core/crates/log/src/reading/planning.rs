//! Plans of ranges: segment by segment, as far as indexes are loaded.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::error::ReadError;
use crate::reading::Reader;
use crate::reading::plan::{
    PLANS_MAX, PlanId, Planning, RangePlan, RangeToPlan, SPLITS_MAX, Split, needs_index,
};
use crate::state::LogState;
use crate::storage::StorageRequest;

impl Reader {
    /// Plan how a range may be split. The plan is finished at once, or after indexes were loaded.
    pub(crate) fn plan(
        &mut self,
        id: PlanId,
        range: RangeToPlan,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let (first_offset, next_offset) = (state.first_offset(), state.visible_end());
        let at = range.start.max(first_offset);
        let end = range.end.min(next_offset);
        let mut planning = Planning {
            id,
            plan: RangePlan {
                first_offset,
                next_offset,
                splits: Vec::new(),
            },
            at,
            end,
            target: 0,
            bytes: 0,
            waits_for: None,
        };
        if at < end {
            planning.target = match range.target_bytes {
                0 => u64::MAX,
                target => {
                    target.max(touched_segment_bytes(at, end, state).div_ceil(SPLITS_MAX - 1))
                }
            };
            planning.plan.splits.push(Split {
                offset: at,
                bytes: 0,
            });
        }
        self.advance_plan(planning, state, out);
    }

    /// Take a finished plan, in no particular order.
    pub(crate) fn take_finished_plan(&mut self) -> Option<(PlanId, Result<RangePlan, ReadError>)> {
        self.plans.finished.pop()
    }

    /// Resume the plans that wait for a load after one has ended. Plans that wait for this very segment fail if its
    /// load failed.
    pub(crate) fn resume_plans(
        &mut self,
        loaded: Offset,
        failure: Option<&ReadError>,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        for mut planning in core::mem::take(&mut self.plans.waiting) {
            match (planning.waits_for.take(), failure) {
                (Some(segment), Some(error)) if segment == loaded => {
                    let failed = (planning.id, Err(error.clone()));
                    self.plans.finished.push(failed);
                }
                _ => self.advance_plan(planning, state, out),
            }
        }
    }

    /// Plan segment by segment until an index is missing.
    fn advance_plan(
        &mut self,
        mut planning: Planning,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        while planning.at < planning.end {
            // Skip segments that were removed meanwhile.
            planning.at = planning.at.max(state.first_offset());
            let base = state.segments.base_of(planning.at);
            let Some(index) = state.segments.index_of(base) else {
                break;
            };
            let segment = &state.segments[index];
            let end = planning.end.min(segment.end);
            if end <= planning.at {
                break;
            }
            if needs_index(segment, planning.at, end, planning.target - planning.bytes) {
                if self.load.is_none() {
                    self.start_load(base, false, state, out);
                }
                // The load of an empty index ends immediately.
                if self.load.is_none() {
                    continue;
                }
                if self.plans.waiting.len() >= PLANS_MAX {
                    let busy = (planning.id, Err(ReadError::Busy));
                    return self.plans.finished.push(busy);
                }
                planning.waits_for = Some(base);
                return self.plans.waiting.push(planning);
            }
            self.clock += 1;
            let clock = self.clock;
            let segment = &mut state.segments[index];
            segment.index.used = clock;
            planning.take(segment, end);
        }
        if let Some(last) = planning.plan.splits.last_mut() {
            last.bytes = planning.bytes;
        }
        let planned = (planning.id, Ok(planning.plan));
        self.plans.finished.push(planned);
    }
}

/// Total size of the segments that a range touches.
fn touched_segment_bytes(start: Offset, end: Offset, state: &LogState) -> u64 {
    let touched = (state.segments.iter())
        .filter(|segment| segment.base < end && segment.end > start)
        .map(|segment| segment.size);
    touched.sum()
}
