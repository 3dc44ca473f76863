//! Sessions, producers and consumers over real sockets.
//!
//! One thread of the process drives all of them ([`Engine`]). Its handles may be used from any thread: they never wait
//! for the network, and return a [`Promise`] where there is something to wait for.
#![allow(
    clippy::disallowed_methods,
    reason = "a client reads clocks: it waits and times out"
)]

mod address;
mod consumer;
mod driver;
mod engine;
mod inbox;
mod outbox;
mod producer;
mod promise;
mod reports;
mod requester;
mod transport;
mod virtual_time;
mod websocket;

pub use address::{Address, AddressError};
pub use consumer::{ConsumerHandle, Taken};
pub use engine::{Change, Engine, Observer, SessionSettings};
pub use headrace_sdk_core as session;
pub use producer::{Delivery, Outgoing, ProducerCounters, ProducerHandle};
pub use promise::Promise;
pub use reports::{Report, Reports};
pub use requester::Requester;
pub use virtual_time::VirtualTime;
