//! Identifiers, units, limits, namespace packing, hash routing, and the level of events.
//!
//! Everything here is a value: no I/O, no clock, no allocation.
#![no_std]

mod durability;
mod identifiers;
mod level;
pub mod limits;
mod namespace;
mod opening;
mod placement;
mod statistics;

pub use durability::{Durability, LogEnd, UnknownDurability};
pub use identifiers::{
    ClientId, ClientKey, GroupId, NodeId, Offset, PartitionId, ShardId, StageId, StreamId,
    Timestamp, TopicId, UserId,
};
pub use level::Level;
pub use namespace::{Namespace, NamespaceOutOfRange};
pub use opening::{Opening, cut_since};
pub use placement::{murmur3_32, owner_shard};
pub use statistics::PartitionStatistics;
