//! A replica without threads: what its threads would do is done step by step, by the program that holds it.
//!
//! This is how the simulator runs the production host. What a process does between two of these steps cannot be seen
//! from outside, apart from the order in which it works on its files, which its [`Files`](crate::surroundings::Files)
//! see.

use std::{io, sync::Arc};

use headrace_vsr::{api::Report, trust::Standing};

use crate::{
    handle::Started,
    input::Input,
    mailbox::Mailbox,
    opening::{Opened, Workers},
    peers::Dialled,
    storage::WriterApart,
    surroundings::Connection,
    thread::ReplicaThread,
};

/// A replica and the workers beside it. Dropping it is the end of its process.
pub struct Stepped {
    thread: ReplicaThread,
    workers: Workers,
    inbox: Arc<Mailbox<Input>>,
    started: Started,
}

impl std::fmt::Debug for Stepped {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Stepped")
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Stepped {
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

    /// What the start has found.
    pub const fn started(&self) -> &Started {
        &self.started
    }

    /// Sees to everything that is due or has happened. Returns whether the replica goes on.
    pub fn look(&mut self) -> bool {
        let now_ns = self.thread.machine.clock().monotonic_ns;
        if self.thread.work.has_begun {
            self.thread
                .with_peers(|peers, out| peers.all_ready(now_ns, out));
        }
        self.thread.journal.seal_if_due(now_ns);
        self.thread.look()
    }

    /// When [`look`](Self::look) has something to see to, whatever happens until then.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.thread.deadline_ns()
    }

    /// An attempt to dial a peer is over.
    pub fn dialled(&self, peer: u8, connection: io::Result<Box<dyn Connection>>) {
        let dialled = Dialled::given(peer, connection);
        self.inbox.push(Input::Dialled(dialled));
    }

    /// Whether the writer of the journal has something to do. A replica that is alone has none.
    pub fn writer_has_jobs(&mut self) -> bool {
        self.workers
            .writer
            .as_mut()
            .is_some_and(WriterApart::has_jobs)
    }

    /// Carries out what the writer of the journal has begun.
    pub fn write(&mut self) {
        if let Some(writer) = &mut self.workers.writer {
            writer.step();
        }
    }

    /// Notes in the journal that all of it is durable, as after a while without a write. Returns whether that was new.
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

    /// Whether there is other work on files.
    pub fn files_have_jobs(&mut self) -> bool {
        self.workers.files.has_jobs()
    }

    /// Carries out one piece of it.
    pub fn work_on_files(&mut self) {
        self.workers.files.step();
    }

    /// Ends the replica as [`Replica::stop`](crate::Replica::stop) does: what it was to write becomes durable before.
    pub fn finish(mut self) {
        self.thread.close();
        if let Some(writer) = &mut self.workers.writer {
            // A disk that is full now is not waited for: nothing of it was promised.
            writer.finish();
        }
        while self.workers.files.has_jobs() {
            self.workers.files.step();
            if self.workers.files.awaits_space() {
                break;
            }
        }
    }

    /// Whether this replica's word counts.
    pub fn is_proven(&self) -> bool {
        self.thread.trust.is_proven()
    }

    /// Whether peers can meet it.
    pub const fn has_begun(&self) -> bool {
        self.thread.work.has_begun
    }

    /// Whether this replica remembers more of a peer that says that it stands there.
    pub fn knows_more(&self, peer: u8, standing: Standing) -> bool {
        let peers = self.thread.peers.as_ref();
        peers.is_some_and(|peers| peers.knows_more(peer, standing))
    }

    /// How the core stands.
    pub fn report(&self) -> Report {
        self.thread.core.report()
    }
}
