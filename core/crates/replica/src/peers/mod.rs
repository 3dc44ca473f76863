//! Connections to peers: one dialled to each, for sending, and one accepted from each, for receiving.
//!
//! No operation blocks. Frames for an unreachable peer are dropped: the protocol retransmits what matters, and an old
//! frame is worthless. Received frames are delimited and verified by [`Intake`].

pub mod handshake;
mod incoming;
mod outgoing;
mod stream;
mod tls;

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener},
    os::fd::AsFd,
    sync::Arc,
};

use headrace_model::Level;
use headrace_vsr::{
    frame::{Area, Frame, Intake, Release},
    trust::{MemberClaim, PeerMemory, StateRolledBack},
};
use rustix::event::{PollFd, PollFlags};

pub(crate) use self::{
    handshake::CLUSTER_NAME_BYTES_MAX,
    outgoing::DialResult,
    tls::{CertificateFiles, Tls},
};
use self::{
    handshake::{Identity, Keys, NONCE_BYTES},
    incoming::Incoming,
    outgoing::{Outgoing, dial},
    stream::Socket,
};
use crate::{
    config::ReplicaConfig,
    errors::StartError,
    status::PeerStatus,
    surroundings::{Connection, Environment, Machine, Network},
};

/// Maximum number of unauthenticated connections.
const UNAUTHENTICATED_MAX: usize = 32;
/// Time until another attempt after connections could not be accepted, because no descriptor was free for example.
const ACCEPT_RETRY_NS: u64 = 100_000_000;

/// Event on a connection.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all of them are frames, which are moved once"
)]
pub(crate) enum PeerEvent {
    /// Frame received from the peer.
    Frame(Frame),
    /// Handshake completed, with the claim that the peer reports.
    HandshakeCompleted {
        /// Index of the peer.
        peer: u8,
        /// Claim of the peer.
        claim: MemberClaim,
        /// True if this replica dialled.
        dialled: bool,
    },
    /// A peer remembers a newer state of this replica than its data directory has.
    LocalStateOutdated(String),
    /// Log line with its level.
    Log(Level, String),
}

/// Owner of a descriptor in the poll set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DescriptorOwner {
    Listener,
    Outgoing(usize),
    /// Accepted connection, by its number.
    Incoming(u64),
}

/// Source of accepted connections.
#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Network(Arc<dyn Network>),
}

impl Listener {
    fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(socket, _)| Socket::Tcp(socket)),
            Self::Network(network) => network.accept().map(Socket::Network),
        }
    }
}

impl DialResult {
    /// Outcome of an attempt to dial a peer through a [`Network`].
    pub(crate) fn given(peer: u8, connection: io::Result<Box<dyn Connection>>) -> Self {
        let socket = connection.map(Socket::Network);
        Self { peer, socket }
    }
}

#[derive(Debug)]
pub(crate) struct Peers {
    identity: Identity,
    tls: Option<Tls>,
    intake: Intake,
    listener: Listener,
    machine: Arc<dyn Machine>,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    accepted: u64,
    /// Time of the next attempt to accept. Until then the listener is not waited for: it would be ready all the time.
    accept_at_ns: Option<u64>,
    refused: u64,
    last_refusal: String,
}

impl Peers {
    /// Open the listener. `dialled` passes the results of dialling threads back to the thread that owns this value.
    pub(crate) fn open(
        config: &ReplicaConfig,
        intake: Intake,
        surroundings: &Environment,
        dialled: &(impl Fn(DialResult) + Clone + Send + 'static),
    ) -> Result<Self, StartError> {
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        let own = usize::from(config.replica);
        let address = config.listen.as_ref().unwrap_or(&config.replicas[own]);
        let listener = match &surroundings.network {
            Some(network) => Listener::Network(Arc::clone(network)),
            None => listen(address)?,
        };
        let outgoing = (0_u8..)
            .zip(&config.replicas)
            .filter(|&(peer, _)| peer != config.replica && !config.given_up.contains(&peer))
            .map(|(peer, address)| {
                let (target, dialled) = (address.clone(), dialled.clone());
                let network = surroundings.network.clone();
                Outgoing::new(peer, address.clone(), move || match &network {
                    Some(network) => network.dial(peer),
                    None => dial(peer, &target, &dialled),
                })
            })
            .collect();
        Ok(Self {
            identity: Identity {
                claim: MemberClaim::default(),
                cluster: config.cluster_id(),
                cluster_name: config.cluster.clone(),
                replica: config.replica,
                given_up: config.given_up.clone(),
                replicas: u8::try_from(config.replicas.len()).expect("at most five"),
                release: config.release()?,
                in_force: Release::FIRST,
                memory: PeerMemory::default(),
                keys: Keys::derive(&config.secret, &config.accepted_secret, &config.cluster),
            },
            tls,
            intake,
            listener,
            machine: Arc::clone(&surroundings.machine),
            outgoing,
            incoming: Vec::new(),
            accepted: 0,
            accept_at_ns: None,
            refused: 0,
            last_refusal: String::new(),
        })
    }

    /// Use these certificates for new connections.
    pub(crate) fn set_tls(&mut self, tls: Tls) {
        if self.tls.is_some() {
            self.tls = Some(tls);
        }
    }

    /// Address of the listener for peers.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().map(Some),
            Listener::Network(_) => Ok(None),
        }
    }

    /// Append the descriptors to wait for.
    pub(crate) fn descriptors<'a>(&'a self, into: &mut Vec<(DescriptorOwner, PollFd<'a>)>) {
        if let Listener::Tcp(listener) = &self.listener
            && self.accept_at_ns.is_none()
        {
            into.push((
                DescriptorOwner::Listener,
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            ));
        }
        for (index, outgoing) in self.outgoing.iter().enumerate() {
            if let Some(descriptor) = outgoing.descriptor() {
                into.push((DescriptorOwner::Outgoing(index), descriptor));
            }
        }
        for incoming in &self.incoming {
            if let Some(descriptor) = incoming.descriptor() {
                into.push((DescriptorOwner::Incoming(incoming.number), descriptor));
            }
        }
    }

    /// Process all connections, as any of them may have become ready.
    pub(crate) fn all_ready(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        self.ready(DescriptorOwner::Listener, now_ns, out);
        for index in 0..self.outgoing.len() {
            self.ready(DescriptorOwner::Outgoing(index), now_ns, out);
        }
        let numbers: Vec<u64> = self.incoming.iter().map(|from| from.number).collect();
        for number in numbers {
            self.ready(DescriptorOwner::Incoming(number), now_ns, out);
        }
    }

    /// Process a descriptor that has become ready.
    pub(crate) fn ready(&mut self, place: DescriptorOwner, now_ns: u64, out: &mut Vec<PeerEvent>) {
        match place {
            DescriptorOwner::Listener => self.accept(now_ns, out),
            DescriptorOwner::Outgoing(index) => {
                self.outgoing[index].ready(&self.identity, now_ns, out);
            }
            DescriptorOwner::Incoming(number) => self.receive(number, out),
        }
    }

    /// Dial the peers that are due, close connections whose handshake has timed out, and accept again after a failure.
    pub(crate) fn tick(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        for outgoing in &mut self.outgoing {
            outgoing.tick(now_ns, out);
        }
        self.incoming
            .retain(|incoming| !incoming.handshake_timed_out(now_ns));
        if self.accept_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.accept(now_ns, out);
        }
    }

    /// Process the result of a dialling thread.
    pub(crate) fn dialled(&mut self, dialled: DialResult, now_ns: u64, out: &mut Vec<PeerEvent>) {
        let tls = self.tls.as_ref();
        let socket = dialled
            .socket
            .and_then(|socket| Ok((socket, nonce(&*self.machine)?)));
        if let Some(outgoing) = self
            .outgoing
            .iter_mut()
            .find(|to| to.peer() == dialled.peer)
        {
            outgoing.dialled(socket, &self.identity, tls, now_ns, out);
        }
    }

    /// Queue a frame; [`flush`](Self::flush) sends the queued frames of a turn.
    pub(crate) fn send(&mut self, to: u8, frame: &Frame) {
        if let Some(outgoing) = self.outgoing.iter_mut().find(|peer| peer.peer() == to) {
            outgoing.queue(frame);
        }
    }

    /// Send queued frames, as far as the sockets accept them.
    pub(crate) fn flush(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        for outgoing in &mut self.outgoing {
            outgoing.flush(now_ns, out);
        }
    }

    /// Set the claim and the release in force for future handshakes.
    pub(crate) fn set_claim(&mut self, claim: MemberClaim, in_force: Release) {
        (self.identity.claim, self.identity.in_force) = (claim, in_force);
    }

    /// Record a completed handshake. Fails if the peer has lost state that this replica remembers.
    pub(crate) fn on_handshake(
        &mut self,
        peer: u8,
        claim: MemberClaim,
    ) -> Result<(), StateRolledBack> {
        let memory = &mut self.identity.memory;
        memory.check(peer, claim)?;
        memory.on_handshake(peer, claim);
        Ok(())
    }

    /// Return whether a peer with this claim has lost state that this replica remembers.
    pub(crate) fn remembers_newer_state(&self, peer: u8, claim: MemberClaim) -> bool {
        self.identity.memory.check(peer, claim).is_err()
    }

    /// Remember the acknowledgement of a peer: see [`Memory`].
    pub(crate) fn remember(&mut self, frame: &Frame) {
        let header = &frame.header;
        if let Area::PrepareOk(area) = &header.area
            // Committed operations are acknowledged even if they are not durable at the peer.
            && area.op > area.commit_max
        {
            let memory = &mut self.identity.memory;
            memory.acknowledged(header.replica, header.view, area.op);
        }
    }

    /// Dial a peer again, to learn its current claim.
    pub(crate) fn redial(&mut self, peer: u8, now_ns: u64) {
        if let Some(outgoing) = self.outgoing.iter_mut().find(|to| to.peer() == peer) {
            outgoing.ask_again(now_ns);
        }
    }

    /// Return whether some frames still wait for their sockets.
    pub(crate) fn has_unsent(&self) -> bool {
        self.outgoing.iter().any(Outgoing::has_unsent)
    }

    /// Status of the connections.
    pub(crate) fn status(&self) -> Vec<PeerStatus> {
        self.outgoing
            .iter()
            .map(|outgoing| {
                let mut status = outgoing.status();
                status.receiving = self
                    .incoming
                    .iter()
                    .any(|incoming| incoming.peer() == Some(status.replica));
                status.connected = status.sending && status.receiving;
                status
            })
            .collect()
    }

    /// Number of refused connections and frames.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    fn accept(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        loop {
            let socket = match self.listener.accept() {
                Ok(socket) => socket,
                Err(error) => {
                    let is_passing = matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::Interrupted
                            | ErrorKind::ConnectionAborted
                    );
                    self.accept_at_ns = (!is_passing).then(|| now_ns + ACCEPT_RETRY_NS);
                    return;
                }
            };
            let unauthenticated = self.incoming.iter().filter(|from| from.peer().is_none());
            if unauthenticated.count() >= UNAUTHENTICATED_MAX {
                self.refuse(
                    "too many connections that do not say who they are".to_owned(),
                    out,
                );
                continue;
            }
            self.accepted += 1;
            let incoming = nonce(&*self.machine).and_then(|nonce| {
                Incoming::new(self.accepted, socket, self.tls.as_ref(), nonce, now_ns)
            });
            match incoming {
                Ok(incoming) => self.incoming.push(incoming),
                Err(error) => self.refuse(error.to_string(), out),
            }
        }
    }

    fn receive(&mut self, number: u64, out: &mut Vec<PeerEvent>) {
        let Some(index) = self.incoming.iter().position(|from| from.number == number) else {
            return;
        };
        let incoming = &mut self.incoming[index];
        let was_known = incoming.peer().is_some();
        let result = incoming.read(&self.identity, self.intake, out);
        let peer = incoming.peer();
        if let Err(why) = result {
            self.incoming.swap_remove(index);
            if let Some(why) = why {
                self.refuse(why, out);
            }
            return;
        }
        if !was_known && peer.is_some() {
            // The peer has dialled again: its earlier connection is dead, even if no error was reported yet.
            self.incoming
                .retain(|from| from.number == number || from.peer() != peer);
        }
    }

    fn refuse(&mut self, why: String, out: &mut Vec<PeerEvent>) {
        self.refused += 1;
        if why == self.last_refusal {
            return;
        }
        out.push(PeerEvent::Log(
            Level::Warning,
            format!("a connection to the metadata replica was refused: {why}"),
        ));
        self.last_refusal = why;
    }
}

fn listen(address: &str) -> Result<Listener, StartError> {
    TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map(Listener::Tcp)
        .map_err(|source| StartError::Address {
            address: address.to_owned(),
            source,
        })
}

fn nonce(machine: &dyn Machine) -> io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    machine.random(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;
    use crate::opening::system_environment;

    /// A thread that is out of descriptors must not use all of a processor.
    #[test]
    fn a_listener_that_cannot_accept_is_left_alone_for_a_while() {
        let config: ReplicaConfig = serde_json::from_value(serde_json::json!({
            "directory": "unused", "cluster": "c", "replica": 0, "secret": "s".repeat(32),
            "replicas": ["127.0.0.1:0", "one:1", "two:2"], "given_up": [1, 2],
        }))
        .unwrap();
        let intake = Intake {
            cluster: config.cluster_id(),
            message_size_max: 1 << 20,
        };
        let mut peers = Peers::open(&config, intake, &system_environment(), &|_| {}).unwrap();
        let waits = |peers: &Peers| {
            let mut places = Vec::new();
            peers.descriptors(&mut places);
            !places.is_empty()
        };
        let mut out = Vec::new();
        peers.ready(DescriptorOwner::Listener, 0, &mut out);
        assert!(waits(&peers));

        // A socket that does not listen fails every time.
        let failing = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let failing = Listener::Tcp(TcpListener::from(failing));
        let working = std::mem::replace(&mut peers.listener, failing);
        peers.ready(DescriptorOwner::Listener, 0, &mut out);
        assert!(!waits(&peers));
        peers.tick(ACCEPT_RETRY_NS, &mut out);
        assert!(!waits(&peers));
        peers.listener = working;
        peers.tick(2 * ACCEPT_RETRY_NS - 1, &mut out);
        assert!(!waits(&peers));
        peers.tick(2 * ACCEPT_RETRY_NS, &mut out);
        assert!(waits(&peers));
    }
}
