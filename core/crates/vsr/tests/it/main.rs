//! Integration tests of the replication core: scripts with their traces, and random walks.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod log_time;
mod outages;
mod scenarios;
mod walk;
mod world;
