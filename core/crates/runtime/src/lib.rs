//! The production host: threads, rings, sockets, files, timers.
#![allow(
    clippy::disallowed_methods,
    reason = "the host reads the clock that everything below it is given"
)]

mod bridge;
mod clock;
mod config;
mod connector;
pub mod cpus;
pub mod driver;
mod events;
mod freed_memory;
mod gauges;
mod giving_back;
mod host;
pub mod listener;
mod mailbox;
mod node;
mod open_files;
mod report;
mod shard_threads;
mod sockets;
pub mod storage;
mod token;
mod traffic;
mod vectored;

pub use bridge::ControlRequest;
pub use config::{InvalidSetting, NodeConfig, Secret};
pub use connector::{Connector, TcpConnector};
pub use events::{Event, Events};
pub use freed_memory::keep_freed_memory;
pub use gauges::ShardReport;
pub use headrace_shard::{Key as TraceKey, PartitionTrace, RequestTrace, TraceRecord};
pub use node::{Node, StartError, Started};
pub use open_files::{OpenFilesLimit, raise_open_files_limit};
pub use report::NodeReport;
pub use traffic::{CommandReport, TrafficReport};
