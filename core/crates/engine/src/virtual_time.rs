//! An engine whose time stands still until it is advanced, for tests.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::promise::Promise;

/// Largest step of time: timers fire in their order, and what follows from them happens before the next step.
const STEP: Duration = Duration::from_millis(20);
/// Real time without a sign of life after which an answer that is missing does not hold time up any more.
const SILENCE: Duration = Duration::from_millis(100);
/// Time for the thread to take an order, which takes it microseconds.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

static IS_ACTIVE: AtomicBool = AtomicBool::new(false);
/// Drivers that wait for the other end: for a connection, or for an answer.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// Grows with everything that happens to a driver.
static ACTIVITY: AtomicU64 = AtomicU64::new(0);
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

type Done = Arc<Promise<()>>;

enum Order {
    Pause(Done),
    Advance(Duration, Done),
    Resume(Done),
}

struct Running {
    process: u32,
    handle: Handle,
    orders: UnboundedSender<Order>,
}

/// Virtual time for the clients, producers and consumers that are made while it exists. The time of servers is the
/// real one.
#[derive(Debug)]
pub struct VirtualTime {
    orders: UnboundedSender<Order>,
}

impl VirtualTime {
    /// Let time stand still. `None` if it does already.
    pub fn begin() -> io::Result<Option<Self>> {
        if IS_ACTIVE.swap(true, Ordering::SeqCst) {
            return Ok(None);
        }
        let orders = orders().inspect_err(|_| IS_ACTIVE.store(false, Ordering::SeqCst))?;
        let found = Self { orders };
        found.order(Order::Pause).wait(ORDER_TIMEOUT);
        Ok(Some(found))
    }

    /// Advance time. The promise is fulfilled when what follows from it has happened, and answers have arrived.
    pub fn advance(&self, duration: Duration) -> Arc<Promise<()>> {
        self.order(|done| Order::Advance(duration, done))
    }

    fn order(&self, order: impl FnOnce(Done) -> Order) -> Done {
        let done = Done::default();
        if self.orders.send(order(Arc::clone(&done))).is_err() {
            done.fulfil(());
        }
        done
    }
}

impl Drop for VirtualTime {
    /// Clients that are left continue in real time.
    fn drop(&mut self) {
        self.order(Order::Resume).wait(ORDER_TIMEOUT);
        IS_ACTIVE.store(false, Ordering::SeqCst);
    }
}

/// The engine of virtual time, while there is one.
pub(crate) fn active() -> Option<Handle> {
    if !IS_ACTIVE.load(Ordering::SeqCst) {
        return None;
    }
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let found = (running.as_ref()).filter(|found| found.process == std::process::id());
    found.map(|found| found.handle.clone())
}

fn orders() -> io::Result<UnboundedSender<Order>> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some(found) = running.as_ref().filter(|found| found.process == process) {
        return Ok(found.orders.clone());
    }
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let handle = runtime.handle().clone();
    let (orders, receiver) = unbounded_channel();
    std::thread::Builder::new()
        .name("headrace-virtual".to_owned())
        .spawn(move || runtime.block_on(run(receiver)))?;
    let other = running.replace(Running {
        process,
        handle,
        orders: orders.clone(),
    });
    // As the other process's runtime is: see `Engine::of_process`.
    std::mem::forget(other);
    Ok(orders)
}

async fn run(mut orders: UnboundedReceiver<Order>) {
    // Paused time advances by itself when there is nothing to do, unless a blocking task runs.
    let (_hold, held) = std::sync::mpsc::channel::<()>();
    let _guard = tokio::task::spawn_blocking(move || held.recv());
    let mut silent_at = None;
    while let Some(order) = orders.recv().await {
        let done = match order {
            Order::Pause(done) => {
                tokio::time::pause();
                done
            }
            Order::Resume(done) => {
                tokio::time::resume();
                done
            }
            Order::Advance(duration, done) => {
                advance(duration, &mut silent_at).await;
                done
            }
        };
        done.fulfil(());
    }
}

async fn advance(duration: Duration, silent_at: &mut Option<u64>) {
    settle(silent_at).await;
    let mut left = duration;
    while !left.is_zero() {
        let step = left.min(STEP);
        tokio::time::advance(step).await;
        left -= step;
        settle(silent_at).await;
    }
}

/// Let all tasks run until they wait for time: for the other end only as long as it shows signs of life.
async fn settle(silent_at: &mut Option<u64>) {
    let mut silence = Duration::ZERO;
    let mut seen = ACTIVITY.load(Ordering::SeqCst);
    loop {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        let now = ACTIVITY.load(Ordering::SeqCst);
        if now != seen {
            seen = now;
            silence = Duration::ZERO;
            continue;
        }
        if WAITING.load(Ordering::SeqCst) == 0 || *silent_at == Some(seen) {
            return;
        }
        if silence >= SILENCE {
            *silent_at = Some(seen);
            return;
        }
        // Real time: the runtime's own stands still.
        let _ = tokio::task::spawn_blocking(|| std::thread::sleep(PAUSE)).await;
        silence += PAUSE;
    }
}

/// State of one driver, as far as virtual time has to know it.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    is_waiting: bool,
}

impl Watched {
    /// Note whether the driver waits for the other end, whenever something has happened.
    pub(crate) fn note(&mut self, is_waiting: bool) {
        if is_waiting != self.is_waiting {
            self.is_waiting = is_waiting;
            if is_waiting {
                WAITING.fetch_add(1, Ordering::SeqCst);
            } else {
                WAITING.fetch_sub(1, Ordering::SeqCst);
            }
        }
        ACTIVITY.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.is_waiting {
            WAITING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
