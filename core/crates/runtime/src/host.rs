//! The event loop of one shard thread: completions in, effects out.

mod connecting;
mod removing;
mod reporting;

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use headrace_model::{Level, Namespace, ShardId, Timestamp};
use headrace_proto::control::v1 as control;
use headrace_shard::{Arrival, ConnectionKey, Effect, Input, Mail, MovedConnection, Origin, Shard};

use crate::{
    bridge::ControlBridge,
    clock::Clock,
    connector::Connector,
    driver::{Completion, Driver, Operation, Outcome},
    events::Events,
    listener::Listener,
    mailbox::{Receiver, Sender},
    memory::giving_back::GivingBack,
    metrics::gauges::ShardGauges,
    sockets::Sockets,
    storage::Storage,
    token::Token,
};

/// Interval of the partitions' timers.
const TICK: Duration = Duration::from_millis(100);
/// Interval of the timers while requests wait for memory or for another shard.
const TICK_BUSY: Duration = Duration::from_millis(5);
/// Maximum delay of the answer to a request that waits for messages.
const WAIT_STEP: Duration = Duration::from_millis(2);
/// Pause of accepting after running out of descriptors.
const ACCEPT_PAUSE_MICROS: u64 = 100_000;

/// Input of a shard from other threads.
#[derive(Debug)]
pub(crate) enum Message {
    /// Mail from another shard.
    Mail(Mail),
    /// A connection that another shard accepted, or that was opened in this process.
    Connection { socket: OwnedFd, arrival: Arrival },
    /// A connection that moves to the receiver, which owns the partitions that it uses.
    Moved {
        socket: OwnedFd,
        connection_state: MovedConnection,
    },
    /// The control plane's answer.
    ControlReply {
        origin: Origin,
        reply: Box<control::Reply>,
    },
    /// A newer catalog is published.
    CatalogChanged,
    /// Time up to which the newest catalog has all changes.
    StageHorizon(Timestamp),
    /// Accept connections on this listener.
    Listen(Listener),
    /// Shut down, first step: accept no new requests and answer all outstanding ones.
    Shutdown,
    /// Shut down, second step: close the connections that are left and the partitions, and end.
    ClosePartitions,
    /// Stop immediately.
    Abort,
}

/// Everything one shard thread owns.
pub(crate) struct Host {
    pub(crate) shard: Shard,
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) storage: Storage,
    pub(crate) mailbox: Receiver<Message>,
    /// Senders to all shards by shard number; the shard's own is not used.
    pub(crate) peers: Vec<Sender<Message>>,
    pub(crate) bridge: Arc<ControlBridge>,
    pub(crate) events: Events,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) connect_timeout: Duration,
    pub(crate) gauges: Arc<ShardGauges>,
    /// Set on exactly one shard of the process.
    pub(crate) giving_back: Option<GivingBack>,
    pub(crate) state: HostState,
}

/// Local state of the event loop.
#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about what is under way"
)]
pub(crate) struct HostState {
    clock: Clock,
    sockets: Sockets,
    inputs: VecDeque<Input>,
    effects: Vec<Effect>,
    listening: Vec<Listening>,
    next_shard: usize,
    /// Mail that did not fit the receiver's mailbox, by shard.
    overflow: Vec<VecDeque<Mail>>,
    congested: bool,
    stopping: bool,
    aborting: bool,
    failing: BTreeSet<Namespace>,
}

/// A listener and its pending accept.
struct Listening {
    listener: Listener,
    accepting: bool,
    again_at: Option<Timestamp>,
}

impl Host {
    /// Run until the shard has stopped.
    pub(crate) fn run(mut self) -> io::Result<()> {
        self.state
            .overflow
            .resize_with(self.peers.len(), VecDeque::new);
        self.state.inputs.push_back(Input::CatalogChanged);
        let mut completions = Vec::new();
        let mut last_tick = Instant::now();
        loop {
            let now = self.now();
            self.shard.begin_turn(now, &mut self.state.effects);
            self.take_mail();
            self.flush_overflow();
            self.end_waits();
            self.turn();
            if self.shard.is_drained() {
                self.gauges.set_drained();
            }
            let tick = self.tick_interval();
            if last_tick.elapsed() >= tick {
                last_tick = Instant::now();
                self.tick();
                self.turn();
            }
            if self.state.aborting || (self.shard.is_stopped() && self.state.sockets.is_quiet()) {
                break;
            }
            let wait = if self.state.inputs.is_empty() && !self.shard.awaits_turn() {
                tick.saturating_sub(last_tick.elapsed())
                    .min(self.until_next_deadline())
            } else {
                Duration::ZERO
            };
            self.driver.poll(Some(wait), &mut completions)?;
            for completion in completions.drain(..) {
                self.completed(completion);
            }
        }
        self.publish_gauges();
        Ok(())
    }

    fn now(&mut self) -> Timestamp {
        self.state.clock.now()
    }

    /// Answer requests whose wait for messages has expired.
    fn end_waits(&mut self) {
        if self.shard.next_deadline().is_some() {
            let now = self.now();
            self.shard.end_waits(now, &mut self.state.effects);
        }
    }

    /// Time until the next wait for messages expires. At least [`WAIT_STEP`], which bounds the rate of wake-ups for any
    /// number of deadlines.
    fn until_next_deadline(&mut self) -> Duration {
        let Some(deadline) = self.shard.next_deadline() else {
            return Duration::MAX;
        };
        let now = self.now();
        Duration::from_micros(deadline.0.saturating_sub(now.0)).max(WAIT_STEP)
    }

    fn tick_interval(&self) -> Duration {
        let pauses = |listening: &Listening| listening.again_at.is_some();
        let accepts_again = self.state.listening.iter().any(pauses);
        if self.state.congested || accepts_again || self.shard.is_starved() {
            TICK_BUSY
        } else {
            TICK
        }
    }

    /// Process all inputs, run one group commit, and repeat for the completions of inline writes.
    fn turn(&mut self) {
        loop {
            let now = self.now();
            while let Some(input) = self.state.inputs.pop_front() {
                self.shard.step(now, input, &mut self.state.effects);
            }
            self.shard.end_of_turn(now, &mut self.state.effects);
            if self.state.effects.is_empty() && self.state.inputs.is_empty() {
                break;
            }
            self.execute();
        }
    }

    fn execute(&mut self) {
        let mut effects = std::mem::take(&mut self.state.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Receive {
                    connection,
                    buffer,
                    start,
                    minimum,
                    quickack,
                } => {
                    if let Some(socket) = self.state.sockets.begin(connection) {
                        let operation = Operation::Receive {
                            socket,
                            buffer,
                            start,
                            minimum,
                            quickack,
                        };
                        self.driver
                            .submit(Token::Receive(connection).encode(), operation);
                    }
                }
                Effect::Send { connection, slices } => {
                    if let Some(socket) = self.state.sockets.begin(connection) {
                        let operation = Operation::Send { socket, slices };
                        self.driver
                            .submit(Token::Send(connection).encode(), operation);
                    }
                }
                Effect::Move {
                    connection,
                    to,
                    connection_state,
                } => {
                    self.move_connection(connection, to, connection_state);
                }
                Effect::Finish { connection } => {
                    if let Some(socket) = self.state.sockets.get(connection) {
                        // SAFETY: the table owns the descriptor and keeps it open during the call.
                        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
                        // Fails if the peer has disconnected; the end of the stream is received next.
                        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
                    }
                }
                Effect::Close { connection } => self.close(connection),
                Effect::Storage { namespace, request } => {
                    let inputs = &mut self.state.inputs;
                    self.storage.execute(
                        namespace,
                        request,
                        &mut *self.driver,
                        |namespace, completion| {
                            inputs.push_back(Input::Storage {
                                namespace,
                                completion,
                            });
                        },
                    );
                }
                Effect::ReleaseFiles { namespace } => self.storage.release(namespace),
                Effect::RemoveDirectory {
                    namespace,
                    incarnation,
                } => self.remove_directory(namespace, incarnation),
                Effect::Mail { to, mail } => self.send_mail(to, mail),
                Effect::Connect { link, address } => self.connect(link, address),
                Effect::Report { level, message } => self.events.push(level, message),
                Effect::Control { origin, request } => self.bridge.push(Some(origin), request),
                Effect::Notice { request } => self.bridge.push(None, request),
            }
        }
        if self.state.effects.is_empty() {
            self.state.effects = effects;
        }
    }

    fn completed(&mut self, completion: Completion) {
        match Token::decode(completion.token) {
            Token::Receive(connection) => {
                self.state.sockets.end(connection);
                if let Outcome::Received { buffer, result } = completion.outcome {
                    let count = result.ok();
                    self.state.inputs.push_back(Input::Received {
                        connection,
                        buffer,
                        count,
                    });
                }
            }
            Token::Send(connection) => {
                self.state.sockets.end(connection);
                let sent = matches!(completion.outcome, Outcome::Sent(Ok(())));
                self.state
                    .inputs
                    .push_back(Input::Sent { connection, sent });
            }
            Token::Close(connection) => self.state.sockets.end(connection),
            Token::Accept(listener) => self.accepted(listener, completion.outcome),
            Token::Connect(link) => self.link_connected(link, completion.outcome),
            Token::RemoveDirectory(packed) => self.directory_removed(packed, &completion.outcome),
            Token::GiveBack => {
                if let Some(giving_back) = &mut self.giving_back {
                    giving_back.done();
                }
            }
            Token::Storage(token) => {
                let inputs = &mut self.state.inputs;
                self.storage.completed(
                    token,
                    completion.outcome,
                    &mut *self.driver,
                    |namespace, completion| {
                        inputs.push_back(Input::Storage {
                            namespace,
                            completion,
                        });
                    },
                );
            }
        }
    }

    fn close(&mut self, connection: ConnectionKey) {
        if let Some(socket) = self.state.sockets.begin_close(connection) {
            self.driver.submit(
                Token::Close(connection).encode(),
                Operation::CloseSocket { socket },
            );
        }
    }

    /// Submit an accept on each listener without one, unless accepting is paused.
    fn accept(&mut self) {
        if self.state.stopping {
            return;
        }
        for (index, listening) in (0..).zip(&mut self.state.listening) {
            if !listening.accepting && listening.again_at.is_none() {
                listening.accepting = true;
                let operation = Operation::Accept {
                    listener: listening.listener.socket.as_raw_fd(),
                };
                self.driver.submit(Token::Accept(index).encode(), operation);
            }
        }
    }

    fn accept_again(&mut self, now: Timestamp) {
        for listening in &mut self.state.listening {
            listening.again_at = listening.again_at.filter(|at| *at > now);
        }
        self.accept();
    }

    fn accepted(&mut self, index: u32, outcome: Outcome) {
        let now = self.now();
        let Outcome::Accepted(result) = outcome else {
            return;
        };
        let Some(listening) = self.state.listening.get_mut(index as usize) else {
            // The node shuts down: the shard closes the connection that has just been accepted.
            if let Ok((socket, address)) = result {
                self.connected(socket, Arrival::tcp(address));
            }
            return;
        };
        listening.accepting = false;
        match result {
            Ok((socket, address)) => {
                let arrival = listening.listener.arrival(address);
                self.place(socket, arrival);
                self.accept();
            }
            Err(error) => {
                listening.again_at = Some(Timestamp(now.0 + ACCEPT_PAUSE_MICROS));
                self.events.push(
                    Level::Warning,
                    format!("a connection was not accepted: {error}"),
                );
            }
        }
    }

    /// Distribute connections evenly over the shards: this shard accepts for all.
    fn place(&mut self, socket: OwnedFd, arrival: Arrival) {
        let target = self.state.next_shard;
        self.state.next_shard = (target + 1) % self.peers.len();
        if target == usize::from(self.shard.id().0) {
            self.connected(socket, arrival);
            return;
        }
        self.driver.release(socket.as_raw_fd());
        if let Err(Message::Connection { socket, arrival }) =
            self.peers[target].try_send(Message::Connection { socket, arrival })
        {
            // The other shard's mailbox is full: this one serves the connection.
            self.connected(socket, arrival);
        }
    }

    fn connected(&mut self, socket: OwnedFd, arrival: Arrival) {
        let connection = self.state.sockets.insert(socket.into_raw_fd());
        self.state.inputs.push_back(Input::Accepted {
            connection,
            arrival,
        });
    }

    fn move_connection(
        &mut self,
        connection: ConnectionKey,
        to: ShardId,
        connection_state: MovedConnection,
    ) {
        let Some(socket) = self.state.sockets.remove(connection) else {
            return;
        };
        self.driver.release(socket);
        // SAFETY: the table owned the descriptor and has just released it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let message = Message::Moved {
            socket,
            connection_state,
        };
        if let Err(Message::Moved {
            socket,
            connection_state,
        }) = self.peers[usize::from(to.0)].try_send(message)
        {
            // The other shard's mailbox is full: the connection stays and tries again later.
            self.adopt(socket, connection_state);
        }
    }

    fn adopt(&mut self, socket: OwnedFd, connection_state: MovedConnection) {
        let connection = self.state.sockets.insert(socket.into_raw_fd());
        self.state.inputs.push_back(Input::Adopted {
            connection,
            connection_state,
        });
    }

    fn take_mail(&mut self) {
        while let Some(message) = self.mailbox.try_recv() {
            match message {
                Message::Mail(mail) => self.state.inputs.push_back(Input::Mail(mail)),
                Message::Connection { socket, arrival } => self.connected(socket, arrival),
                Message::Moved {
                    socket,
                    connection_state,
                } => self.adopt(socket, connection_state),
                Message::ControlReply { origin, reply } => {
                    self.state.inputs.push_back(Input::ControlReply {
                        origin,
                        reply: *reply,
                    });
                }
                Message::CatalogChanged => self.state.inputs.push_back(Input::CatalogChanged),
                Message::StageHorizon(horizon) => {
                    self.state.inputs.push_back(Input::StageHorizon(horizon));
                }
                Message::Listen(listener) => {
                    self.state.listening.push(Listening {
                        listener,
                        accepting: false,
                        again_at: None,
                    });
                    self.accept();
                }
                Message::Shutdown => self.shut_down(),
                Message::ClosePartitions => self.state.inputs.push_back(Input::ClosePartitions),
                Message::Abort => self.state.aborting = true,
            }
        }
    }

    fn shut_down(&mut self) {
        self.state.stopping = true;
        for (index, listening) in (0..).zip(&self.state.listening) {
            if listening.accepting {
                self.driver.cancel(Token::Accept(index).encode());
            }
        }
        self.state.listening.clear();
        self.state.inputs.push_back(Input::Shutdown);
    }

    fn send_mail(&mut self, to: ShardId, mail: Mail) {
        let index = usize::from(to.0);
        if !self.state.overflow[index].is_empty() {
            self.state.overflow[index].push_back(mail);
            return;
        }
        if let Err(Message::Mail(mail)) = self.peers[index].try_send(Message::Mail(mail)) {
            // Bounded: a congested shard starts no new requests, and those in flight are bounded per connection.
            self.state.overflow[index].push_back(mail);
            if !self.state.congested {
                self.state.congested = true;
                self.state.inputs.push_back(Input::Congested(true));
            }
        }
    }

    fn flush_overflow(&mut self) {
        if !self.state.congested {
            return;
        }
        for (peer, waiting) in self.peers.iter().zip(&mut self.state.overflow) {
            while let Some(mail) = waiting.pop_front() {
                if let Err(Message::Mail(mail)) = peer.try_send(Message::Mail(mail)) {
                    waiting.push_front(mail);
                    break;
                }
            }
        }
        if self.state.overflow.iter().all(VecDeque::is_empty) {
            self.state.congested = false;
            self.state.inputs.push_back(Input::Congested(false));
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        self.shard.set_clock(self.state.clock.state());
        self.shard.tick(now, &mut self.state.effects);
        self.accept_again(now);
        let giving_back = self.giving_back.as_mut();
        if let Some(task) = giving_back.and_then(|giving_back| giving_back.due(now)) {
            self.driver.submit(Token::GiveBack.encode(), task);
        }
        self.publish_gauges();
        self.report_clock();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for connection in self.state.sockets.open() {
            self.close(connection);
        }
    }
}
