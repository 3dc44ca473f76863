//! Simulated group of nodes with its network, clients and faults, run in virtual time: what all kinds of nodes have in
//! common. A [`Kind`] is the rest: what a node has beside its clock, what happens to it, and how faults are injected.

pub(crate) mod bare;
mod checks;
pub(crate) mod data;
mod faults;
pub(crate) mod group;
pub(crate) mod host;
mod kind;
mod node;
mod phases;
mod replacements;
mod rollback;

use std::collections::BTreeMap;

use crate::checker::{Causes, Violation};
use crate::network::{FIRST_CLIENT, Network};
use crate::plan::Planned;
use crate::random::{Domain, Draw, Fates};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::trace::Trace;

pub(crate) use faults::{CrashInStep, empty};
pub(crate) use kind::{Kind, Process, Storage};
pub(crate) use node::{DirectoryCopy, MARKER, Node, SUPERBLOCK};

/// Scheduled event.
#[derive(Debug)]
pub(crate) enum Event<E, Q, A> {
    /// A client request arrives at a node.
    Request { from: u8, to: u8, ask: Q },
    /// A response of a node arrives at a client.
    Response { from: u8, to: u8, response: A },
    /// A process starts.
    Start { node: u8 },
    /// The planned fault with this index occurs.
    Fault(usize),
    /// A client wakes up.
    Client(u8),
    /// An event of this kind of node.
    Own(E),
}

/// Event of this kind of node.
pub(crate) type EventOf<K> = Event<<K as Kind>::Event, <K as Kind>::Request, <K as Kind>::Response>;

impl<E, Q, A> Schedule<Event<E, Q, A>> {
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
    pub(crate) schedule: Schedule<EventOf<K>>,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node<K>>,
    /// Clients, and what checkers know about all nodes.
    pub(crate) group: K::Group,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
    pub(crate) healed: bool,
    /// Causes for alarms.
    pub(crate) causes: Causes,
    /// Number of draws by purpose and node.
    draws: BTreeMap<(u64, u8), u64>,
}

impl<K: Kind> Cluster<K> {
    /// Prepare a run.
    pub(crate) fn new(scenario: Scenario, kind: K, group: K::Group, trace: Trace) -> Self {
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
        Self {
            kind,
            fates,
            schedule,
            network,
            nodes,
            group,
            tally: Tally::default(),
            trace,
            violation: None,
            healed: false,
            causes: Causes::default(),
            draws: BTreeMap::new(),
            scenario,
        }
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

    fn handle(&mut self, event: EventOf<K>) {
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
                K::wake(self, to - FIRST_CLIENT, Some(response));
            }
            Event::Start { node } => K::boot(self, node),
            Event::Fault(index) => self.fault(index),
            Event::Client(index) => K::wake(self, index, None),
            Event::Own(event) => K::handle(self, event),
        }
    }

    /// End of the pause of the process that receives the event, if it is paused.
    fn busy_until(&self, event: &EventOf<K>) -> Option<u64> {
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
}
