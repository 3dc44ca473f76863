//! TLS on stream sockets: accept, shake hands, and relay between the peer and a shard.

mod failures;
mod handshakes;
mod listener;
mod relay;

pub(crate) use failures::{FailureLog, NodeFailureLog, Reason};
pub(crate) use handshakes::Handshakes;
pub(crate) use listener::{RefusedClients, TlsListener, TlsServer, adopted};
pub(crate) use relay::relay;
