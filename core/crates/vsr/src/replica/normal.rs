//! Normal operation of a view: prepare, acknowledge, commit, execute, heartbeat.

mod acknowledge;
mod commit;
pub(super) mod execution;
mod heartbeat;
pub(super) mod pipeline;
mod prepare;
