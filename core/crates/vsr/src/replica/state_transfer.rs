//! State transfer: a checkpoint from a peer, for a replica whose log no longer reaches.

pub(super) mod transfer;
pub(super) mod transfer_service;
