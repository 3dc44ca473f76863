//! Simulated group of nodes with its network, clients and faults, run in virtual time: what all kinds of nodes have in
//! common. A [`Kind`] is the rest: what a node has beside its clock, what happens to it, and how faults are injected.

pub(crate) mod bare;
mod checks;
mod faults;
pub(crate) mod host;
mod kind;
mod node;
mod phases;
mod rollback;

use std::collections::BTreeMap;

use headrace_buffer::Slice;
use headrace_vsr::api::Outcome;

use crate::checker::{CanonicalHistory, Causes, History, Reference, Violation};
use crate::client::{Client, ClientAction, ClientContext, ClientRequest, ClientResponse};
use crate::machine::Machines;
use crate::network::{FIRST_CLIENT, Network};
use crate::plan::Planned;
use crate::random::{Domain, Draw, Fates};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::trace::Trace;

pub(crate) use faults::empty;
pub(crate) use kind::{Kind, Process, Storage};
pub(crate) use node::{DirectoryCopy, MARKER, Node, SUPERBLOCK};

/// Scheduled event.
#[derive(Debug)]
pub(crate) enum Event<E> {
    /// A client request arrives at a node.
    Request {
        from: u8,
        to: u8,
        ask: ClientRequest,
    },
    /// A response of a node arrives at a client.
    Response {
        from: u8,
        to: u8,
        response: ClientResponse,
    },
    /// A process starts.
    Start { node: u8 },
    /// The planned fault with this index occurs.
    Fault(usize),
    /// A client wakes up.
    Client(u8),
    /// An event of this kind of node.
    Own(E),
}

impl<E> Schedule<Event<E>> {
    /// Schedule an event of the kind of node; see [`Schedule::plan`].
    pub(crate) fn plan_own(&mut self, at_ns: u64, class: u8, event: E) {
        self.plan(at_ns, class, Event::Own(event));
    }
}

/// State of a run.
pub(crate) struct Cluster<K: Kind> {
    pub(crate) kind: K,
    pub(crate) fates: Fates,
    pub(crate) scenario: Scenario,
    pub(crate) schedule: Schedule<Event<K::Event>>,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node<K>>,
    pub(crate) clients: Vec<Client>,
    pub(crate) machines: Machines,
    pub(crate) canon: CanonicalHistory,
    pub(crate) reference: Reference,
    pub(crate) history: History,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
    pub(crate) healed: bool,
    /// Node with an older copy of its data directory that has not been detected yet.
    pub(crate) undetected_rollback: Option<u8>,
    /// Causes for alarms.
    pub(crate) causes: Causes,
    /// Number of draws by purpose and node.
    draws: BTreeMap<(u64, u8), u64>,
}

impl<K: Kind> Cluster<K> {
    /// Prepare a run. Fails if the state machines do not start.
    pub(crate) fn new(
        scenario: Scenario,
        kind: K,
        machines: Machines,
        trace: Trace,
    ) -> Result<Self, Violation> {
        let reference = Reference::new(&machines)?;
        let fates = Fates::new(scenario.seed);
        let options = &scenario.options;
        let nodes = (0..options.replicas)
            .map(|replica| {
                Node::new(
                    fates,
                    options,
                    replica,
                    kind.storage(fates, options, replica),
                )
            })
            .collect();
        let clients = (0..options.workload.clients)
            .map(|index| Client::new(index, options.workload.requests))
            .collect();
        let network = Network::new(fates, options.network.clone());
        let mut schedule = Schedule::default();
        for node in 0..options.replicas {
            schedule.plan(0, 1, Event::Start { node });
        }
        for index in 0..options.workload.clients {
            schedule.plan(u64::from(index) * 3_000_000, 3, Event::Client(index));
        }
        for (index, Planned { at_ns, .. }) in scenario.plan.iter().enumerate() {
            schedule.plan(*at_ns, 0, Event::Fault(index));
        }
        Ok(Self {
            kind,
            fates,
            schedule,
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
        })
    }

    /// Process events until `until_ns` or until a checker reports a violation.
    pub(crate) fn run_until(&mut self, until_ns: u64) {
        while self.violation.is_none()
            && self
                .schedule
                .next_ns()
                .is_some_and(|at_ns| at_ns <= until_ns)
        {
            let Some(event) = self.schedule.take() else {
                break;
            };
            self.handle(event);
        }
        if self.violation.is_none() {
            self.schedule.skip_to(until_ns);
        }
    }

    pub(crate) const fn now_ns(&self) -> u64 {
        self.schedule.now_ns()
    }

    pub(crate) fn draw(&mut self, domain: Domain, node: u8) -> Draw {
        let count = self.draws.entry((domain as u64, node)).or_default();
        *count += 1;
        self.fates.draw(domain, node.into(), 0, *count)
    }

    pub(crate) fn fail(&mut self, node: u8, violation: Violation) {
        let now_ns = self.now_ns();
        self.trace.explain(now_ns, node, || violation.to_string());
        self.violation.get_or_insert(violation);
    }

    pub(crate) fn check(&mut self, node: u8, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.fail(node, violation);
        }
    }

    /// Schedule the next start of a process.
    pub(crate) fn plan_start(&mut self, node: u8, down_ns: u64) {
        let at_ns = self.now_ns() + down_ns;
        self.schedule.plan(at_ns, 1, Event::Start { node });
    }

    fn handle(&mut self, event: Event<K::Event>) {
        if let Some(free_ns) = self.busy_until(&event) {
            // The process is paused: its input waits.
            self.schedule.plan(free_ns, 2, event);
            return;
        }
        match event {
            Event::Request { from, to, ask } => {
                self.network.arrived(from, to);
                K::asked(self, from, to, ask);
            }
            Event::Response { from, to, response } => {
                self.network.arrived(from, to);
                let now_ns = self.now_ns();
                self.trace.event(now_ns, to, "response", &[from.into()]);
                self.client(to - FIRST_CLIENT, Some(response));
            }
            Event::Start { node } => K::boot(self, node),
            Event::Fault(index) => self.fault(index),
            Event::Client(index) => self.client(index, None),
            Event::Own(event) => K::handle(self, event),
        }
    }

    /// End of the pause of the process that receives the event, if it is paused.
    fn busy_until(&self, event: &Event<K::Event>) -> Option<u64> {
        let node = match event {
            Event::Request { to, .. } => *to,
            Event::Own(event) => K::receiver(event)?,
            Event::Response { .. } | Event::Start { .. } | Event::Fault(_) | Event::Client(_) => {
                return None;
            }
        };
        let node = &self.nodes[usize::from(node)];
        (node.busy_until_ns > self.now_ns() && node.process.is_some()).then_some(node.busy_until_ns)
    }

    /// Return whether this process runs still.
    pub(crate) fn runs(&self, node: u8, incarnation: u64) -> bool {
        self.nodes[usize::from(node)]
            .process
            .as_ref()
            .is_some_and(|process| process.incarnation() == incarnation)
    }

    /// Wake a client, or deliver a response to it.
    fn client(&mut self, index: u8, response: Option<ClientResponse>) {
        let (mut refused, mut failed) = (Vec::new(), None);
        let mut context = ClientContext {
            now_ns: self.schedule.now_ns(),
            fates: &self.fates,
            options: &self.scenario.options.workload,
            mixed_releases: self.scenario.options.old_releases != 0,
            cluster: self.kind.cluster_id(),
            replicas: self.scenario.options.replicas,
            history: &mut self.history,
            refused: &mut refused,
            machines: &self.machines,
            failed: &mut failed,
        };
        let client = &mut self.clients[usize::from(index)];
        let actions = match response {
            Some(response) => client.handle_response(&mut context, response),
            None => client.wake(&mut context),
        };
        if let Some(violation) = failed {
            self.fail(index + FIRST_CLIENT, violation);
        }
        for id in refused {
            self.tally.add("commands refused");
            let result = self.canon.refused(id);
            self.check(index + FIRST_CLIENT, result);
        }
        for action in actions {
            match action {
                ClientAction::Wake(at_ns) => self.schedule.plan(at_ns, 3, Event::Client(index)),
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
            let request = Event::Request { from, to, ask };
            self.schedule.plan(delivery.at_ns, 2, request);
        }
    }

    /// Send a response of a node to a client.
    pub(crate) fn respond(&mut self, from: u8, to: u8, response: &ClientResponse) {
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
            let response = Event::Response { from, to, response };
            self.schedule.plan(delivery.at_ns, 2, response);
        }
    }
}
