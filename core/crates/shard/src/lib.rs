//! Sessions and partitions of one core as a step function.
//!
//! A [`Shard`] owns client connections and the partitions that hash to it. The host feeds it [`Input`]s and
//! executes the [`Effect`]s that come out; the shard itself does no I/O, reads no clock and starts no thread, so the
//! same object runs in production and under simulation. A request for a partition of another shard travels there
//! as [`Mail`] with its bytes, and its answer travels back.
//!
//! The state lies in three parts (decision 62): `sessions` turns bytes into requests and answers into bytes, `routing`
//! carries a [`PartitionCall`] to its partition and the [`PartitionAnswer`] back, and `hosting` has the partitions.
//! `dispatch` decides, command by command, who answers a request. `shard` has the order of a turn, and passes values
//! from one part to the next (decision 117).

mod api;
mod calls;
mod config;
mod dispatch;
mod hosting;
mod memory;
mod meter;
mod moment;
mod owner;
mod progress;
mod routing;
mod sessions;
mod shard;
mod tracer;

pub use api::{Effect, Input, MovedConnection};
pub use calls::{
    ConnectionKey, LinkNumber, Mail, Origin, PartitionAnswer, PartitionCall, Sequence, WaitingPoll,
};
pub use config::{ClusterView, Hosting, NodeView, RetentionConfig, ShardConfig, WebSocketConfig};
pub use dispatch::{issuer_may, notes::Refusals};
pub use headrace_link::{
    EndWait, MESSAGES_HEAD_BYTES_MAX, Membership, Refusal, TraceContext, WatchedState, WhenReady,
};
pub use hosting::{Troubles, panic_message};
pub use memory::Memory;
pub use meter::{LATENCY_BOUNDS_MICROS, Latencies, Meter, Reading};
pub use moment::ClockState;
pub use progress::Progress;
pub use routing::links::{LinksConfig, NodeContacts};
pub use sessions::arrival::{Arrival, Framing};
pub use sessions::proxy;
pub use sessions::registry::{Client, ClientRegistry};
pub use shard::Shard;
pub use tracer::{Key, PartitionTrace, RequestTrace, TraceRecord, Tracer};
