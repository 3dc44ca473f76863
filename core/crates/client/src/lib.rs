//! Native client of the binary protocol of Iggy 0.8.
//!
//! [`Client`] is one blocking connection: no threads, no event loop, one system call out and (mostly) one in per
//! request. [`Pipeline`] keeps several batches in flight.
#![allow(clippy::disallowed_methods, reason = "a client reads clocks: it waits")]

mod batch;
mod client;
mod error;
mod extensions;
mod groups;
mod pipeline;
mod socket;
mod tls;
mod transport;
mod websocket;

pub use batch::PreparedBatch;
pub use client::{Client, Gap, NewTopic, Polled, StoredOffset, TopicInfo};
pub use error::ClientError;
pub use extensions::Watcher;
pub use groups::Group;
pub use pipeline::{Answer, Pipeline};
pub use socket::{Transport, WriteStyle};
pub use tls::{Target, TlsTarget};
pub use transport::{ConnectOptions, ResponseBuffer};
