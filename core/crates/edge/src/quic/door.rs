//! The UDP port on which the protocol is spoken over QUIC.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, OnceLock},
    time::Duration,
};

use headrace_shard::{Arrival, Framing};
use headrace_wire::Transport;
use quinn::{
    Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, MtuDiscoveryConfig, ServerConfig,
    TokioRuntime, TransportConfig, VarInt, crypto::rustls::QuicServerConfig,
};
use rustix::net::sockopt;
use tokio::sync::OwnedSemaphorePermit;

use super::{budget::SharedBudget, connection, failure};
use crate::{
    certificate::{CertificateProblem, Identity, Renewal},
    config::QuicDoorConfig,
    counters::{DoorCounters, add},
    shards::Shards,
    tls::{FailureLog, Handshakes, Reason, adopted},
};

/// What peers may have sent before their handshake is begun with, all together.
const INCOMING_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What all connections of the port share.
pub(crate) struct QuicDoor {
    pub(crate) name: &'static str,
    pub(crate) config: QuicDoorConfig,
    pub(crate) renewal: Renewal<Identity>,
    pub(crate) handshakes: Handshakes,
    pub(crate) counters: DoorCounters,
    pub(crate) failures: FailureLog,
    endpoint: OnceLock<Endpoint>,
    budget: SharedBudget,
}

/// A door and its socket.
pub(crate) struct QuicListener {
    pub(crate) door: Arc<QuicDoor>,
    pub(crate) socket: UdpSocket,
    pub(crate) address: SocketAddr,
}

impl QuicListener {
    /// Take the port. What arrives before [`QuicListener::open`] waits in the socket.
    pub(crate) fn bind(config: &QuicDoorConfig) -> io::Result<(UdpSocket, SocketAddr)> {
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

    /// Let peers in. Called on a thread of the doors.
    pub(crate) fn open(self) -> io::Result<Arc<QuicDoor>> {
        let door = self.door;
        let server = door.server().map_err(io::Error::other)?;
        let endpoint = Endpoint::new(
            EndpointConfig::default(),
            Some(server),
            self.socket,
            Arc::new(TokioRuntime),
        )?;
        // Set twice only by a second start, which is refused before.
        let _ = door.endpoint.set(endpoint);
        Ok(door)
    }
}

impl QuicDoor {
    pub(crate) fn new(
        name: &'static str,
        config: QuicDoorConfig,
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
            counters: DoorCounters::default(),
            failures,
            endpoint: OnceLock::new(),
        }
    }

    /// Look for a new certificate and use it from the next connection on.
    pub(crate) fn renew(&self) {
        if self.renewal.check().is_some()
            && let Some(endpoint) = self.endpoint.get()
            && let Ok(server) = self.server()
        {
            endpoint.set_server_config(Some(server));
        }
    }

    /// How new connections are to be.
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
            // The protocol has neither of these.
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .receive_window(config.receive_window_bytes.into())
            .stream_receive_window(config.receive_window_bytes.into())
            .send_window(config.send_window_bytes)
            .initial_mtu(config.initial_mtu_bytes)
            .mtu_discovery_config(Some(MtuDiscoveryConfig::default()))
            .keep_alive_interval(micros(config.keep_alive_interval_micros))
            // A number of milliseconds that does not fit is as good as never.
            .max_idle_timeout(
                micros(config.max_idle_timeout_micros)
                    .and_then(|timeout| IdleTimeout::try_from(timeout).ok()),
            );
        transport
    }

    /// Accept for ever. Connections run as tasks of their own, each with a clone of `life`.
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
            // Before much is done for a crowd, each of it has to show that it is where it says.
            if !incoming.remote_address_validated() && self.handshakes.are_crowded() {
                if incoming.may_retry() {
                    // It fails for those who were asked before, which `may_retry` has ruled out.
                    let _ = incoming.retry();
                }
                continue;
            }
            let (door, shards) = (Arc::clone(&self), Arc::clone(&shards));
            let life = life.clone();
            tokio::spawn(async move {
                door.serve(incoming, place, shards).await;
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
        connection::serve(
            &connection,
            session,
            &self.budget,
            send_payload_bytes_max,
            &self.counters,
        )
        .await;
    }

    /// Close what is still open, and wait until every peer has been told.
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
