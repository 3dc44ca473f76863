//! Connections from a shard to another process.

use std::{
    fmt, io,
    net::{TcpStream, ToSocketAddrs},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::net::sockopt;

/// Time of silence after which the kernel sends keepalive probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// Time between two keepalive probes that are not answered.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Number of unanswered probes after which the connection is dead.
const KEEPALIVE_PROBES: u32 = 3;
/// Time after which a peer that acknowledges no sent data counts as dead.
const UNACKNOWLEDGED_MILLIS_MAX: u32 = 15_000;

/// Opens connections. Called on threads that may block.
pub trait Connector: fmt::Debug + Send + Sync {
    /// Connect to `address` and return a blocking stream socket, or fail after about `timeout` at the latest.
    ///
    /// # Errors
    /// The address is invalid, the connection is refused, or the timeout has expired.
    fn connect(&self, address: &str, timeout: Duration) -> io::Result<OwnedFd>;
}

/// Plain TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl TcpConnector {
    /// Connect as [`Connector::connect`] does, but return the stream.
    ///
    /// # Errors
    /// Those of [`Connector::connect`].
    pub fn open(address: &str, timeout: Duration) -> io::Result<TcpStream> {
        let deadline = Instant::now() + timeout;
        let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match TcpStream::connect_timeout(&address, left).and_then(prepared) {
                Ok(stream) => return Ok(stream),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl Connector for TcpConnector {
    fn connect(&self, address: &str, timeout: Duration) -> io::Result<OwnedFd> {
        Self::open(address, timeout).map(OwnedFd::from)
    }
}

/// Disable Nagle's algorithm and enable keepalive, so that the failure of the peer's machine is detected.
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MILLIS_MAX)?;
    Ok(stream)
}
