//! The native client and the load generator against real sockets.

mod bench;
mod client;
mod extensions;
mod support;
mod websocket;
