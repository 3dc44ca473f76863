//! TLS between a gateway's links and the port of a partition node, with echo sessions.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test, which bounds how long it takes"
)]

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use headrace_edge::{
    CertificateFiles, ClientCertificates, Edge, EdgeConfig, LinkTlsConfig, RefusedCertificate,
    Shards, TlsListenerConfig,
};
use headrace_model::UserId;
use headrace_shard::{Arrival, Framing};
use headrace_wire::Transport;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// Sessions that echo all data.
struct Echo;

impl Shards for Echo {
    fn adopt(&self, socket: OwnedFd, arrival: Arrival) -> io::Result<()> {
        assert_eq!(arrival.transport, Transport::Tcp);
        assert_eq!(arrival.framing, Framing::Plain);
        assert!(arrival.address.ip().is_loopback());
        assert_eq!(arrival.user, None, "a service is no user");
        let mut session = UnixStream::from(socket);
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = session.read(&mut part) {
                if session.write_all(&part[..count]).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    fn active_user(&self, _username: &str) -> Option<UserId> {
        panic!("no user is looked up here")
    }

    fn certificate_refused(&self, refused: RefusedCertificate) {
        panic!("a service is no user: {refused:?}")
    }
}

/// An authority, and the directory of its certificates.
struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let issuer =
            CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let authority = Self {
            directory: TempDir::new().unwrap(),
            issuer,
        };
        std::fs::write(authority.path("authority.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Issue a certificate and its key for a host, as `NAME.pem` and `NAME.key`.
    fn issue(&self, name: &str, host: &str) -> (PathBuf, PathBuf) {
        self.issue_with(name, host, |_| {})
    }

    fn issue_with(
        &self,
        name: &str,
        host: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([host.to_owned()]).unwrap();
        change(&mut parameters);
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let files = (
            self.path(&format!("{name}.pem")),
            self.path(&format!("{name}.key")),
        );
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        std::fs::write(&files.0, certificate.pem()).unwrap();
        files
    }
}

/// Start a node's listener with this certificate; with `clients`, gateways must present a certificate of this
/// authority.
fn node(files: (PathBuf, PathBuf), clients: Option<&Authority>) -> (Edge, SocketAddr) {
    let shards: Arc<dyn Shards> = Arc::new(Echo);
    node_of(files, clients, &shards)
}

fn node_of(
    files: (PathBuf, PathBuf),
    clients: Option<&Authority>,
    shards: &Arc<dyn Shards>,
) -> (Edge, SocketAddr) {
    let edge = Edge::bind(EdgeConfig {
        binary: Some(TlsListenerConfig {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            certificate: CertificateFiles {
                cert_file: Some(files.0),
                key_file: Some(files.1),
                self_signed: false,
            },
            client_certificates: match clients {
                Some(_) => ClientCertificates::Required,
                None => ClientCertificates::None,
            },
            client_ca_file: clients.map(|authority| authority.path("authority.pem")),
            client_crl_file: None,
        }),
        threads: 1,
        ..EdgeConfig::default()
    })
    .unwrap();
    edge.start(shards).unwrap();
    let address = edge.bound().binary.unwrap();
    (edge, address)
}

/// Create a gateway that trusts this authority.
fn gateway(authority: &Path, own: Option<(PathBuf, PathBuf)>, name: Option<&str>) -> Edge {
    let (cert_file, key_file) = own.unzip();
    Edge::bind(EdgeConfig {
        links: Some(LinkTlsConfig {
            authority_file: authority.to_owned(),
            cert_file,
            key_file,
            server_name: name.map(str::to_owned),
        }),
        threads: 1,
        ..EdgeConfig::default()
    })
    .unwrap()
}

fn connect(gateway: &Edge, address: SocketAddr) -> io::Result<UnixStream> {
    let connector = gateway.connector().unwrap();
    let connected = connector.connect(&address.to_string(), LIMIT);
    connected.map(UnixStream::from)
}

/// Assert that all data is echoed, more than fits the buffers on the way.
fn assert_echoes(mut link: UnixStream) {
    let all: Vec<u8> = (0..3_000_000_u32)
        .map(|index| index.to_le_bytes()[1])
        .collect();
    let mut writer = link.try_clone().unwrap();
    let said = all.clone();
    let saying = std::thread::spawn(move || writer.write_all(&said).unwrap());
    let mut heard = vec![0; all.len()];
    link.read_exact(&mut heard).unwrap();
    saying.join().unwrap();
    assert!(heard == all);
}

/// The one log line about the failure.
fn failure(edge: &Edge) -> String {
    let since = Instant::now();
    loop {
        let mut events = edge.take_events().into_iter();
        let about = |text: &str| text.contains("no encryption with") || text.contains("let in");
        if let Some(event) = events.find(|event| about(&event.message)) {
            return event.message;
        }
        assert!(since.elapsed() < LIMIT, "nothing is logged");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn failures(edge: &Edge, listener: &str) -> Vec<&'static str> {
    edge.report()[listener].failures.keys().copied().collect()
}

#[test]
fn what_is_said_over_a_link_arrives() {
    let authority = Authority::new("authority");
    let (node, address) = node(authority.issue("node", "127.0.0.1"), None);
    let gateway = gateway(&authority.path("authority.pem"), None, None);
    assert_echoes(connect(&gateway, address).unwrap());
    let report = &gateway.report()["links"];
    assert_eq!((report.accepted, report.handshakes), (1, 1));
    assert_eq!((report.bytes_in, report.bytes_out), (3_000_000, 3_000_000));
    assert!(gateway.stop(LIMIT), "the link has ended by itself");
    assert!(node.stop(LIMIT));
    assert!(connect(&gateway, address).is_err(), "it is over");
}

/// Sessions that send a disconnect notice.
struct ClosingShards;

impl Shards for ClosingShards {
    fn adopt(&self, socket: OwnedFd, _arrival: Arrival) -> io::Result<()> {
        UnixStream::from(socket).write_all(b"notice")
    }

    fn active_user(&self, _username: &str) -> Option<UserId> {
        None
    }

    fn certificate_refused(&self, refused: RefusedCertificate) {
        panic!("a service is no user: {refused:?}")
    }
}

/// The end of one side becomes that of the other, after all earlier data.
#[test]
fn an_end_goes_through() {
    let authority = Authority::new("authority");
    let files = authority.issue("node", "127.0.0.1");
    let gateway = gateway(&authority.path("authority.pem"), None, None);
    let shards: Arc<dyn Shards> = Arc::new(ClosingShards);
    let (leaving, address) = node_of(files.clone(), None, &shards);
    let mut heard = Vec::new();
    let mut link = connect(&gateway, address).unwrap();
    link.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"notice");
    drop(link);
    assert!(leaving.stop(LIMIT));

    let (staying, address) = node(files, None);
    drop(connect(&gateway, address).unwrap());
    let since = Instant::now();
    while staying.report()["binary"].open > 0 {
        assert!(since.elapsed() < LIMIT, "its session is open");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// No data is sent to a node that cannot prove its identity.
#[test]
fn a_node_has_to_be_whom_the_authority_says() {
    let authority = Authority::new("authority");
    let trusted = authority.path("authority.pem");
    let unknown = Authority::new("other").issue_in(&authority, "unknown");
    let other = authority.issue("other", "node-7");
    let old = authority.issue_with("old", "127.0.0.1", |parameters| {
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2020, 2, 1);
    });
    let cases = [
        (unknown, "unknown_authority", "UnknownIssuer"),
        (other.clone(), "wrong_name", "not valid for name"),
        (old, "expired", "expired"),
    ];
    for (files, reason, text) in cases {
        let (node, address) = node(files, None);
        let gateway = gateway(&trusted, None, None);
        let error = connect(&gateway, address).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        let line = failure(&gateway);
        assert!(
            line.contains(text) && line.contains(&address.to_string()),
            "{line}"
        );
        assert_eq!(failures(&gateway, "links"), [reason]);
        // The node receives the alert.
        assert!(failure(&node).contains("alert"));
        assert_eq!(node.report()["binary"].open, 0);
    }
    let (_node, address) = node(other, None);
    let gateway = gateway(&trusted, None, Some("node-7"));
    assert_echoes(connect(&gateway, address).unwrap());
}

/// Mutual TLS: a peer without a certificate, or with one of another authority, does not reach a shard and receives the
/// reason.
#[test]
fn a_node_may_ask_gateways_for_certificates() {
    let authority = Authority::new("authority");
    let trusted = authority.path("authority.pem");
    let (node, address) = node(authority.issue("node", "127.0.0.1"), Some(&authority));
    let own = authority.issue("gateway", "gateway-0");
    assert_echoes(connect(&gateway(&trusted, Some(own), None), address).unwrap());
    let foreign = Authority::new("other").issue_in(&authority, "foreign");
    for own in [None, Some(foreign)] {
        let gateway = gateway(&trusted, own, None);
        let mut link = connect(&gateway, address).unwrap();
        // The connection may have ended: the handshake completes at the gateway before the node has checked its
        // certificate.
        let _ = link.write_all(&vec![7; 300_000]);
        assert_eq!(link.read(&mut [0; 10]).unwrap_or(0), 0);
        assert!(failure(&gateway).contains("alert"));
        assert_eq!(failures(&gateway, "links"), ["our_certificate_refused"]);
    }
    let expected = ["client_certificate", "no_client_certificate"];
    let since = Instant::now();
    while failures(&node, "binary") != expected {
        assert!(since.elapsed() < LIMIT, "{:?}", failures(&node, "binary"));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Neither side ever falls back to unencrypted connections.
#[test]
fn what_is_not_encrypted_is_not_understood() {
    let authority = Authority::new("authority");
    let (_node, address) = node(authority.issue("node", "127.0.0.1"), None);
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(&[12, 0, 0, 0, 26, 39, 0, 0]).unwrap();
    let mut heard = Vec::new();
    let _ = plain.read_to_end(&mut heard);
    assert!(
        heard.first().is_none_or(|kind| *kind == 21),
        "an alert at most: {heard:?}"
    );

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        // A node's response to an invalid request.
        peer.write_all(&[3, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut hello = Vec::new();
        let _ = peer.read_to_end(&mut hello);
        hello
    });
    let gateway = gateway(&authority.path("authority.pem"), None, None);
    connect(&gateway, address).unwrap_err();
    assert_eq!(failures(&gateway, "links"), ["not_tls"]);
    assert_eq!(
        answering.join().unwrap()[0],
        22,
        "a handshake, and nothing of a request"
    );
}

/// A node that accepts connections and stays silent costs its timeout and no more.
#[test]
fn a_silent_node_is_given_up() {
    let authority = Authority::new("authority");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let gateway = gateway(&authority.path("authority.pem"), None, None);
    let connector = gateway.connector().unwrap();
    let began = Instant::now();
    connector
        .connect(&address, Duration::from_millis(200))
        .unwrap_err();
    assert!(began.elapsed() < LIMIT);
    assert_eq!(failures(&gateway, "links"), ["timeout"]);
}

/// New connections use new files, on both sides; an invalid one changes nothing.
#[test]
fn certificates_are_renewed_while_links_live() {
    let authority = Authority::new("authority");
    let trusted = authority.path("authority.pem");
    let (node, address) = node(authority.issue("node", "127.0.0.1"), None);
    let gateway = gateway(&trusted, None, None);
    let link = connect(&gateway, address).unwrap();
    let next = Authority::new("next");
    next.issue_in(&authority, "node");
    node.reload_certificates();
    assert!(
        connect(&gateway, address).is_err(),
        "of an authority that it does not know"
    );
    std::fs::write(&trusted, "no certificate").unwrap();
    gateway.reload_certificates();
    assert!(connect(&gateway, address).is_err());
    std::fs::write(&trusted, next.issuer.pem()).unwrap();
    gateway.reload_certificates();
    assert_echoes(connect(&gateway, address).unwrap());
    assert_echoes(link);
    let events = gateway.take_events();
    let complaints = events
        .iter()
        .filter(|event| event.message.contains("is not used"));
    assert_eq!(complaints.count(), 1, "{events:?}");
}

impl Authority {
    /// Issue a certificate of this authority for the host of the tests, in another one's directory.
    fn issue_in(&self, other: &Self, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.issue(name, "127.0.0.1");
        let files = (
            other.path(&format!("{name}.pem")),
            other.path(&format!("{name}.key")),
        );
        std::fs::copy(key, &files.1).unwrap();
        std::fs::copy(certificate, &files.0).unwrap();
        files
    }
}
