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
pub mod fsck;
mod host;
pub mod listener;
mod mailbox;
mod memory;
mod metrics;
mod node;
mod open_files;
mod scrub;
mod shard_threads;
mod sockets;
pub mod storage;
mod token;
mod vectored;

pub use bridge::ControlRequest;
pub use config::{InvalidSetting, NodeConfig, Secret};
pub use connector::{Connector, TcpConnector};
pub use events::{Event, Events};
pub use headrace_shard::{Key as TraceKey, PartitionTrace, RequestTrace, TraceRecord};
pub use memory::freed_memory::keep_freed_memory;
pub use metrics::gauges::ShardReport;
pub use metrics::report::NodeReport;
pub use metrics::traffic::{CommandReport, TrafficReport};
pub use node::{Node, StartError, Started};
pub use open_files::{OpenFilesLimit, raise_open_files_limit};
pub use scrub::ScrubReport;
