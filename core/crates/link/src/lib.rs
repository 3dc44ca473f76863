//! Protocol between a gateway and a partition node.
//!
//! A shard that does not own a partition sends its requests to the shard that does. Both may be threads of one process,
//! or one is in a gateway and one in a node: in that case the messages travel over a link, one TCP connection for the
//! two shards. This crate defines the messages of both directions ([`ToNode`], [`ToGateway`]) and their encoding. It
//! does no I/O and depends neither on connections nor on the catalog.
#![no_std]

extern crate alloc;

mod call;
mod codec;
mod membership;
mod refusal;
mod statistics;
mod to_gateway;
mod to_node;
mod trace;
mod view;
mod wait;

pub use call::{CallHeader, PartitionRef, RequestId};
pub use codec::{
    DecodeError, MESSAGES_HEAD_BYTES_MAX, OLDEST_VERSION, SmallToNode, VERSION, refusal,
};
pub use membership::Membership;
pub use refusal::Refusal;
pub use statistics::{Scope, StatisticsSnapshot};
pub use to_gateway::ToGateway;
pub use to_node::ToNode;
pub use trace::TraceContext;
pub use view::WatchedState;
pub use wait::{EndWait, WhenReady};
