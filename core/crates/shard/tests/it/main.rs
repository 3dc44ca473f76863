//! Shards under simulated hosts that execute only the requested effects.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "what is missing fails the test")]

mod joined;
mod links;
mod shards;
mod world;
