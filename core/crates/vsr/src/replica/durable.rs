//! Durable state besides the journal: checkpoints, and the order of superblock writes.

pub(super) mod checkpoint;
pub(super) mod superblock_order;
