//! The other replicas: a connection to each, on which we send, and one from each, on which we receive.
//!
//! Nothing here waits. Frames for a peer that cannot be reached are dropped: the protocol sends again what matters,
//! and an old frame is worth nothing. What arrives was cut and verified by [`Intake`].

pub mod handshake;
mod incoming;
mod outgoing;
mod stream;
mod tls;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::AsFd,
};

use headrace_model::Level;
use headrace_vsr::frame::{Frame, Intake};
use ring::hmac;
use rustix::event::{PollFd, PollFlags};

pub(crate) use self::{
    handshake::{CLUSTER_NAME_BYTES_MAX, Standing},
    outgoing::Dialled,
};
use self::{
    handshake::{Identity, NONCE_BYTES},
    incoming::Incoming,
    outgoing::Outgoing,
    tls::Tls,
};
use crate::{config::ReplicaConfig, errors::StartError, status::PeerStatus};

/// Connections that have not shown yet who they are.
const STRANGERS_MAX: usize = 32;

/// What the connections have to tell.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all of them are frames, which are moved once"
)]
pub(crate) enum PeerEvent {
    /// A frame of that peer.
    Frame(Frame),
    /// A handshake is over: where the peer stands, as it says.
    Met {
        /// The peer.
        peer: u8,
        /// Where it stands.
        standing: Standing,
        /// By us.
        dialled: bool,
    },
    /// Worth a log line.
    Log(Level, String),
}

/// Which descriptor of a turn is whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Listener,
    Outgoing(usize),
    /// By the number of the connection.
    Incoming(u64),
}

#[derive(Debug)]
pub(crate) struct Peers {
    identity: Identity,
    tls: Option<Tls>,
    intake: Intake,
    listener: TcpListener,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    accepted: u64,
    refused: u64,
    last_refusal: String,
}

impl Peers {
    /// Listen. `dialled` brings what the dialling threads have reached back to the thread that owns this.
    pub(crate) fn open(
        config: &ReplicaConfig,
        intake: Intake,
        dialled: &(impl Fn(Dialled) + Clone + Send + 'static),
    ) -> Result<Self, StartError> {
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        let own = usize::from(config.replica);
        let address = config.listen.as_ref().unwrap_or(&config.replicas[own]);
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| StartError::Address {
                address: address.clone(),
                source,
            })?;
        let outgoing = (0_u8..)
            .zip(&config.replicas)
            .filter(|&(peer, _)| peer != config.replica)
            .map(|(peer, address)| Outgoing::new(peer, address.clone(), dialled.clone()))
            .collect();
        Ok(Self {
            identity: Identity {
                standing: Standing::default(),
                cluster: config.cluster_id(),
                cluster_name: config.cluster.clone(),
                replica: config.replica,
                replicas: u8::try_from(config.replicas.len()).expect("at most five"),
                release: config.release()?,
                key: hmac::Key::new(hmac::HMAC_SHA256, config.secret.as_bytes()),
            },
            tls,
            intake,
            listener,
            outgoing,
            incoming: Vec::new(),
            accepted: 0,
            refused: 0,
            last_refusal: String::new(),
        })
    }

    /// Where the peers reach us.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What to wait for.
    pub(crate) fn descriptors<'a>(&'a self, into: &mut Vec<(Place, PollFd<'a>)>) {
        into.push((
            Place::Listener,
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ));
        for (index, outgoing) in self.outgoing.iter().enumerate() {
            if let Some(descriptor) = outgoing.descriptor() {
                into.push((Place::Outgoing(index), descriptor));
            }
        }
        for incoming in &self.incoming {
            into.push((Place::Incoming(incoming.number), incoming.descriptor()));
        }
    }

    /// A descriptor has become ready.
    pub(crate) fn ready(&mut self, place: Place, now_ns: u64, out: &mut Vec<PeerEvent>) {
        match place {
            Place::Listener => self.accept(now_ns, out),
            Place::Outgoing(index) => self.outgoing[index].ready(&self.identity, now_ns, out),
            Place::Incoming(number) => self.receive(number, out),
        }
    }

    /// Dial whoever is due and hang up on those who take too long.
    pub(crate) fn tick(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        for outgoing in &mut self.outgoing {
            outgoing.tick(now_ns, out);
        }
        self.incoming.retain(|incoming| !incoming.is_late(now_ns));
    }

    /// A dialling thread came back.
    pub(crate) fn dialled(&mut self, dialled: Dialled, now_ns: u64, out: &mut Vec<PeerEvent>) {
        let tls = self.tls.as_ref();
        if let Some(outgoing) = self
            .outgoing
            .iter_mut()
            .find(|to| to.peer() == dialled.peer)
        {
            outgoing.dialled(dialled.socket, &self.identity, tls, now_ns, out);
        }
    }

    /// Queue a frame; [`flush`](Self::flush) sends what the turn has queued.
    pub(crate) fn send(&mut self, to: u8, frame: &Frame) {
        if let Some(outgoing) = self.outgoing.iter_mut().find(|peer| peer.peer() == to) {
            outgoing.queue(frame);
        }
    }

    /// Send what is queued, as far as the sockets take it.
    pub(crate) fn flush(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        for outgoing in &mut self.outgoing {
            outgoing.flush(now_ns, out);
        }
    }

    /// What handshakes say from now on.
    pub(crate) fn stand(&mut self, standing: Standing) {
        self.identity.standing = standing;
    }

    /// Dial a peer again, to hear where it stands now.
    pub(crate) fn ask_again(&mut self, peer: u8, now_ns: u64) {
        if let Some(outgoing) = self.outgoing.iter_mut().find(|to| to.peer() == peer) {
            outgoing.ask_again(now_ns);
        }
    }

    /// Whether some frames still wait for their sockets.
    pub(crate) fn has_unsent(&self) -> bool {
        self.outgoing.iter().any(Outgoing::has_unsent)
    }

    /// The connections, for people.
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

    /// Connections and frames that were turned away.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    fn accept(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        loop {
            // Out of descriptors, or the caller is gone already: the next turn tries again.
            let Ok((socket, _)) = self.listener.accept() else {
                return;
            };
            let strangers = self.incoming.iter().filter(|from| from.peer().is_none());
            if strangers.count() >= STRANGERS_MAX {
                self.refuse(
                    "too many connections that do not say who they are".to_owned(),
                    out,
                );
                continue;
            }
            self.accepted += 1;
            let incoming = nonce().and_then(|nonce| {
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
            // The peer has dialled again: its earlier connection is dead, even if nobody has told us yet.
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

fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    let mut filled = 0;
    while filled < NONCE_BYTES {
        filled +=
            rustix::rand::getrandom(&mut nonce[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(nonce)
}
