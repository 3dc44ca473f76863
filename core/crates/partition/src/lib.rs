//! Partition: append, poll, stored offsets and removal on top of one log.
//!
//! A step function like the log: the host submits requests and completions of storage operations, and drains responses
//! and new storage operations from the [`Outbox`].
#![no_std]

extern crate alloc;

mod api;
mod appends;
pub mod check;
mod commits;
mod flushes;
mod offsets;
mod partition;
mod plan;
mod polls;
mod queue;
mod record;
mod removals;
mod retry;
mod stages;

pub use api::{
    Committer, ConsumerKey, Gap, Level, Outbox, PartitionError, Poll, Polled, Published, Request,
    RequestId, Response, StoredOffset,
};
pub use headrace_log::storage;
pub use headrace_log::{
    Batch, CLOCK_SETBACK_MICROS_MAX, COPIED_BYTES_MAX, Failure, Generation, IndexCaching,
    LogConfig as PartitionConfig, Notice, RangePlan, RangeToPlan, ReadError, Retention,
    RetentionRule, Split, StageLimits,
};
pub use headrace_wire::PollingStrategy;
pub use partition::Partition;
