//! The driver on `io_uring`: operations of sockets and files in one ring per shard.
//!
//! Accepts, receives, cold reads, syncs and sends that do not fit their socket's buffer go through the ring;
//! tasks go to the worker threads. A turn of the shard costs one `io_uring_enter`, which submits everything
//! queued and waits.

mod flight;
mod ring;
mod vector;

use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsRawFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};

use io_uring::{opcode, squeue, types::Fd};
use rustix::io::Errno;

use self::{
    flight::{End, Flight, Kind, Step},
    ring::Ring,
};
use super::{
    Completion, Driver, DriverCounters, Operation, Outcome, Waker, Workers,
    slots::{Key, Slots},
    socket::{self, Pushed},
    workers::{Job, Results, Work},
};
use crate::vectored::Progress;

/// User data of ring entries that are not operations. No key is as high as these.
const CANCELLATION: u64 = u64::MAX;
const WAKE_UP: u64 = u64::MAX - 1;

/// Time that a dropped driver waits for the kernel to release its memory.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub(super) struct UringDriver {
    ring: Ring,
    slots: Slots<Flight>,
    /// Sends of this turn that have not been started.
    sends: Vec<(Key, RawFd)>,
    /// Entries that did not fit the submission queue.
    backlog: VecDeque<squeue::Entry>,
    /// Sockets to close as soon as everything submitted before has reached the kernel.
    closing: Vec<(u64, RawFd)>,
    lives: Lives,
    ready: Vec<Completion>,
    /// True if the last `poll` returned completions at hand without entering the kernel.
    kept_out: bool,
    waker: Waker,
    workers: Workers,
    results: Arc<Results>,
    inline_sends_max: usize,
    operations: u64,
    inline_sends: u64,
}

/// Number of times that each socket number was closed or released.
///
/// An operation that takes several entries names its socket anew in each. Between two of them the socket may have been
/// closed and its number may have become another connection's, whose bytes it must not touch.
#[derive(Default)]
struct Lives(Vec<u32>);

impl Lives {
    fn of(&self, socket: RawFd) -> u32 {
        let index = usize::try_from(socket).unwrap_or(usize::MAX);
        self.0.get(index).copied().unwrap_or(0)
    }

    fn end(&mut self, socket: RawFd) {
        let index = usize::try_from(socket).expect("a socket's number is not negative");
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].wrapping_add(1);
    }
}

impl UringDriver {
    /// Open a ring for the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel has no rings, denies them to this process, or lacks required features.
    pub(super) fn open(
        waker: Waker,
        workers: Workers,
        inline_sends_max: usize,
    ) -> io::Result<Self> {
        Ok(Self::on(Ring::open()?, waker, workers, inline_sends_max))
    }

    fn on(ring: Ring, waker: Waker, workers: Workers, inline_sends_max: usize) -> Self {
        let mut driver = Self {
            ring,
            slots: Slots::new(),
            sends: Vec::new(),
            backlog: VecDeque::new(),
            closing: Vec::new(),
            lives: Lives::default(),
            ready: Vec::new(),
            kept_out: false,
            results: Results::new(waker.clone()),
            waker,
            workers,
            inline_sends_max,
            operations: 0,
            inline_sends: 0,
        };
        driver.watch_waker();
        driver
    }

    /// Check from this thread whether a ring with the required features can be opened.
    pub(super) fn probe() -> io::Result<()> {
        Ring::open()?.try_out()
    }

    /// Request an event per wake-up. No memory of this process is involved, and one request is enough: the kernel
    /// reports each write, so the count is never read back.
    fn watch_waker(&mut self) {
        let events = u32::try_from(libc::POLLIN).expect("a single low bit");
        let entry = opcode::PollAdd::new(Fd(self.waker.event().as_raw_fd()), events)
            .multi(true)
            .build()
            .user_data(WAKE_UP);
        self.queue(entry);
    }

    fn queue(&mut self, entry: squeue::Entry) {
        if !self.backlog.is_empty() || !self.ring.push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    fn start(&mut self, token: u64, kind: Kind) {
        let key = self.insert(token, kind);
        self.continue_flight(key);
    }

    fn insert(&mut self, token: u64, kind: Kind) -> Key {
        let flight = Flight::new(kind);
        let life = flight.socket().map_or(0, |socket| self.lives.of(socket));
        self.slots.insert(token, flight.in_life(life))
    }

    fn continue_flight(&mut self, key: Key) {
        if let Some(flight) = self.slots.get_mut(key) {
            let entry = flight.entry().user_data(key.word());
            self.queue(entry);
        }
    }

    fn finish(&mut self, key: Key, end: End) {
        if let Some((token, flight)) = self.slots.remove(key) {
            let outcome = flight.into_outcome(end);
            self.ready.push(Completion { token, outcome });
        }
    }

    /// Start this turn's sends: a single one directly, several together through the ring.
    ///
    /// A send through the ring completes at once, too, but its completion ends the wait of the same call, so that a
    /// lone request costs two calls of the kernel instead of one and a `sendmsg`. With several, one call serves all,
    /// and the peers that they wake do not interrupt this thread between them. Measured with `benches/ping_pong.rs` on
    /// two busy processors (Linux 6.18, loopback), CPU time of this thread per request in microseconds, medians, by the
    /// number of sends of a turn that go directly; differences below a tenth are noise:
    ///
    /// | connections, replies       | none | 1    | up to 4 | all  | `poll` | blocking threads |
    /// |----------------------------|-----:|-----:|--------:|-----:|-------:|-----------------:|
    /// | 1, 16 B, server on its own | 24.7 | 24.4 | 24.3    | 24.2 | 23.4   | 22.4             |
    /// | 4, 16 B, placed freely     | 6.3  | 6.5  | 8.0     | 8.9  | 9.2    | 7.8              |
    /// | 4, 16 B, server on its own | 10.0 | 7.8  | 7.9     | 8.4  | 7.7    | 9.9              |
    /// | 64, 16 B, placed freely    | 5.1  | 4.9  | 4.6     | 7.2  | 8.3    | 8.7              |
    /// | 1, 1 MB, server on its own | 270  | 269  | 269     | 273  | 267    | 268              |
    /// | 4, 1 MB, server on its own | 238  | 236  | 247     | 247  | 247    | 231              |
    ///
    /// With 1 MB the copy dominates; the part that does not fit the socket's buffer continues in the ring. Receives
    /// that check for readiness first (`IORING_RECVSEND_POLL_FIRST`) made no difference in any of these.
    fn start_sends(&mut self) {
        let directly = self.sends.len() <= self.inline_sends_max;
        let mut sends = mem::take(&mut self.sends);
        for (key, socket) in sends.drain(..) {
            let Some(flight) = self.slots.get_mut(key) else {
                continue;
            };
            let Kind::Send {
                slices, progress, ..
            } = flight.kind_mut()
            else {
                continue;
            };
            let pushed = if directly {
                socket::push(socket, slices, progress)
            } else {
                Ok(Pushed::Part)
            };
            match pushed {
                Ok(Pushed::All) => {
                    self.inline_sends += 1;
                    self.finish(key, End::Count(0));
                }
                Ok(Pushed::Part) => self.continue_flight(key),
                Err(error) => self.finish(key, End::Error(error.into())),
            }
        }
        // Keep the allocation for the next turn.
        self.sends = sends;
    }

    /// Move entries from the backlog to the ring, entering the kernel for room if there are many.
    fn submit_backlog(&mut self) -> io::Result<()> {
        loop {
            while let Some(entry) = self.backlog.front() {
                if !self.ring.push(entry) {
                    break;
                }
                self.backlog.pop_front();
            }
            if self.backlog.is_empty() {
                return Ok(());
            }
            let left = self.backlog.len();
            self.ring.enter(false, None)?;
            self.harvest()?;
            if !self.ring.is_submitted() && self.backlog.len() >= left {
                // The kernel accepts no entries for now: completions must be handled first.
                return Ok(());
            }
        }
    }

    /// Close the sockets to be closed, unless queued entries refer to a socket by its number: the number may belong to
    /// another connection as soon as it is free. Operations that the kernel has taken hold a reference to their socket.
    fn close_sockets(&mut self) {
        if self.backlog.is_empty() && self.ring.is_submitted() {
            for (token, socket) in self.closing.drain(..) {
                self.lives.end(socket);
                socket::close(socket);
                self.ready.push(Completion {
                    token,
                    outcome: Outcome::Closed,
                });
            }
        }
    }

    /// Take all completions.
    fn harvest(&mut self) -> io::Result<()> {
        loop {
            while let Some(entry) = self.ring.next() {
                self.completed(
                    entry.user_data(),
                    entry.result(),
                    io_uring::cqueue::more(entry.flags()),
                );
            }
            if !self.ring.has_overflowed() {
                break;
            }
            self.ring.overflows += 1;
            self.ring.enter(false, None)?;
        }
        while let Some((key, outcome)) = self.results.pop() {
            if let Some((token, _)) = self.slots.remove(key) {
                self.ready.push(Completion { token, outcome });
            }
        }
        Ok(())
    }

    fn completed(&mut self, word: u64, result: i32, more: bool) {
        match word {
            CANCELLATION => {}
            WAKE_UP if more || result == -libc::ECANCELED => {}
            WAKE_UP => self.watch_waker(),
            word => {
                let key = Key::from_word(word);
                let Some(flight) = self.slots.get_mut(key) else {
                    return;
                };
                let of_this_life = |socket| flight.life() == self.lives.of(socket);
                if !flight.socket().is_none_or(of_this_life) {
                    flight.give_up();
                }
                match flight.step(result) {
                    Step::Continue => self.continue_flight(key),
                    Step::Finish(end) => self.finish(key, end),
                }
            }
        }
    }

    fn cancel_key(&mut self, key: Key) {
        let Some(flight) = self.slots.get_mut(key) else {
            return;
        };
        flight.give_up();
        if flight.is_task() {
            if let Some(outcome) = self.workers.cancel(&self.results, key)
                && let Some((token, _)) = self.slots.remove(key)
            {
                self.ready.push(Completion { token, outcome });
            }
        } else if let Some(index) = self.sends.iter().position(|(other, _)| *other == key) {
            self.sends.remove(index);
            self.finish(key, End::Error(Errno::CANCELED.into()));
        } else {
            self.queue(
                opcode::AsyncCancel::new(key.word())
                    .build()
                    .user_data(CANCELLATION),
            );
        }
    }

    fn invalid(&mut self, token: u64, kind: Kind) {
        let error = io::Error::from(io::ErrorKind::InvalidInput);
        let outcome = Flight::new(kind).into_outcome(End::Error(error));
        self.ready.push(Completion { token, outcome });
    }

    /// Cancel everything and wait until the kernel has released all memory. `false`: timeout.
    fn drain(&mut self) -> bool {
        let keys: Vec<Key> = self.slots.keys().collect();
        for key in keys {
            self.cancel_key(key);
        }
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while self.slots.len() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            self.ready.clear();
            let mut dropped = Vec::new();
            if left.is_zero() || self.poll(Some(left), &mut dropped).is_err() {
                return false;
            }
        }
        true
    }
}

impl Driver for UringDriver {
    fn submit(&mut self, token: u64, operation: Operation) {
        self.operations += 1;
        match operation {
            Operation::Accept { listener } => self.start(token, Kind::Accept { listener }),
            Operation::Receive {
                socket,
                buffer,
                start,
                minimum,
                quickack,
            } => {
                let room = buffer.len().saturating_sub(start);
                let kind = Kind::Receive {
                    socket,
                    buffer,
                    start,
                    minimum,
                    received: 0,
                    quickack,
                };
                if (1..=room).contains(&minimum) {
                    self.start(token, kind);
                } else {
                    self.invalid(token, kind);
                }
            }
            Operation::Send { socket, slices } => {
                let kind = Kind::Send {
                    socket,
                    slices,
                    progress: Progress::default(),
                    message: None,
                };
                let key = self.insert(token, kind);
                self.sends.push((key, socket));
            }
            Operation::CloseSocket { socket } => self.closing.push((token, socket)),
            Operation::ReadFile {
                file,
                position,
                buffer,
                start,
                length,
            } => {
                let fits = start
                    .checked_add(length)
                    .is_some_and(|end| end <= buffer.capacity());
                let kind = Kind::ReadFile {
                    file,
                    position,
                    buffer,
                    start,
                    length,
                    done: 0,
                };
                if fits {
                    self.start(token, kind);
                } else {
                    self.invalid(token, kind);
                }
            }
            Operation::WriteFile {
                file,
                position,
                slices,
            } => {
                let kind = Kind::WriteFile {
                    file,
                    position,
                    slices,
                    progress: Progress::default(),
                    vector: vector::Vector::default(),
                };
                self.start(token, kind);
            }
            Operation::SyncFile { file } => self.start(token, Kind::SyncFile { file }),
            Operation::Task(task) => {
                let key = self.insert(token, Kind::Task);
                self.workers.submit(Job {
                    key,
                    results: Arc::clone(&self.results),
                    work: Work::Task(task),
                });
            }
        }
    }

    fn poll(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.start_sends();
        // Completions at hand are delivered before the kernel is asked for more, so that the operations they cause (the
        // next receive, most often) go along in the same call. Not twice in a row, as that would starve the others.
        if !self.ready.is_empty() && !self.kept_out {
            self.kept_out = true;
            out.append(&mut self.ready);
            return Ok(());
        }
        self.kept_out = false;
        self.submit_backlog()?;
        let may_wait = self.ready.is_empty()
            && self.closing.is_empty()
            && self.backlog.is_empty()
            && timeout != Some(Duration::ZERO);
        let asleep = may_wait && self.waker.fall_asleep();
        let entered = self.ring.enter(asleep, timeout.filter(|_| asleep));
        self.waker.stay_awake();
        entered?;
        self.close_sockets();
        self.harvest()?;
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
        self.lives.end(socket);
    }

    fn name(&self) -> &'static str {
        "uring"
    }

    fn counters(&self) -> DriverCounters {
        DriverCounters {
            enters: self.ring.enters,
            operations: self.operations,
            inline_sends: self.inline_sends,
            overflows: self.ring.overflows,
        }
    }
}

impl Drop for UringDriver {
    fn drop(&mut self) {
        if !self.drain() {
            // The kernel may still read and write this memory, even after the ring is closed, so it is never freed: a
            // leak at the end of a shard is harmless, a write into freed memory is not.
            mem::forget(mem::replace(&mut self.slots, Slots::new()));
        }
        for (_, socket) in self.closing.drain(..) {
            socket::close(socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use headrace_buffer::Buffer;

    use super::*;

    /// The kernel keeps completions that do not fit its queue; none is lost.
    #[test]
    fn completions_beyond_the_queue_arrive() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let file = Arc::new(file.into());
        let workers = Workers::new(Workers::threads_by_default());
        let ring = Ring::open_sized(8, 16).unwrap();
        let mut driver = UringDriver::on(ring, Waker::new().unwrap(), workers, 0);
        // Entering without harvesting, which `poll` never does, fills the queue of 16.
        for token in 0..80 {
            driver.submit(
                token,
                Operation::ReadFile {
                    file: Arc::clone(&file),
                    position: token % 10,
                    buffer: Buffer::unpooled(vec![0; 1]),
                    start: 0,
                    length: 1,
                },
            );
            driver.ring.enter(false, None).unwrap();
        }
        assert!(driver.ring.has_overflowed());
        let mut out = Vec::new();
        while out.len() < 80 {
            driver
                .poll(Some(Duration::from_secs(10)), &mut out)
                .unwrap();
        }
        out.sort_by_key(|completion| completion.token);
        for (token, completion) in (0..).zip(&out) {
            assert_eq!(completion.token, token);
            let Outcome::FileRead { buffer, result } = &completion.outcome else {
                panic!("{completion:?}")
            };
            assert_eq!(*result.as_ref().unwrap(), 1);
            assert_eq!(buffer[0], b'0' + u8::try_from(token % 10).unwrap());
        }
        assert!(driver.counters().overflows > 0);
    }
}
