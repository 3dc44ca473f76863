//! QUIC: one session of the protocol per connection, one stream per request.
//!
//! ```text
//! stream ─ request ─┐                        ┌─ answer ─ stream
//! stream ─ request ─┼─► queue ─► session ─► ─┼─ answer ─ stream
//! stream ─ request ─┘          (one shard)   └─ answer ─ stream
//! ```
//!
//! A session answers strictly in order, so requests are written into it one after the other, each only when it has
//! arrived whole: a stream that is slow holds up nobody but itself. What waits on the way has a budget per connection
//! and one of all together, and everything that a peer has to do has a deadline: see `budget.rs`.

mod answer;
mod budget;
mod connection;
mod door;
mod failure;
mod request;
mod session;

pub(crate) use door::{QuicDoor, QuicListener};
