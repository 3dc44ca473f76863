//! Integration tests of replicas on real files and real sockets.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait for real replicas, and a failure of theirs is a panic"
)]

mod alone;
mod group;
mod refusals;
mod sessions;
mod support;
