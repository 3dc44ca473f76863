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
use headrace_vsr::frame::Release;

use crate::{
    config::{ReplicaConfig, TlsConfig},
    errors::StartError,
    events::{Refusal, ReplicaEvent},
    input::Input,
    mailbox::Mailbox,
    opening,
    peers::{Material, Tls},
    sessions::SessionRequest,
    shared::Shared,
    status::ReplicaStatus,
    stepped::Stepped,
    surroundings::Surroundings,
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
    /// Of the certificate files that were looked at last.
    certificates: Mutex<Option<[u8; 32]>>,
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
            certificates: Mutex::default(),
            config,
        })
    }

    /// Lock and open the folder, recover, listen, and start the thread.
    pub fn start(&self) -> Result<Started, StartError> {
        if *self.running.phase() != Phase::New {
            return Err(StartError::Settings("it was started before".to_owned()));
        }
        if let Some(tls) = self.peers_tls() {
            *self.certificates() = Some(Material::read(tls)?.digest());
        }
        let ended = EndOfThread(
            Arc::clone(&self.running),
            Arc::clone(&self.shared),
            Arc::clone(&self.outbox),
        );
        let opened = self.open(&opening::this_machine())?;
        let (thread, outputs, started) = opened
            .start_workers()
            .inspect_err(|error| self.shared.stopped(&error.to_string()))?;
        self.running.set(Phase::Started);
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

    /// Open the folder, recover and listen.
    fn open(&self, surroundings: &Surroundings) -> Result<opening::Opened, StartError> {
        let mailboxes = opening::Mailboxes {
            inbox: Arc::clone(&self.inbox),
            outbox: Arc::clone(&self.outbox),
            shared: Arc::clone(&self.shared),
        };
        opening::open(&self.config, mailboxes, surroundings)
            .inspect_err(|error| self.shared.stopped(&error.to_string()))
    }

    /// As [`start`](Self::start), in other surroundings and without threads: each step is done by who asks for it.
    pub fn start_stepped(&self, surroundings: &Surroundings) -> Result<Stepped, StartError> {
        if *self.running.phase() != Phase::New {
            return Err(StartError::Settings("it was started before".to_owned()));
        }
        let opened = self.open(surroundings)?;
        self.running.set(Phase::Started);
        Ok(Stepped::new(opened, Arc::clone(&self.inbox)))
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

    /// Have commands ordered, made durable and applied, each with the release since which it exists. Returns the ticket of
    /// the first; the others follow it.
    pub fn propose(&self, commands: Vec<(Release, Slice)>) -> Result<u64, NotRunning> {
        self.check_running()?;
        let first = self
            .tickets
            .fetch_add(commands.len() as u64, Ordering::Relaxed);
        let mut proposals = Vec::with_capacity(commands.len());
        for (ticket, (since, command)) in (first..).zip(commands) {
            if command.len() > COMMAND_BYTES_MAX {
                let refusal = Refusal::Oversize;
                self.outbox.push(ReplicaEvent::Refused { ticket, refusal });
            } else {
                proposals.push(Input::Propose {
                    ticket,
                    since,
                    command,
                });
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

    /// Look at the certificate files. Returns whether there are others in them, which connections with peers are made with
    /// from now on. Fails when these cannot be used, once for each content of the files; those before stay in use then.
    pub fn renew_certificates(&self) -> Result<bool, StartError> {
        let Some(tls) = self.peers_tls() else {
            return Ok(false);
        };
        let mut seen = self.certificates();
        let material = Material::read(tls).inspect_err(|_| *seen = None)?;
        let digest = material.digest();
        if seen.replace(digest) == Some(digest) {
            return Ok(false);
        }
        let ready = Tls::build(tls, &material)?;
        self.inbox.push(Input::Renewed(ready));
        Ok(true)
    }

    fn peers_tls(&self) -> Option<&TlsConfig> {
        self.config.tls.as_ref().filter(|_| !self.config.is_alone())
    }

    fn certificates(&self) -> MutexGuard<'_, Option<[u8; 32]>> {
        self.certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
