//! A segmented append-only log as a step function: storage requests out, completions in.
//!
//! A log file holds messages exactly as they are on the wire, back to back, and nothing else. Each log file has a
//! sparse index, which is derived from the log and never trusted over it. One manifest per directory identifies the log
//! generation and the segments.
//!
//! | phase | module |
//! |---|---|
//! | opening: recovery from the files | `recover`, `recovered`, `scan`, `manifest`, `foreign` |
//! | appending: one pass, then memory | `append`, `stamp`, `tail` |
//! | group commit | `write` |
//! | syncs, index entries, sealing | `sync`, `entry` |
//! | reading | `read`, `locate`, `from_memory`, `from_storage`, `cursor`, `verified` |
//! | indexes of sealed segments | `load`, `index` |
//! | splitting ranges for readers that share them | `plan` |
//! | removing segments, purging | `remove` |
#![no_std]

extern crate alloc;

mod append;
mod batch;
mod caches;
mod config;
mod cursor;
mod entry;
mod error;
mod foreign;
mod from_memory;
mod from_storage;
mod index;
mod load;
mod locate;
mod log;
mod manifest;
mod operations;
mod plan;
mod read;
mod recover;
mod recovered;
mod remove;
mod retention;
mod scan;
mod segment;
mod shortage;
mod stamp;
mod state;
pub mod storage;
mod sync;
mod tail;
mod verified;
mod walk;
mod write;

pub use append::{Appended, CLOCK_SETBACK_MICROS_MAX, COPIED_BYTES_MAX};
pub use batch::Batch;
pub use config::{IndexCaching, LogConfig, StageLimits};
pub use error::{AppendError, Failure, Notice, ReadError};
pub use log::Log;
pub use manifest::Generation;
pub use operations::Operations;
pub use plan::{PlanId, RangePlan, RangeToPlan, Split};
pub use read::{Messages, ReadFrom, ReadId, Started};
pub use remove::RemovalProgress;
pub use retention::{Removed, Retention};
pub use walk::accepted_bytes;
