//! State transfer: checkpoints of other replicas, for when the log does not reach far enough.

mod installation;
mod transfer_service;
pub(super) mod transfers;
