//! The listening sockets.

use std::{io, net::SocketAddr, os::fd::OwnedFd};

use headrace_shard::{Arrival, Framing};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A socket that clients connect to, and what they speak there.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) framing: Framing,
}

impl Listener {
    /// A client that has connected to it.
    pub(crate) fn arrival(&self, address: SocketAddr) -> Arrival {
        match self.framing {
            Framing::Plain => Arrival::tcp(address),
            Framing::WebSocket => Arrival::websocket(address),
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
    rustix::net::bind(&socket, &address)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

/// Let connections in.
pub fn listen(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::listen(socket, BACKLOG)?)
}
