//! Connection dialled by a peer, on which frames are received.

use std::io::ErrorKind;

use headrace_buffer::Slice;
use headrace_vsr::frame::{HEADER_BYTES, Intake};
use rustix::event::{PollFd, PollFlags};

use super::{
    PeerEvent,
    handshake::{Handshake, Identity, NONCE_BYTES, Progress},
    stream::{IoProgress, Socket, Stream},
    tls::Tls,
};

/// Time within which a handshake must complete before the connection is closed.
const HANDSHAKE_NS_MAX: u64 = 5_000_000_000;
/// Maximum capacity of the receive buffer of an idle connection.
const IDLE_BUFFER_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
enum ConnectionPhase {
    Unauthenticated(Handshake),
    Peer(u8),
}

#[derive(Debug)]
pub(super) struct Incoming {
    /// Unique number of the connection, never reused.
    pub(super) number: u64,
    stream: Stream,
    side: ConnectionPhase,
    deadline_ns: u64,
    received: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(
        number: u64,
        socket: Socket,
        tls: Option<&Tls>,
        nonce: [u8; NONCE_BYTES],
        now_ns: u64,
    ) -> std::io::Result<Self> {
        Ok(Self {
            number,
            stream: Stream::accepted(socket, tls)?,
            side: ConnectionPhase::Unauthenticated(Handshake::accept(nonce)),
            deadline_ns: now_ns + HANDSHAKE_NS_MAX,
            received: Vec::new(),
        })
    }

    /// Index of the peer, once authenticated.
    pub(super) fn peer(&self) -> Option<u8> {
        match self.side {
            ConnectionPhase::Unauthenticated(_) => None,
            ConnectionPhase::Peer(peer) => Some(peer),
        }
    }

    pub(super) fn handshake_timed_out(&self, now_ns: u64) -> bool {
        self.peer().is_none() && now_ns >= self.deadline_ns
    }

    pub(super) fn descriptor(&self) -> Option<PollFd<'_>> {
        let mut interest = PollFlags::IN;
        if self.stream.wants_write() {
            interest |= PollFlags::OUT;
        }
        let descriptor = self.stream.descriptor()?;
        Some(PollFd::from_borrowed_fd(descriptor, interest))
    }

    /// Read the received bytes. `Err`: the connection is closed, with a reason if this replica refused the peer.
    pub(super) fn read(
        &mut self,
        us: &Identity,
        intake: Intake,
        out: &mut Vec<PeerEvent>,
    ) -> Result<(), Option<String>> {
        let _ = self.stream.flush();
        loop {
            let flow = self.stream.read(&mut self.received);
            self.digest(us, intake, out)?;
            match flow {
                Ok(IoProgress::Paused) => return Ok(()),
                Ok(IoProgress::More) => {}
                // Errors of TLS and of this replica's checks are logged; the end of a connection is not.
                Err(error) if error.kind() == ErrorKind::Other => {
                    return Err(Some(error.to_string()));
                }
                Err(_) => return Err(None),
            }
        }
    }

    fn digest(
        &mut self,
        us: &Identity,
        intake: Intake,
        out: &mut Vec<PeerEvent>,
    ) -> Result<(), Option<String>> {
        if let ConnectionPhase::Unauthenticated(handshake) = &mut self.side {
            let mut answer = Vec::new();
            let progress = handshake.advance(us, &mut self.received, &mut answer);
            // The answer has a few hundred bytes, which fit an empty socket buffer; a full one belongs to no replica.
            if self.stream.write(&answer).ok() != Some(answer.len()) {
                return Err(Some("it does not take our answer".to_owned()));
            }
            match progress {
                Progress::Wait => return Ok(()),
                Progress::Refuse(why) | Progress::LocalStateOutdated(why) => return Err(Some(why)),
                Progress::Done { peer, claim } => {
                    self.side = ConnectionPhase::Peer(peer);
                    out.push(PeerEvent::HandshakeCompleted {
                        peer,
                        claim,
                        dialled: false,
                    });
                }
            }
        }
        self.frames(intake, out)
    }

    fn frames(&mut self, intake: Intake, out: &mut Vec<PeerEvent>) -> Result<(), Option<String>> {
        let mut rest = self.received.as_slice();
        while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
            let size = intake
                .frame_size(header)
                .map_err(|reject| Some(format!("it sent no frame of ours: {reject}")))?
                as usize;
            let Some(bytes) = rest.get(..size) else {
                break;
            };
            let frame = intake
                .decode(&Slice::from_vec(bytes.to_vec()))
                .map_err(|reject| Some(format!("it sent a damaged frame: {reject}")))?;
            out.push(PeerEvent::Frame(frame));
            rest = &rest[size..];
        }
        let used = self.received.len() - rest.len();
        self.received.drain(..used);
        if self.received.is_empty() && self.received.capacity() > IDLE_BUFFER_BYTES_MAX {
            self.received = Vec::new();
        }
        Ok(())
    }
}
