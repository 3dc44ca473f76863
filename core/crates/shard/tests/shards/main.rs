//! Two shards under a host that does nothing but what they ask for.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "what is missing fails the test")]

mod catching_up;
mod files;
mod groups;
mod holders;
mod input;
mod measures;
mod messages;
mod nodes;
mod plans;
mod served;
mod sessions;
mod tickets;
mod traces;
mod waits;
mod waits_model;
mod watches;
mod websocket;
mod world;
