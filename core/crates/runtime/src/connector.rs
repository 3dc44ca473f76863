//! How a shard gets a connection to another process.

use std::{
    fmt, io,
    net::{TcpStream, ToSocketAddrs},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::net::sockopt;

/// A connection on which nothing was heard for so long is asked whether it is still one,
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// and again after so long without an answer,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// so often.
const KEEPALIVE_PROBES: u32 = 3;
/// A peer that acknowledges nothing of what it is sent for so long is gone.
const UNACKNOWLEDGED_MILLIS_MAX: u32 = 15_000;

/// Opens connections. Called on threads where it may wait.
pub trait Connector: fmt::Debug + Send + Sync {
    /// A blocking stream socket on which bytes reach `address` and come from there, or the reason why there is none
    /// after at most about `timeout`.
    ///
    /// # Errors
    /// The address means nothing, nobody is there, or the time is up.
    fn connect(&self, address: &str, timeout: Duration) -> io::Result<OwnedFd>;
}

/// Plain TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl TcpConnector {
    /// As [`Connector::connect`], for who goes on to use the stream.
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

/// Small requests leave at once, and it is noticed when the peer's machine is gone without a word.
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MILLIS_MAX)?;
    Ok(stream)
}
