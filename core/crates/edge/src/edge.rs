//! All doors of one process, and the threads that serve them.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use headrace_runtime::{Event, Events, listener};
use headrace_shard::Framing;
use headrace_wire::Transport;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    certificate::{CertificateProblem, ClientCertificates, Identity, Purpose, Renewal, Users},
    config::{EdgeConfig, QuicDoorConfig, TlsDoorConfig},
    counters::{DoorCounters, EdgeReport},
    quic::{QuicDoor, QuicListener},
    shards::Shards,
    tls::{FailureLog, Handshakes, TlsDoor, TlsListener},
};

/// After the last connection has ended, its peer is told for so long.
const LAST_PACKETS: Duration = Duration::from_secs(1);

/// Why the doors do not open.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A door has nothing to show.
    #[error("{settings}: {problem}")]
    Certificate {
        /// Where its settings are.
        settings: &'static str,
        /// Why.
        problem: CertificateProblem,
    },
    /// An address cannot be bound.
    #[error("cannot listen on {address} for {door}: {source}")]
    Bind {
        /// The door.
        door: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// There are no threads to be had.
    #[error("the threads of the doors cannot be started: {0}")]
    Threads(io::Error),
    /// It was started before.
    #[error("the doors were opened before")]
    AlreadyStarted,
}

/// Addresses really bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bound {
    /// Of TLS in front of the protocol over TCP.
    pub tcp: Option<SocketAddr>,
    /// Of TLS in front of the protocol over WebSocket.
    pub websocket: Option<SocketAddr>,
    /// Of the protocol over QUIC (UDP).
    pub quic: Option<SocketAddr>,
}

#[derive(Default)]
struct Running {
    runtime: Option<Runtime>,
    accepting: Vec<JoinHandle<()>>,
    /// Ends when the last connection has.
    lives: Option<mpsc::Receiver<Infallible>>,
    started: bool,
}

/// The encrypted doors of one process.
///
/// Order of calls: [`Edge::bind`], [`Edge::start`], [`Edge::close_doors`], then the node stops and says goodbye to its
/// clients, whom the open connections still reach, then [`Edge::stop`].
pub struct Edge {
    config: EdgeConfig,
    bound: Bound,
    doors: Doors,
    listeners: Mutex<Listeners>,
    users: Users,
    events: Events,
    running: Mutex<Running>,
}

#[derive(Clone)]
struct Doors {
    tls: Vec<Arc<TlsDoor>>,
    quic: Option<Arc<QuicDoor>>,
}

impl Doors {
    fn are_none(&self) -> bool {
        self.tls.is_empty() && self.quic.is_none()
    }

    /// Look for new certificates.
    fn renew(&self) {
        self.tls.iter().for_each(|door| door.renew());
        self.quic.iter().for_each(|door| door.renew());
    }
}

/// Ports that are taken, until they are opened or given up.
#[derive(Default)]
struct Listeners {
    tls: Vec<TlsListener>,
    quic: Option<QuicListener>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing behind these locks is left half-changed by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Edge {
    /// Read the certificates and take the ports. Nobody is let in yet.
    pub fn bind(config: EdgeConfig) -> Result<Self, StartError> {
        let events = Events::default();
        let users = Users::default();
        let mut listeners = Listeners::default();
        let tcp = ("tcp", "tcp.tls", Transport::Tcp, Framing::Plain);
        let websocket = (
            "websocket",
            "websocket.tls",
            Transport::WebSocket,
            Framing::WebSocket,
        );
        for (door, kind) in [(&config.tcp, tcp), (&config.websocket, websocket)] {
            if let Some(door) = door {
                let listener = tls_listener(&config, door, kind, &users, &events)?;
                listeners.tls.push(listener);
            }
        }
        if let Some(door) = &config.quic {
            listeners.quic = Some(quic_listener(&config, door, &users, &events)?);
        }
        let tls = &listeners.tls;
        let quic = listeners.quic.as_ref();
        let address_of = |name| {
            let listener = tls.iter().find(|listener| listener.door.name == name);
            listener.map(|listener| listener.address)
        };
        Ok(Self {
            config,
            bound: Bound {
                tcp: address_of("tcp"),
                websocket: address_of("websocket"),
                quic: quic.map(|listener| listener.address),
            },
            doors: Doors {
                tls: tls.iter().map(|known| Arc::clone(&known.door)).collect(),
                quic: quic.map(|known| Arc::clone(&known.door)),
            },
            listeners: Mutex::new(listeners),
            users,
            events,
            running: Mutex::default(),
        })
    }

    /// Addresses really bound.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Let clients in, to be served by `shards`. Without doors nothing is started.
    pub fn start(&self, shards: &Arc<dyn Shards>) -> Result<(), StartError> {
        let mut running = lock(&self.running);
        if running.started {
            return Err(StartError::AlreadyStarted);
        }
        running.started = true;
        if self.doors.are_none() {
            return Ok(());
        }
        self.users.set(shards);
        let runtime = Builder::new_multi_thread()
            .worker_threads(self.config.worker_threads())
            .thread_name("headrace-edge")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let (life, lives) = mpsc::channel(1);
        let context = runtime.enter();
        let Listeners { tls, quic } = std::mem::take(&mut *lock(&self.listeners));
        for listener in tls {
            let (door, address) = (listener.door, listener.address);
            let socket = listening(listener.socket);
            let socket = socket.map_err(|source| bind_error(door.name, address, source))?;
            let accept = door.accept(socket, Arc::clone(shards), life.clone());
            running.accepting.push(runtime.spawn(accept));
        }
        if let Some(listener) = quic {
            let (name, address) = (listener.door.name, listener.address);
            let door = listener.open();
            let door = door.map_err(|source| bind_error(name, address, source))?;
            let accept = door.accept(Arc::clone(shards), life.clone());
            running.accepting.push(runtime.spawn(accept));
        }
        running.accepting.push(runtime.spawn(watch(
            self.doors.clone(),
            self.config.certificate_check_interval(),
        )));
        drop(context);
        running.lives = Some(lives);
        running.runtime = Some(runtime);
        Ok(())
    }

    /// Look for new certificates now.
    pub fn reload_certificates(&self) {
        self.doors.renew();
    }

    /// Log events that wait.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.take()
    }

    /// A reading of the counters.
    pub fn report(&self) -> EdgeReport {
        let tls = self.doors.tls.iter();
        let quic = self.doors.quic.iter();
        tls.map(|door| (door.name, door.counters.report()))
            .chain(quic.map(|door| (door.name, door.counters.report())))
            .collect()
    }

    /// Let nobody in any more. Connections stay.
    pub fn close_doors(&self) {
        drop(std::mem::take(&mut *lock(&self.listeners)));
        for task in lock(&self.running).accepting.drain(..) {
            task.abort();
        }
    }

    /// Wait until the last connection has ended, and end the threads. `false`: the time was up and some were cut off.
    pub fn stop(&self, limit: Duration) -> bool {
        self.close_doors();
        let (runtime, lives) = {
            let mut running = lock(&self.running);
            (running.runtime.take(), running.lives.take())
        };
        let (Some(runtime), Some(mut lives)) = (runtime, lives) else {
            return true;
        };
        let quic = self.doors.quic.clone();
        let in_time = runtime.block_on(async {
            let in_time = timeout(limit, lives.recv()).await.is_ok();
            if let Some(door) = quic {
                // The last packets say that connections are closed: who misses them waits for his own timeout.
                let _ = timeout(LAST_PACKETS, door.finish()).await;
            }
            in_time
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        in_time
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

fn bind_error(door: &'static str, address: SocketAddr, source: io::Error) -> StartError {
    StartError::Bind {
        door,
        address,
        source,
    }
}

fn tls_listener(
    config: &EdgeConfig,
    door: &TlsDoorConfig,
    (name, settings, transport, framing): (&'static str, &'static str, Transport, Framing),
    users: &Users,
    events: &Events,
) -> Result<TlsListener, StartError> {
    let identity = Identity {
        files: door.certificate.clone(),
        purpose: Purpose::Stream,
        clients: door.client_certificates,
        authority_file: door.client_ca_file.clone(),
        users: users.clone(),
    };
    let renewal = Renewal::begin(name, identity, events.clone())
        .map_err(|problem| StartError::Certificate { settings, problem })?;
    let (socket, address) =
        listener::bind(door.address).map_err(|source| bind_error(name, door.address, source))?;
    let door = Arc::new(TlsDoor {
        name,
        transport,
        framing,
        server: ArcSwap::new(renewal.in_use().server),
        renewal,
        users: users.clone(),
        handshakes: Handshakes::new(config.handshakes_max, config.handshake_timeout()),
        counters: DoorCounters::default(),
        failures: FailureLog::new(name, events.clone()),
        events: events.clone(),
    });
    Ok(TlsListener {
        door,
        socket,
        address,
    })
}

fn quic_listener(
    config: &EdgeConfig,
    door: &QuicDoorConfig,
    users: &Users,
    events: &Events,
) -> Result<QuicListener, StartError> {
    let (name, settings) = ("quic", "quic.certificate");
    let identity = Identity {
        files: door.certificate.clone(),
        purpose: Purpose::Quic,
        clients: ClientCertificates::None,
        authority_file: None,
        users: users.clone(),
    };
    let wrong = |problem| StartError::Certificate { settings, problem };
    let renewal = Renewal::begin(name, identity, events.clone()).map_err(wrong)?;
    let (socket, address) =
        QuicListener::bind(door).map_err(|source| bind_error(name, door.address, source))?;
    let handshakes = Handshakes::new(config.handshakes_max, config.handshake_timeout());
    let failures = FailureLog::new(name, events.clone());
    let door = Arc::new(QuicDoor::new(
        name,
        door.clone(),
        renewal,
        handshakes,
        failures,
    ));
    // What no connection could be made with is told now, not by the first one.
    door.server().map_err(wrong)?;
    Ok(QuicListener {
        door,
        socket,
        address,
    })
}

fn listening(socket: OwnedFd) -> io::Result<TcpListener> {
    listener::listen(&socket)?;
    let socket = std::net::TcpListener::from(socket);
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// Look at the files now and then. Reading them may take as long as a disk does, so it is done beside the connections.
async fn watch(doors: Doors, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let doors = doors.clone();
        // It only fails when the runtime ends.
        let _ = tokio::task::spawn_blocking(move || doors.renew()).await;
    }
}
