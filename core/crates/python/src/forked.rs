//! Fork protection: threads, rings and sockets do not survive a fork, so objects refuse to be used in a child.

use pyo3::prelude::*;

use crate::errors::CoreError;

/// The process that an object belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Self {
        Self(std::process::id())
    }

    /// Fail in any process other than the one that created the object.
    pub(crate) fn check(self) -> PyResult<()> {
        let here = std::process::id();
        if here == self.0 {
            return Ok(());
        }
        Err(CoreError::new_err(format!(
            "this object belongs to process {} and cannot be used in process {here} after a fork: make a new one there",
            self.0
        )))
    }
}
