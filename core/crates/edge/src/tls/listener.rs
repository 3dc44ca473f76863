//! A TLS listener: a port on which every connection is TLS.

use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use headrace_model::{Level, Timestamp};
use headrace_runtime::Events;
use headrace_shard::{
    Arrival, Framing, Refusals,
    proxy::{self, Network},
};
use headrace_wire::Transport;
use rustls::{ServerConfig, server::danger::ClientCertVerifier};
use rustls_pki_types::CertificateDer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::{OwnedSemaphorePermit, watch},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    failures::{FailureLog, Reason},
    handshakes::Handshakes,
    relay::{LINGER, relay},
};
use crate::{
    certificate::{Identity, Renewal, Users, is_revoked},
    counters::{ListenerCounters, add},
    shards::{RefusedCertificate, Shards, pair},
};

/// Pause of accepting after running out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Number of attempts to pass a connection to a busy shard, each after a longer pause.
const ADOPT_ATTEMPTS: u32 = 8;

/// State shared by all connections of one port.
pub(crate) struct TlsServer {
    pub(crate) name: &'static str,
    pub(crate) transport: Transport,
    pub(crate) framing: Framing,
    pub(crate) renewal: Renewal<Identity>,
    /// Configuration of new connections.
    pub(crate) server: ArcSwap<ServerConfig>,
    /// Verifier with which open connections are checked again whenever it is renewed; `None`: there are no revocation
    /// lists.
    pub(crate) revocations: watch::Sender<Option<Arc<dyn ClientCertVerifier>>>,
    /// Load balancers whose PROXY header states the client's address.
    pub(crate) proxies: Vec<Network>,
    /// Mapping of client certificates to users; `None`: no mapping.
    pub(crate) users: Option<Users>,
    pub(crate) handshakes: Handshakes,
    pub(crate) counters: ListenerCounters,
    pub(crate) failures: FailureLog,
    pub(crate) refusals: RefusedClients,
    pub(crate) events: Events,
}

/// Rate limit of the audit records about refused certificates.
pub(crate) struct RefusedClients {
    since: Instant,
    limits: Mutex<Refusals>,
}

impl Default for RefusedClients {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            limits: Mutex::default(),
        }
    }
}

impl RefusedClients {
    /// Take a permit for one report; returns the number of suppressed reports before it.
    fn take(&self) -> Option<u32> {
        let micros = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.take(Timestamp(micros))
    }
}

/// A peer that was refused in its handshake, and has not received the alert yet.
struct Refused {
    reason: Reason,
    socket: TcpStream,
    source: SocketAddr,
}

/// A TLS listener and its listening socket.
pub(crate) struct TlsListener {
    pub(crate) server: Arc<TlsServer>,
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
}

impl TlsServer {
    /// Check for a new certificate and use it from the next connection on.
    pub(crate) fn renew(&self) {
        if let Some(ready) = self.renewal.check() {
            let revocations = ready.verifier_of_revoked();
            self.server.store(ready.server);
            self.revocations.send_replace(revocations);
        }
    }

    /// Accept for ever. Each connection runs as a task of its own with a clone of `life`.
    pub(crate) async fn accept<L: Clone + Send + 'static>(
        self: Arc<Self>,
        listener: TcpListener,
        shards: Arc<dyn Shards>,
        life: L,
    ) {
        loop {
            let place = self.handshakes.place().await;
            match listener.accept().await {
                Ok((socket, address)) => {
                    add(&self.counters.accepted, 1);
                    let (listener, shards) = (Arc::clone(&self), Arc::clone(&shards));
                    let life = life.clone();
                    tokio::spawn(async move {
                        listener.serve(socket, address, place, shards).await;
                        drop(life);
                    });
                }
                Err(error) if is_one_bad_connection(&error) => {}
                Err(error) => {
                    self.events.push(
                        Level::Warning,
                        format!("{}: a connection was not accepted: {error}", self.name),
                    );
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(
        &self,
        socket: TcpStream,
        address: SocketAddr,
        place: OwnedSemaphorePermit,
        shards: Arc<dyn Shards>,
    ) {
        let handshake = self.handshakes.run(self.shake_hands(socket, address));
        let (stream, address) = match handshake.await {
            Ok(Ok(shaken)) => shaken,
            Ok(Err(Refused {
                reason,
                socket,
                source,
            })) => {
                self.failures.failed(&self.counters, source, &reason);
                self.note_certificate(&*shards, source, &reason);
                return linger(socket).await;
            }
            Err(reason) => return self.failures.failed(&self.counters, address, &reason),
        };
        drop(place);
        add(&self.counters.handshakes, 1);
        let certificate = stream.get_ref().1.peer_certificates();
        let user = certificate
            .and_then(<[_]>::first)
            .zip(self.users.as_ref())
            .and_then(|(certificate, users)| users.of(certificate));
        let arrival = Arrival {
            address,
            transport: self.transport,
            framing: self.framing,
            is_proxied: false,
            user,
            interface: 0,
        };
        match adopted(&*shards, arrival).await {
            Ok(shard) => {
                let _open = self.counters.opened();
                let shown = stream.get_ref().1.peer_certificates();
                let shown = shown.map(<[CertificateDer<'static>]>::to_vec);
                tokio::select! {
                    // Abrupt ends of connections are common and not reported.
                    _ended = relay(stream, shard, &self.counters) => {}
                    () = self.revoked(shown) => {
                        let text = "its certificate is revoked: its connection has ended";
                        let reason = Reason::new("revoked", text);
                        self.failures.failed(&self.counters, address, &reason);
                    }
                }
            }
            Err(_busy) => {
                self.failures
                    .failed(&self.counters, address, &Reason::busy());
            }
        }
    }

    /// Wait until the certificate of an open connection is revoked, which usually never happens.
    async fn revoked(&self, shown: Option<Vec<CertificateDer<'static>>>) {
        let Some(chain) = shown else {
            return std::future::pending().await;
        };
        let mut renewed = self.revocations.subscribe();
        loop {
            // Check at once: the lists may have changed since the handshake.
            let verifier = renewed.borrow_and_update().clone();
            if verifier.is_some_and(|verifier| is_revoked(&*verifier, &chain)) {
                return;
            }
            if renewed.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Report a refused certificate, if a certificate counts as a login on this listener.
    fn note_certificate(&self, shards: &dyn Shards, address: SocketAddr, reason: &Reason) {
        if self.users.is_some()
            && reason.is_about_certificate()
            && let Some(suppressed_count) = self.refusals.take()
        {
            shards.certificate_refused(RefusedCertificate {
                address,
                transport: self.transport,
                reason: reason.name,
                suppressed_count,
            });
        }
    }

    /// Run the handshake. The outer error is the listener's; the peer was informed of the inner one.
    async fn shake_hands(
        &self,
        mut socket: TcpStream,
        address: SocketAddr,
    ) -> Result<Result<(TlsStream<TcpStream>, SocketAddr), Refused>, Reason> {
        // Answers are written whole, often as several records: none of them must wait for an acknowledgement.
        let prepared = socket.set_nodelay(true);
        prepared.map_err(|error| Reason::of_stream(&error))?;
        let source = if proxy::is_among(address, &self.proxies) {
            read_proxy_header(&mut socket).await?.unwrap_or(address)
        } else {
            address
        };
        let acceptor = TlsAcceptor::from(self.server.load_full());
        let accepted = acceptor.accept(socket).into_fallible().await;
        Ok(accepted
            .map(|stream| (stream, source))
            .map_err(|(error, socket)| Refused {
                reason: Reason::of_stream(&error),
                socket,
                source,
            }))
    }
}

/// Read the PROXY header of a load balancer in front of the handshake. Returns the client's address; `None` if the
/// balancer connects on its own behalf.
async fn read_proxy_header(socket: &mut TcpStream) -> Result<Option<SocketAddr>, Reason> {
    let mut bytes = vec![0; proxy::FIXED_BYTES];
    let mut filled = 0;
    loop {
        let read = socket.read_exact(&mut bytes[filled..]).await;
        read.map_err(|error| Reason::of_stream(&error))?;
        filled = bytes.len();
        match proxy::read(&bytes) {
            Ok(Some(header)) => return Ok(header.source),
            // Exactly the header is read, not a byte of the handshake.
            Ok(None) => bytes.resize(proxy::whole_bytes(&bytes), 0),
            Err(error) => return Err(Reason::new("proxy_header", error.to_string())),
        }
    }
}

/// Give a refused peer time to read the alert: closing a socket with unread bytes would reset the connection, and the
/// alert would be lost.
async fn linger(mut socket: TcpStream) {
    let drain = async {
        let mut dropped = [0; 1024];
        if socket.shutdown().await.is_ok() {
            while matches!(socket.read(&mut dropped).await, Ok(1..)) {}
        }
    };
    let _ = timeout(LINGER, drain).await;
}

/// Open a connection to a shard on behalf of a peer.
pub(crate) async fn adopted(shards: &dyn Shards, arrival: Arrival) -> io::Result<UnixStream> {
    let mut pause = Duration::from_millis(1);
    for _ in 1..ADOPT_ATTEMPTS {
        match adopt(shards, arrival) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(pause).await,
            result => return result,
        }
        pause *= 2;
    }
    adopt(shards, arrival)
}

fn adopt(shards: &dyn Shards, arrival: Arrival) -> io::Result<UnixStream> {
    let (ours, theirs) = pair()?;
    shards.adopt(theirs, arrival)?;
    Ok(ours)
}

/// Return whether an accept failed because of one connection only, so that the next accept may succeed.
fn is_one_bad_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
