//! What the doors need of the node behind them.

use std::{io, os::fd::OwnedFd};

use headrace_model::UserId;
use headrace_runtime::Node;
use headrace_shard::Arrival;
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
}

impl Shards for Node {
    fn adopt(&self, socket: OwnedFd, arrival: Arrival) -> io::Result<()> {
        Self::adopt(self, socket, arrival)
    }

    fn active_user(&self, username: &str) -> Option<UserId> {
        Self::active_user(self, username)
    }
}

/// Two ends: for the threads of the doors, and for a shard.
pub(crate) fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
