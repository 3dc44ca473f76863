//! Thread of one replica: waits for events, passes them to the core, carries out the core's outputs.

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::Duration,
};

use headrace_buffer::Slice;
use headrace_model::Level;
use headrace_vsr::{
    api::{Event, Output, Proposal, Status},
    frame::{NO_REPLICA, Operation, Origin, Release},
    neighbours::Reading,
    quorum::Quorums,
    replica::Replica as Core,
    trust::{Trust, TrustChange},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    events::{Refusal, ReplicaEvent, Role},
    input::Input,
    mailbox::Mailbox,
    neighbours::PingState,
    outputs::applied,
    peers::{DescriptorOwner, PeerEvent, Peers},
    rejoin,
    sessions::Sessions,
    shared::Shared,
    storage::{DataDirectory, DirectoryLock, Disk, FileJob, FileWorkerHandle, JournalWriter},
    surroundings::Machine,
};

/// Interval between two checks of the connections.
const PEERS_TICK_NS: u64 = 20_000_000;
/// Maximum number of proposals held while the state machine applies. Proposals above the limit are refused as `busy`.
const PROPOSALS_HELD_MAX: usize = 8192;
/// Time that a stopping primary waits for its last frames to be sent.
const SHUTDOWN_FLUSH_NS: u64 = 50_000_000;

/// State of the thread. The lock is declared last so that it is released last.
pub(crate) struct ReplicaThread {
    pub(crate) core: Core,
    pub(crate) replica: u8,
    pub(crate) inbox: Arc<Mailbox<Input>>,
    pub(crate) outbox: Arc<Mailbox<ReplicaEvent>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) peers: Option<Peers>,
    pub(crate) journal: JournalWriter,
    pub(crate) files: FileWorkerHandle,
    pub(crate) file_jobs: mpsc::Sender<FileJob>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) work: Work,
    pub(crate) trust: Trust,
    pub(crate) watch: PingState,
    pub(crate) quorums: Quorums,
    /// Incarnation: number of process starts on the data directory.
    pub(crate) incarnation: u64,
    /// Random number of this process.
    pub(crate) process: u64,
    /// Replicas whose data directories are lost for good, according to the operator.
    pub(crate) lost_replicas: Vec<u8>,
    pub(crate) sessions: Sessions,
    /// Origin of the frames of sessions.
    pub(crate) origin: Origin,
    pub(crate) directory: DataDirectory,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) next_peers_tick_ns: u64,
    pub(crate) _lock: DirectoryLock,
}

/// Work in progress.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about the start, the state machine and the end"
)]
pub(crate) struct Work {
    pub(crate) outputs: Vec<Output>,
    /// Events for the core, passed at the end of the turn.
    pub(crate) events: Vec<Event>,
    /// Events for the host, passed at the end of the turn.
    pub(crate) host_events: Vec<ReplicaEvent>,
    /// Client tables of checkpoints whose state is pending.
    pub(crate) client_tables: BTreeMap<u64, Slice>,
    /// Events to pass to the core after the state machine has restored the image of a peer.
    pub(crate) restoring: BTreeMap<u64, Event>,
    pub(crate) reads: Vec<u64>,
    /// Proposals that were not passed to the core yet.
    pub(crate) held_proposals: Vec<Event>,
    /// True if the state machine has not answered the last op.
    pub(crate) applying: bool,
    pub(crate) abdicate: bool,
    pub(crate) role: Option<(Role, u32, Option<u8>)>,
    pub(crate) stopping: bool,
    /// True if the superblock of this start is durable. Peers are not contacted before: if this process contacted them
    /// and died, the next one would have the same incarnation, like an older copy of the data directory.
    pub(crate) start_is_recorded: bool,
    /// Reason for the halt, after which no more work is done.
    pub(crate) halted: Option<String>,
}

impl ReplicaThread {
    /// Run until a stop request, or until the core halts. `outputs` are those of its opening.
    pub(crate) fn run(mut self, outputs: Vec<Output>) {
        self.begin(outputs);
        while self.process() {
            self.wait();
        }
        self.finish();
    }

    /// Begin with the outputs of the opening.
    pub(crate) fn begin(&mut self, outputs: Vec<Output>) {
        self.work.outputs = outputs;
        if self.peers.is_none() {
            // A single replica has no peers to wait for.
            self.ping(self.machine.clock());
        }
    }

    /// Process everything that is due or has happened. Returns `false` at the end.
    pub(crate) fn process(&mut self) -> bool {
        let now = self.machine.clock();
        if self.work.start_is_recorded && now.monotonic_ns >= self.next_peers_tick_ns {
            self.next_peers_tick_ns = now.monotonic_ns + PEERS_TICK_NS;
            self.with_peers(|peers, out| peers.tick(now.monotonic_ns, out));
            self.ping(now);
        }
        self.turn(now);
        !self.work.stopping && self.work.halted.is_none()
    }

    /// Process all inputs, until no further work results.
    fn turn(&mut self, now: Reading) {
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
            let time = self.watch.neighbours.now(now);
            if !events.is_empty() {
                self.core.step(time, events, &mut self.work.outputs);
            }
            for ticket in reads {
                self.core.read_index(time, ticket, &mut self.work.outputs);
            }
            if abdicate {
                self.core.abdicate(time, &mut self.work.outputs);
            }
            if due {
                self.core.tick(time, &mut self.work.outputs);
            }
        }
        self.update_claim(now.monotonic_ns);
        self.with_peers(|peers, out| peers.flush(now.monotonic_ns, out));
        self.publish(now);
    }

    /// Pass the held proposals to the core once every committed operation has been applied.
    ///
    /// Each reply leads to the next proposal. Passing proposals on while other replies are pending would write one
    /// command per applied one, and none would share a sync.
    fn release_held(&mut self) -> bool {
        if self.work.applying || self.work.held_proposals.is_empty() {
            return false;
        }
        self.work.events.append(&mut self.work.held_proposals);
        true
    }

    /// Publish the claim of this replica to its peers, and check whether its votes count again.
    fn update_claim(&mut self, now_ns: u64) {
        let Some(peers) = &mut self.peers else {
            return;
        };
        let report = self.core.report();
        peers.set_claim(
            self.trust.claim(&report, self.incarnation, self.process),
            report.release,
        );
        if self.trust.is_proven() {
            return;
        }
        let (members, replica, given_up) =
            (self.quorums.members, self.replica, &self.lost_replicas);
        let awaited = || (0..members).filter(|peer| *peer != replica && !given_up.contains(peer));
        for peer in self.trust.peers_to_query(now_ns, awaited()) {
            peers.redial(peer, now_ns);
        }
        let has_unsynced = self.journal.has_unsynced();
        let change = self
            .trust
            .observe(&report, has_unsynced, awaited(), self.quorums);
        self.trust_changed(change);
    }

    fn trust_changed(&mut self, change: TrustChange) {
        let (level, line) = match change {
            TrustChange::Nothing => return,
            TrustChange::DiskWasLost => {
                let line = "the directory is empty and the group is not: this metadata replica fetches the state, and does \
                            not vote until all other replicas have been heard in one view; when one of them is gone for \
                            good, name it in `cluster.given_up`";
                self.shared.rejoining(true);
                self.log(Level::Warning, line.to_owned());
                return;
            }
            TrustChange::GroupIsNew => (Level::Info, "this metadata replica begins a new group"),
            TrustChange::Rejoined => (
                Level::Info,
                "this metadata replica has all of the state again, and votes from now on",
            ),
        };
        match rejoin::remove_marker(&self.directory) {
            Ok(trust) => {
                self.trust = trust;
                self.shared.rejoining(false);
                self.log(level, line.to_owned());
            }
            Err(error) => self.work.halted = Some(format!("{}: {error}", self.directory.display())),
        }
    }

    fn take(&mut self, input: Input, now: Reading) {
        match input {
            Input::Propose {
                ticket,
                since,
                command,
            } => self.propose(ticket, since, command),
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
            Input::Done(event) => {
                self.work.start_is_recorded |= matches!(event, Event::SuperblockWritten { .. });
                self.work.events.push(event);
            }
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
                self.work
                    .host_events
                    .push(ReplicaEvent::Restore { op, state });
            }
            Input::Dialled(dialled) => {
                self.with_peers(|peers, out| peers.dialled(dialled, now.monotonic_ns, out));
            }
            Input::Renewed(tls) => self.with_peers(|peers, _| peers.set_tls(tls)),
            Input::Log(level, message) => self.log(level, message),
            // Handled at the end of the turn.
            Input::DiskChanged => {}
        }
    }

    /// Report when the disk becomes full or has space again, and retry periodically while it is full.
    fn watch_disk(&mut self, now_ns: u64) {
        if let Some(bytes) = self.disk.retry(now_ns) {
            self.file_job(FileJob::Spare { bytes });
        }
        let Some(is_full) = self.disk.take_full_change() else {
            return;
        };
        let directory = self.directory.display();
        if is_full {
            let line = format!(
                "the disk of {directory} is full: the metadata journal cannot grow. Nothing that was acknowledged is \
                 lost, and no command is taken here until some space is free"
            );
            self.log(Level::Error, line);
            // Another replica may have space. Once only: if none has, primaries would take turns forever.
            self.work.abdicate = self.peers.is_some() && self.is_primary();
        } else {
            let line =
                format!("there is room for the metadata journal again on the disk of {directory}");
            self.log(Level::Info, line);
        }
    }

    fn is_primary(&self) -> bool {
        matches!(self.work.role, Some((Role::Primary, ..)))
    }

    fn propose(&mut self, ticket: u64, since: Release, body: Slice) {
        if self.admit_or_refuse(ticket) {
            self.work.held_proposals.push(Event::Propose(Proposal {
                request_id: ticket,
                operation: Operation::METADATA_FIRST,
                user_id: 0,
                min_release: since,
                body,
            }));
        }
    }

    /// Return whether one more command is accepted now; otherwise refuse the command.
    pub(crate) fn admit_or_refuse(&mut self, ticket: u64) -> bool {
        self.shared.count(|counters| counters.proposed += 1);
        // Backups redirect the caller to the primary.
        if self.disk.is_full() && self.is_primary() {
            self.refuse(ticket, Refusal::Storage);
            return false;
        }
        if self.work.held_proposals.len() >= PROPOSALS_HELD_MAX {
            self.refuse(ticket, Refusal::Busy);
            return false;
        }
        true
    }

    pub(crate) fn refuse(&mut self, ticket: u64, refusal: Refusal) {
        self.shared.count(|counters| counters.refused += 1);
        self.work
            .host_events
            .push(ReplicaEvent::Refused { ticket, refusal });
    }

    pub(crate) fn log(&mut self, level: Level, message: String) {
        self.work
            .host_events
            .push(ReplicaEvent::Log { level, message });
    }

    pub(crate) fn file_job(&mut self, job: FileJob) {
        if self.file_jobs.send(job).is_err() {
            self.work.halted = Some("the thread for the files is gone".to_owned());
        }
    }

    /// Run a function on the connections, and process the resulting events.
    pub(crate) fn with_peers(&mut self, act: impl FnOnce(&mut Peers, &mut Vec<PeerEvent>)) {
        let Some(peers) = &mut self.peers else {
            return;
        };
        let mut heard = Vec::new();
        act(peers, &mut heard);
        for event in heard {
            match event {
                PeerEvent::Frame(frame) => {
                    if let Some(peers) = &mut self.peers {
                        peers.remember(&frame);
                    }
                    self.shared.count(|counters| counters.received_frames += 1);
                    if frame.header.command().is_of_node() {
                        self.on_node_frame(&frame);
                    } else if self.trust.may_receive(frame.header.command()) {
                        self.work.events.push(Event::Frame(frame));
                    }
                }
                PeerEvent::HandshakeCompleted {
                    peer,
                    claim,
                    dialled,
                } => {
                    if !dialled {
                        self.forget_former_process(peer);
                    }
                    let known = self
                        .peers
                        .as_mut()
                        .map(|peers| peers.on_handshake(peer, claim));
                    if let Some(Err(rolled_back)) = known {
                        let line = format!("metadata replica {peer} must not go on: {rolled_back}");
                        self.log(Level::Error, line);
                        continue;
                    }
                    self.watch.neighbours.ping_now();
                    self.work.events.push(Event::PeerConnected);
                    let others = (0..self.quorums.members).filter(|other| *other != self.replica);
                    let change = self.trust.on_handshake(peer, claim, dialled, others);
                    self.trust_changed(change);
                }
                PeerEvent::LocalStateOutdated(why) => {
                    self.work.halted = Some(self.rolled_back_reason(&why));
                }
                PeerEvent::Log(level, message) => self.log(level, message),
            }
        }
    }

    /// Drop the frames of this turn that came before the peer dialled again. The peer has been welcomed with a claim from
    /// before them, and may have lost its disk since: it relies on it that no vote of its former process counts any more.
    fn forget_former_process(&mut self, peer: u8) {
        let is_from =
            |event: &Event| matches!(event, Event::Frame(frame) if frame.header.replica == peer);
        self.work.events.retain(|event| !is_from(event));
    }

    fn rolled_back_reason(&self, why: &str) -> String {
        format!(
            "{}: {why}. It was restored from a backup or rolled back by its file system; with its votes acknowledged \
             commands would be lost. Move the directory away and start with an empty one: this replica then fetches the \
             state from the others",
            self.directory.display()
        )
    }

    /// Monotonic time of the next work, if no event arrives earlier.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let has_peers = self.peers.is_some() && self.work.start_is_recorded;
        [
            self.core.next_deadline_ns(),
            has_peers.then_some(self.next_peers_tick_ns),
            self.journal.due_ns(),
            self.disk.retry_at_ns(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Wait until an event arrives or work is due.
    fn wait(&mut self) {
        let timeout = self.deadline_ns().map(|deadline_ns| {
            let now_ns = self.machine.clock().monotonic_ns;
            let left = Duration::from_nanos(deadline_ns.saturating_sub(now_ns));
            Timespec::try_from(left).unwrap_or_default()
        });
        let mut places = Vec::new();
        if let Some(peers) = self.peers.as_ref().filter(|_| self.work.start_is_recorded) {
            peers.descriptors(&mut places);
        }
        let mut descriptors = Vec::with_capacity(places.len() + 1);
        descriptors.push(PollFd::new(&*self.inbox, PollFlags::IN));
        let places: Vec<DescriptorOwner> = places
            .into_iter()
            .map(|(place, descriptor)| {
                descriptors.push(descriptor);
                place
            })
            .collect();
        if poll(&mut descriptors, timeout.as_ref()).is_err() {
            // Interrupted: the next turn checks every source of events.
            return;
        }
        let ready: Vec<DescriptorOwner> = places
            .into_iter()
            .zip(&descriptors[1..])
            .filter(|(_, descriptor)| !descriptor.revents().is_empty())
            .map(|(place, _)| place)
            .collect();
        drop(descriptors);
        let now_ns = self.machine.clock().monotonic_ns;
        for place in ready {
            self.with_peers(|peers, out| peers.ready(place, now_ns, out));
        }
        self.journal.seal_if_due(now_ns);
    }

    /// Publish the changes of this turn to the host.
    fn publish(&mut self, now: Reading) {
        let report = self.core.report();
        let role = role_of(report.status, report.primary == self.replica);
        self.expire_requests(role == Role::Primary, now.monotonic_ns);
        let is_known = report.status == Status::Normal && report.primary != NO_REPLICA;
        let primary = is_known.then_some(report.primary);
        let role = (role, report.view, primary);
        if self.work.role != Some(role) && self.work.halted.is_none() {
            let (role, view, primary) = role;
            self.work.host_events.push(ReplicaEvent::Role {
                role,
                view,
                primary,
            });
            if self.work.role.is_some_and(|(_, before, _)| before != view) {
                self.shared.count(|counters| counters.view_changes += 1);
            }
            self.work.role = Some((role, view, primary));
        }
        let time = self.watch.neighbours.now(now);
        let log_ahead_ns = if time.wall.is_known() {
            // Signed: the log may lag behind.
            (self.core.log_time_ns(time).wrapping_sub(now.wall_ns)).cast_signed()
        } else {
            0
        };
        self.shared.update_status(
            report,
            (role.0, primary),
            log_ahead_ns,
            now.monotonic_ns,
            self.peers.as_ref(),
            &self.disk,
        );
        if let Some(reason) = &self.work.halted {
            self.shared.stopped(reason);
            self.work.host_events.push(ReplicaEvent::Stopped {
                reason: reason.clone(),
            });
        }
        self.outbox.push_all(&mut self.work.host_events);
    }

    /// Send the last frames and make the last writes durable.
    fn finish(mut self) {
        let until_ns = self.machine.clock().monotonic_ns + SHUTDOWN_FLUSH_NS;
        while self.peers.as_ref().is_some_and(Peers::has_unsent) {
            let now_ns = self.machine.clock().monotonic_ns;
            if now_ns >= until_ns {
                break;
            }
            self.with_peers(|peers, out| peers.flush(now_ns, out));
            std::thread::sleep(Duration::from_millis(1));
        }
        self.close();
    }

    /// Make the last writes durable.
    pub(crate) fn close(&mut self) {
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
