//! A replica as the process that it lives in uses it.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use headrace_buffer::Slice;

use crate::{
    config::ReplicaConfig,
    errors::StartError,
    events::{Refusal, ReplicaEvent},
    input::Input,
    mailbox::Mailbox,
    opening,
    sessions::SessionRequest,
    shared::Shared,
    status::ReplicaStatus,
};

/// The longest command. A group commit holds many.
pub const COMMAND_BYTES_MAX: usize = 1024 * 1024;

/// What a start has found and made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Where the peers reach this replica; `None` when it is alone.
    pub address: Option<std::net::SocketAddr>,
    /// How often the folder was started, this time included.
    pub incarnation: u64,
    /// The op of the checkpoint that is restored; 0: the empty state.
    pub checkpoint_op: u64,
    /// The newest op in the journal.
    pub head_op: u64,
}

/// The replica does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the metadata replica {0}")]
pub struct NotRunning(String);

/// One replica of the metadata group. All methods but [`start`](Self::start) and [`stop`](Self::stop) return at once.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    inbox: Arc<Mailbox<Input>>,
    outbox: Arc<Mailbox<ReplicaEvent>>,
    shared: Arc<Shared>,
    running: Arc<Running>,
    tickets: AtomicU64,
}

/// Whether the thread runs.
#[derive(Debug, Default)]
pub(crate) struct Running {
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    New,
    Started,
    Ended,
}

impl Running {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, phase: Phase) {
        *self.phase() = phase;
        self.changed.notify_all();
    }
}

/// Says that the thread has ended, however it ends.
pub(crate) struct EndOfThread(Arc<Running>, Arc<Shared>, Arc<Mailbox<ReplicaEvent>>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "a fault in its thread".to_owned();
            self.1.stopped(&reason);
            self.2.push(ReplicaEvent::Stopped { reason });
        }
        self.0.set(Phase::Ended);
    }
}

impl Replica {
    /// Check the settings; nothing is opened yet.
    pub fn new(config: ReplicaConfig) -> Result<Self, StartError> {
        config.check()?;
        let mailbox = |error| StartError::storage("get a descriptor for", &config.folder, error);
        Ok(Self {
            inbox: Arc::new(Mailbox::new().map_err(mailbox)?),
            outbox: Arc::new(Mailbox::new().map_err(mailbox)?),
            shared: Arc::new(Shared::new(opening::first_status(&config)?)),
            running: Arc::default(),
            tickets: AtomicU64::new(1),
            config,
        })
    }

    /// Lock and open the folder, recover, listen, and start the thread.
    pub fn start(&self) -> Result<Started, StartError> {
        if *self.running.phase() != Phase::New {
            return Err(StartError::Settings("it was started before".to_owned()));
        }
        let ended = EndOfThread(
            Arc::clone(&self.running),
            Arc::clone(&self.shared),
            Arc::clone(&self.outbox),
        );
        let mailboxes = opening::Mailboxes {
            inbox: Arc::clone(&self.inbox),
            outbox: Arc::clone(&self.outbox),
            shared: Arc::clone(&self.shared),
        };
        let opened = match opening::open(&self.config, mailboxes) {
            Ok(opened) => opened,
            Err(error) => {
                self.shared.stopped(&error.to_string());
                return Err(error);
            }
        };
        self.running.set(Phase::Started);
        let started = opened.started;
        let (thread, outputs) = (opened.thread, opened.outputs);
        std::thread::Builder::new()
            .name("metadata-replica".to_owned())
            .spawn(move || {
                let _ended = ended;
                thread.run(outputs);
            })
            .map_err(|source| {
                StartError::storage("start a thread for", &self.config.folder, source)
            })?;
        Ok(started)
    }

    /// Readable while events wait.
    pub fn descriptor(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Events since the last call, oldest first.
    pub fn take(&self) -> Vec<ReplicaEvent> {
        self.outbox.take()
    }

    fn check_running(&self) -> Result<(), NotRunning> {
        match *self.running.phase() {
            Phase::New => Err(NotRunning("was not started".to_owned())),
            Phase::Started => Ok(()),
            Phase::Ended => Err(NotRunning(format!(
                "has stopped: {}",
                self.shared.status().stopped
            ))),
        }
    }

    /// Have commands ordered, made durable and applied. Returns the ticket of the first; the others follow it.
    pub fn propose(&self, commands: Vec<Slice>) -> Result<u64, NotRunning> {
        self.check_running()?;
        let first = self
            .tickets
            .fetch_add(commands.len() as u64, Ordering::Relaxed);
        let mut proposals = Vec::with_capacity(commands.len());
        for (ticket, command) in (first..).zip(commands) {
            if command.len() > COMMAND_BYTES_MAX {
                let refusal = Refusal::Oversize;
                self.outbox.push(ReplicaEvent::Refused { ticket, refusal });
            } else {
                proposals.push(Input::Propose { ticket, command });
            }
        }
        self.inbox.push_all(&mut proposals);
        Ok(first)
    }

    /// Have requests of sessions executed, each at most once. Returns the ticket of the first; the others follow it.
    pub fn request(&self, requests: Vec<SessionRequest>) -> Result<u64, NotRunning> {
        self.check_running()?;
        let first = self
            .tickets
            .fetch_add(requests.len() as u64, Ordering::Relaxed);
        let mut inputs = Vec::with_capacity(requests.len());
        for (ticket, request) in (first..).zip(requests) {
            if request.command.len() > COMMAND_BYTES_MAX {
                let refusal = Refusal::Oversize;
                self.outbox.push(ReplicaEvent::Refused { ticket, refusal });
            } else {
                inputs.push(Input::Request { ticket, request });
            }
        }
        self.inbox.push_all(&mut inputs);
        Ok(first)
    }

    /// Ask for the op that a linearizable read has to see. Returns the question's ticket.
    pub fn read_index(&self) -> Result<u64, NotRunning> {
        self.check_running()?;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        self.inbox.push(Input::ReadIndex { ticket });
        Ok(ticket)
    }

    /// Answer [`ReplicaEvent::Apply`]: one reply for each command.
    pub fn applied(&self, op: u64, replies: Vec<Slice>) {
        self.inbox.push(Input::Applied { op, replies });
    }

    /// Answer [`ReplicaEvent::Checkpoint`].
    pub fn checkpoint(&self, op: u64, state: Slice) {
        self.inbox.push(Input::Checkpoint { op, state });
    }

    /// Answer [`ReplicaEvent::Restore`].
    pub fn restored(&self, op: u64) {
        self.inbox.push(Input::Restored { op });
    }

    /// If primary: have the others choose another one.
    pub fn abdicate(&self) {
        self.inbox.push(Input::Abdicate);
    }

    /// How the replica stands; also after it has stopped.
    pub fn status(&self) -> ReplicaStatus {
        self.shared.status()
    }

    /// Commit nothing more, make what was written durable, and release the folder. `false`: that takes longer than
    /// `timeout` and goes on.
    pub fn stop(&self, timeout: Duration) -> bool {
        let phase = self.running.phase();
        if *phase != Phase::Started {
            return true;
        }
        self.inbox.push(Input::Stop);
        let (phase, _) = self
            .running
            .changed
            .wait_timeout_while(phase, timeout, |phase| *phase != Phase::Ended)
            .unwrap_or_else(PoisonError::into_inner);
        *phase == Phase::Ended
    }
}

impl AsFd for Replica {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outbox.as_fd()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // The thread ends by itself; nobody waits for it.
        self.inbox.push(Input::Stop);
    }
}
