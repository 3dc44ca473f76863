//! What the doors need of the node behind them.

use std::{io, net::SocketAddr, os::fd::OwnedFd};

use headrace_model::UserId;
use headrace_runtime::Node;
use headrace_shard::Arrival;
use headrace_wire::Transport;
use tokio::net::UnixStream;

/// The node that serves what comes through the doors.
pub trait Shards: Send + Sync + 'static {
    /// Serve a connected, blocking stream socket.
    ///
    /// # Errors
    /// `WouldBlock`: not now. Anything else: not any more.
    fn adopt(&self, socket: OwnedFd, arrival: Arrival) -> io::Result<()>;

    /// The user of exactly this name, if it may log in.
    fn active_user(&self, username: &str) -> Option<UserId>;

    /// A client was not let in because of the certificate that it has shown, or has not: for the audit trail.
    fn certificate_refused(&self, refused: RefusedCertificate);
}

/// A certificate that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCertificate {
    /// Address of its holder.
    pub address: SocketAddr,
    /// Transport that the connection would have had.
    pub transport: Transport,
    /// Name of the reason, as in the counters of failures.
    pub reason: &'static str,
    /// Number of others that were refused before this one, and not reported.
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

/// Two ends: for the threads of the doors, and for a shard.
pub(crate) fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
