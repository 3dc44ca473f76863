//! Split points that divide a range of messages into parts of similar size, for readers that share the work.
//!
//! Boundaries come from the segments and their indexes; no message is read. Sizes between two known boundaries are
//! interpolated by message count.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::error::ReadError;
use crate::index::Index;
use crate::segment::Segment;

/// Maximum number of parts of one range; a smaller target size is raised accordingly.
pub(super) const SPLITS_MAX: u64 = 4096;
/// Maximum number of plans of one log that wait for an index.
pub(super) const PLANS_MAX: usize = 64;

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
    pub(super) waiting: Vec<Planning>,
    pub(super) finished: Vec<(PlanId, Result<RangePlan, ReadError>)>,
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
pub(super) struct Planning {
    pub(super) id: PlanId,
    pub(super) plan: RangePlan,
    /// Offset at which planning resumes.
    pub(super) at: Offset,
    pub(super) end: Offset,
    pub(super) target: u64,
    /// Bytes in the last split so far.
    pub(super) bytes: u64,
    /// The segment whose index has to be loaded first.
    pub(super) waits_for: Option<Offset>,
}

/// Return whether inner boundaries of a segment are needed and not loaded. Its two ends are known without an index.
pub(super) fn needs_index(segment: &Segment, start: Offset, end: Offset, missing: u64) -> bool {
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
    pub(super) fn take(&mut self, segment: &Segment, end: Offset) {
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
