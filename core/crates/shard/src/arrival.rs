//! How a connection came to be.

use std::net::{Ipv4Addr, SocketAddr};

use headrace_catalog::Credential;
use headrace_model::UserId;
use headrace_wire::Transport;

/// What stands between a connection's bytes and the frames of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Nothing: frames follow each other.
    Plain,
    /// An HTTP upgrade, then the messages of a WebSocket.
    WebSocket,
}

/// A new connection, described by the door that it came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The peer, as client listings show it.
    pub address: SocketAddr,
    /// What the peer is connected by.
    pub transport: Transport,
    /// How its bytes are to be read.
    pub framing: Framing,
    /// Whether a balancer says first where it comes from; `address` is the balancer's until then.
    pub is_proxied: bool,
    /// Who it is, when the door has found that out; it need not log in then.
    pub user: Option<UserId>,
    /// Of a connection of this process with itself, the number that the process has given to what is behind it.
    pub interface: u8,
}

impl Arrival {
    /// A connection of the binary protocol over TCP.
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

    /// A connection of the binary protocol over WebSocket.
    pub fn websocket(address: SocketAddr) -> Self {
        Self {
            transport: Transport::WebSocket,
            framing: Framing::WebSocket,
            ..Self::tcp(address)
        }
    }

    /// A connection of this process with itself, for a door that translates requests of its own into those of the
    /// binary protocol, in the name of a user whom it has authenticated.
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

    /// What such a connection rests on. Who found out who it is vouches for more than that there is such a user.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.user.map(Credential::of_user)
    }

    /// Whether it is one of those: no client of its own, so it is neither listed nor counted as one.
    pub(crate) fn is_in_process(&self) -> bool {
        self.transport == Transport::Http
    }
}
