//! Offline check of a partition's directory.

use std::path::Path;

use headrace_model::{Namespace, PartitionId, StreamId, TopicId};
use headrace_runtime::fsck;
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::errors::core_error;

#[pyfunction]
pub(crate) fn check_partition(
    python: Python<'_>,
    directory: &str,
    ids: (u32, u32, u32),
    catalog: &str,
    repair: bool,
) -> PyResult<String> {
    let (stream, topic, partition) = ids;
    let namespace = Namespace::new(StreamId(stream), TopicId(topic), PartitionId(partition))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let catalog = match catalog {
        "" => 0,
        digits => u128::from_str_radix(digits, 16)
            .map_err(|error| PyValueError::new_err(error.to_string()))?,
    };
    let check = python
        .detach(|| fsck::check_partition(Path::new(directory), namespace, catalog, repair))?;
    serde_json::to_string(&check).map_err(|error| core_error(&error))
}
