//! Origin, transport and framing of a new connection.

use std::net::{Ipv4Addr, SocketAddr};

use headrace_catalog::Credential;
use headrace_model::UserId;
use headrace_wire::Transport;

/// Framing between the bytes of a connection and the frames of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No framing: protocol frames follow each other directly.
    Plain,
    /// An HTTP upgrade, followed by WebSocket messages.
    WebSocket,
}

/// A new connection, described by the listener that accepted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Address of the peer, as client listings show it.
    pub address: SocketAddr,
    /// Transport of the peer.
    pub transport: Transport,
    /// Framing of the bytes.
    pub framing: Framing,
    /// True if a PROXY header from the load balancer comes first. Until then, `address` is that of the balancer.
    pub is_proxied: bool,
    /// User that the listener has already authenticated; the connection need not log in.
    pub user: Option<UserId>,
    /// Number of the interface behind an in-process connection, assigned by the process.
    pub interface: u8,
}

impl Arrival {
    /// A binary protocol connection over TCP.
    pub fn tcp(address: SocketAddr) -> Self {
        Self {
            address,
            transport: Transport::Tcp,
            framing: Framing::Plain,
            is_proxied: false,
            user: None,
            interface: 0,
        }
    }

    /// A binary protocol connection over WebSocket.
    pub fn websocket(address: SocketAddr) -> Self {
        Self {
            transport: Transport::WebSocket,
            framing: Framing::WebSocket,
            ..Self::tcp(address)
        }
    }

    /// An in-process connection for an API that translates its own requests into those of the binary protocol, on
    /// behalf of a user whom it has authenticated.
    pub fn in_process(user: UserId) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            transport: Transport::Http,
            framing: Framing::Plain,
            is_proxied: false,
            user: Some(user),
            interface: 0,
        }
    }

    /// Credential of an in-process connection. The API that authenticated the user vouches for more than the user's
    /// existence.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.user.map(Credential::of_user)
    }

    /// True for an in-process connection. It is no client of its own, so it is neither listed nor counted.
    pub(crate) fn is_in_process(&self) -> bool {
        self.transport == Transport::Http
    }
}
