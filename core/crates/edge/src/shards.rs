//! Interface to the node behind the encrypted listeners.

use std::{io, net::SocketAddr, os::fd::OwnedFd};

use headrace_model::UserId;
use headrace_runtime::Node;
use headrace_shard::Arrival;
use headrace_wire::Transport;
use tokio::net::UnixStream;

/// The node that serves the connections of the encrypted listeners.
pub trait Shards: Send + Sync + 'static {
    /// Serve a connected, blocking stream socket.
    ///
    /// # Errors
    /// `WouldBlock`: try again later. Any other error: the node serves no more connections.
    fn adopt(&self, socket: OwnedFd, arrival: Arrival) -> io::Result<()>;

    /// User with exactly this name, if the user may log in.
    fn active_user(&self, username: &str) -> Option<UserId>;

    /// Note that a client was refused because of an invalid or missing certificate: for the audit trail.
    fn certificate_refused(&self, refused: RefusedCertificate);
}

/// A refused certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCertificate {
    /// Address of the client.
    pub address: SocketAddr,
    /// Transport that the connection would have had.
    pub transport: Transport,
    /// Name of the reason, as in the failure counters.
    pub reason: &'static str,
    /// Number of earlier refusals that were not reported.
    pub suppressed_count: u32,
}

impl Shards for Node {
    fn adopt(&self, socket: OwnedFd, arrival: Arrival) -> io::Result<()> {
        Self::adopt(self, socket, arrival)
    }

    fn active_user(&self, username: &str) -> Option<UserId> {
        Self::active_user(self, username)
    }

    fn certificate_refused(&self, refused: RefusedCertificate) {
        let RefusedCertificate {
            address,
            transport,
            reason,
            suppressed_count,
        } = refused;
        self.note_refused_certificate(address, transport, reason, suppressed_count);
    }
}

/// Create a socket pair: one end for the threads of the encrypted listeners, one for a shard.
pub(crate) fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
