//! Fork protection: threads, rings and sockets do not survive a fork, so objects refuse to be used in a child.
//!
//! Objects are asked for each message, and a system call for the process id would cost more than the rest: the id is
//! remembered, and the interpreter reports forks.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::{prelude::*, types::PyDict};

use crate::errors::CoreError;

/// An object was used in a child of the process that it belongs to, which is named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsedAfterFork(u32);

/// Id of this process; 0 before the first use.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn process() -> u32 {
    match PROCESS.load(Ordering::Relaxed) {
        0 => {
            note_process();
            PROCESS.load(Ordering::Relaxed)
        }
        known => known,
    }
}

#[pyfunction]
fn note_process() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// Have the interpreter report forks.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let python = module.py();
    let hooks = PyDict::new(python);
    hooks.set_item("after_in_child", wrap_pyfunction!(note_process, module)?)?;
    let os = python.import("os")?;
    os.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}

/// The process that an object belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Self {
        Self(process())
    }

    /// Fail in any process other than the one that created the object.
    pub(crate) fn check(self) -> PyResult<()> {
        Ok(self.find()?)
    }

    /// Check like [`Self::check`], for callers with exceptions of their own.
    pub(crate) fn find(self) -> Result<(), UsedAfterFork> {
        if process() == self.0 {
            return Ok(());
        }
        Err(UsedAfterFork(self.0))
    }
}

/// A value that other threads of its process work on. A child of a fork has a copy without these threads, perhaps with
/// locked locks: it is neither used nor dropped there.
#[derive(Debug)]
pub(crate) struct ForkGuard<T> {
    value: Option<T>,
    home: Home,
}

impl<T> ForkGuard<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            home: Home::here(),
        }
    }

    /// Return the value, in the process that created it.
    pub(crate) fn get(&self) -> Result<&T, UsedAfterFork> {
        self.home.find()?;
        self.value.as_ref().ok_or(UsedAfterFork(self.home.0))
    }
}

impl<T> Drop for ForkGuard<T> {
    fn drop(&mut self) {
        if self.home.find().is_err() {
            std::mem::forget(self.value.take());
        }
    }
}

impl std::fmt::Display for UsedAfterFork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let here = process();
        write!(
            formatter,
            "this object belongs to process {} and cannot be used in process {here} after a fork: make a new one there",
            self.0
        )
    }
}

impl From<UsedAfterFork> for PyErr {
    fn from(error: UsedAfterFork) -> Self {
        CoreError::new_err(error.to_string())
    }
}
