//! Settings of the encrypted listeners and of the links, as the embedding process gives them. Times are microseconds,
//! sizes bytes.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use headrace_shard::proxy::Network;

use crate::certificate::ClientCertificates;

/// All settings of the encrypted listeners.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EdgeConfig {
    /// TLS listener for the binary protocol over TCP; `None`: no such listener.
    pub tcp: Option<TlsListenerConfig>,
    /// TLS listener for the binary protocol in WebSocket messages; `None`: no such listener.
    pub websocket: Option<TlsListenerConfig>,
    /// QUIC listener for the binary protocol; `None`: no such listener.
    pub quic: Option<QuicListenerConfig>,
    /// TLS on the port of a partition node, for gateways and clients with a ticket; `None`: no such listener. Client
    /// certificates are not mapped to users here: only the signature of an authority in the file is required.
    pub binary: Option<TlsListenerConfig>,
    /// TLS for links to partition nodes; `None`: this crate does not handle connections to them.
    pub links: Option<LinkTlsConfig>,
    /// Networks of load balancers, each as address and prefix length: connections from these addresses to TLS listeners
    /// begin with a header of the PROXY protocol, version 2. On the port of a partition node they do not.
    pub proxies: Vec<Network>,
    /// Number of threads of all encrypted listeners together; 0: one for each core, up to four.
    pub threads: usize,
    /// Maximum number of concurrent handshakes of one listener.
    pub handshakes_max: usize,
    /// Time after which a peer that has not completed its handshake is disconnected.
    pub handshake_timeout_micros: u64,
    /// Interval between checks of the certificate files for changes.
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

/// Settings of a TLS listener.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsListenerConfig {
    /// Address to listen on. Port 0 picks a free one.
    pub address: SocketAddr,
    /// Certificate of the server.
    pub certificate: CertificateFiles,
    /// Policy for client certificates.
    #[serde(default)]
    pub client_certificates: ClientCertificates,
    /// PEM file with the authorities that sign the certificates of clients.
    #[serde(default)]
    pub client_ca_file: Option<PathBuf>,
    /// PEM file with the revocation lists of these authorities; `None`: no revocation.
    #[serde(default)]
    pub client_crl_file: Option<PathBuf>,
}

/// Settings of TLS to partition nodes.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTlsConfig {
    /// PEM file with the authorities that sign the certificates of nodes.
    pub authority_file: PathBuf,
    /// PEM file with the client certificate for nodes, followed by its intermediate certificates; `None`: no client
    /// certificate.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// PEM file with its private key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Name that the certificates of all nodes must be valid for; `None`: the host in each node's address.
    #[serde(default)]
    pub server_name: Option<String>,
}

/// Settings of the QUIC listener.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuicListenerConfig {
    /// UDP address to listen on. Port 0 picks a free one.
    pub address: SocketAddr,
    /// Certificate of the server.
    pub certificate: CertificateFiles,
    /// Maximum number of concurrent requests of one connection.
    pub max_concurrent_bidi_streams: u32,
    /// Maximum number of unacknowledged bytes sent on one connection.
    pub send_window_bytes: u64,
    /// Maximum number of bytes that a peer may send on one connection before they are read.
    pub receive_window_bytes: u32,
    /// Initial datagram size before path MTU discovery; at least 1200.
    pub initial_mtu_bytes: u16,
    /// Interval of keep-alive packets on an idle connection; 0: none.
    pub keep_alive_interval_micros: u64,
    /// Time of silence after which a peer is disconnected; 0: never.
    pub max_idle_timeout_micros: u64,
    /// Size of the socket's send buffer; `None`: the system's default.
    #[serde(default)]
    pub recv_buffer_bytes: Option<usize>,
    /// Size of the socket's receive buffer; `None`: the system's default.
    #[serde(default)]
    pub send_buffer_bytes: Option<usize>,
    /// Maximum payload of one `SendMessages` request.
    pub send_payload_bytes_max: u32,
}

/// Source of a server's certificate.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// PEM file with the certificate, followed by its intermediate certificates.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// PEM file with its private key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Without a certificate file, generate a certificate for `localhost` that only this process has.
    pub self_signed: bool,
}

impl EdgeConfig {
    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_micros(self.handshake_timeout_micros)
    }

    pub(crate) fn certificate_check_interval(&self) -> Duration {
        // An interval of 0 would spin.
        Duration::from_micros(self.certificate_check_interval_micros).max(Duration::from_millis(10))
    }

    pub(crate) fn worker_threads(&self) -> usize {
        if self.threads > 0 {
            return self.threads;
        }
        std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4))
    }
}
