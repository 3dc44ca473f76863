//! A segmented append-only log as a step function: storage requests out, completions in.
//!
//! A log file holds messages exactly as they are on the wire, back to back, and nothing else. Each log file has a
//! sparse index, which is derived from the log and never trusted over it. One manifest per directory identifies the log
//! generation and the segments.
//!
//! A [`Log`] is composed of its state and of four parts that work on it, each with fields of its own:
//!
//! | owner | of | module |
//! |---|---|---|
//! | `LogState` | what the log is: the values below, settings, operations under way | `state` |
//! | `Ends` | how far messages are appended, written, synced and committed | `state`: `ends` |
//! | `Segments` | the segments, each with its files and its index | `state`: `segments`; `segment`, `index` |
//! | `Tail` | the newest messages in memory | `writing`: `tail` |
//! | `Record` | the manifest on disk, and what the next one says | `record`; `manifest`, `openings` |
//! | `Removals` | the files to be removed | `removal`: `queue` |
//! | `Health` | a failure, and lack of space, which passes | `state`: `health` |
//! | `Writer` | appends, group commit, syncs, index entries | `writing`: `append`, `stamp`, `stamped`, `write`, `sync`, `due` |
//! | `Reader` | reads, indexes that are loaded, plans and digests of ranges | `reading`: `read`, `loading`, `planning`, `digest` |
//! | `Remover` | removal of segments, retention, purges, truncation | `removal`: `wipe`, `retention`, `truncation` |
//! | `Recovery` | opening from the files | `recovery`: `identity`, `truncated`, `foreign`, `scanning`, `losses`, `recovered` |
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

pub use batch::{Batch, COPIED_BYTES_MAX, LogPlace, Run};
pub use config::{IndexCaching, LogConfig, StageLimits};
pub use error::{AppendError, Failure, MessageFault, Notice, ReadError, RunError, TruncateError};
pub use log::Log;
pub use manifest::Generation;
pub use operations::Operations;
pub use operations::pending::ReadId;
pub use reading::digest::{MissingMessage, RangeDigest};
pub use reading::job::{Messages, ReadFrom, Started};
pub use reading::plan::{PlanId, RangePlan, RangeToPlan, Split};
pub use removal::retention::RemovalProgress;
pub use removal::retention::{Removed, Retention, RetentionRule};
pub use state::LogState;
pub use walk::accepted_bytes;
pub use writing::append::{Appended, CLOCK_SETBACK_MICROS_MAX};
