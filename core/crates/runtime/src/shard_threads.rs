//! Threads of the shards: started one by one, stopped together.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Sender as ResultSender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use headrace_catalog::CatalogReader;
use headrace_model::{Level, ShardId};
use headrace_shard::{ClientRegistry, Memory, NodeContacts, Shard, ShardConfig, panic_message};

use crate::{
    bridge::ControlBridge,
    connector::Connector,
    driver::{Selection, Waker, Workers},
    events::Events,
    host::{Host, HostState, Message},
    mailbox::{Receiver, Sender},
    memory::giving_back::GivingBack,
    metrics::gauges::ShardGauges,
    storage::Storage,
};

/// Handle of a started shard.
pub(crate) struct ShardHandle {
    pub(crate) sender: Sender<Message>,
    pub(crate) gauges: Arc<ShardGauges>,
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl ShardHandle {
    /// Return whether the shard has no connections left.
    pub(crate) fn is_drained(&self) -> bool {
        self.gauges.is_drained() || self.has_ended()
    }

    /// Return whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Values that a shard thread owns.
pub(crate) struct ThreadParts {
    pub(crate) config: Arc<ShardConfig>,
    pub(crate) catalog: CatalogReader,
    pub(crate) clients: ClientRegistry,
    pub(crate) contacts: NodeContacts,
    pub(crate) memory: Memory,
    pub(crate) memory_idle_micros: u64,
    pub(crate) receiver: Receiver<Message>,
    pub(crate) waker: Waker,
    pub(crate) peers: Vec<Sender<Message>>,
    pub(crate) bridge: Arc<ControlBridge>,
    pub(crate) events: Events,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) connect_timeout: Duration,
    pub(crate) gauges: Arc<ShardGauges>,
    pub(crate) selection: Selection,
    pub(crate) workers: Workers,
    pub(crate) storage: Storage,
    pub(crate) cpu: Option<usize>,
}

impl ThreadParts {
    /// Start the thread; returns when its driver is open, so that a failure is the caller's.
    pub(crate) fn spawn(self, shard: ShardId) -> io::Result<JoinHandle<()>> {
        let (ready, opened) = channel();
        let thread = std::thread::Builder::new()
            .name(format!("headrace-shard-{shard}"))
            .spawn(move || self.run(&ready))?;
        match opened.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other(
                "the thread ended before its driver was open",
            )),
        }
    }

    fn run(self, ready: &ResultSender<io::Result<()>>) {
        if let Some(cpu) = self.cpu
            && let Err(error) = crate::cpus::pin_current_thread(cpu)
        {
            let message = format!("shard {} stays unpinned: {error}", self.config.shard);
            self.events.push(Level::Warning, message);
        }
        // The ring belongs to the thread that opens it.
        let driver = match self.selection.open(self.waker, self.workers) {
            Ok(driver) => driver,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let seed = random_seed();
        let giving_back = (self.config.shard == ShardId(0))
            .then(|| GivingBack::new(self.memory.pool().clone(), self.memory_idle_micros));
        let shard = Shard::new(
            self.config,
            self.catalog,
            self.clients,
            self.contacts,
            self.memory,
            seed,
        );
        self.gauges.set_meter(shard.meter());
        let host = Host {
            giving_back,
            shard,
            driver,
            storage: self.storage,
            mailbox: self.receiver,
            peers: self.peers,
            bridge: self.bridge,
            events: self.events.clone(),
            connector: self.connector,
            connect_timeout: self.connect_timeout,
            gauges: self.gauges,
            state: HostState::default(),
        };
        let _ = ready.send(Ok(()));
        let reason = match catch_unwind(AssertUnwindSafe(|| host.run())) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("it panicked: {}", panic_message(&*panic)),
        };
        self.events
            .push(Level::Error, format!("a shard thread ended: {reason}"));
    }
}

/// Seed for the generator of message identifiers.
fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled.is_ok_and(|count| count == bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    RandomState::new().build_hasher().finish()
}

/// Put a message into a mailbox, waiting for room: for threads that are not shards.
pub(crate) fn deliver(sender: &Sender<Message>, message: Message) {
    let mut message = message;
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(refused) = sender.try_send(message) {
        // A shard whose mailbox stays full until the deadline is dead, and its connections are, too.
        if Instant::now() > deadline {
            return;
        }
        message = refused;
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Abort all threads that have not ended by themselves. `false`: there was one, and its work in flight is cut off.
pub(crate) fn cut_off(shards: &mut [ShardHandle]) -> bool {
    let orderly = shards.iter().all(ShardHandle::has_ended);
    for handle in shards {
        if !handle.has_ended() {
            deliver(&handle.sender, Message::Abort);
        }
        if let Some(thread) = handle.thread.take() {
            // A panic of the thread was reported by its hook already.
            let _ = thread.join();
        }
    }
    orderly
}
