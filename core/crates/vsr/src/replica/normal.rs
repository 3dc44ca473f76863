//! Normal operation of a view: prepare, acknowledge, commit, execute, heartbeat.

pub(super) mod acknowledge;
pub(super) mod commit;
pub(super) mod execution;
pub(super) mod heartbeat;
pub(super) mod prepare;
