//! Startup: read the certificates and bind the ports before any client is accepted.

use std::{io, net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use headrace_runtime::{Events, listener};
use headrace_shard::Framing;
use headrace_wire::Transport;
use tokio::sync::watch;

use crate::{
    certificate::{CertificateProblem, ClientCertificates, Identity, Purpose, Renewal, Users},
    config::{EdgeConfig, QuicListenerConfig, TlsListenerConfig},
    counters::ListenerCounters,
    quic::{QuicListener, QuicServer},
    tls::{FailureLog, Handshakes, RefusedClients, TlsListener, TlsServer},
};

/// Error of the start of the encrypted listeners, or of the encryption of links.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Invalid or missing certificates.
    #[error("{settings}: {problem}")]
    Certificate {
        /// Section of the settings.
        settings: &'static str,
        /// Problem of the certificate.
        problem: CertificateProblem,
    },
    /// An address cannot be bound.
    #[error("cannot listen on {address} for {listener}: {source}")]
    Bind {
        /// Name of the listener.
        listener: &'static str,
        /// Address to bind.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The threads cannot be started.
    #[error("the threads of the listeners cannot be started: {0}")]
    Threads(io::Error),
    /// The listeners were started before.
    #[error("the listeners are already open")]
    AlreadyStarted,
}

/// Bound addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bound {
    /// TLS listener of the protocol over TCP.
    pub tcp: Option<SocketAddr>,
    /// TLS listener of the protocol over WebSocket.
    pub websocket: Option<SocketAddr>,
    /// QUIC listener (UDP).
    pub quic: Option<SocketAddr>,
    /// TLS listener of a partition node's port.
    pub binary: Option<SocketAddr>,
}

/// Bound ports that are not accepting yet.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) tls: Vec<TlsListener>,
    pub(crate) quic: Option<QuicListener>,
}

impl Listeners {
    /// Read the certificates of all listeners and bind their ports.
    pub(crate) fn take(
        config: &EdgeConfig,
        users: &Users,
        events: &Events,
    ) -> Result<Self, StartError> {
        let mut taken = Self::default();
        for kind in Kind::ALL {
            if let Some(listener) = kind.settings(config) {
                taken
                    .tls
                    .push(tls_listener(config, listener, kind, users, events)?);
            }
        }
        if let Some(listener) = &config.quic {
            taken.quic = Some(quic_listener(config, listener, events)?);
        }
        Ok(taken)
    }

    pub(crate) fn bound(&self) -> Bound {
        let address_of = |kind: Kind| {
            let mut tls = self.tls.iter();
            let listener = tls.find(|listener| listener.server.name == kind.name);
            listener.map(|listener| listener.address)
        };
        Bound {
            tcp: address_of(Kind::TCP),
            websocket: address_of(Kind::WEBSOCKET),
            quic: self.quic.as_ref().map(|listener| listener.address),
            binary: address_of(Kind::BINARY),
        }
    }
}

pub(crate) fn bind_error(
    listener: &'static str,
    address: SocketAddr,
    source: io::Error,
) -> StartError {
    StartError::Bind {
        listener,
        address,
        source,
    }
}

/// A TLS listener in front of shards.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Section of the settings.
    section: &'static str,
    transport: Transport,
    framing: Framing,
    /// True if a client's certificate is mapped to a user.
    is_for_users: bool,
}

impl Kind {
    const TCP: Self = Self {
        name: "tcp",
        section: "tcp.tls",
        transport: Transport::Tcp,
        framing: Framing::Plain,
        is_for_users: true,
    };
    const WEBSOCKET: Self = Self {
        name: "websocket",
        section: "websocket.tls",
        transport: Transport::WebSocket,
        framing: Framing::WebSocket,
        is_for_users: true,
    };
    const BINARY: Self = Self {
        name: "binary",
        section: "binary.tls",
        is_for_users: false,
        ..Self::TCP
    };
    const ALL: [Self; 3] = [Self::TCP, Self::WEBSOCKET, Self::BINARY];

    fn settings(self, config: &EdgeConfig) -> Option<&TlsListenerConfig> {
        match self.name {
            "tcp" => config.tcp.as_ref(),
            "websocket" => config.websocket.as_ref(),
            _ => config.binary.as_ref(),
        }
    }
}

fn tls_listener(
    config: &EdgeConfig,
    listener: &TlsListenerConfig,
    kind: Kind,
    users: &Users,
    events: &Events,
) -> Result<TlsListener, StartError> {
    let Kind { name, section, .. } = kind;
    let users = kind.is_for_users.then(|| users.clone());
    let identity = Identity {
        files: listener.certificate.clone(),
        purpose: Purpose::Stream,
        clients: listener.client_certificates,
        authority_file: listener.client_ca_file.clone(),
        revocation_file: listener.client_crl_file.clone(),
        users: users.clone(),
    };
    let renewal = Renewal::begin(name, identity, events.clone()).map_err(|problem| {
        StartError::Certificate {
            settings: section,
            problem,
        }
    })?;
    let (socket, address) = listener::bind(listener.address)
        .map_err(|source| bind_error(name, listener.address, source))?;
    let server = Arc::new(TlsServer {
        name,
        transport: kind.transport,
        framing: kind.framing,
        server: ArcSwap::new(renewal.in_use().server),
        revocations: watch::Sender::new(renewal.in_use().verifier_of_revoked()),
        renewal,
        proxies: if kind.is_for_users {
            config.proxies.clone()
        } else {
            Vec::new()
        },
        users,
        handshakes: Handshakes::new(config.handshakes_max, config.handshake_timeout()),
        counters: ListenerCounters::default(),
        failures: FailureLog::new(name, events.clone()),
        refusals: RefusedClients::default(),
        events: events.clone(),
    });
    Ok(TlsListener {
        server,
        socket,
        address,
    })
}

fn quic_listener(
    config: &EdgeConfig,
    listener: &QuicListenerConfig,
    events: &Events,
) -> Result<QuicListener, StartError> {
    let (name, settings) = ("quic", "quic.certificate");
    let identity = Identity {
        files: listener.certificate.clone(),
        purpose: Purpose::Quic,
        clients: ClientCertificates::None,
        authority_file: None,
        revocation_file: None,
        users: None,
    };
    let wrong = |problem| StartError::Certificate { settings, problem };
    let renewal = Renewal::begin(name, identity, events.clone()).map_err(wrong)?;
    let (socket, address) = QuicListener::bind(listener)
        .map_err(|source| bind_error(name, listener.address, source))?;
    let handshakes = Handshakes::new(config.handshakes_max, config.handshake_timeout());
    let failures = FailureLog::new(name, events.clone());
    let server = Arc::new(QuicServer::new(
        name,
        listener.clone(),
        renewal,
        handshakes,
        failures,
    ));
    // An unusable configuration is reported now, not by the first connection.
    server.server().map_err(wrong)?;
    Ok(QuicListener {
        server,
        socket,
        address,
    })
}
