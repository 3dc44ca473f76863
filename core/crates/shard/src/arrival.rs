//! How a connection came to be.

use std::net::{Ipv4Addr, SocketAddr};

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
    /// Who it is, when the door has found that out; it need not log in then.
    pub user: Option<UserId>,
}

impl Arrival {
    /// A connection of the binary protocol over TCP.
    pub fn tcp(address: SocketAddr) -> Self {
        Self {
            address,
            transport: Transport::Tcp,
            framing: Framing::Plain,
            user: None,
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
            user: Some(user),
        }
    }

    /// Whether it is one of those: no client of its own, so it is neither listed nor counted as one.
    pub(crate) fn is_in_process(&self) -> bool {
        self.transport == Transport::Http
    }
}
