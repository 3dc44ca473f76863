//! Connection dialled to one peer, on which frames are sent.

use std::{
    fmt,
    io::{self, ErrorKind},
    net::{TcpStream, ToSocketAddrs},
    thread,
    time::Duration,
};

use headrace_model::Level;
use headrace_vsr::frame::{Frame, HEADER_BYTES};
use rustix::event::{PollFd, PollFlags};

use super::{
    PeerEvent,
    handshake::{Handshake, Identity, NONCE_BYTES, Progress},
    stream::{IoProgress, Socket, Stream},
    tls::Tls,
};
use crate::status::PeerStatus;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const HANDSHAKE_NS_MAX: u64 = 5_000_000_000;
const RETRY_NS_MIN: u64 = 20_000_000;
const RETRY_NS_MAX: u64 = 1_000_000_000;
/// Interval between attempts after a refusal, which an operator must resolve by changing a setting.
const RETRY_REFUSED_NS: u64 = 2_000_000_000;
/// Time without acknowledgement of sent bytes after which a peer is dialled again.
const UNACKNOWLEDGED_MS_MAX: u32 = 5_000;
/// Maximum number of queued bytes. A stalled peer gets the newest state after it recovers anyway.
const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Result of a dialling thread.
#[derive(Debug)]
pub(crate) struct DialResult {
    pub(super) peer: u8,
    pub(super) socket: io::Result<Socket>,
}

enum State {
    /// Disconnected; the next attempt is at `until_ns`.
    Idle { until_ns: u64 },
    /// Name resolution and connection in progress on a separate thread: both may block.
    Dialling,
    /// Handshake in progress.
    Handshaking {
        stream: Stream,
        handshake: Handshake,
        deadline_ns: u64,
        received: Vec<u8>,
    },
    /// Open for frames.
    Open(Stream),
}

pub(super) struct Outgoing {
    peer: u8,
    address: String,
    state: State,
    dial: Box<dyn Fn() + Send>,
    queued: Vec<u8>,
    sent: usize,
    retry_ns: u64,
    last_failure: String,
    connects: u64,
    dropped_frames: u64,
    sent_bytes: u64,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Outgoing")
            .field("peer", &self.peer)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Outgoing {
    pub(super) fn new(peer: u8, address: String, dial: impl Fn() + Send + 'static) -> Self {
        Self {
            peer,
            address,
            state: State::Idle { until_ns: 0 },
            dial: Box::new(dial),
            queued: Vec::new(),
            sent: 0,
            retry_ns: RETRY_NS_MIN,
            last_failure: String::new(),
            connects: 0,
            dropped_frames: 0,
            sent_bytes: 0,
        }
    }

    pub(super) fn peer(&self) -> u8 {
        self.peer
    }

    pub(super) fn has_unsent(&self) -> bool {
        matches!(self.state, State::Open(_)) && self.sent < self.queued.len()
    }

    pub(super) fn status(&self) -> PeerStatus {
        PeerStatus {
            replica: self.peer,
            address: self.address.clone(),
            sending: matches!(self.state, State::Open(_)),
            connects: self.connects,
            sent_bytes: self.sent_bytes,
            queued_bytes: (self.queued.len() - self.sent) as u64,
            dropped_frames: self.dropped_frames,
            last_failure: self.last_failure.clone(),
            ..PeerStatus::default()
        }
    }

    pub(super) fn descriptor(&self) -> Option<PollFd<'_>> {
        let (stream, queued) = match &self.state {
            State::Idle { .. } | State::Dialling => return None,
            State::Handshaking { stream, .. } => (stream, false),
            State::Open(stream) => (stream, self.sent < self.queued.len()),
        };
        let mut interest = PollFlags::IN;
        if queued || stream.wants_write() {
            interest |= PollFlags::OUT;
        }
        Some(PollFd::from_borrowed_fd(stream.descriptor()?, interest))
    }

    pub(super) fn tick(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        match self.state {
            State::Idle { until_ns } if now_ns >= until_ns => {
                self.state = State::Dialling;
                (self.dial)();
            }
            State::Handshaking { deadline_ns, .. } if now_ns >= deadline_ns => {
                self.fail("it does not answer the handshake".to_owned(), now_ns, out);
            }
            _ => {}
        }
    }

    pub(super) fn dialled(
        &mut self,
        socket: io::Result<(Socket, [u8; NONCE_BYTES])>,
        us: &Identity,
        tls: Option<&Tls>,
        now_ns: u64,
        out: &mut Vec<PeerEvent>,
    ) {
        match socket.and_then(|socket| self.greet(socket, us, tls, now_ns)) {
            Ok(state) => self.state = state,
            Err(error) => self.fail(error.to_string(), now_ns, out),
        }
    }

    fn greet(
        &self,
        (socket, nonce): (Socket, [u8; NONCE_BYTES]),
        us: &Identity,
        tls: Option<&Tls>,
        now_ns: u64,
    ) -> io::Result<State> {
        let mut stream = Stream::dialled(socket, tls, &self.address)?;
        let mut hello = Vec::new();
        let handshake = Handshake::dial(us, self.peer, nonce, &mut hello);
        send_all(&mut stream, &hello)?;
        Ok(State::Handshaking {
            stream,
            handshake,
            deadline_ns: now_ns + HANDSHAKE_NS_MAX,
            received: Vec::new(),
        })
    }

    pub(super) fn ready(&mut self, us: &Identity, now_ns: u64, out: &mut Vec<PeerEvent>) {
        match &mut self.state {
            State::Idle { .. } | State::Dialling => {}
            State::Handshaking {
                stream,
                handshake,
                received,
                ..
            } => {
                let mut answer = Vec::new();
                let read = stream.flush().and_then(|()| stream.read(received));
                let progress = handshake.advance(us, received, &mut answer);
                let sent = send_all(stream, &answer);
                match (progress, read.and(sent)) {
                    (Progress::Refuse(why), _) => {
                        self.fail(why, now_ns, out);
                        self.state = State::Idle {
                            until_ns: now_ns + RETRY_REFUSED_NS,
                        };
                    }
                    (Progress::LocalStateOutdated(why), _) => {
                        self.fail(why.clone(), now_ns, out);
                        out.push(PeerEvent::LocalStateOutdated(why));
                    }
                    (Progress::Done { peer, claim }, Ok(())) => {
                        out.push(PeerEvent::HandshakeCompleted {
                            peer,
                            claim,
                            dialled: true,
                        });
                        self.opened(out);
                    }
                    (Progress::Wait, Ok(())) => {}
                    (_, Err(error)) => self.fail(describe(&error), now_ns, out),
                }
            }
            State::Open(stream) => {
                // The peer never sends on this connection: any readable data or event means its end.
                let mut nothing = Vec::new();
                match stream.read(&mut nothing) {
                    Ok(IoProgress::Paused) if nothing.is_empty() => self.flush(now_ns, out),
                    Ok(_) => self.fail("it speaks out of turn".to_owned(), now_ns, out),
                    Err(error) => self.fail(describe(&error), now_ns, out),
                }
            }
        }
    }

    fn opened(&mut self, out: &mut Vec<PeerEvent>) {
        let State::Handshaking { stream, .. } =
            std::mem::replace(&mut self.state, State::Idle { until_ns: 0 })
        else {
            return;
        };
        self.state = State::Open(stream);
        self.retry_ns = RETRY_NS_MIN;
        self.last_failure.clear();
        self.connects += 1;
        out.push(PeerEvent::Log(
            Level::Info,
            format!(
                "connected to metadata replica {} at {}",
                self.peer, self.address
            ),
        ));
    }

    /// Dial again, to learn the peer's current claim.
    pub(super) fn ask_again(&mut self, now_ns: u64) {
        if matches!(self.state, State::Open(_)) && self.sent == self.queued.len() {
            self.state = State::Idle { until_ns: now_ns };
        }
    }

    /// Queue a frame if the connection is open.
    pub(super) fn queue(&mut self, frame: &Frame) {
        let bytes = HEADER_BYTES + frame.body.len();
        if !matches!(self.state, State::Open(_))
            || self.queued.len() - self.sent + bytes > QUEUE_BYTES_MAX
        {
            self.dropped_frames += 1;
            return;
        }
        frame.encode_to(&mut self.queued);
    }

    pub(super) fn flush(&mut self, now_ns: u64, out: &mut Vec<PeerEvent>) {
        let State::Open(stream) = &mut self.state else {
            return;
        };
        let result = loop {
            if self.sent == self.queued.len() {
                break stream.flush();
            }
            match stream.write(&self.queued[self.sent..]) {
                Ok(0) => break Ok(()),
                Ok(taken) => {
                    self.sent += taken;
                    self.sent_bytes += taken as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        if self.sent == self.queued.len() {
            self.queued.clear();
            self.sent = 0;
        } else if self.sent > QUEUE_BYTES_MAX / 4 {
            self.queued.drain(..self.sent);
            self.sent = 0;
        }
        if let Err(error) = result {
            self.fail(describe(&error), now_ns, out);
        }
    }

    fn fail(&mut self, why: String, now_ns: u64, out: &mut Vec<PeerEvent>) {
        let was_open = matches!(self.state, State::Open(_));
        self.state = State::Idle {
            until_ns: now_ns + self.retry_ns,
        };
        self.retry_ns = (self.retry_ns * 2).min(RETRY_NS_MAX);
        self.queued = Vec::new();
        self.sent = 0;
        // Log one line per change, not per attempt.
        if was_open || why != self.last_failure {
            out.push(PeerEvent::Log(
                Level::Warning,
                format!(
                    "no connection to metadata replica {} at {}: {why}",
                    self.peer, self.address
                ),
            ));
        }
        self.last_failure = why;
    }
}

fn send_all(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    // The message has a few hundred bytes, which fit the buffer of a new connection.
    if bytes.is_empty() || stream.write(bytes)? == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::other("it does not take the handshake"))
    }
}

fn describe(error: &io::Error) -> String {
    if error.kind() == ErrorKind::UnexpectedEof {
        "it closed the connection".to_owned()
    } else {
        error.to_string()
    }
}

/// Dial a peer on a separate thread.
pub(super) fn dial(
    peer: u8,
    address: &str,
    dialled: &(impl Fn(DialResult) + Clone + Send + 'static),
) {
    let (address, give_back) = (address.to_owned(), dialled.clone());
    let work = move || {
        let socket = connect(&address).map(Socket::Tcp);
        give_back(DialResult { peer, socket });
    };
    if let Err(error) = thread::Builder::new()
        .name("metadata-dial".to_owned())
        .spawn(work)
    {
        dialled(DialResult {
            peer,
            socket: Err(error),
        });
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(ErrorKind::AddrNotAvailable);
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT) {
            Ok(socket) => {
                rustix::net::sockopt::set_tcp_user_timeout(&socket, UNACKNOWLEDGED_MS_MAX)?;
                return Ok(socket);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
