//! A gateway's shard and the nodes that it asks, joined by bytes.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "what is missing fails the test")]

mod cases;
mod losses;
mod node;
mod pressure;
mod random;
mod reading;
mod world;
