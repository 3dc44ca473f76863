//! A segmented append-only log as a step function: storage requests out, completions in.
//!
//! A log file holds messages exactly as they are on the wire, back to back, and nothing else. Each log file has a
//! sparse index, which is derived from the log and never trusted over it. One manifest per directory identifies the log
//! generation and the segments.
//!
//! | phase | module |
//! |---|---|
//! | opening: recovery from the files | `recovery`, `manifest` |
//! | appending: one pass, then memory | `writing`: `append`, `stamp`, `tail` |
//! | group commit | `writing`: `write` |
//! | syncs, index entries, sealing | `writing`: `sync`; `entry` |
//! | reading | `reading`: `read`, `locate`, `from_memory`, `from_storage`, `cursor`, `verified` |
//! | indexes of sealed segments | `reading`: `load`; `index` |
//! | splitting ranges for readers that share them | `reading`: `plan` |
//! | removing segments, purging | `removal`: `remove`, `retention` |
#![no_std]

extern crate alloc;

mod batch;
pub mod check;
mod config;
mod entry;
mod error;
mod index;
mod log;
mod manifest;
mod openings;
mod operations;
mod reading;
mod record;
mod recovery;
mod removal;
mod segment;
mod state;
pub mod storage;
mod walk;
mod writing;

pub use batch::Batch;
pub use config::{IndexCaching, LogConfig, StageLimits};
pub use error::{AppendError, Failure, Notice, ReadError};
pub use log::Log;
pub use manifest::Generation;
pub use operations::Operations;
pub use reading::plan::{PlanId, RangePlan, RangeToPlan, Split};
pub use reading::read::{Messages, ReadFrom, ReadId, Started};
pub use removal::remove::RemovalProgress;
pub use removal::retention::{Removed, Retention};
pub use walk::accepted_bytes;
pub use writing::append::{Appended, CLOCK_SETBACK_MICROS_MAX, COPIED_BYTES_MAX};
