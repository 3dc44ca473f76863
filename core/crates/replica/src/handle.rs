//! Handle of a replica for its host process.

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
    peers::{CertificateFiles, Tls},
    sessions::SessionRequest,
    shared::Shared,
    status::ReplicaStatus,
    stepped::SteppedReplica,
    surroundings::Environment,
};

/// Maximum length of a command in bytes. A group commit holds many commands.
pub const COMMAND_BYTES_MAX: usize = 1024 * 1024;

/// Result of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Address of the listener for peers; `None` for a single replica.
    pub address: Option<std::net::SocketAddr>,
    /// Incarnation: number of starts on the data directory, including this one.
    pub incarnation: u64,
    /// Op of the checkpoint that is being restored; 0: the empty state.
    pub checkpoint_op: u64,
    /// Newest op in the journal.
    pub head_op: u64,
}

/// Error: the replica does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the metadata replica {0}")]
pub struct NotRunning(String);

/// One replica of the metadata group. All methods except [`start`](Self::start) and [`stop`](Self::stop) return
/// immediately.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    inbox: Arc<Mailbox<Input>>,
    outbox: Arc<Mailbox<ReplicaEvent>>,
    shared: Arc<Shared>,
    running: Arc<ThreadState>,
    next_request_id: AtomicU64,
    /// Digest of the certificate files that were read last.
    certificates: Mutex<Option<[u8; 32]>>,
}

/// Phase of the replica's thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadState {
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

impl ThreadState {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, phase: Phase) {
        *self.phase() = phase;
        self.changed.notify_all();
    }
}

/// Guard that reports the end of the thread, including a panic.
pub(crate) struct ThreadExitGuard(Arc<ThreadState>, Arc<Shared>, Arc<Mailbox<ReplicaEvent>>);

impl Drop for ThreadExitGuard {
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
    /// Validate the settings; nothing is opened yet.
    pub fn new(config: ReplicaConfig) -> Result<Self, StartError> {
        config.check()?;
        let mailbox = |error| StartError::storage("get a descriptor for", &config.directory, error);
        Ok(Self {
            inbox: Arc::new(Mailbox::new().map_err(mailbox)?),
            outbox: Arc::new(Mailbox::new().map_err(mailbox)?),
            shared: Arc::new(Shared::new(opening::initial_status(&config)?)),
            running: Arc::default(),
            next_request_id: AtomicU64::new(1),
            certificates: Mutex::default(),
            config,
        })
    }

    /// Lock and open the data directory, recover, listen, and start the thread.
    pub fn start(&self) -> Result<Started, StartError> {
        if *self.running.phase() != Phase::New {
            return Err(StartError::Settings("it was started before".to_owned()));
        }
        if let Some(tls) = self.peers_tls() {
            *self.certificates_digest() = Some(CertificateFiles::read(tls)?.digest());
        }
        let ended = ThreadExitGuard(
            Arc::clone(&self.running),
            Arc::clone(&self.shared),
            Arc::clone(&self.outbox),
        );
        let opened = self.open(&opening::system_environment())?;
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
                StartError::storage("start a thread for", &self.config.directory, source)
            })?;
        Ok(started)
    }

    /// Open the data directory, recover and listen.
    fn open(&self, surroundings: &Environment) -> Result<opening::Opened, StartError> {
        let mailboxes = opening::Mailboxes {
            inbox: Arc::clone(&self.inbox),
            outbox: Arc::clone(&self.outbox),
            shared: Arc::clone(&self.shared),
        };
        opening::open(&self.config, mailboxes, surroundings)
            .inspect_err(|error| self.shared.stopped(&error.to_string()))
    }

    /// Start in the given surroundings and without threads; otherwise as [`start`](Self::start). The caller runs each
    /// step.
    pub fn start_single_stepped(
        &self,
        surroundings: &Environment,
    ) -> Result<SteppedReplica, StartError> {
        if *self.running.phase() != Phase::New {
            return Err(StartError::Settings("it was started before".to_owned()));
        }
        let opened = self.open(surroundings)?;
        self.running.set(Phase::Started);
        Ok(SteppedReplica::new(opened, Arc::clone(&self.inbox)))
    }

    /// Descriptor that is readable while events wait.
    pub fn descriptor(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Take the events since the last call, oldest first.
    pub fn take_events(&self) -> Vec<ReplicaEvent> {
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

    /// Propose commands to be ordered, made durable and applied, each with the first release that supports it. Returns
    /// the request id of the first; the others follow consecutively.
    pub fn propose(&self, commands: Vec<(Release, Slice)>) -> Result<u64, NotRunning> {
        self.check_running()?;
        let first = self
            .next_request_id
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

    /// Submit requests of sessions, each executed at most once. Returns the request id of the first; the others follow
    /// consecutively.
    pub fn request(&self, requests: Vec<SessionRequest>) -> Result<u64, NotRunning> {
        self.check_running()?;
        let first = self
            .next_request_id
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

    /// Request the op that a linearizable read must see. Returns the request id.
    pub fn read_index(&self) -> Result<u64, NotRunning> {
        self.check_running()?;
        let ticket = self.next_request_id.fetch_add(1, Ordering::Relaxed);
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

    /// Abdicate if this replica is the primary, so that the others elect another one.
    pub fn abdicate(&self) {
        self.inbox.push(Input::Abdicate);
    }

    /// Reload the certificate files. Returns whether they changed; new connections with peers use the new ones. Fails
    /// if the files are unusable, once for each content of the files; the previous certificates then stay in use.
    pub fn reload_certificates(&self) -> Result<bool, StartError> {
        let Some(tls) = self.peers_tls() else {
            return Ok(false);
        };
        let mut seen = self.certificates_digest();
        let material = CertificateFiles::read(tls).inspect_err(|_| *seen = None)?;
        let digest = material.digest();
        if seen.replace(digest) == Some(digest) {
            return Ok(false);
        }
        let ready = Tls::build(tls, &material)?;
        self.inbox.push(Input::Renewed(ready));
        Ok(true)
    }

    fn peers_tls(&self) -> Option<&TlsConfig> {
        self.config
            .tls
            .as_ref()
            .filter(|_| !self.config.is_single())
    }

    fn certificates_digest(&self) -> MutexGuard<'_, Option<[u8; 32]>> {
        self.certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Status of the replica, available even after it has stopped.
    pub fn status(&self) -> ReplicaStatus {
        self.shared.status()
    }

    /// Stop committing, make written data durable, and release the data directory. Returns `false` if that takes longer
    /// than `timeout` and continues in the background.
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
        // The thread ends by itself, without a join.
        self.inbox.push(Input::Stop);
    }
}
