//! Worker threads for blocking work.

use std::{
    collections::VecDeque,
    fmt, io,
    num::NonZeroUsize,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use crossbeam_queue::SegQueue;
use headrace_buffer::{Buffer, Slice};
use rustix::io::Errno;

use super::{Outcome, Task, Waker, slots::Key};

/// A pool of threads for blocking work, shared by the drivers of a process.
///
/// Threads start if work waits and none is idle, up to the limit, and stay. The pool ends with its last handle; work
/// that was begun is finished.
#[derive(Clone)]
pub struct Workers(Arc<Handle>);

/// Handle of the pool: dropping it closes the pool. Dropping the state that the threads hold does not.
struct Handle(Arc<Pool>);

struct Pool {
    state: Mutex<State>,
    work_waits: Condvar,
    threads_max: usize,
}

struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// One piece of work and the receiver of its outcome.
pub(super) struct Job {
    pub(super) key: Key,
    pub(super) results: Arc<Results>,
    pub(super) work: Work,
}

/// Work for a worker. It owns all memory it touches: a driver that is dropped leaves nothing dangling.
pub(super) enum Work {
    Read {
        file: Arc<OwnedFd>,
        position: u64,
        buffer: Buffer,
        start: usize,
        length: usize,
    },
    Write {
        file: Arc<OwnedFd>,
        position: u64,
        slices: Vec<Slice>,
    },
    Sync {
        file: Arc<OwnedFd>,
    },
    Task(Task),
}

/// Queue of one driver's outcomes.
pub(super) struct Results {
    queue: SegQueue<(Key, Outcome)>,
    waker: Waker,
}

impl Workers {
    /// Create a pool of at most `threads_max` threads; none runs yet.
    pub fn new(threads_max: NonZeroUsize) -> Self {
        Self(Arc::new(Handle(Arc::new(Pool {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                threads: 0,
                idle: 0,
                closed: false,
            }),
            work_waits: Condvar::new(),
            threads_max: threads_max.get(),
        }))))
    }

    /// Default number of threads: twice the processors, within 8 to 32.
    ///
    /// The threads wait for the device most of the time. At least 8, because syncs of several files in parallel share
    /// one journal commit: eight files sync about eight times as often as one.
    pub fn threads_by_default() -> NonZeroUsize {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        NonZeroUsize::new((2 * processors).clamp(8, 32)).expect("at least 8")
    }

    pub(super) fn submit(&self, job: Job) {
        let pool = &self.0.0;
        let mut state = pool.lock();
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            pool.work_waits.notify_one();
            return;
        }
        if state.threads == pool.threads_max {
            return;
        }
        let started = thread::Builder::new()
            .name(format!("headrace-work-{}", state.threads))
            .spawn({
                let pool = Arc::clone(pool);
                move || pool.run()
            });
        match started {
            Ok(_) => state.threads += 1,
            // The running threads will take the job.
            Err(_) if state.threads > 0 => {}
            Err(error) => {
                let job = state.queue.pop_back().expect("it was just pushed");
                drop(state);
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                job.results.push(job.key, job.work.refused(errno));
            }
        }
    }

    /// Remove a job that no thread has begun.
    pub(super) fn cancel(&self, results: &Arc<Results>, key: Key) -> Option<Outcome> {
        let mut state = self.0.0.lock();
        let index = state
            .queue
            .iter()
            .position(|job| job.key == key && Arc::ptr_eq(&job.results, results))?;
        let job = state.queue.remove(index).expect("the index was found");
        Some(job.work.refused(libc::ECANCELED))
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Workers")
            .field("threads_max", &self.0.0.threads_max)
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work_waits.notify_all();
    }
}

impl Pool {
    /// Lock the state. A poisoned lock is accepted: the state is consistent at every point where a thread could panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                job.results.push(job.key, job.work.execute());
                state = self.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self
                    .work_waits
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl Results {
    pub(super) fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self {
            queue: SegQueue::new(),
            waker,
        })
    }

    pub(super) fn pop(&self) -> Option<(Key, Outcome)> {
        self.queue.pop()
    }

    fn push(&self, key: Key, outcome: Outcome) {
        self.queue.push((key, outcome));
        self.waker.wake();
    }
}

impl Work {
    fn execute(self) -> Outcome {
        match self {
            Self::Read {
                file,
                position,
                mut buffer,
                start,
                length,
            } => {
                let room = &mut buffer.as_full_mut()[start..start + length];
                let result = read(&file, position, room);
                Outcome::FileRead { buffer, result }
            }
            Self::Write {
                file,
                position,
                slices,
            } => Outcome::FileWritten(crate::vectored::write_all(&file, position, &slices)),
            Self::Sync { file } => {
                Outcome::Synced(rustix::fs::fdatasync(&file).map_err(Into::into))
            }
            Self::Task(task) => Outcome::Task(
                catch_unwind(AssertUnwindSafe(task))
                    .unwrap_or_else(|_| Err(io::Error::other("the task panicked"))),
            ),
        }
    }

    /// Outcome of work that was not executed.
    fn refused(self, errno: i32) -> Outcome {
        let error = io::Error::from_raw_os_error(errno);
        match self {
            Self::Read { buffer, .. } => Outcome::FileRead {
                buffer,
                result: Err(error),
            },
            Self::Write { .. } => Outcome::FileWritten(Err(error)),
            Self::Sync { .. } => Outcome::Synced(Err(error)),
            Self::Task(_) => Outcome::Task(Err(error)),
        }
    }
}

/// Read until `room` is full or the file ends.
fn read(file: &OwnedFd, position: u64, room: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < room.len() {
        match rustix::io::pread(file, &mut room[done..], position + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}
