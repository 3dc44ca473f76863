//! Area of each command: bytes 128..256 of its header.
//!
//! The numbers in the definitions are byte offsets from the start of the header. Bytes that no field covers are zero.

mod any;
mod client;
mod definition;
mod node;
mod normal;
mod repair;
mod transfer;
mod view_change;

pub use any::Area;
#[cfg(test)]
pub(crate) use any::fields;
pub use client::{
    Eviction, EvictionReason, PingClient, PongClient, Redirect, RedirectReason, Reply, Request,
};
pub use definition::CommandArea;
pub use node::{Ping, Pong};
pub use normal::{Commit, CommitOk, Prepare, PrepareOk};
pub use repair::{
    HEADERS_MAX, Headers, NoPrepare, NoPrepareReason, RequestHeaders, RequestPrepare,
};
pub use transfer::{
    ARTIFACTS_MAX, CHUNK_BYTES_MAX, Chunk, RequestChunk, RequestState, StateManifest,
};
pub use view_change::{DoViewChange, RequestStartView, StartView, StartViewChange, VoteReason};
