//! TLS on stream sockets: accept, shake hands, and relay between the peer and a shard.

mod door;
mod failures;
mod handshakes;
mod relay;

pub(crate) use door::{RefusedClients, TlsDoor, TlsListener, adopted};
pub(crate) use failures::{FailureLog, NodeFailureLog, Reason};
pub(crate) use handshakes::Handshakes;
pub(crate) use relay::relay;
