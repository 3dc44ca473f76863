//! Replica without threads: the calling program runs the work of its threads step by step.
//!
//! The simulator runs the production host this way. Work between two steps has no externally visible effect, apart from
//! the order of file operations, which its [`Files`](crate::surroundings::Files) observe.

use std::{io, sync::Arc};

use headrace_vsr::{api::Report, trust::MemberClaim};

use crate::{
    handle::Started,
    input::Input,
    mailbox::Mailbox,
    opening::{Opened, Workers},
    peers::DialResult,
    storage::WriterThread,
    surroundings::Connection,
    thread::ReplicaThread,
};

/// Replica with its workers. Dropping it simulates the death of the process.
pub struct SteppedReplica {
    thread: ReplicaThread,
    workers: Workers,
    inbox: Arc<Mailbox<Input>>,
    started: Started,
}

impl std::fmt::Debug for SteppedReplica {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Stepped")
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl SteppedReplica {
    pub(crate) fn new(opened: Opened, inbox: Arc<Mailbox<Input>>) -> Self {
        let Opened {
            mut thread,
            outputs,
            started,
            workers,
        } = opened;
        thread.begin(outputs);
        Self {
            thread,
            workers,
            inbox,
            started,
        }
    }

    /// Result of the start.
    pub const fn started(&self) -> &Started {
        &self.started
    }

    /// Process everything that is due or has happened. Returns whether the replica continues.
    pub fn process(&mut self) -> bool {
        let now_ns = self.thread.machine.clock().monotonic_ns;
        if self.thread.work.start_is_recorded {
            self.thread
                .with_peers(|peers, out| peers.all_ready(now_ns, out));
        }
        self.thread.journal.seal_if_due(now_ns);
        self.thread.process()
    }

    /// Monotonic time at which [`look`](Self::look) has work, if no event arrives earlier.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.thread.deadline_ns()
    }

    /// Report the outcome of an attempt to dial a peer.
    pub fn dialled(&self, peer: u8, connection: io::Result<Box<dyn Connection>>) {
        let dialled = DialResult::given(peer, connection);
        self.inbox.push(Input::Dialled(dialled));
    }

    /// Return whether the journal writer has work. A single replica has no separate writer.
    pub fn writer_has_jobs(&mut self) -> bool {
        self.workers
            .writer
            .as_mut()
            .is_some_and(WriterThread::has_jobs)
    }

    /// Carry out the current batch of the journal writer.
    pub fn write(&mut self) {
        if let Some(writer) = &mut self.workers.writer {
            writer.step();
        }
    }

    /// Write a seal that records the journal as durable, as after an idle period. Returns whether a seal was needed.
    pub fn seal(&mut self) -> bool {
        let Some(writer) = &mut self.workers.writer else {
            return false;
        };
        let seals = !writer.has_jobs() && writer.wants_seal();
        if seals {
            writer.seal();
        }
        seals
    }

    /// Return whether the file worker has jobs.
    pub fn files_have_jobs(&mut self) -> bool {
        self.workers.files.has_jobs()
    }

    /// Carry out one job of the file worker.
    pub fn work_on_files(&mut self) {
        self.workers.files.step();
    }

    /// Stop the replica as [`Replica::stop`](crate::Replica::stop) does: pending writes become durable first.
    pub fn finish(mut self) {
        self.thread.close();
        if let Some(writer) = &mut self.workers.writer {
            // Appends that wait on a full disk are dropped: they were never acknowledged.
            writer.finish();
        }
        while self.workers.files.has_jobs() {
            self.workers.files.step();
            if self.workers.files.awaits_space() {
                break;
            }
        }
    }

    /// Return whether this replica's votes count.
    pub fn is_proven(&self) -> bool {
        self.thread.trust.is_proven()
    }

    /// Return whether peers can connect to this replica.
    pub const fn has_begun(&self) -> bool {
        self.thread.work.start_is_recorded
    }

    /// Return whether this replica remembers a newer state of a peer than the peer's `claim`.
    pub fn remembers_newer_state(&self, peer: u8, claim: MemberClaim) -> bool {
        let peers = self.thread.peers.as_ref();
        peers.is_some_and(|peers| peers.remembers_newer_state(peer, claim))
    }

    /// State of the core.
    pub fn report(&self) -> Report {
        self.thread.core.report()
    }
}

#[cfg(test)]
mod tests;
