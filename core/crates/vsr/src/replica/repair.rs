//! Repair: a replica fetches bodies and headers that it lacks, and serves those that its peers lack.

pub(super) mod body_repair;
pub(super) mod header_repair;
pub(super) mod repair_service;
