//! Production host of a replica (`crates/replica`) under the same faults as the core: its threads are steps of the run,
//! its files are on a simulated disk, its connections are streams of the simulated network, and its clocks and
//! randomness are those of the run. Handshakes, group commits, journal files, checkpoints, opening and rejoining are
//! the code that runs in production.
//!
//! A process crashes between two of these steps, in the middle of any file operation, or when only some connections
//! have received the bytes written to them.

mod alarms;
mod clean;
mod directory;
mod faults;
mod given_up;
mod node;
mod phases;
mod process;
mod rollback;
mod talk;
mod traffic;
mod wire;

use std::collections::BTreeMap;

use headrace_buffer::Slice;
use headrace_vsr::api::Outcome;

use crate::checker::{CanonicalHistory, Causes, History, Reference, Violation};
use crate::client::{Client, ClientAction, ClientContext, ClientRequest, ClientResponse};
use crate::machine::Machines;
use crate::mutants::HostFault;
use crate::network::{FIRST_CLIENT, Network};
use crate::plan::Planned;
use crate::random::{Domain, Draw, Fates};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::trace::Trace;
use node::Node;
use wire::{EndId, Shared};

/// Maximum number of bytes of a client's frame.
const FRAME_BYTES_MAX: u32 = 4 << 20;

/// Scheduled event.
#[derive(Debug)]
enum Happening {
    /// A client request arrives at a process.
    Request {
        from: u8,
        to: u8,
        ask: ClientRequest,
    },
    /// A response of a process arrives at a client.
    Response {
        from: u8,
        to: u8,
        response: ClientResponse,
    },
    /// Bytes arrive at the other end of a connection.
    Arrived {
        from: u8,
        to: u8,
        end: EndId,
        bytes: Slice,
    },
    /// The other end of a connection learns that the connection is closed.
    Closed { to: u8, end: EndId },
    /// Both ends of a connection learn that the connection is closed.
    Broken { nodes: [u8; 2], end: EndId },
    /// An attempt to dial completes.
    Dialled { from: u8, to: u8, incarnation: u64 },
    /// Timers of a process are due.
    Wake { node: u8, incarnation: u64 },
    /// The journal writer executes the work that it has started.
    Writer { node: u8, incarnation: u64 },
    /// The other file thread executes the work that it has started.
    Files { node: u8, incarnation: u64 },
    /// The journal may have been idle long enough to be sealed.
    Idle { node: u8, incarnation: u64 },
    /// The state machine completes a request.
    Machine {
        node: u8,
        incarnation: u64,
        answer: process::MachineAnswer,
    },
    /// A process starts.
    Start { node: u8 },
    /// The planned fault with this index occurs.
    Fault(usize),
    /// A client wakes up.
    Client(u8),
}

/// State of a run.
#[derive(Debug)]
pub(crate) struct Host {
    cluster: u128,
    fates: Fates,
    scenario: Scenario,
    schedule: Schedule<Happening>,
    network: Network,
    wires: Shared,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    machines: Machines,
    canon: CanonicalHistory,
    reference: Reference,
    history: History,
    tally: Tally,
    trace: Trace,
    violation: Option<Violation>,
    healed: bool,
    /// Highest view of all replicas.
    views: u32,
    /// Node with an older copy of its data directory that has not been detected yet.
    restored: Option<u8>,
    /// Causes for alarms.
    causes: Causes,
    /// Arrival time of the newest bytes, for each direction of each connection.
    arrivals: BTreeMap<EndId, u64>,
    /// Number of draws by purpose and node.
    draws: BTreeMap<(u64, u8), u64>,
}

impl Host {
    /// Prepare a run.
    pub(crate) fn new(
        scenario: Scenario,
        misdeed: Option<HostFault>,
        trace: Trace,
    ) -> Result<Self, Violation> {
        let machines = Machines::Names;
        let reference = Reference::new(&machines)?;
        let fates = Fates::new(scenario.seed);
        let options = &scenario.options;
        let nodes: Vec<Node> = (0..options.replicas)
            .map(|replica| Node::new(fates, options, replica, misdeed))
            .collect();
        let clients = (0..options.workload.clients)
            .map(|index| Client::new(index, options.workload.requests))
            .collect();
        let network = Network::new(fates, options.network.clone());
        let mut schedule = Schedule::default();
        for node in 0..options.replicas {
            schedule.plan(0, 1, Happening::Start { node });
        }
        for index in 0..options.workload.clients {
            schedule.plan(u64::from(index) * 3_000_000, 3, Happening::Client(index));
        }
        for (index, Planned { at_ns, .. }) in scenario.plan.iter().enumerate() {
            schedule.plan(*at_ns, 0, Happening::Fault(index));
        }
        let config = node::config_of(options, 0, nodes[0].release);
        Ok(Self {
            cluster: config.cluster_id(),
            fates,
            schedule,
            network,
            wires: Shared::default(),
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
            views: 0,
            restored: None,
            causes: Causes::default(),
            arrivals: BTreeMap::new(),
            draws: BTreeMap::new(),
            scenario,
        })
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

    fn draw(&mut self, domain: Domain, node: u8) -> Draw {
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

    fn happen(&mut self, happening: Happening) {
        if let Some(free_ns) = self.busy_until(&happening) {
            // The process is paused: its input waits.
            self.schedule.plan(free_ns, 2, happening);
            return;
        }
        match happening {
            Happening::Request { from, to, ask } => {
                self.network.arrived(from, to);
                self.asked(from, to, ask);
            }
            Happening::Response { from, to, response } => {
                self.network.arrived(from, to);
                let now_ns = self.now_ns();
                self.trace.event(now_ns, to, "response", &[from.into()]);
                self.client(to - FIRST_CLIENT, Some(response));
            }
            Happening::Arrived {
                from,
                to,
                end,
                bytes,
            } => self.arrived(from, to, end, &bytes),
            Happening::Closed { to, end } => {
                self.wires.close_other(end);
                self.run_turn(to);
            }
            Happening::Broken { nodes, end } => {
                self.wires.close_both(end);
                for node in nodes {
                    self.run_turn(node);
                }
            }
            Happening::Dialled {
                from,
                to,
                incarnation,
            } => self.dialled(from, to, incarnation),
            Happening::Wake { node, incarnation } => self.wake(node, incarnation),
            Happening::Writer { node, incarnation } => self.write(node, incarnation),
            Happening::Files { node, incarnation } => self.work_on_files(node, incarnation),
            Happening::Idle { node, incarnation } => self.seal(node, incarnation),
            Happening::Machine {
                node,
                incarnation,
                answer,
            } => self.machine_answers(node, incarnation, answer),
            Happening::Start { node } => self.boot(node),
            Happening::Fault(index) => self.fault(index),
            Happening::Client(index) => self.client(index, None),
        }
    }

    /// End of the pause of the process that receives the event, if it is paused.
    fn busy_until(&self, happening: &Happening) -> Option<u64> {
        let node = match happening {
            Happening::Request { to: node, .. }
            | Happening::Arrived { to: node, .. }
            | Happening::Closed { to: node, .. }
            | Happening::Dialled { from: node, .. }
            | Happening::Wake { node, .. }
            | Happening::Writer { node, .. }
            | Happening::Files { node, .. }
            | Happening::Idle { node, .. }
            | Happening::Machine { node, .. } => node,
            Happening::Response { .. }
            | Happening::Broken { .. }
            | Happening::Start { .. }
            | Happening::Fault(_)
            | Happening::Client(_) => return None,
        };
        let node = &self.nodes[usize::from(*node)];
        (node.busy_until_ns > self.now_ns() && node.process.is_some()).then_some(node.busy_until_ns)
    }

    /// Wake a client, or deliver a response to it.
    fn client(&mut self, index: u8, response: Option<ClientResponse>) {
        let (mut refused, mut failed) = (Vec::new(), None);
        let mut world = ClientContext {
            now_ns: self.schedule.now_ns(),
            fates: &self.fates,
            options: &self.scenario.options.workload,
            mixed_releases: self.scenario.options.old_releases != 0,
            cluster: self.cluster,
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
                ClientAction::Wake(at_ns) => self.schedule.plan(at_ns, 3, Happening::Client(index)),
                ClientAction::Send(to, ask) => self.ask(index + FIRST_CLIENT, to, &ask),
            }
        }
    }

    fn ask(&mut self, from: u8, to: u8, ask: &ClientRequest) {
        let bytes = match ask {
            ClientRequest::Frame(bytes) => bytes.clone(),
            ClientRequest::Propose { .. } | ClientRequest::Read { .. } => Slice::default(),
        };
        let copies = self.network.send(self.now_ns(), from, to, &bytes);
        for (copy, delivery) in copies.into_iter().flatten().enumerate() {
            let ask = match ask {
                ClientRequest::Frame(_) => ClientRequest::Frame(delivery.bytes),
                // Calls into a process are not duplicated.
                ClientRequest::Propose { .. } | ClientRequest::Read { .. } if copy > 0 => {
                    self.network.arrived(from, to);
                    continue;
                }
                other => other.clone(),
            };
            let asked = Happening::Request { from, to, ask };
            self.schedule.plan(delivery.at_ns, 2, asked);
        }
    }

    fn respond(&mut self, from: u8, to: u8, response: &ClientResponse) {
        let bytes = match response {
            ClientResponse::Frame(bytes) => bytes.clone(),
            ClientResponse::Proposed { .. } | ClientResponse::Read { .. } => Slice::default(),
        };
        if let ClientResponse::Proposed {
            outcome: Outcome::Unknown,
            ..
        } = response
        {
            self.tally.add("proposals with an unknown end");
        }
        let copies = self.network.send(self.now_ns(), from, to, &bytes);
        for delivery in copies.into_iter().flatten() {
            let response = match response {
                ClientResponse::Frame(_) => ClientResponse::Frame(delivery.bytes),
                other => other.clone(),
            };
            let response = Happening::Response { from, to, response };
            self.schedule.plan(delivery.at_ns, 2, response);
        }
    }
}
