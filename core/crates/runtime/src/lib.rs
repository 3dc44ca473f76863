//! The production host: threads, rings, sockets, files, timers.
#![allow(
    clippy::disallowed_methods,
    reason = "the host reads the clock that everything below it is given"
)]

mod bridge;
mod clock;
mod config;
pub mod cpus;
pub mod driver;
mod events;
mod gauges;
mod host;
mod mailbox;
mod node;
mod open_files;
mod sockets;
pub mod storage;
mod vectored;

pub use bridge::ControlRequest;
pub use config::{InvalidSetting, NodeConfig};
pub use events::{Event, Level};
pub use gauges::ShardReport;
pub use node::{Node, NodeReport, StartError, Started};
pub use open_files::{OpenFilesLimit, raise_open_files_limit};
