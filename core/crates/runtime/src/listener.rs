//! The listening sockets.

use std::{io, net::SocketAddr, os::fd::OwnedFd, sync::Arc, time::Duration};

use headrace_shard::{
    Arrival, Framing,
    proxy::{self, Network},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// A connection on which nothing was heard for so long is asked whether it is still one,
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// and again after so long without an answer,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// so often.
const KEEPALIVE_PROBES: u32 = 3;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A socket that clients connect to, and what they speak there.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) framing: Framing,
    /// Those that say where a connection comes from.
    pub(crate) proxies: Arc<[Network]>,
}

impl Listener {
    /// A client that has connected to it.
    pub(crate) fn arrival(&self, address: SocketAddr) -> Arrival {
        let arrival = match self.framing {
            Framing::Plain => Arrival::tcp(address),
            Framing::WebSocket => Arrival::websocket(address),
        };
        Arrival {
            is_proxied: proxy::is_among(address, &self.proxies),
            ..arrival
        }
    }
}

/// Bind without listening yet: the port is taken and known, but nobody is let in before the partitions are open.
pub fn bind(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Connections inherit it. A gateway has no heartbeat: without this its requests would wait for ever when its machine
    // goes without a word.
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    rustix::net::bind(&socket, &address)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

/// Let connections in.
pub fn listen(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::listen(socket, BACKLOG)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn connections_are_asked_whether_they_live() {
        let (socket, address) = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("free");
        listen(&socket).expect("listening");
        let _client = TcpStream::connect(address).expect("listening");
        let accepted = rustix::net::accept(&socket).expect("a client");
        assert!(sockopt::socket_keepalive(&accepted).expect("a socket"));
        assert_eq!(sockopt::tcp_keepidle(&accepted), Ok(KEEPALIVE_IDLE));
    }
}
