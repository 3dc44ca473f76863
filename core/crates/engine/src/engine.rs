//! The thread that drives all sessions of the process.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headrace_sdk_core::{Backoff, Config, Login};
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::time::Instant;

use crate::address::Address;

/// Shortest and longest delay between attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Settings of the sessions of one client.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Addresses of servers; at least one.
    pub addresses: Vec<Address>,
    /// Credentials.
    pub login: Login,
    /// Time for connecting, and for logging in.
    pub connect_timeout: Duration,
    /// Time within which the oldest request in flight must be answered, or bytes of an answer must arrive.
    pub response_timeout: Duration,
    /// Idle time after which a ping shows whether the connection lives.
    pub keepalive: Duration,
    /// Number of rounds over all addresses after which the first connection fails.
    pub first_rounds: u32,
    /// Ask the server for the places of batches, before anything else is sent.
    pub reports_offsets: bool,
    /// Called with each change of a connection, on the engine's thread.
    pub observer: Observer,
}

/// Change of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A connection is open and logged in.
    Opened,
    /// A connection broke; it is made again.
    Lost {
        /// Reason.
        reason: String,
    },
    /// A session has ended with a failure.
    Failed {
        /// Reason.
        reason: String,
    },
}

type Listener = dyn Fn(&Change) + Send + Sync;

/// Listener to changes of connections.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Listener>>);

impl Observer {
    /// Create an observer that calls a function.
    pub fn new(listener: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub(crate) fn report(&self, change: &Change) {
        if let Some(listener) = &self.0 {
            listener(change);
        }
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Observer")
            .field(&self.0.is_some())
            .finish()
    }
}

impl SessionSettings {
    pub(crate) fn session_config(&self) -> Config {
        Config {
            addresses: self.addresses.iter().map(Address::to_string).collect(),
            login: self.login.clone(),
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            keepalive: self.keepalive,
            backoff: Self::backoff(),
            first_rounds: self.first_rounds,
            reports_offsets: self.reports_offsets,
        }
    }

    /// The same for further sessions of a client that has been connected: they are tried for ever.
    pub(crate) fn of_connected_client(&self) -> Arc<Self> {
        Arc::new(Self {
            first_rounds: u32::MAX,
            ..self.clone()
        })
    }

    pub(crate) fn backoff() -> Backoff {
        Backoff::new(BACKOFF.0, BACKOFF.1, fastrand::u64(..))
    }
}

/// The thread that drives all sessions of the process. It begins with the first use, and ends with the process.
#[derive(Debug, Clone)]
pub struct Engine {
    handle: Handle,
    is_virtual: bool,
}

struct Running {
    process: u32,
    runtime: Runtime,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

impl Engine {
    /// Return the engine of this process. A process that was forked from one with an engine gets a new one: the other
    /// thread does not exist there.
    pub fn of_process() -> io::Result<Self> {
        if let Some(handle) = crate::virtual_time::active() {
            return Ok(Self {
                handle,
                is_virtual: true,
            });
        }
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some(found) = running.as_ref().filter(|found| found.process == process) {
            let handle = found.runtime.handle().clone();
            return Ok(Self {
                handle,
                is_virtual: false,
            });
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("headrace-client")
            .enable_io()
            .enable_time()
            .build()?;
        let handle = runtime.handle().clone();
        // The other process's runtime is left alone: its descriptors are shared with that process.
        let other = running.replace(Running { process, runtime });
        std::mem::forget(other);
        Ok(Self {
            handle,
            is_virtual: false,
        })
    }

    /// The present time, on any thread.
    pub(crate) fn now(&self) -> Instant {
        let _clock = self.clock();
        Instant::now()
    }

    /// Let this thread see the engine's time while the result exists.
    pub(crate) fn clock(&self) -> Option<EnterGuard<'_>> {
        self.is_virtual.then(|| self.handle.enter())
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }
}
