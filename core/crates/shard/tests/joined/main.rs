//! A gateway and the partition nodes behind it: shards as they are, joined by bytes.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "what is missing fails the test")]

#[path = "../shards/files.rs"]
mod files;

mod machine;
mod process;
mod random;
mod transactions;
mod wire;
mod world;
