//! The UDP listener of the protocol over QUIC.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, OnceLock},
    time::Duration,
};

use headrace_shard::{Arrival, Framing};
use headrace_wire::{Transport, newer};
use quinn::{
    Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, MtuDiscoveryConfig, ServerConfig,
    TokioRuntime, TransportConfig, VarInt, crypto::rustls::QuicServerConfig,
};
use rustix::net::sockopt;
use tokio::sync::OwnedSemaphorePermit;

use super::{budget::SharedBudget, connection, failure};
use crate::{
    certificate::{CertificateProblem, Identity, Renewal},
    config::QuicListenerConfig,
    counters::{ListenerCounters, add},
    shards::Shards,
    tls::{FailureLog, Handshakes, Reason, adopted},
};

/// Maximum number of bytes buffered for all peers together before their handshakes begin.
const INCOMING_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// State shared by all connections of the port.
pub(crate) struct QuicServer {
    pub(crate) name: &'static str,
    pub(crate) config: QuicListenerConfig,
    pub(crate) renewal: Renewal<Identity>,
    pub(crate) handshakes: Handshakes,
    pub(crate) counters: ListenerCounters,
    pub(crate) failures: FailureLog,
    endpoint: OnceLock<Endpoint>,
    budget: SharedBudget,
}

/// A QUIC listener before it accepts peers, with its socket.
pub(crate) struct QuicListener {
    pub(crate) server: Arc<QuicServer>,
    pub(crate) socket: UdpSocket,
    pub(crate) address: SocketAddr,
}

impl QuicListener {
    /// Bind the port. Datagrams that arrive before [`QuicListener::open`] wait in the socket.
    pub(crate) fn bind(config: &QuicListenerConfig) -> io::Result<(UdpSocket, SocketAddr)> {
        let socket = UdpSocket::bind(config.address)?;
        if let Some(bytes) = config.recv_buffer_bytes {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        if let Some(bytes) = config.send_buffer_bytes {
            sockopt::set_socket_send_buffer_size(&socket, bytes)?;
        }
        let address = socket.local_addr()?;
        Ok((socket, address))
    }

    /// Accept peers. Must be called on a thread of the edge's runtime.
    pub(crate) fn open(self) -> io::Result<Arc<QuicServer>> {
        let listener = self.server;
        let server = listener.server().map_err(io::Error::other)?;
        let endpoint = Endpoint::new(
            EndpointConfig::default(),
            Some(server),
            self.socket,
            Arc::new(TokioRuntime),
        )?;
        // Set twice only by a second start, which is refused before.
        let _ = listener.endpoint.set(endpoint);
        Ok(listener)
    }
}

impl QuicServer {
    pub(crate) fn new(
        name: &'static str,
        config: QuicListenerConfig,
        renewal: Renewal<Identity>,
        handshakes: Handshakes,
        failures: FailureLog,
    ) -> Self {
        Self {
            name,
            budget: SharedBudget::new(config.send_payload_bytes_max as usize),
            config,
            renewal,
            handshakes,
            counters: ListenerCounters::default(),
            failures,
            endpoint: OnceLock::new(),
        }
    }

    /// Check for a new certificate and use it from the next connection on.
    pub(crate) fn renew(&self) {
        if self.renewal.check().is_some()
            && let Some(endpoint) = self.endpoint.get()
            && let Ok(server) = self.server()
        {
            endpoint.set_server_config(Some(server));
        }
    }

    /// Build the configuration of new connections.
    pub(crate) fn server(&self) -> Result<ServerConfig, CertificateProblem> {
        let crypto = QuicServerConfig::try_from(self.renewal.in_use().server)
            .map_err(|_no_suite| CertificateProblem::NoQuicCipher)?;
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        server
            .transport_config(Arc::new(self.transport()))
            .max_incoming(self.handshakes.places_count())
            .incoming_buffer_size_total(INCOMING_BYTES_MAX);
        Ok(server)
    }

    fn transport(&self) -> TransportConfig {
        let config = &self.config;
        let micros = |micros: u64| (micros > 0).then(|| Duration::from_micros(micros));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(config.max_concurrent_bidi_streams.into())
            // The protocol uses neither unidirectional streams nor datagrams.
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .receive_window(config.receive_window_bytes.into())
            .stream_receive_window(config.receive_window_bytes.into())
            .send_window(config.send_window_bytes)
            .initial_mtu(config.initial_mtu_bytes)
            .mtu_discovery_config(Some(MtuDiscoveryConfig::default()))
            .keep_alive_interval(micros(config.keep_alive_interval_micros))
            // A timeout too large for its millisecond field counts as none.
            .max_idle_timeout(
                micros(config.max_idle_timeout_micros)
                    .and_then(|timeout| IdleTimeout::try_from(timeout).ok()),
            );
        transport
    }

    /// Accept for ever. Each connection runs as a task of its own with a clone of `life`.
    pub(crate) async fn accept<L: Clone + Send + 'static>(
        self: Arc<Self>,
        shards: Arc<dyn Shards>,
        life: L,
    ) {
        let Some(endpoint) = self.endpoint.get() else {
            return;
        };
        loop {
            let place = self.handshakes.place().await;
            let Some(incoming) = endpoint.accept().await else {
                return;
            };
            add(&self.counters.accepted, 1);
            // Under load, a peer must prove its address before the server spends resources on it.
            if !incoming.remote_address_validated() && self.handshakes.are_crowded() {
                if incoming.may_retry() {
                    // Fails only for peers that have already been asked to retry, which `may_retry` excludes.
                    let _ = incoming.retry();
                }
                continue;
            }
            let (listener, shards) = (Arc::clone(&self), Arc::clone(&shards));
            let life = life.clone();
            tokio::spawn(async move {
                listener.serve(incoming, place, shards).await;
                drop(life);
            });
        }
    }

    async fn serve(
        &self,
        incoming: Incoming,
        place: OwnedSemaphorePermit,
        shards: Arc<dyn Shards>,
    ) {
        let address = incoming.remote_address();
        let connection = match self.handshakes.run(shake_hands(incoming)).await {
            Ok(connection) => connection,
            Err(reason) => return self.failures.failed(&self.counters, address, &reason),
        };
        drop(place);
        add(&self.counters.handshakes, 1);
        let arrival = Arrival {
            address,
            transport: Transport::Quic,
            framing: Framing::Plain,
            is_proxied: false,
            user: None,
            interface: 0,
        };
        let Ok(session) = adopted(&*shards, arrival).await else {
            return self
                .failures
                .failed(&self.counters, address, &Reason::busy());
        };
        let _open = self.counters.opened();
        let send_payload_bytes_max = self.config.send_payload_bytes_max as usize;
        let is_newer = connection::serve(
            &connection,
            session,
            &self.budget,
            send_payload_bytes_max,
            &self.counters,
        )
        .await;
        if is_newer {
            let reason = Reason::new("newer", newer::EXPLANATION.to_owned());
            self.failures.failed(&self.counters, address, &reason);
        }
    }

    /// Close all open connections, and wait until every peer has been notified.
    pub(crate) async fn finish(&self) {
        if let Some(endpoint) = self.endpoint.get() {
            endpoint.close(VarInt::from_u32(0), b"the server has stopped");
            endpoint.wait_idle().await;
        }
    }
}

async fn shake_hands(incoming: Incoming) -> Result<Connection, Reason> {
    let accepted = incoming.accept().map_err(|error| failure::reason(&error))?;
    accepted.await.map_err(|error| failure::reason(&error))
}
