//! GW-3: the QUIC listener between a client that behaves as the official one does and a session that only counts.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test, which bounds how long it takes"
)]

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
    time::{Duration, Instant},
};

use headrace_edge::{
    CertificateFiles, Edge, EdgeConfig, QuicListenerConfig, RefusedCertificate, Shards,
};
use headrace_model::UserId;
use headrace_shard::Arrival;
use headrace_wire::{
    Status, Transport,
    frame::{REQUEST_HEADER_BYTES, RequestHeader, ResponseHeader},
};
use quinn::{ClientConfig, Connection, Endpoint, TransportConfig, VarInt};
use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::runtime::Runtime;

const PING: u32 = 1;

/// Sessions that answer a request of four bytes with the number of bytes it contains.
struct Echo;

impl Shards for Echo {
    fn adopt(&self, socket: OwnedFd, arrival: Arrival) -> io::Result<()> {
        assert_eq!(arrival.transport, Transport::Quic);
        let mut session = UnixStream::from(socket);
        std::thread::spawn(move || {
            let mut frame = [0; REQUEST_HEADER_BYTES + 4];
            while session.read_exact(&mut frame).is_ok() {
                let length = u32::from_le_bytes(*frame.last_chunk().unwrap());
                let header = ResponseHeader {
                    status: Status::OK,
                    length,
                };
                let answer = [&header.encode()[..], &vec![7; length as usize]].concat();
                if session.write_all(&answer).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    fn active_user(&self, _username: &str) -> Option<UserId> {
        None
    }

    fn certificate_refused(&self, refused: RefusedCertificate) {
        panic!("none is asked for: {refused:?}")
    }
}

/// Accepts any certificate, as the official client does by default, and supports only that client's one signature
/// scheme.
#[derive(Debug)]
struct AnyP256;

impl ServerCertVerifier for AnyP256 {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _stapled: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

struct Bench {
    edge: Edge,
    address: SocketAddr,
    runtime: Runtime,
}

impl Bench {
    fn new() -> Self {
        let edge = Edge::bind(EdgeConfig {
            quic: Some(QuicListenerConfig {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                certificate: CertificateFiles {
                    cert_file: None,
                    key_file: None,
                    self_signed: true,
                },
                max_concurrent_bidi_streams: 1000,
                send_window_bytes: 100_000,
                receive_window_bytes: 100_000,
                initial_mtu_bytes: 1200,
                keep_alive_interval_micros: 5_000_000,
                max_idle_timeout_micros: 10_000_000,
                recv_buffer_bytes: None,
                send_buffer_bytes: None,
                send_payload_bytes_max: 1 << 20,
            }),
            threads: 2,
            ..EdgeConfig::default()
        })
        .unwrap();
        let address = edge.bound().quic.unwrap();
        let shards: Arc<dyn Shards> = Arc::new(Echo);
        edge.start(&shards).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self {
            edge,
            address,
            runtime,
        }
    }

    /// Connect a client that lets one stream have this number of bytes in flight, and all of them together ten times as
    /// many.
    async fn connect(&self, stream_window_bytes: u32) -> (Endpoint, Connection) {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyP256))
        .with_no_client_auth();
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
        let mut config = ClientConfig::new(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(stream_window_bytes.into())
            .receive_window((stream_window_bytes * 10).into());
        config.transport_config(Arc::new(transport));
        let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        endpoint.set_default_client_config(config);
        let connection = endpoint.connect(self.address, "localhost").unwrap().await;
        (endpoint, connection.unwrap())
    }
}

fn request(answer_bytes: u32) -> Vec<u8> {
    let header = RequestHeader::new(PING, 4).unwrap();
    [&header.encode()[..], &answer_bytes.to_le_bytes()].concat()
}

async fn ask(connection: &Connection, answer_bytes: u32) -> quinn::RecvStream {
    let (mut sender, receiver) = connection.open_bi().await.unwrap();
    sender.write_all(&request(answer_bytes)).await.unwrap();
    sender.finish().unwrap();
    receiver
}

async fn answered(connection: &Connection, answer_bytes: u32) -> usize {
    let mut receiver = ask(connection, answer_bytes).await;
    let answer = receiver.read_to_end(64 << 20).await.unwrap();
    answer.len() - 8
}

#[test]
fn an_answer_that_is_not_read_does_not_keep_others_from_theirs() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        let (_endpoint, connection) = bench.connect(20_000).await;
        let mut unread = Vec::new();
        for _ in 0..5 {
            unread.push(ask(&connection, 1 << 20).await);
        }
        for size in [0, 10, 1000, 100_000, 300_000] {
            assert_eq!(answered(&connection, size).await, size as usize);
        }
        // The answers are complete even if read late.
        for mut receiver in unread {
            let answer = receiver.read_to_end(64 << 20).await.unwrap();
            assert_eq!(answer.len(), 8 + (1 << 20));
        }
    });
}

#[test]
fn who_gives_an_answer_up_has_the_connection_for_other_things() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        let (_endpoint, connection) = bench.connect(20_000).await;
        for _ in 0..200 {
            // More than all budgets together: only released room can be used again.
            let mut receiver = ask(&connection, 1 << 20).await;
            receiver.stop(VarInt::from_u32(0)).unwrap();
        }
        assert_eq!(answered(&connection, 5000).await, 5000);
    });
}

#[test]
fn connections_are_notified_when_the_listeners_stop() {
    let bench = Bench::new();
    let began = Instant::now();
    bench.runtime.block_on(async {
        let (_endpoint, connection) = bench.connect(20_000).await;
        assert_eq!(answered(&connection, 10).await, 10);
        assert!(bench.edge.report()["quic"].open == 1);
        // The session does not end by itself: the listeners end it at the timeout.
        let edge = &bench.edge;
        let stopped = tokio::task::block_in_place(|| edge.stop(Duration::from_millis(200)));
        assert!(!stopped);
    });
    assert!(began.elapsed() < Duration::from_secs(10));
}
