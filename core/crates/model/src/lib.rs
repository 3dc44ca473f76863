//! Identifiers, units, namespace packing, limits and hash routing.
//!
//! Everything here is a value: no I/O, no clock, no allocation.
#![no_std]

mod durability;
mod identifiers;
pub mod limits;
mod namespace;
mod placement;
mod statistics;

pub use durability::{Durability, UnknownDurability};
pub use identifiers::{
    ClientId, GroupId, Offset, PartitionId, ShardId, StreamId, Timestamp, TopicId, UserId,
};
pub use namespace::{Namespace, NamespaceOutOfRange};
pub use placement::{murmur3_32, owner_shard};
pub use statistics::PartitionStatistics;
