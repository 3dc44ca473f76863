//! The fallback driver for systems without `io_uring`: level-triggered `epoll`, and worker threads for files.
//!
//! A socket is registered when an operation first waits for it and stays registered: in the usual sequence of receive,
//! handle, reply, a request costs a wait, a receive and a send. Only an event without a waiting operation reduces the
//! registration, so that an idle socket cannot keep the thread busy.

mod sockets;

use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{Timespec, epoll},
    io::Errno,
};

use self::sockets::{Attempt, Exchange, Side, Sockets};
use super::{
    Completion, Driver, DriverCounters, Operation, Outcome, Waker, Workers,
    slots::{Key, Slots},
    socket,
    workers::{Job, Results, Work},
};
use crate::vectored::Progress;

/// Maximum number of events taken per turn.
const EVENTS_MAX: usize = 1024;
/// Token of the waker among the registered descriptors; the token of a socket is its number.
const WAKE_UP: u64 = u64::MAX;
/// Time that a dropped driver waits for the worker threads to finish running jobs.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub(super) struct PollDriver {
    epoll: OwnedFd,
    sockets: Sockets,
    slots: Slots<Flight>,
    events: Vec<epoll::Event>,
    ready: Vec<Completion>,
    /// True if the last `poll` returned completions at hand without entering the kernel.
    kept_out: bool,
    waker: Waker,
    workers: Workers,
    results: Arc<Results>,
    counters: DriverCounters,
}

/// One operation in flight.
enum Flight {
    Socket(Exchange),
    /// Runs on a worker thread.
    Work,
}

impl PollDriver {
    /// # Errors
    ///
    /// No file descriptor is free.
    pub(super) fn open(waker: Waker, workers: Workers) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(WAKE_UP);
        epoll::add(&epoll, waker.event(), data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            sockets: Sockets::default(),
            slots: Slots::new(),
            events: Vec::with_capacity(EVENTS_MAX),
            ready: Vec::new(),
            kept_out: false,
            results: Results::new(waker.clone()),
            waker,
            workers,
            counters: DriverCounters::default(),
        })
    }

    fn complete(&mut self, token: u64, outcome: Outcome) {
        self.ready.push(Completion { token, outcome });
    }

    /// Start an operation on a socket: at once if it is likely to succeed, otherwise when the socket is ready.
    fn start(&mut self, token: u64, mut exchange: Exchange) {
        let socket = exchange.socket();
        let side = exchange.side();
        if self.sockets.waiting(socket, side).is_some() {
            // Two receives at once on one socket would split the data between them.
            self.complete(token, exchange.into_outcome(Err(Errno::BUSY.into())));
            return;
        }
        if exchange.is_worth_trying_first() {
            match exchange.attempt() {
                Attempt::Finished(result) => {
                    if matches!(exchange, Exchange::Send { .. }) {
                        self.counters.inline_sends += 1;
                    }
                    self.complete(token, exchange.into_outcome(result));
                    return;
                }
                Attempt::Waits => {}
            }
        }
        let key = self.slots.insert(token, Flight::Socket(exchange));
        if let Err(error) = self.sockets.wait(&self.epoll, socket, side, key) {
            self.finish_exchange(key, Err(error.into()));
        }
    }

    fn finish_exchange(&mut self, key: Key, result: io::Result<sockets::Done>) {
        let Some((token, Flight::Socket(exchange))) = self.slots.remove(key) else {
            return;
        };
        self.sockets.finished(exchange.socket(), exchange.side());
        if let Ok(sockets::Done::Connection(socket, _)) = &result {
            self.sockets.renew(socket.as_raw_fd());
        }
        self.complete(token, exchange.into_outcome(result));
    }

    fn hand_over(&mut self, token: u64, work: Work) {
        let key = self.slots.insert(token, Flight::Work);
        self.workers.submit(Job {
            key,
            results: Arc::clone(&self.results),
            work,
        });
    }

    fn socket_is_ready(&mut self, socket: RawFd, flags: epoll::EventFlags) {
        let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        for side in [Side::Reading, Side::Writing] {
            if !broken && !flags.intersects(side.interest()) {
                continue;
            }
            let Some(key) = self.sockets.waiting(socket, side) else {
                // Without a waiting operation, level-triggered `epoll` would report the event again and again.
                self.sockets.narrow(&self.epoll, socket);
                continue;
            };
            if let Some(Flight::Socket(exchange)) = self.slots.get_mut(key)
                && let Attempt::Finished(result) = exchange.attempt()
            {
                self.finish_exchange(key, result);
            }
        }
    }

    fn cancel_key(&mut self, key: Key) {
        match self.slots.get_mut(key) {
            Some(Flight::Socket(exchange)) => {
                let socket = exchange.socket();
                self.finish_exchange(key, Err(Errno::CANCELED.into()));
                // The socket is probably about to leave this driver: its number must not stay registered.
                self.sockets.narrow(&self.epoll, socket);
            }
            Some(Flight::Work) => {
                if let Some(outcome) = self.workers.cancel(&self.results, key)
                    && let Some((token, _)) = self.slots.remove(key)
                {
                    self.complete(token, outcome);
                }
            }
            None => {}
        }
    }

    fn cancel_socket(&mut self, socket: RawFd) {
        for side in [Side::Reading, Side::Writing] {
            if let Some(key) = self.sockets.waiting(socket, side) {
                self.finish_exchange(key, Err(Errno::CANCELED.into()));
            }
        }
        self.sockets.forget(&self.epoll, socket);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        self.events.clear();
        self.counters.enters += 1;
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Driver for PollDriver {
    fn submit(&mut self, token: u64, operation: Operation) {
        self.counters.operations += 1;
        match operation {
            Operation::Accept { listener } => {
                // A connection may disappear between the event and the accept, which must not block on it.
                let _ = socket::set_blocking(listener, false);
                self.start(token, Exchange::Accept { listener });
            }
            Operation::Receive {
                socket,
                buffer,
                start,
                minimum,
                quickack,
            } => {
                let fits = (1..=buffer.len().saturating_sub(start)).contains(&minimum);
                let exchange = Exchange::Receive {
                    socket,
                    buffer,
                    start,
                    minimum,
                    received: 0,
                    quickack,
                };
                if fits {
                    exchange.acknowledge();
                    self.start(token, exchange);
                } else {
                    let error = io::ErrorKind::InvalidInput.into();
                    self.complete(token, exchange.into_outcome(Err(error)));
                }
            }
            Operation::Send { socket, slices } => {
                let progress = Progress::default();
                let exchange = Exchange::Send {
                    socket,
                    slices,
                    progress,
                };
                self.start(token, exchange);
            }
            Operation::CloseSocket { socket } => {
                self.cancel_socket(socket);
                socket::close(socket);
                self.complete(token, Outcome::Closed);
            }
            Operation::ReadFile {
                file,
                position,
                buffer,
                start,
                length,
            } => {
                if start
                    .checked_add(length)
                    .is_some_and(|end| end <= buffer.capacity())
                {
                    let work = Work::Read {
                        file,
                        position,
                        buffer,
                        start,
                        length,
                    };
                    self.hand_over(token, work);
                } else {
                    let result = Err(io::ErrorKind::InvalidInput.into());
                    self.complete(token, Outcome::FileRead { buffer, result });
                }
            }
            Operation::WriteFile {
                file,
                position,
                slices,
            } => {
                let work = Work::Write {
                    file,
                    position,
                    slices,
                };
                self.hand_over(token, work);
            }
            Operation::SyncFile { file } => self.hand_over(token, Work::Sync { file }),
            Operation::Task(task) => self.hand_over(token, Work::Task(task)),
        }
    }

    fn poll(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        // As in the ring driver: completions at hand are returned first, but not twice in a row.
        if !self.ready.is_empty() && !self.kept_out {
            self.kept_out = true;
            out.append(&mut self.ready);
            return Ok(());
        }
        self.kept_out = false;
        let may_wait = self.ready.is_empty() && timeout != Some(Duration::ZERO);
        let asleep = may_wait && self.waker.fall_asleep();
        let waited = self.wait(if asleep {
            timeout
        } else {
            Some(Duration::ZERO)
        });
        self.waker.stay_awake();
        waited?;
        let events = mem::take(&mut self.events);
        for event in &events {
            let (flags, name) = (event.flags, event.data.u64());
            match RawFd::try_from(name) {
                Ok(socket) => self.socket_is_ready(socket, flags),
                Err(_) => {
                    // The descriptor is readable, so this does not block. One read clears any number of wake-ups.
                    let _ = rustix::io::read(self.waker.event(), &mut [0; 8]);
                }
            }
        }
        self.events = events;
        while let Some((key, outcome)) = self.results.pop() {
            if let Some((token, _)) = self.slots.remove(key) {
                self.complete(token, outcome);
            }
        }
        out.append(&mut self.ready);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn cancel(&mut self, token: u64) {
        if let Some(key) = self.slots.find(token) {
            self.cancel_key(key);
        }
    }

    fn release(&mut self, socket: RawFd) {
        self.cancel_socket(socket);
    }

    fn name(&self) -> &'static str {
        "poll"
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }
}

impl Drop for PollDriver {
    /// Wait for jobs that worker threads have begun: after a shard has ended, none of its writes may be in progress.
    fn drop(&mut self) {
        let keys: Vec<Key> = self.slots.keys().collect();
        for key in keys {
            self.cancel_key(key);
        }
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        let mut dropped = Vec::new();
        while self.slots.len() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.poll(Some(left), &mut dropped).is_err() {
                return;
            }
        }
    }
}
