//! Plans for splitting ranges of messages.

use headrace_wire::{Command, command::PlanRange, response::PlannedRange as Wire};
use pyo3::prelude::*;

use super::{
    arguments::Name,
    commands::{Encoded, encoded},
    error::malformed,
};
use crate::readable::readable;

readable!(PlannedRange: first_offset, next_offset, splits);

/// A range of messages and its possible splits.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct PlannedRange {
    /// First offset that can be polled.
    first_offset: u64,
    /// Offset after the last message that can be polled.
    next_offset: u64,
    /// Start offset and approximate size of each split; each ends where the next one starts, the last one where the
    /// range ends.
    splits: Vec<(u64, u64)>,
}

impl From<Wire> for PlannedRange {
    fn from(plan: Wire) -> Self {
        let splits = plan.splits.into_iter();
        Self {
            first_offset: plan.first_offset,
            next_offset: plan.next_offset,
            splits: splits.map(|split| (split.offset, split.bytes)).collect(),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (*, stream, topic, partition, start = 0, end = u64::MAX, target_bytes = 0))]
fn encode_plan_range(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    partition: u32,
    start: u64,
    end: u64,
    target_bytes: u64,
) -> PyResult<Encoded<'_>> {
    let command = PlanRange {
        stream: stream.checked("stream")?,
        topic: topic.checked("topic")?,
        partition_id: partition,
        start,
        end,
        target_bytes,
    };
    encoded(python, &Command::PlanRange(command))
}

#[pyfunction]
fn decode_planned_range(payload: &[u8]) -> PyResult<PlannedRange> {
    Wire::decode(payload)
        .map(PlannedRange::from)
        .map_err(malformed)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PlannedRange>()?;
    module.add_function(wrap_pyfunction!(encode_plan_range, module)?)?;
    module.add_function(wrap_pyfunction!(decode_planned_range, module)?)
}
