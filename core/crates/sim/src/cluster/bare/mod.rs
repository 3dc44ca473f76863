//! Replicas of the core on nodes of the simulator's own: their disks, handshakes and clocks are in virtual time, and the
//! host that carries out what a replica asks for is part of the simulator.

mod alarms;
mod boot;
mod describe;
mod execution;
mod faults;
mod files;
mod meeting;
mod neighbours;
mod node;
mod outputs;
mod rollback;
mod store;

use headrace_vsr::api::{CommandReply, Event as Input};
use headrace_vsr::frame::Intake;
use headrace_vsr::rules::Rules;

use crate::checker::Violation;
use crate::client::{ClientRequest, ClientResponse};
use crate::cluster::checks::FRAME_BYTES_MAX;
use crate::cluster::group::{Group, Replicated};
use crate::cluster::{Cluster, CrashInStep, Event, Kind};
use crate::mutants::HostFault;
use crate::options::{Options, SECOND};
use crate::plan::{Fault, Loss};
use crate::random::Fates;

use node::{DiskState, Process};

/// Id of the cluster, contained in frames and files.
const CLUSTER: u128 = 0x5eed_c1a5_7e20_0000_0000_0000_0000_0001;
/// Id of the simulated group.
const GROUP: u64 = 1;

/// Replicas with these rules, on hosts that may have a fault.
#[derive(Debug)]
pub(crate) struct Bare<R> {
    pub(crate) rules: R,
    pub(crate) host_fault: Option<HostFault>,
}

/// Event of such nodes only.
#[derive(Debug)]
pub(crate) enum BareEvent {
    /// A frame arrives at a replica.
    Frame {
        from: u8,
        to: u8,
        /// Disk generation of the sender.
        life: u64,
        /// Incarnation of the sending process.
        process: u64,
        bytes: headrace_buffer::Slice,
        /// True if the bytes differ from those sent.
        is_damaged: bool,
    },
    /// An unproven replica asks the others for their standing.
    SendGreeting { node: u8, incarnation: u64 },
    /// A node asks the others for the time.
    Ping { node: u8, incarnation: u64 },
    /// A handshake arrives.
    Greeting(meeting::Greeting),
    /// Disk requests of a part may be complete.
    Disk {
        node: u8,
        incarnation: u64,
        part: Part,
    },
    /// The state machine has executed an operation.
    Applied {
        node: u8,
        incarnation: u64,
        op: u64,
        replies: Vec<CommandReply>,
    },
    /// Timers of a replica are due.
    Tick { node: u8, incarnation: u64 },
    /// The journal may have been idle long enough to be sealed.
    Idle { node: u8, incarnation: u64 },
    /// A process takes a step with the collected input.
    Step { node: u8, incarnation: u64 },
}

/// Part of the storage whose requests are executed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Journal,
    Superblock,
    Checkpoint,
}

impl<R: Rules + Clone> Kind for Bare<R> {
    type Event = BareEvent;
    type Request = ClientRequest;
    type Response = ClientResponse;
    type Group = Group;
    type Storage = DiskState;
    type Process = Process<R>;

    fn storage(&self, _fates: Fates, options: &Options, _replica: u8) -> DiskState {
        DiskState::new(options)
    }

    fn receiver(event: &BareEvent) -> Option<u8> {
        match event {
            BareEvent::Frame { to: node, .. }
            | BareEvent::Disk { node, .. }
            | BareEvent::Applied { node, .. }
            | BareEvent::Tick { node, .. }
            | BareEvent::Step { node, .. }
            | BareEvent::SendGreeting { node, .. }
            | BareEvent::Ping { node, .. }
            | BareEvent::Idle { node, .. } => Some(*node),
            BareEvent::Greeting(_) => None,
        }
    }

    fn handle(cluster: &mut Cluster<Self>, event: BareEvent) {
        match event {
            BareEvent::Frame {
                from,
                to,
                life,
                process,
                bytes,
                is_damaged,
            } => {
                cluster.network.arrived(from, to);
                if cluster.meets(from, to, life, process) {
                    cluster.frame((from, life), to, &bytes, is_damaged);
                }
            }
            BareEvent::SendGreeting { node, incarnation } => {
                cluster.send_greetings(node, incarnation);
            }
            BareEvent::Greeting(greeting) => cluster.handle_greeting(greeting),
            BareEvent::Ping { node, incarnation } => cluster.ping(node, incarnation),
            BareEvent::Disk {
                node,
                incarnation,
                part,
            } => cluster.disk_done(node, incarnation, part),
            BareEvent::Applied {
                node,
                incarnation,
                op,
                replies,
            } => {
                if cluster.runs(node, incarnation) {
                    cluster.executed(node, op);
                    cluster.step(node, Some(Input::Applied { op, replies }));
                }
            }
            BareEvent::Tick { node, incarnation } => cluster.tick(node, incarnation),
            BareEvent::Step { node, incarnation } => {
                if cluster.runs(node, incarnation) {
                    cluster.step(node, None);
                }
            }
            BareEvent::Idle { node, incarnation } => cluster.seal(node, incarnation),
        }
    }

    fn asked(cluster: &mut Cluster<Self>, from: u8, to: u8, ask: ClientRequest) {
        cluster.request(from, to, ask);
    }

    fn wake(cluster: &mut Cluster<Self>, client: u8, response: Option<ClientResponse>) {
        cluster.client(client, response);
    }

    fn boot(cluster: &mut Cluster<Self>, node: u8) {
        cluster.start(node);
    }

    fn is_protected(cluster: &Cluster<Self>) -> bool {
        cluster.group.undetected_rollback.is_some()
    }

    fn inject(cluster: &mut Cluster<Self>, index: usize, fault: &Fault) {
        cluster.inject(index, fault);
    }

    fn plan_crash(cluster: &mut Cluster<Self>, node: u8, crash: CrashInStep) {
        if let Some(node) = cluster.nodes.get_mut(usize::from(node)) {
            node.storage.crash_in_step = Some(crash);
        }
    }

    fn crash(cluster: &mut Cluster<Self>, node: u8, power: Option<Loss>, down_ns: u64) {
        cluster.crash_process(node, power, down_ns);
    }

    fn resume(cluster: &mut Cluster<Self>, node: u8) {
        // A step of the process may have been postponed to the end of a pause.
        let incarnation = cluster.nodes[usize::from(node)].starts;
        let step = BareEvent::Step { node, incarnation };
        cluster.schedule.plan_own(cluster.now_ns(), 1, step);
    }

    fn heal(cluster: &mut Cluster<Self>) {
        cluster.heal();
    }

    fn check_end(cluster: &mut Cluster<Self>) {
        cluster.check_history();
    }

    fn counts(cluster: &mut Cluster<Self>) -> Vec<(&'static str, u64)> {
        let network = cluster.network.counters();
        let processes = cluster
            .nodes
            .iter()
            .filter_map(|node| node.process.as_ref());
        let views = processes.map(|process| process.replica.report().view).max();
        let mut counts = cluster.group_counts();
        counts.extend([
            ("frames sent", network.sent),
            ("frames lost", network.lost),
            ("frames duplicated", network.duplicated),
            ("frames damaged on the way", network.corrupted),
            ("frames held until the end of a cut", network.held),
            ("views", views.unwrap_or_default().into()),
        ]);
        counts
    }
}

impl<R: Rules + Clone> Replicated for Bare<R> {
    const OWED_PER_CLIENT: usize = 1;

    fn cluster_id(&self) -> u128 {
        CLUSTER
    }

    fn believes_older_copies(&self) -> bool {
        self.host_fault == Some(HostFault::OlderCopyBelieved)
    }

    fn restart(cluster: &mut Cluster<Self>, node: u8, down_ns: u64) {
        cluster.crash(node, None, down_ns);
    }

    fn halt(cluster: &mut Cluster<Self>, node: u8, down_ns: u64) {
        if cluster.nodes[usize::from(node)].process.is_some() {
            cluster.crash(node, None, down_ns);
        } else {
            cluster.plan_start(node, down_ns);
        }
    }

    fn end(cluster: &mut Cluster<Self>, node: u8) {
        cluster.nodes[usize::from(node)].process = None;
    }

    /// Check that synchronized clocks and a common release are reached, if all members continue.
    fn check_converged(cluster: &mut Cluster<Self>, members: &[u8]) {
        if cluster.violation.is_some()
            || cluster.serving(members).len() < usize::from(cluster.scenario.options.replicas)
        {
            return;
        }
        let check = |cluster: &Cluster<Self>| -> Result<(), Violation> {
            cluster.check_clocks()?;
            cluster.check_release()
        };
        // Frames held back by a cut still block later ones of their link.
        for _ in 0..60 {
            cluster.run_until(cluster.now_ns() + SECOND / 2);
            if cluster.violation.is_some() || check(cluster).is_ok() {
                return;
            }
        }
        let result = check(cluster);
        cluster.check(u8::MAX, result);
    }
}

impl<R: Rules + Clone> Cluster<Bare<R>> {
    fn frame(
        &mut self,
        (from, life): (u8, u64),
        to: u8,
        bytes: &headrace_buffer::Slice,
        is_damaged: bool,
    ) {
        let identity = bytes
            .first_chunk::<8>()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let now_ns = self.now_ns();
        self.trace
            .event(now_ns, to, "frame", &[from.into(), identity]);
        let node = &self.nodes[usize::from(to)];
        if node.process.is_none() {
            return;
        }
        if life < node.storage.met_disk_generations[usize::from(from)] {
            return self.tally.add("frames of former lives");
        }
        let decoded = Intake {
            cluster: CLUSTER,
            message_size_max: FRAME_BYTES_MAX,
        }
        .decode(bytes);
        let result = alarms::check_frame_decoding(from, decoded.is_ok(), is_damaged);
        self.check(to, result);
        match decoded {
            Ok(frame) => {
                self.trace.explain(now_ns, to, || {
                    format!("<- {from} {}", describe::describe_frame(&frame))
                });
                if frame.header.command().is_of_node() {
                    return self.handle_node_frame(from, to, &frame);
                }
                self.remember(to, &frame);
                let process = self.nodes[usize::from(to)].process.as_ref();
                if process.is_some_and(|it| it.trust.may_receive(frame.header.command())) {
                    self.arrive(to, Input::Frame(frame));
                }
            }
            Err(_) => self.tally.add("frames rejected as damaged"),
        }
    }

    fn request(&mut self, from: u8, to: u8, ask: ClientRequest) {
        let now_ns = self.now_ns();
        self.trace.event(now_ns, to, "asked", &[from.into()]);
        let Some(process) = &mut self.nodes[usize::from(to)].process else {
            return;
        };
        match ask {
            ClientRequest::Frame(bytes) => {
                let intake = Intake {
                    cluster: CLUSTER,
                    message_size_max: FRAME_BYTES_MAX,
                };
                let Ok(frame) = intake.decode(&bytes) else {
                    self.tally.add("frames rejected as damaged");
                    return;
                };
                if let headrace_vsr::frame::Area::Request(request) = &frame.header.area {
                    process.sessions.insert(request.client, from);
                    self.arrive(to, Input::Request(frame));
                }
            }
            ClientRequest::Propose { call, body } => {
                let proposal = process.proposal(from, call, body);
                self.arrive(to, Input::Propose(proposal));
            }
            ClientRequest::Read { call, key } => {
                let id = process.read(from, call, key);
                self.read_index(to, id);
            }
        }
    }

    /// Deliver an input to a process, which takes a step at once or after collecting more input.
    fn arrive(&mut self, node: u8, input: Input) {
        let (now_ns, turn_ns) = (self.now_ns(), self.scenario.options.turn_ns);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        if turn_ns == 0 {
            return self.step(node, Some(input));
        }
        process.inbox.push(input);
        if process.inbox.len() == 1 {
            let incarnation = process.incarnation;
            self.schedule
                .plan_own(now_ns + turn_ns, 2, BareEvent::Step { node, incarnation });
        }
    }
}
