//! Settings of the doors and of the links, as the embedding process gives them. Times are microseconds, sizes bytes.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use headrace_shard::proxy::Network;

use crate::certificate::ClientCertificates;

/// Everything that the doors can be told.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EdgeConfig {
    /// TLS in front of the protocol over TCP; `None`: no such door.
    pub tcp: Option<TlsDoorConfig>,
    /// TLS in front of the protocol in the messages of a WebSocket; `None`: no such door.
    pub websocket: Option<TlsDoorConfig>,
    /// The protocol over QUIC; `None`: no such door.
    pub quic: Option<QuicDoorConfig>,
    /// TLS on the port of a partition node, for gateways and whoever has a ticket; `None`: no such door. A certificate
    /// of a client is nobody's here: that it is signed by an authority in the file is all that is asked.
    pub binary: Option<TlsDoorConfig>,
    /// TLS towards partition nodes; `None`: connections with them are not this crate's.
    pub links: Option<LinkTlsConfig>,
    /// Balancers, each a network and how many of its bits count: connections from there to doors for TLS begin with a
    /// header of the PROXY protocol, version 2. On the port of a partition node they do not.
    pub proxies: Vec<Network>,
    /// Threads of all doors together; 0: one for each core, up to four.
    pub threads: usize,
    /// Handshakes of one door that may be under way together.
    pub handshakes_max: usize,
    /// A peer that has not completed its handshake after this time is dropped.
    pub handshake_timeout_micros: u64,
    /// How often the files of certificates are looked at for a change.
    pub certificate_check_interval_micros: u64,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        Self {
            tcp: None,
            websocket: None,
            quic: None,
            binary: None,
            links: None,
            proxies: Vec::new(),
            threads: 0,
            handshakes_max: 512,
            handshake_timeout_micros: 10_000_000,
            certificate_check_interval_micros: 10_000_000,
        }
    }
}

/// A door for TLS.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsDoorConfig {
    /// Where it listens. Port 0 picks a free one.
    pub address: SocketAddr,
    /// What it shows.
    pub certificate: CertificateFiles,
    /// Whether clients show one, too.
    #[serde(default)]
    pub client_certificates: ClientCertificates,
    /// PEM file with the authorities that the certificates of clients are signed by.
    #[serde(default)]
    pub client_ca_file: Option<PathBuf>,
    /// PEM file with the revocation lists of these authorities; `None`: what was signed once is good to its end.
    #[serde(default)]
    pub client_crl_file: Option<PathBuf>,
}

/// TLS towards partition nodes.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTlsConfig {
    /// PEM file with the authorities that the certificates of nodes are signed by.
    pub authority_file: PathBuf,
    /// PEM file with the certificate that nodes are shown, followed by those between it and its authority; `None`: they
    /// are shown none.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// PEM file with its private key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// What the certificates of nodes have to be for; `None`: the host in the address of each.
    #[serde(default)]
    pub server_name: Option<String>,
}

/// The door for QUIC.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuicDoorConfig {
    /// Where it listens (UDP). Port 0 picks a free one.
    pub address: SocketAddr,
    /// What it shows.
    pub certificate: CertificateFiles,
    /// Requests of one connection that may be under way.
    pub max_concurrent_bidi_streams: u32,
    /// What may be sent on one connection without an acknowledgement.
    pub send_window_bytes: u64,
    /// What a peer may send on one connection before it was read.
    pub receive_window_bytes: u32,
    /// Size of datagrams before the path's own is found; at least 1200.
    pub initial_mtu_bytes: u16,
    /// A connection at rest is kept from timing out by a packet every so often; 0: it is not.
    pub keep_alive_interval_micros: u64,
    /// A peer that is silent for so long is gone; 0: never.
    pub max_idle_timeout_micros: u64,
    /// Buffers of the socket; `None`: what the system gives.
    #[serde(default)]
    pub recv_buffer_bytes: Option<usize>,
    /// The other direction.
    #[serde(default)]
    pub send_buffer_bytes: Option<usize>,
    /// Payload of one `SendMessages` request at most.
    pub send_payload_bytes_max: u32,
}

/// Where a server's certificate comes from.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// PEM file with the certificate, followed by those between it and its authority.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// PEM file with its private key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Where there is no certificate file, make one for `localhost` that only this process has.
    pub self_signed: bool,
}

impl EdgeConfig {
    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_micros(self.handshake_timeout_micros)
    }

    pub(crate) fn certificate_check_interval(&self) -> Duration {
        // An interval of nothing would spin.
        Duration::from_micros(self.certificate_check_interval_micros).max(Duration::from_millis(10))
    }

    pub(crate) fn worker_threads(&self) -> usize {
        if self.threads > 0 {
            return self.threads;
        }
        std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4))
    }
}
