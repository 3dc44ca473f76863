//! The encrypted listeners with real sockets.

mod links;
mod quic;
