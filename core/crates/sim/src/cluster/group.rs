//! Replicas that form one group: their clients, and the checkers that know of all of them.

use headrace_buffer::Slice;
use headrace_vsr::api::{Outcome, Report};
use headrace_vsr::trust::MemberClaim;

use super::{Cluster, Event, Kind, Process, Storage};
use crate::checker::{CanonicalHistory, History, Reference, Violation};
use crate::client::{Client, ClientAction, ClientContext, ClientRequest, ClientResponse};
use crate::disk::Disk;
use crate::machine::Machines;
use crate::network::FIRST_CLIENT;
use crate::scenario::Scenario;

/// State of a run of replicas that belongs to none of them.
pub(crate) struct Group {
    pub(crate) clients: Vec<Client>,
    pub(crate) machines: Machines,
    pub(crate) canon: CanonicalHistory,
    pub(crate) reference: Reference,
    pub(crate) history: History,
    /// Node with an older copy of its data directory that has not been detected yet.
    pub(crate) undetected_rollback: Option<u8>,
}

/// Kind of node that is a replica of the consensus core.
pub(crate) trait Replicated:
    Kind<
        Group = Group,
        Request = ClientRequest,
        Response = ClientResponse,
        Storage: ReplicaStorage,
        Process: ReplicaProcess,
    >
{
    /// Number of requests that a process may owe to each client after convergence.
    const OWED_PER_CLIENT: usize;

    /// Id of the cluster, contained in frames and files.
    fn cluster_id(&self) -> u128;

    /// Return whether an older copy of a data directory goes unnoticed: a planted bug.
    fn believes_older_copies(&self) -> bool {
        false
    }

    /// Restart a process as its operator would, and leave it down for a while.
    fn restart(cluster: &mut Cluster<Self>, node: u8, down_ns: u64);

    /// Stop a process that may not go on, and start another one later.
    fn halt(cluster: &mut Cluster<Self>, node: u8, down_ns: u64);

    /// End a process that does not come back.
    fn end(cluster: &mut Cluster<Self>, node: u8);

    /// Do what operators do for members that do not come back by themselves after healing.
    fn operate(_cluster: &mut Cluster<Self>, _members: &[u8]) {}

    /// Check the members that have converged.
    fn check_converged(cluster: &mut Cluster<Self>, members: &[u8]);
}

/// Data directory of a replica, and what is expected of it.
pub(crate) trait ReplicaStorage: Storage {
    /// Copy of all files.
    fn copied(&self) -> Disk;

    /// Replace all files, and reset the expectations about them.
    fn replace(&mut self, disk: Disk, is_empty: bool);

    /// Return whether the replica is proven and needs no more handshakes with all others.
    fn has_met_all(&self) -> bool;
}

/// Process of a replica.
pub(crate) trait ReplicaProcess: Process {
    fn report(&self) -> Report;

    /// Return whether its start is durable.
    fn has_begun(&self) -> bool;

    /// Return whether its state is trusted.
    fn is_proven(&self) -> bool;

    /// Return whether it remembers a newer state of a peer than that which the peer announces.
    fn remembers_newer_state(&self, peer: u8, standing: MemberClaim) -> bool;

    /// Operation that its state machine has executed last, if it is known at any time.
    fn executed(&self) -> Option<u64>;

    /// Number of requests without an answer.
    fn waiting(&self) -> usize;
}

impl Group {
    /// Prepare a run. Fails if the state machines do not start.
    pub(crate) fn new(scenario: &Scenario, machines: Machines) -> Result<Self, Violation> {
        let workload = &scenario.options.workload;
        let clients = 0..workload.clients;
        Ok(Self {
            reference: Reference::new(&machines)?,
            clients: clients
                .map(|index| Client::new(index, workload.requests))
                .collect(),
            machines,
            canon: CanonicalHistory::default(),
            history: History::default(),
            undetected_rollback: None,
        })
    }
}

impl<K: Replicated> Cluster<K> {
    /// Wake a client, or deliver a response to it.
    pub(super) fn client(&mut self, index: u8, response: Option<ClientResponse>) {
        let (mut refused, mut failed) = (Vec::new(), None);
        let mut context = ClientContext {
            now_ns: self.schedule.now_ns(),
            fates: &self.fates,
            options: &self.scenario.options.workload,
            mixed_releases: self.scenario.options.old_releases != 0,
            cluster: self.kind.cluster_id(),
            replicas: self.scenario.options.replicas,
            history: &mut self.group.history,
            refused: &mut refused,
            machines: &self.group.machines,
            failed: &mut failed,
        };
        let client = &mut self.group.clients[usize::from(index)];
        let actions = match response {
            Some(response) => client.handle_response(&mut context, response),
            None => client.wake(&mut context),
        };
        if let Some(violation) = failed {
            self.fail(index + FIRST_CLIENT, violation);
        }
        for id in refused {
            self.tally.add("commands refused");
            let result = self.group.canon.refused(id);
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
