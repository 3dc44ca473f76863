//! Messages as columns for Arrow libraries, without a dependency on one: buffers out, buffers in.

mod decoder;
mod encoder;
mod memory;

use pyo3::prelude::*;

pub(crate) use decoder::{RecordColumns, column, handed_over, record_error};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    memory::register(module)?;
    decoder::register(module)?;
    encoder::register(module)
}
