//! The encrypted listeners: TLS in front of the TCP and WebSocket protocols, and QUIC; and TLS for links to partition
//! nodes.
//!
//! They run on their own threads, so that no handshake and no cipher ever delays a shard. Decrypted data goes through
//! one end of a socket pair to the shard that has adopted the other end: for a shard the connection looks like any
//! other, with the address and the transport of the real peer.
#![allow(
    clippy::disallowed_methods,
    reason = "a host like `runtime`: it reads the clock that deadlines and certificates need"
)]

mod certificate;
mod config;
mod counters;
mod edge;
mod links;
mod opening;
mod quic;
mod shards;
mod tls;

pub use certificate::{CertificateProblem, ClientCertificates};
pub use config::{
    CertificateFiles, EdgeConfig, LinkTlsConfig, QuicListenerConfig, TlsListenerConfig,
};
pub use counters::{EdgeReport, ListenerReport};
pub use edge::Edge;
pub use opening::{Bound, StartError};
pub use shards::{RefusedCertificate, Shards};
