//! Client side of the binary protocol as step functions, without sockets, threads and clocks.
//!
//! - [`Session`] is one connection that is made again when it breaks: addresses in turn, back-off, login, the order of
//!   requests and answers, deadlines, keep-alive.
//! - [`Producer`] collects messages in batches by partition, limits what is in flight and what is buffered, and sends
//!   again what is known not to be stored.
//! - [`Consumer`] is membership in a group or a list of partitions, with positions, prefetching and stored offsets.
//!
//! Time is passed in as the duration since an epoch of the caller. What is to be done is taken from the step functions
//! as effects. The crate `engine` carries them out.

mod backoff;
mod consumer;
mod failure;
mod names;
mod producer;
mod request;
mod session;

pub use backoff::Backoff;
pub use consumer::{
    Batch, Consumer, ConsumerConfig, ConsumerEffect, DataToken, Item, Membership, Start, WatchToken,
};
pub use failure::Failure;
pub use names::OwnedIdentifier;
pub use producer::{
    DirectBatch, DirectGroup, Place, Producer, ProducerConfig, PushRefused, SendFailure, Settled,
    Stored, Transmission,
};
pub use request::{Frame, Outcome, Repeat, Request};
pub use session::{Config, Effect, Login, Session};
