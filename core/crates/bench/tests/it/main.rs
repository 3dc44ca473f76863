//! The load generator against real sockets.

mod runs;
#[path = "../../../client/tests/it/support/mod.rs"]
mod support;
