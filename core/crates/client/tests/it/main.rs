//! The native client against real sockets.

mod client;
mod extensions;
mod support;
mod websocket;
