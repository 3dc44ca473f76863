//! A door: a port on which every connection is TLS.

use std::{io, net::SocketAddr, os::fd::OwnedFd, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use headrace_model::Level;
use headrace_runtime::Events;
use headrace_shard::{Arrival, Framing};
use headrace_wire::Transport;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::OwnedSemaphorePermit,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    failures::{FailureLog, Reason},
    handshakes::Handshakes,
    relay::{LINGER, relay},
};
use crate::{
    certificate::{Identity, Renewal, Users},
    counters::{DoorCounters, add},
    shards::{Shards, pair},
};

/// After running out of descriptors, accepting pauses for this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A shard that has its hands full is asked again so many times, each time after a longer pause.
const ADOPT_ATTEMPTS: u32 = 8;

/// What all connections of one port share.
pub(crate) struct TlsDoor {
    pub(crate) name: &'static str,
    pub(crate) transport: Transport,
    pub(crate) framing: Framing,
    pub(crate) renewal: Renewal<Identity>,
    /// What new connections are made with.
    pub(crate) server: ArcSwap<ServerConfig>,
    /// Whose the certificates of clients are; `None`: nobody's.
    pub(crate) users: Option<Users>,
    pub(crate) handshakes: Handshakes,
    pub(crate) counters: DoorCounters,
    pub(crate) failures: FailureLog,
    pub(crate) events: Events,
}

/// A door and its listening socket.
pub(crate) struct TlsListener {
    pub(crate) door: Arc<TlsDoor>,
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
}

impl TlsDoor {
    /// Look for a new certificate and use it from the next connection on.
    pub(crate) fn renew(&self) {
        if let Some(ready) = self.renewal.check() {
            self.server.store(ready.server);
        }
    }

    /// Accept for ever. Connections run as tasks of their own, each with a clone of `life`.
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
                    let (door, shards) = (Arc::clone(&self), Arc::clone(&shards));
                    let life = life.clone();
                    tokio::spawn(async move {
                        door.serve(socket, address, place, shards).await;
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
        let handshake = self.handshakes.run(self.shake_hands(socket));
        let stream = match handshake.await {
            Ok(Ok(stream)) => stream,
            Ok(Err((reason, socket))) => {
                self.failures.failed(&self.counters, address, &reason);
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
            user,
        };
        match adopted(&*shards, arrival).await {
            Ok(shard) => {
                let _open = self.counters.opened();
                // An abrupt end is the peer's business: many end like that.
                let _ = relay(stream, shard, &self.counters).await;
            }
            Err(_busy) => {
                self.failures
                    .failed(&self.counters, address, &Reason::busy());
            }
        }
    }

    /// The outer failure is the door's, the inner one was told to the peer.
    async fn shake_hands(
        &self,
        socket: TcpStream,
    ) -> Result<Result<TlsStream<TcpStream>, (Reason, TcpStream)>, Reason> {
        // Answers are written whole, and often in several records: none of them must wait for an acknowledgement.
        let prepared = socket.set_nodelay(true);
        prepared.map_err(|error| Reason::of_stream(&error))?;
        let acceptor = TlsAcceptor::from(self.server.load_full());
        let accepted = acceptor.accept(socket).into_fallible().await;
        Ok(accepted.map_err(|(error, socket)| (Reason::of_stream(&error), socket)))
    }
}

/// Give a peer that was refused a moment to hear why: to close a socket on unread bytes would reset the connection, and
/// the alert would be lost on the way.
async fn linger(mut socket: TcpStream) {
    let drain = async {
        let mut dropped = [0; 1024];
        if socket.shutdown().await.is_ok() {
            while matches!(socket.read(&mut dropped).await, Ok(1..)) {}
        }
    };
    let _ = timeout(LINGER, drain).await;
}

/// A connection with a shard, in the name of a peer.
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

/// Whether an accept failed because of one connection: the next one may be fine.
fn is_one_bad_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
