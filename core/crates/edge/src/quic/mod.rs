//! QUIC: one session of the protocol per connection, one stream per request.
//!
//! ```text
//! stream ─ request ─┐                        ┌─ answer ─ stream
//! stream ─ request ─┼─► queue ─► session ─► ─┼─ answer ─ stream
//! stream ─ request ─┘          (one shard)   └─ answer ─ stream
//! ```
//!
//! A session answers strictly in order, so complete requests are written into it one after the other: a slow stream
//! delays only itself. Data in transit has a budget per connection and a shared one, and every step of a peer has a
//! deadline: see `budget.rs`.

mod answer;
mod budget;
mod connection;
mod failure;
mod listener;
mod request;
mod session;

pub(crate) use listener::{QuicListener, QuicServer};
