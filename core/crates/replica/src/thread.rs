//! The thread of one replica: waits for something to happen, tells the core, carries out what the core wants.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};

use headrace_buffer::Slice;
use headrace_model::Level;
use headrace_vsr::{
    api::{Event, Now, Output, Proposal, Status},
    frame::{NO_REPLICA, Operation, Origin},
    quorum::Quorums,
    replica::Replica as Core,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    time::{ClockId, clock_gettime},
};

use crate::{
    events::{Refusal, ReplicaEvent, Role},
    input::Input,
    mailbox::Mailbox,
    outputs::applied,
    peers::{PeerEvent, Peers, Place, Standing},
    rejoin::{Change, Trust},
    sessions::Sessions,
    shared::Shared,
    storage::{Background, Disk, FileJob, FolderLock, JournalSide},
};

/// How often connections are looked after.
const PEERS_TICK_NS: u64 = 20_000_000;
/// Proposals that wait for the state machine. Above it they are refused as `busy`.
const PROPOSALS_HELD_MAX: usize = 8192;
/// How long a primary that stops gives its last frames to leave.
const FAREWELL_NS: u64 = 50_000_000;

/// Everything that the thread owns. The lock is the last to go.
pub(crate) struct ReplicaThread {
    pub(crate) core: Core,
    pub(crate) replica: u8,
    pub(crate) inbox: Arc<Mailbox<Input>>,
    pub(crate) outbox: Arc<Mailbox<ReplicaEvent>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) peers: Option<Peers>,
    pub(crate) journal: JournalSide,
    pub(crate) files: Background,
    pub(crate) file_jobs: mpsc::Sender<FileJob>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) work: Work,
    pub(crate) trust: Trust,
    pub(crate) quorums: Quorums,
    pub(crate) sessions: Sessions,
    /// The author of the frames of sessions.
    pub(crate) origin: Origin,
    pub(crate) folder: PathBuf,
    pub(crate) _lock: FolderLock,
}

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) outputs: Vec<Output>,
    /// For the core, at the end of the turn.
    pub(crate) events: Vec<Event>,
    /// For the state machine and whoever asks, at the end of the turn.
    pub(crate) told: Vec<ReplicaEvent>,
    /// Client tables of checkpoints whose state is awaited.
    pub(crate) client_tables: BTreeMap<u64, Slice>,
    /// Peers' images that the state machine is taking over: what the core is told then.
    pub(crate) restoring: BTreeMap<u64, Event>,
    pub(crate) reads: Vec<u64>,
    /// Proposals that the core has not seen yet.
    pub(crate) held: Vec<Event>,
    /// The state machine has not answered the last op.
    pub(crate) applying: bool,
    pub(crate) abdicate: bool,
    pub(crate) role: Option<(Role, u32, Option<u8>)>,
    pub(crate) stopping: bool,
    /// Nothing more is done.
    pub(crate) halted: Option<String>,
}

impl ReplicaThread {
    /// Run until told to stop, or until the core halts. `outputs` are those of its opening.
    pub(crate) fn run(mut self, outputs: Vec<Output>) {
        self.work.outputs = outputs;
        let mut next_peers_tick_ns = 0;
        loop {
            let now = clock();
            if now.monotonic_ns >= next_peers_tick_ns {
                next_peers_tick_ns = now.monotonic_ns + PEERS_TICK_NS;
                self.with_peers(|peers, out| peers.tick(now.monotonic_ns, out));
            }
            self.turn(now);
            if self.work.stopping || self.work.halted.is_some() {
                break;
            }
            self.wait(next_peers_tick_ns);
        }
        self.finish();
    }

    /// Everything that has happened, until nothing more follows from it.
    fn turn(&mut self, now: Now) {
        for input in self.inbox.take() {
            self.take(input, now);
        }
        self.watch_disk(now.monotonic_ns);
        loop {
            self.carry_out_outputs();
            if self.work.halted.is_some() {
                break;
            }
            let due = self
                .core
                .next_deadline_ns()
                .is_some_and(|deadline| deadline <= now.monotonic_ns);
            let (events, reads) = (
                std::mem::take(&mut self.work.events),
                std::mem::take(&mut self.work.reads),
            );
            let abdicate = std::mem::take(&mut self.work.abdicate);
            if events.is_empty() && reads.is_empty() && !abdicate && !due {
                if self.release_held() {
                    continue;
                }
                break;
            }
            if !events.is_empty() {
                self.core.step(now, events, &mut self.work.outputs);
            }
            for ticket in reads {
                self.core.read_index(now, ticket, &mut self.work.outputs);
            }
            if abdicate {
                self.core.abdicate(now, &mut self.work.outputs);
            }
            if due {
                self.core.tick(now, &mut self.work.outputs);
            }
        }
        self.stand(now.monotonic_ns);
        self.with_peers(|peers, out| peers.flush(now.monotonic_ns, out));
        self.publish(now);
    }

    /// Give proposals to the core once all that is committed has been applied.
    ///
    /// Each answer leads to the next proposal. If it went to the disk while other answers are still due, one command
    /// would be written for each that is applied, and none would ever share a sync.
    fn release_held(&mut self) -> bool {
        if self.work.applying || self.work.held.is_empty() {
            return false;
        }
        self.work.events.append(&mut self.work.held);
        true
    }

    /// Tell peers that ask where we stand, and find out whether our word counts again.
    fn stand(&mut self, now_ns: u64) {
        let Some(peers) = &mut self.peers else {
            return;
        };
        let report = self.core.report();
        peers.stand(Standing {
            // A group in its first view with an empty log has nothing that a newcomer could have forgotten, not even a
            // vote: replicas that start together need not wait for each other.
            has_history: self.trust.is_proven()
                && (report.op > 0 || report.commit_max > 0 || report.view > 0),
            is_normal: report.status == Status::Normal,
            view: report.view,
        });
        if self.trust.is_proven() {
            return;
        }
        let others = (0..self.quorums.members).filter(|&peer| peer != self.replica);
        for peer in self.trust.ask_whom(now_ns, others) {
            peers.ask_again(peer, now_ns);
        }
        let has_unsynced = self.journal.has_unsynced();
        let change = self
            .trust
            .observe(&report, has_unsynced, self.quorums.members - 1);
        self.trust_changed(change);
    }

    fn trust_changed(&mut self, change: Change) {
        let (level, line) = match change {
            Change::Nothing => return,
            Change::DiskWasLost => {
                let line = "the folder is empty and the group is not: this metadata replica fetches the state, and does \
                            not vote until all other replicas have been heard in one view";
                self.shared.rejoining(true);
                self.log(Level::Warning, line.to_owned());
                return;
            }
            Change::GroupIsNew => (Level::Info, "this metadata replica begins a new group"),
            Change::Rejoined => (
                Level::Info,
                "this metadata replica has all of the state again, and votes from now on",
            ),
        };
        match self.trust.prove(&self.folder) {
            Ok(()) => {
                self.shared.rejoining(false);
                self.log(level, line.to_owned());
            }
            Err(error) => self.work.halted = Some(format!("{}: {error}", self.folder.display())),
        }
    }

    fn take(&mut self, input: Input, now: Now) {
        match input {
            Input::Propose { ticket, command } => self.propose(ticket, command),
            Input::Request { ticket, request } => {
                self.request(ticket, request, now.monotonic_ns);
            }
            Input::ReadIndex { ticket } => self.work.reads.push(ticket),
            Input::Applied { op, replies } => {
                self.work.applying = false;
                self.work.events.push(applied(op, replies));
            }
            Input::Checkpoint { op, state } => {
                if let Some(clients) = self.work.client_tables.remove(&op) {
                    self.file_job(FileJob::WriteImage { op, clients, state });
                }
            }
            Input::Restored { op } => self.work.events.extend(self.work.restoring.remove(&op)),
            Input::Abdicate => self.work.abdicate = true,
            Input::Stop => self.work.stopping = true,
            Input::Done(event) => self.work.events.push(event),
            Input::Installed {
                token,
                op,
                clients,
                state,
            } => {
                let clients = Some(clients);
                self.work
                    .restoring
                    .insert(op, Event::Installed { token, clients });
                self.work.told.push(ReplicaEvent::Restore { op, state });
            }
            Input::Dialled(dialled) => {
                self.with_peers(|peers, out| peers.dialled(dialled, now.monotonic_ns, out));
            }
            Input::Log(level, message) => self.log(level, message),
            // Seen at the end of the turn.
            Input::DiskChanged => {}
        }
    }

    /// Tell when the disk has become full, or is not any more, and try now and then whether it still is.
    fn watch_disk(&mut self, now_ns: u64) {
        if let Some(bytes) = self.disk.retry(now_ns) {
            self.file_job(FileJob::Spare { bytes });
        }
        let Some(is_full) = self.disk.news() else {
            return;
        };
        let folder = self.folder.display();
        if is_full {
            let line = format!(
                "the disk of {folder} is full: the metadata journal cannot grow. Nothing that was acknowledged is \
                 lost, and no command is taken here until some space is free"
            );
            self.log(Level::Error, line);
            // The others may have room. Once only: where nobody has, primaries would take turns for ever.
            self.work.abdicate = self.peers.is_some() && self.is_primary();
        } else {
            let line =
                format!("there is room for the metadata journal again on the disk of {folder}");
            self.log(Level::Info, line);
        }
    }

    fn is_primary(&self) -> bool {
        matches!(self.work.role, Some((Role::Primary, ..)))
    }

    fn propose(&mut self, ticket: u64, body: Slice) {
        if self.takes(ticket) {
            self.work.held.push(Event::Propose(Proposal {
                ticket,
                operation: Operation::METADATA_FIRST,
                user_id: 0,
                body,
            }));
        }
    }

    /// Whether one more command can be taken now; it is refused otherwise.
    pub(crate) fn takes(&mut self, ticket: u64) -> bool {
        self.shared.count(|counters| counters.proposed += 1);
        // Others name whom to ask instead.
        if self.disk.is_full() && self.is_primary() {
            self.refuse(ticket, Refusal::Storage);
            return false;
        }
        if self.work.held.len() >= PROPOSALS_HELD_MAX {
            self.refuse(ticket, Refusal::Busy);
            return false;
        }
        true
    }

    pub(crate) fn refuse(&mut self, ticket: u64, refusal: Refusal) {
        self.shared.count(|counters| counters.refused += 1);
        self.work
            .told
            .push(ReplicaEvent::Refused { ticket, refusal });
    }

    pub(crate) fn log(&mut self, level: Level, message: String) {
        self.work.told.push(ReplicaEvent::Log { level, message });
    }

    pub(crate) fn file_job(&mut self, job: FileJob) {
        if self.file_jobs.send(job).is_err() {
            self.work.halted = Some("the thread for the files is gone".to_owned());
        }
    }

    /// Let the connections do something, and take what they have to tell.
    pub(crate) fn with_peers(&mut self, act: impl FnOnce(&mut Peers, &mut Vec<PeerEvent>)) {
        let Some(peers) = &mut self.peers else {
            return;
        };
        let mut heard = Vec::new();
        act(peers, &mut heard);
        for event in heard {
            match event {
                PeerEvent::Frame(frame) => {
                    self.shared.count(|counters| counters.received_frames += 1);
                    if self.trust.may_receive(frame.header.command()) {
                        self.work.events.push(Event::Frame(frame));
                    }
                }
                PeerEvent::Met {
                    peer,
                    standing,
                    dialled,
                } => {
                    let change = self.trust.meet(peer, standing, dialled, self.quorums);
                    self.trust_changed(change);
                }
                PeerEvent::Log(level, message) => self.log(level, message),
            }
        }
    }

    /// Wait until something happens or is due.
    fn wait(&mut self, next_peers_tick_ns: u64) {
        let deadline_ns = [
            self.core.next_deadline_ns(),
            self.peers.is_some().then_some(next_peers_tick_ns),
            self.journal.due_ns(),
            self.disk.retry_at_ns(),
        ]
        .into_iter()
        .flatten()
        .min();
        let timeout = deadline_ns.map(|deadline_ns| {
            let left = Duration::from_nanos(deadline_ns.saturating_sub(clock().monotonic_ns));
            Timespec::try_from(left).unwrap_or_default()
        });
        let mut places = Vec::new();
        if let Some(peers) = &self.peers {
            peers.descriptors(&mut places);
        }
        let mut descriptors = Vec::with_capacity(places.len() + 1);
        descriptors.push(PollFd::new(&*self.inbox, PollFlags::IN));
        let places: Vec<Place> = places
            .into_iter()
            .map(|(place, descriptor)| {
                descriptors.push(descriptor);
                place
            })
            .collect();
        if poll(&mut descriptors, timeout.as_ref()).is_err() {
            // Interrupted: the next turn looks at everything that may have happened.
            return;
        }
        let ready: Vec<Place> = places
            .into_iter()
            .zip(&descriptors[1..])
            .filter(|(_, descriptor)| !descriptor.revents().is_empty())
            .map(|(place, _)| place)
            .collect();
        drop(descriptors);
        let now_ns = clock().monotonic_ns;
        for place in ready {
            self.with_peers(|peers, out| peers.ready(place, now_ns, out));
        }
        self.journal.seal_if_due(now_ns);
    }

    /// Tell the outside what this turn has changed.
    fn publish(&mut self, now: Now) {
        let report = self.core.report();
        let role = role_of(report.status, report.primary == self.replica);
        self.end_questions(role == Role::Primary, now.monotonic_ns);
        let is_known = report.status == Status::Normal && report.primary != NO_REPLICA;
        let primary = is_known.then_some(report.primary);
        let role = (role, report.view, primary);
        if self.work.role != Some(role) && self.work.halted.is_none() {
            let (role, view, primary) = role;
            self.work.told.push(ReplicaEvent::Role {
                role,
                view,
                primary,
            });
            if self.work.role.is_some_and(|(_, before, _)| before != view) {
                self.shared.count(|counters| counters.view_changes += 1);
            }
            self.work.role = Some((role, view, primary));
        }
        self.shared.publish(
            report,
            role.0,
            primary,
            now.monotonic_ns,
            self.peers.as_ref(),
            &self.disk,
        );
        if let Some(reason) = &self.work.halted {
            self.shared.stopped(reason);
            self.work.told.push(ReplicaEvent::Stopped {
                reason: reason.clone(),
            });
        }
        self.outbox.push_all(&mut self.work.told);
    }

    /// Let the last frames leave and the last writes become durable.
    fn finish(mut self) {
        let until_ns = clock().monotonic_ns + FAREWELL_NS;
        while self.peers.as_ref().is_some_and(Peers::has_unsent) {
            let now_ns = clock().monotonic_ns;
            if now_ns >= until_ns {
                break;
            }
            self.with_peers(|peers, out| peers.flush(now_ns, out));
            std::thread::sleep(Duration::from_millis(1));
        }
        self.disk.close();
        self.journal.finish();
        self.files.join();
        self.shared.stopped("it was closed");
    }
}

fn role_of(status: Status, is_primary: bool) -> Role {
    match status {
        Status::Normal if is_primary => Role::Primary,
        Status::Normal => Role::Backup,
        Status::ViewChange | Status::Starting | Status::Adopting => Role::ViewChange,
        Status::Recovering | Status::Halted => Role::Recovering,
    }
}

/// The time of a step. Durations count on in suspend.
pub(crate) fn clock() -> Now {
    let nanoseconds = |clock| {
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
    };
    Now {
        monotonic_ns: nanoseconds(ClockId::Boottime),
        wall_ns: nanoseconds(ClockId::Realtime),
    }
}
