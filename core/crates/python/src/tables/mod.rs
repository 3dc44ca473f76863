//! Tables of Arrow libraries: batches that they read, and rows of theirs that are sent.

mod batches;
mod capsules;
mod rows;

use pyo3::prelude::*;

pub(crate) use batches::{
    array_capsules, one_record_batch, projection_of, schema_capsule, stream_of,
};
pub(crate) use rows::TableRows;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<rows::TableReader>()?;
    module.add_class::<TableRows>()?;
    module.add_function(wrap_pyfunction!(batches::batch_stream, module)?)
}
