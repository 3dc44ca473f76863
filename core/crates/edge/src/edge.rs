//! All encrypted listeners of one process, its links, and the threads that serve them.

use std::{
    convert::Infallible,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headrace_runtime::{Connector, Event, Events, listener};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    certificate::Users,
    config::EdgeConfig,
    counters::EdgeReport,
    links::{self, Links},
    opening::{Bound, Listeners, StartError, bind_error},
    quic::QuicServer,
    shards::Shards,
    tls::TlsServer,
};

/// Time for the last packets, which close the connections of QUIC peers.
const LAST_PACKETS: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Running {
    runtime: Option<Runtime>,
    accepting: Vec<JoinHandle<()>>,
    /// Cloned into every connection; dropped when no more connections are accepted.
    life: Option<mpsc::Sender<Infallible>>,
    /// Closed when the last connection has ended.
    lives: Option<mpsc::Receiver<Infallible>>,
    started: bool,
}

impl Running {
    /// Start the threads.
    fn begin(config: &EdgeConfig) -> Result<Self, StartError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(config.worker_threads())
            .thread_name("headrace-edge")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let (life, lives) = mpsc::channel(1);
        Ok(Self {
            runtime: Some(runtime),
            life: Some(life),
            lives: Some(lives),
            ..Self::default()
        })
    }
}

/// The encrypted listeners of one process, and its links.
///
/// Order of calls: [`Edge::bind`], [`Edge::start`], [`Edge::close_listeners`], then the node shuts down and notifies its
/// clients over the connections that are still open, then [`Edge::stop`].
pub struct Edge {
    config: EdgeConfig,
    bound: Bound,
    open_listeners: OpenListeners,
    listeners: Mutex<Listeners>,
    users: Users,
    events: Events,
    running: Mutex<Running>,
}

#[derive(Clone)]
struct OpenListeners {
    tls: Vec<Arc<TlsServer>>,
    quic: Option<Arc<QuicServer>>,
    links: Option<Arc<Links>>,
}

impl OpenListeners {
    /// Check for new certificates.
    fn renew(&self) {
        self.tls.iter().for_each(|listener| listener.renew());
        self.quic.iter().for_each(|listener| listener.renew());
        self.links.iter().for_each(|links| links.renew());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Poisoned locks are accepted: a panic leaves none of the protected values half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Edge {
    /// Read the certificates and bind the ports. Clients are not accepted yet; links can be opened.
    pub fn bind(config: EdgeConfig) -> Result<Self, StartError> {
        let events = Events::default();
        let users = Users::default();
        let listeners = Listeners::take(&config, &users, &events)?;
        let (tls, quic) = (&listeners.tls, listeners.quic.as_ref());
        let is_idle = tls.is_empty() && quic.is_none() && config.links.is_none();
        let running = if is_idle {
            Running::default()
        } else {
            Running::begin(&config)?
        };
        let open_listeners = OpenListeners {
            tls: tls.iter().map(|known| Arc::clone(&known.server)).collect(),
            quic: quic.map(|known| Arc::clone(&known.server)),
            links: opened_links(&config, &running, &events)?,
        };
        Ok(Self {
            config,
            bound: listeners.bound(),
            open_listeners,
            listeners: Mutex::new(listeners),
            users,
            events,
            running: Mutex::new(running),
        })
    }

    /// Connector for encrypted connections to partition nodes, if configured.
    pub fn connector(&self) -> Option<Arc<dyn Connector>> {
        let links = self.open_listeners.links.as_ref()?;
        Some(Arc::clone(links) as _)
    }

    /// Bound addresses.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Accept clients, to be served by `shards`. Without listeners nothing is started.
    pub fn start(&self, shards: &Arc<dyn Shards>) -> Result<(), StartError> {
        let mut running = lock(&self.running);
        if running.started {
            return Err(StartError::AlreadyStarted);
        }
        running.started = true;
        self.users.set(shards);
        let Running {
            runtime: Some(runtime),
            life: Some(life),
            accepting,
            ..
        } = &mut *running
        else {
            return Ok(());
        };
        let context = runtime.enter();
        let Listeners { tls, quic } = std::mem::take(&mut *lock(&self.listeners));
        for bound in tls {
            let (server, address) = (bound.server, bound.address);
            let socket = listening(bound.socket);
            let socket = socket.map_err(|source| bind_error(server.name, address, source))?;
            let accept = server.accept(socket, Arc::clone(shards), life.clone());
            accepting.push(runtime.spawn(accept));
        }
        if let Some(bound) = quic {
            let (name, address) = (bound.server.name, bound.address);
            let server = bound.open();
            let server = server.map_err(|source| bind_error(name, address, source))?;
            let accept = server.accept(Arc::clone(shards), life.clone());
            accepting.push(runtime.spawn(accept));
        }
        accepting.push(runtime.spawn(watch(
            self.open_listeners.clone(),
            self.config.certificate_check_interval(),
        )));
        drop(context);
        Ok(())
    }

    /// Check for new certificates now.
    pub fn reload_certificates(&self) {
        self.open_listeners.renew();
    }

    /// Take the waiting log events.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.take()
    }

    /// Snapshot of the counters.
    pub fn report(&self) -> EdgeReport {
        let tls = self.open_listeners.tls.iter();
        let quic = self.open_listeners.quic.iter();
        let links = self.open_listeners.links.iter();
        tls.map(|listener| (listener.name, listener.counters.report()))
            .chain(quic.map(|listener| (listener.name, listener.counters.report())))
            .chain(links.map(|links| (links::NAME, links.counters().report())))
            .collect()
    }

    /// Stop accepting connections. Open connections stay.
    pub fn close_listeners(&self) {
        drop(std::mem::take(&mut *lock(&self.listeners)));
        for task in lock(&self.running).accepting.drain(..) {
            task.abort();
        }
    }

    /// Wait until the last connection has ended, and end the threads. `false`: the timeout expired and some connections
    /// were cut off.
    pub fn stop(&self, limit: Duration) -> bool {
        self.close_listeners();
        if let Some(links) = &self.open_listeners.links {
            links.close();
        }
        let (runtime, lives) = {
            let mut running = lock(&self.running);
            drop(running.life.take());
            (running.runtime.take(), running.lives.take())
        };
        let (Some(runtime), Some(mut lives)) = (runtime, lives) else {
            return true;
        };
        let quic = self.open_listeners.quic.clone();
        let in_time = runtime.block_on(async {
            let in_time = timeout(limit, lives.recv()).await.is_ok();
            if let Some(listener) = quic {
                // The last packets close the connections: a peer that misses them waits for its own timeout.
                let _ = timeout(LAST_PACKETS, listener.finish()).await;
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

fn opened_links(
    config: &EdgeConfig,
    running: &Running,
    events: &Events,
) -> Result<Option<Arc<Links>>, StartError> {
    let (Some(settings), Some(runtime), Some(life)) =
        (&config.links, &running.runtime, &running.life)
    else {
        return Ok(None);
    };
    let links = Links::new(settings, runtime.handle().clone(), life.clone(), events);
    let links = links.map_err(|problem| StartError::Certificate {
        settings: "links.tls",
        problem,
    })?;
    Ok(Some(Arc::new(links)))
}

fn listening(socket: OwnedFd) -> io::Result<TcpListener> {
    listener::listen(&socket)?;
    let socket = std::net::TcpListener::from(socket);
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// Check the files periodically. Reading them may block on a disk, so it does not run on the connections' threads.
async fn watch(open_listeners: OpenListeners, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let open_listeners = open_listeners.clone();
        // Fails only when the runtime ends.
        let _ = tokio::task::spawn_blocking(move || open_listeners.renew()).await;
    }
}
