//! Split points that divide a range of messages into parts of similar size, for readers that share the work.
//!
//! Boundaries come from the segments and their indexes; no message is read. Sizes between two known boundaries are
//! interpolated by message count.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::error::ReadError;
use crate::index::Index;
use crate::log::Log;
use crate::segment::Segment;
use crate::storage::StorageRequest;

/// Maximum number of parts of one range; a smaller target size is raised accordingly.
const SPLITS_MAX: u64 = 4096;
/// Maximum number of plans of one log that wait for an index.
const PLANS_MAX: usize = 64;

/// Plan id, chosen by the caller and returned with the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanId(pub u64);

/// Range of messages to split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeToPlan {
    /// First message; raised to the first retained one.
    pub start: Offset,
    /// Offset after the last message; limited to the end of the log.
    pub end: Offset,
    /// Minimum size in bytes of a part, except the last one; 0 requests a single part.
    pub target_bytes: u64,
}

/// Split points of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangePlan {
    /// The first offset retained.
    pub first_offset: Offset,
    /// The offset after the last visible message.
    pub next_offset: Offset,
    /// Parts in ascending order. Each ends where the next one starts, the last one at the end of the range. Empty for
    /// an empty range.
    pub splits: Vec<Split>,
}

/// One part of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// The first message.
    pub offset: Offset,
    /// Approximate size in bytes, including message headers.
    pub bytes: u64,
}

/// Plans that wait for an index, and finished ones.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    waiting: Vec<Planning>,
    finished: Vec<(PlanId, Result<RangePlan, ReadError>)>,
}

impl Plans {
    /// Finish all waiting plans as empty after a purge.
    pub(crate) fn abort_all(&mut self) {
        for planning in self.waiting.drain(..) {
            let plan = RangePlan::default();
            self.finished.push((planning.id, Ok(plan)));
        }
    }
}

/// State of a plan in progress.
#[derive(Debug)]
struct Planning {
    id: PlanId,
    plan: RangePlan,
    /// Offset at which planning resumes.
    at: Offset,
    end: Offset,
    target: u64,
    /// Bytes in the last split so far.
    bytes: u64,
    /// The segment whose index has to be loaded first.
    waits_for: Option<Offset>,
}

impl Log {
    /// Plan how a range may be split. [`Log::take_finished_plan`] returns the plan, at once or after indexes were
    /// loaded.
    pub fn plan(&mut self, id: PlanId, range: RangeToPlan, out: &mut Vec<StorageRequest>) {
        let (first_offset, next_offset) = (self.first_offset(), self.visible_end());
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
                target => target.max(self.touched_segment_bytes(at, end).div_ceil(SPLITS_MAX - 1)),
            };
            planning.plan.splits.push(Split {
                offset: at,
                bytes: 0,
            });
        }
        self.advance_plan(planning, out);
    }

    /// Take a finished plan, in no particular order.
    pub fn take_finished_plan(&mut self) -> Option<(PlanId, Result<RangePlan, ReadError>)> {
        self.reads.plans.finished.pop()
    }

    /// Resume the plans that wait for a load after one has ended. Plans that wait for this very segment fail if its
    /// load failed.
    pub(crate) fn resume_plans(
        &mut self,
        loaded: Offset,
        failure: Option<&ReadError>,
        out: &mut Vec<StorageRequest>,
    ) {
        for mut planning in core::mem::take(&mut self.reads.plans.waiting) {
            match (planning.waits_for.take(), failure) {
                (Some(segment), Some(error)) if segment == loaded => {
                    let failed = (planning.id, Err(error.clone()));
                    self.reads.plans.finished.push(failed);
                }
                _ => self.advance_plan(planning, out),
            }
        }
    }

    /// Total size of the segments that a range touches.
    fn touched_segment_bytes(&self, start: Offset, end: Offset) -> u64 {
        let touched = (self.segments.iter())
            .filter(|segment| segment.base < end && segment.end > start)
            .map(|segment| segment.size);
        touched.sum()
    }

    /// Plan segment by segment until an index is missing.
    fn advance_plan(&mut self, mut planning: Planning, out: &mut Vec<StorageRequest>) {
        while planning.at < planning.end {
            // Skip segments that were removed meanwhile.
            planning.at = planning.at.max(self.first_offset());
            let base = self.segment_of(planning.at);
            let Some(index) = self.segment_index(base) else {
                break;
            };
            let segment = &self.segments[index];
            let end = planning.end.min(segment.end);
            if end <= planning.at {
                break;
            }
            if needs_index(segment, planning.at, end, planning.target - planning.bytes) {
                if self.reads.load.is_none() {
                    self.start_load(base, false, out);
                }
                // The load of an empty index ends immediately.
                if self.reads.load.is_none() {
                    continue;
                }
                if self.reads.plans.waiting.len() >= PLANS_MAX {
                    let busy = (planning.id, Err(ReadError::Busy));
                    return self.reads.plans.finished.push(busy);
                }
                planning.waits_for = Some(base);
                return self.reads.plans.waiting.push(planning);
            }
            self.reads.clock += 1;
            let clock = self.reads.clock;
            let segment = &mut self.segments[index];
            segment.index.used = clock;
            planning.take(segment, end);
        }
        if let Some(last) = planning.plan.splits.last_mut() {
            last.bytes = planning.bytes;
        }
        let planned = (planning.id, Ok(planning.plan));
        self.reads.plans.finished.push(planned);
    }
}

/// Return whether inner boundaries of a segment are needed and not loaded. Its two ends are known without an index.
fn needs_index(segment: &Segment, start: Offset, end: Offset, missing: u64) -> bool {
    let knows = |offset: Offset| segment.index.floor(offset.0).is_some();
    let is_start_known = start == segment.base || knows(start);
    let is_end_known = end == segment.end || knows(end);
    if !is_start_known || !is_end_known {
        return true;
    }
    position_of(segment, end) - position_of(segment, start) > missing && !knows(start)
}

impl Planning {
    /// Split the part of a segment from the current offset to `end`.
    fn take(&mut self, segment: &Segment, end: Offset) {
        let mut from = position_of(segment, self.at);
        let to = position_of(segment, end);
        while let Some(position) = from.checked_add(self.target - self.bytes)
            && position < to
            && let Some(entry) = segment.index.first_from_position(position)
            && entry.offset < end.0
        {
            // Avoid an empty split: the position of a range's start is interpolated if it lies between two boundaries,
            // so the boundary found may be the start itself.
            if entry.offset > self.at.0 {
                self.begin(Offset(entry.offset), entry.position.saturating_sub(from));
                from = entry.position;
            } else {
                break;
            }
        }
        self.bytes += to - from;
        self.at = end;
        let is_full = self.bytes >= self.target && end < self.end;
        if is_full {
            self.begin(end, 0);
        }
    }

    /// Complete the last split with this many more bytes and begin another.
    fn begin(&mut self, offset: Offset, bytes: u64) {
        if let Some(last) = self.plan.splits.last_mut() {
            last.bytes = self.bytes + bytes;
        }
        self.plan.splits.push(Split { offset, bytes: 0 });
        self.bytes = 0;
        self.at = offset;
    }
}

/// Approximate position of a message of a segment, or the end of its messages.
fn position_of(segment: &Segment, offset: Offset) -> u64 {
    if offset >= segment.end {
        return segment.size;
    }
    let index: &Index = &segment.index;
    let Some(before) = index.floor(offset.0).filter(|_| offset > segment.base) else {
        return 0;
    };
    let (after_offset, after_position) = match index.ceiling(offset.0) {
        Some(entry) => (entry.offset, entry.position),
        None => (segment.end.0, segment.size),
    };
    let messages = u128::from(after_offset.saturating_sub(before.offset));
    if messages == 0 {
        return before.position;
    }
    let bytes = u128::from(after_position.saturating_sub(before.position));
    let behind = bytes * u128::from(offset.0 - before.offset) / messages;
    before.position + u64::try_from(behind).expect("no more than lies between")
}
