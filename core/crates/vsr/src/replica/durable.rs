//! Durable state besides the journal: checkpoints, and the order of superblock writes.

pub(super) mod checkpoints;
mod recording;
pub(super) mod superblock_order;
