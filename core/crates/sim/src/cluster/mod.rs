//! Simulated group of replicas with its network, disks, clients and faults, run in virtual time.

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
mod phases;
mod rollback;
mod store;

use std::collections::BTreeMap;

use headrace_vsr::api::{CommandReply, Event as Input, Outcome};
use headrace_vsr::frame::Intake;
use headrace_vsr::rules::Rules;

use crate::checker::{CanonicalHistory, Causes, History, Reference, Violation};
use crate::client::{Client, ClientAction, ClientContext, ClientRequest, ClientResponse};
use crate::machine::Machines;
use crate::mutants::HostFault;
use crate::network::{FIRST_CLIENT, Network};
use crate::plan::Planned;
use crate::random::{Domain, Fates};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::trace::Trace;

pub(crate) use files::SUPERBLOCK;
use node::Node;

/// Id of the cluster, contained in frames and files.
const CLUSTER: u128 = 0x5eed_c1a5_7e20_0000_0000_0000_0000_0001;
/// Id of the simulated group.
const GROUP: u64 = 1;
/// Maximum number of bytes of a frame.
const FRAME_BYTES_MAX: u32 = 4 << 20;

/// Scheduled event.
#[derive(Debug)]
enum Event {
    /// A client request arrives at a replica.
    Request {
        from: u8,
        to: u8,
        ask: ClientRequest,
    },
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
    /// A response of a replica arrives at a client.
    Response {
        from: u8,
        to: u8,
        response: ClientResponse,
    },
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
    /// A process starts.
    Start { node: u8 },
    /// The planned fault with this index occurs.
    Fault(usize),
    /// A client wakes up.
    Client(u8),
}

/// Part of the storage whose requests are executed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Journal,
    Superblock,
    Checkpoint,
}

/// State of a run.
#[derive(Debug)]
pub(crate) struct Cluster<R: Rules + Clone> {
    rules: R,
    host_fault: Option<HostFault>,
    fates: Fates,
    scenario: Scenario,
    schedule: Schedule<Event>,
    network: Network,
    nodes: Vec<Node<R>>,
    clients: Vec<Client>,
    machines: Machines,
    canon: CanonicalHistory,
    reference: Reference,
    history: History,
    tally: Tally,
    trace: Trace,
    violation: Option<Violation>,
    healed: bool,
    /// Node with an older copy of its data directory that has not been detected yet.
    undetected_rollback: Option<u8>,
    /// Causes for alarms.
    causes: Causes,
    /// Number of draws by purpose and node.
    draws: BTreeMap<(u64, u8), u64>,
}

impl<R: Rules + Clone> Cluster<R> {
    /// Prepare a run. Fails if the state machines do not start.
    pub(crate) fn new(
        scenario: Scenario,
        rules: R,
        misdeed: Option<HostFault>,
        machines: Machines,
        trace: Trace,
    ) -> Result<Self, Violation> {
        let reference = Reference::new(&machines)?;
        let fates = Fates::new(scenario.seed);
        let options = &scenario.options;
        let nodes = (0..options.replicas)
            .map(|replica| Node::new(fates, options, replica))
            .collect();
        let clients = (0..options.workload.clients)
            .map(|index| Client::new(index, options.workload.requests))
            .collect();
        let network = Network::new(fates, options.network.clone());
        let mut cluster = Self {
            rules,
            host_fault: misdeed,
            fates,
            schedule: Schedule::default(),
            network,
            nodes,
            clients,
            machines,
            canon: CanonicalHistory::default(),
            reference,
            history: History::default(),
            tally: Tally::default(),
            trace,
            violation: None,
            healed: false,
            undetected_rollback: None,
            causes: Causes::default(),
            draws: BTreeMap::new(),
            scenario,
        };
        for node in 0..cluster.scenario.options.replicas {
            cluster.schedule.plan(0, 1, Event::Start { node });
        }
        for index in 0..cluster.scenario.options.workload.clients {
            cluster
                .schedule
                .plan(u64::from(index) * 3_000_000, 3, Event::Client(index));
        }
        for (index, Planned { at_ns, .. }) in cluster.scenario.plan.iter().enumerate() {
            cluster.schedule.plan(*at_ns, 0, Event::Fault(index));
        }
        Ok(cluster)
    }

    /// Process events until `until_ns` or until a checker reports a violation.
    fn run_until(&mut self, until_ns: u64) {
        while self.violation.is_none()
            && self
                .schedule
                .next_ns()
                .is_some_and(|at_ns| at_ns <= until_ns)
        {
            let Some(happening) = self.schedule.take() else {
                break;
            };
            self.happen(happening);
        }
        if self.violation.is_none() {
            self.schedule.skip_to(until_ns);
        }
    }

    const fn now_ns(&self) -> u64 {
        self.schedule.now_ns()
    }

    fn draw(&mut self, domain: Domain, node: u8) -> crate::random::Draw {
        let count = self.draws.entry((domain as u64, node)).or_default();
        *count += 1;
        self.fates.draw(domain, node.into(), 0, *count)
    }

    fn fail(&mut self, node: u8, violation: Violation) {
        let now_ns = self.now_ns();
        self.trace.explain(now_ns, node, || violation.to_string());
        self.violation.get_or_insert(violation);
    }

    fn check(&mut self, node: u8, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.fail(node, violation);
        }
    }

    fn happen(&mut self, happening: Event) {
        let now_ns = self.now_ns();
        if let Some(free_ns) = self.busy_until(&happening) {
            // The process is paused: its input waits.
            self.schedule.plan(free_ns, 2, happening);
            return;
        }
        match happening {
            Event::Frame {
                from,
                to,
                life,
                process,
                bytes,
                is_damaged,
            } => {
                self.network.arrived(from, to);
                if self.meets(from, to, life, process) {
                    self.frame((from, life), to, &bytes, is_damaged);
                }
            }
            Event::SendGreeting { node, incarnation } => self.send_greetings(node, incarnation),
            Event::Greeting(greeting) => self.handle_greeting(greeting),
            Event::Ping { node, incarnation } => self.ping(node, incarnation),
            Event::Request { from, to, ask } => {
                self.network.arrived(from, to);
                self.asked(from, to, ask);
            }
            Event::Response { from, to, response } => {
                self.network.arrived(from, to);
                self.trace.event(now_ns, to, "response", &[from.into()]);
                self.client(to - FIRST_CLIENT, Some(response));
            }
            Event::Disk {
                node,
                incarnation,
                part,
            } => self.disk_done(node, incarnation, part),
            Event::Applied {
                node,
                incarnation,
                op,
                replies,
            } => {
                if self.runs(node, incarnation) {
                    self.executed(node, op);
                    self.step(node, Some(Input::Applied { op, replies }));
                }
            }
            Event::Tick { node, incarnation } => self.tick(node, incarnation),
            Event::Step { node, incarnation } => {
                if self.runs(node, incarnation) {
                    self.step(node, None);
                }
            }
            Event::Idle { node, incarnation } => self.seal(node, incarnation),
            Event::Start { node } => self.boot(node),
            Event::Fault(index) => self.fault(index),
            Event::Client(index) => self.client(index, None),
        }
    }

    /// End of the pause of the process that receives the event, if it is paused.
    fn busy_until(&self, happening: &Event) -> Option<u64> {
        let node = match happening {
            Event::Frame { to, .. } | Event::Request { to, .. } => to,
            Event::Disk { node, .. }
            | Event::Applied { node, .. }
            | Event::Tick { node, .. }
            | Event::Step { node, .. }
            | Event::SendGreeting { node, .. }
            | Event::Ping { node, .. }
            | Event::Idle { node, .. } => node,
            Event::Response { .. }
            | Event::Greeting(_)
            | Event::Start { .. }
            | Event::Fault(_)
            | Event::Client(_) => return None,
        };
        let node = &self.nodes[usize::from(*node)];
        (node.busy_until_ns > self.now_ns() && node.process.is_some()).then_some(node.busy_until_ns)
    }

    fn runs(&self, node: u8, incarnation: u64) -> bool {
        self.nodes[usize::from(node)]
            .process
            .as_ref()
            .is_some_and(|process| process.incarnation == incarnation)
    }

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
        if life < node.met_disk_generations[usize::from(from)] {
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

    fn asked(&mut self, from: u8, to: u8, ask: ClientRequest) {
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
                .plan(now_ns + turn_ns, 2, Event::Step { node, incarnation });
        }
    }

    /// Wake a client, or deliver a response to it.
    fn client(&mut self, index: u8, response: Option<ClientResponse>) {
        let (mut refused, mut failed) = (Vec::new(), None);
        let mut world = ClientContext {
            now_ns: self.schedule.now_ns(),
            fates: &self.fates,
            options: &self.scenario.options.workload,
            mixed_releases: self.scenario.options.old_releases != 0,
            cluster: CLUSTER,
            replicas: self.scenario.options.replicas,
            history: &mut self.history,
            refused: &mut refused,
            machines: &self.machines,
            failed: &mut failed,
        };
        let client = &mut self.clients[usize::from(index)];
        let deeds = match response {
            Some(response) => client.handle_response(&mut world, response),
            None => client.wake(&mut world),
        };
        if let Some(violation) = failed {
            self.fail(index + FIRST_CLIENT, violation);
        }
        for id in refused {
            self.tally.add("commands refused");
            let result = self.canon.refused(id);
            self.check(index + FIRST_CLIENT, result);
        }
        for deed in deeds {
            match deed {
                ClientAction::Wake(at_ns) => self.schedule.plan(at_ns, 3, Event::Client(index)),
                ClientAction::Send(to, ask) => self.ask(index + FIRST_CLIENT, to, &ask),
            }
        }
    }

    fn ask(&mut self, from: u8, to: u8, ask: &ClientRequest) {
        let bytes = match ask {
            ClientRequest::Frame(bytes) => bytes.clone(),
            ClientRequest::Propose { .. } | ClientRequest::Read { .. } => {
                headrace_buffer::Slice::default()
            }
        };
        for (copy, delivery) in self
            .network
            .send(self.now_ns(), from, to, &bytes)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let ask = match ask {
                ClientRequest::Frame(_) => ClientRequest::Frame(delivery.bytes),
                // Calls into a process are not duplicated.
                ClientRequest::Propose { .. } | ClientRequest::Read { .. } if copy > 0 => {
                    self.network.arrived(from, to);
                    continue;
                }
                other => other.clone(),
            };
            self.schedule
                .plan(delivery.at_ns, 2, Event::Request { from, to, ask });
        }
    }

    fn respond(&mut self, from: u8, to: u8, response: &ClientResponse) {
        let bytes = match response {
            ClientResponse::Frame(bytes) => bytes.clone(),
            ClientResponse::Proposed { .. } | ClientResponse::Read { .. } => {
                headrace_buffer::Slice::default()
            }
        };
        if let ClientResponse::Proposed {
            outcome: Outcome::Unknown,
            ..
        } = response
        {
            self.tally.add("proposals with an unknown end");
        }
        for delivery in self
            .network
            .send(self.now_ns(), from, to, &bytes)
            .into_iter()
            .flatten()
        {
            let response = match response {
                ClientResponse::Frame(_) => ClientResponse::Frame(delivery.bytes),
                other => other.clone(),
            };
            self.schedule
                .plan(delivery.at_ns, 2, Event::Response { from, to, response });
        }
    }
}
