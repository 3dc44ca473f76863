//! The listening sockets.

use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use headrace_shard::{
    Arrival, Framing,
    proxy::{self, Network},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, sockopt},
};

/// Time of silence after which the kernel sends keepalive probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between two keepalive probes that are not answered.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of unanswered probes after which the connection is dead.
const KEEPALIVE_PROBES: u32 = 3;
/// Time within which a port that is in use may become free. The kernel closes the listening socket of a killed process
/// some time after its end if an accept on `io_uring` was in flight.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between two attempts within that time.
const RELEASE_POLL: Duration = Duration::from_millis(20);
/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// A listening socket and its protocol.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) framing: Framing,
    /// Load balancers whose PROXY header states the client's address.
    pub(crate) proxies: Arc<[Network]>,
}

impl Listener {
    /// Arrival of a client that has connected to this listener.
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

/// Bind without listening yet: the port is reserved and known, but clients are refused until the partitions are open.
/// A port that is in use is waited for, as the previous process may have been killed a moment ago.
pub fn bind(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Connections inherit it. A gateway has no heartbeat: without keepalive its requests would wait for ever if its
    // machine fails silently.
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    while let Err(error) = rustix::net::bind(&socket, &address) {
        if error != Errno::ADDRINUSE || Instant::now() >= deadline {
            return Err(error.into());
        }
        thread::sleep(RELEASE_POLL);
    }
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

/// Start to listen.
pub fn listen(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::listen(socket, BACKLOG)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_port_is_waited_for() {
        let (socket, address) = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("free");
        listen(&socket).expect("listening");
        let refused = bind(address).expect_err("in use");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let closing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            drop(socket);
        });
        assert_eq!(bind(address).expect("free soon").1, address);
        closing.join().expect("closed");
    }

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
