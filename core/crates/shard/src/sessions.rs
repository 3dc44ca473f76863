//! Client connections: from the bytes that arrive to whole requests, and from answers to the bytes that leave.

pub(crate) mod arrival;
pub(crate) mod catching_up;
pub(crate) mod closing;
pub(crate) mod connection;
mod connections;
mod expiry;
pub mod proxy;
pub(crate) mod registry;
