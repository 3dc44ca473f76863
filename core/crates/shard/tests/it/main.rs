//! Shards under hosts that do only what they ask for.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "what is missing fails the test")]

mod files;
mod joined;
mod links;
mod shards;
