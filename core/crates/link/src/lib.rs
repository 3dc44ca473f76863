//! What a gateway and a partition node say to each other.
//!
//! A shard that does not own a partition asks the shard that does. Both may be threads of one process, or a gateway's
//! and a node's: then what they say goes over a link, one TCP connection for the two shards. This crate has the words for
//! both ways ([`ToNode`], [`ToGateway`]) and their bytes; it does no I/O and knows neither connections nor the catalogue.
#![no_std]

extern crate alloc;

mod call;
mod codec;
mod figures;
mod membership;
mod refusal;
mod to_gateway;
mod to_node;
mod trace;
mod view;
mod wait;

pub use call::{Call, Place};
pub use codec::{DecodeError, MESSAGES_HEAD_BYTES_MAX, SmallToNode, VERSION, refusal};
pub use figures::{Figures, Scope};
pub use membership::Membership;
pub use refusal::Refusal;
pub use to_gateway::ToGateway;
pub use to_node::ToNode;
pub use trace::TraceContext;
pub use view::View;
pub use wait::{StopWaiting, WhenReady};
