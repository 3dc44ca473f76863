//! Clients: sessions with numbered requests, commands of the local process, and reads.

use headrace_buffer::Slice;
use headrace_vsr::api::Outcome;
use headrace_vsr::frame::area::{Area, EvictionReason, RedirectReason, Request};
use headrace_vsr::frame::{Frame, NO_REPLICA, Operation, Origin, Release};

use crate::checker::{CallResult, History, Invocation, Violation};
use crate::machine::{Action, Answer, Command, Machines};
use crate::options::{MILLISECOND, WorkloadOptions};
use crate::random::{Domain, Draw, Fates};

/// Request of a client to a replica.
#[derive(Clone, Debug)]
pub enum ClientRequest {
    /// A frame of a session.
    Frame(Slice),
    /// Command without a session, through the process of the replica.
    Propose {
        /// Number of the call.
        call: usize,
        /// Command.
        body: Slice,
    },
    /// Read of a name.
    Read {
        /// Number of the call.
        call: usize,
        /// Name.
        key: u8,
    },
}

/// Response of a replica's process to a client.
#[derive(Clone, Debug)]
pub enum ClientResponse {
    /// A frame of the session.
    Frame(Slice),
    /// Result of a proposal.
    Proposed {
        /// Number of the call.
        call: usize,
        /// Outcome.
        outcome: Outcome,
    },
    /// Result of a read.
    Read {
        /// Number of the call.
        call: usize,
        /// Answer and the operation as of which it holds, or the replica to contact instead.
        outcome: Result<(u64, Answer), u8>,
    },
}

/// Action requested by a client.
#[derive(Clone, Debug)]
pub enum ClientAction {
    /// Send to a replica.
    Send(u8, ClientRequest),
    /// Wake the client at this time.
    Wake(u64),
}

#[derive(Clone, Debug)]
enum Pending {
    Register(Frame),
    Request {
        call: usize,
        frame: Frame,
        number: u64,
    },
    Propose {
        call: usize,
        id: u64,
        body: Slice,
    },
    Read {
        call: usize,
        key: u8,
    },
}

/// Context shared by all clients.
#[derive(Debug)]
pub struct ClientContext<'a> {
    /// Virtual time.
    pub now_ns: u64,
    /// Randomness of the run.
    pub fates: &'a Fates,
    /// Workload of the clients.
    pub options: &'a WorkloadOptions,
    /// True if commands of the newer release are issued as well.
    pub mixed_releases: bool,
    /// Id of the cluster.
    pub cluster: u128,
    /// Number of members of the group.
    pub replicas: u8,
    /// All calls of the run.
    pub history: &'a mut History,
    /// Ids of commands refused in this step.
    pub refused: &'a mut Vec<u64>,
    /// Kind of the state machines.
    pub machines: &'a Machines,
    /// Failure of a program that was asked for a command.
    pub failed: &'a mut Option<Violation>,
}

/// Encoded next command; `None` if a program fails to provide one.
fn command(world: &mut ClientContext<'_>, draw: &mut Draw, key: u8, id: u64) -> Option<Slice> {
    let run = world.fates.draw(Domain::Workload, u64::MAX, 0, 0).word();
    match world.machines.draw(run, draw, id) {
        Ok(Some(body)) => return Some(body),
        Ok(None) => {}
        Err(violation) => {
            world.failed.get_or_insert(violation);
            return None;
        }
    }
    let actions = [Action::Put, Action::Swap, Action::Delete, Action::Get];
    let is_new = world.mixed_releases && draw.chance(150_000);
    let in_use: Vec<Action> = (0..4)
        .filter(|bit| world.options.operations >> bit & 1 == 1)
        .map(|bit| actions[bit])
        .collect();
    let command = Command {
        action: if is_new {
            Action::PutNew
        } else {
            draw.pick(&in_use)
        },
        key,
        id,
        expected: draw.below(40),
    };
    let padding = usize::try_from(draw.below(u64::from(world.options.padding) + 1)).expect("small");
    Some(command.encode(padding))
}

/// First release that supports the command; the oldest release if the bytes are not a command.
pub fn since(body: &[u8]) -> Release {
    Command::decode(body).map_or(Release::FIRST, |command| command.since())
}

/// Client with at most one call in flight.
#[derive(Debug)]
pub struct Client {
    index: u8,
    /// Number of sessions opened so far, each with a new identity.
    session_generation: u64,
    session: u64,
    request: u64,
    calls: u64,
    draws: u64,
    primary: u8,
    pending: Option<Pending>,
    attempts: u32,
    retry_ns: u64,
    /// End of the pause between calls.
    rests_until_ns: u64,
    /// Last answered request, kept to be duplicated on purpose.
    previous: Option<Frame>,
    limit: u64,
    quick: bool,
}

/// Number of attempts after which a client abandons a call.
const ATTEMPTS: u32 = 12;

impl Client {
    /// Client `index` with at most `requests` calls.
    pub fn new(index: u8, requests: u32) -> Self {
        Self {
            index,
            session_generation: 1,
            session: 0,
            request: 0,
            calls: 0,
            draws: 0,
            primary: 0,
            pending: None,
            attempts: 0,
            retry_ns: 0,
            rests_until_ns: 0,
            previous: None,
            limit: requests.into(),
            quick: false,
        }
    }

    /// Identity of the current session.
    pub fn identity(&self) -> u128 {
        (u128::from(self.session_generation) << 8) | (u128::from(self.index) + 1)
    }

    /// Return whether no call is in flight and none will follow.
    pub const fn is_done(&self) -> bool {
        self.pending.is_none() && self.calls >= self.limit
    }

    /// Number of calls made so far.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Make `more` calls without pauses from now on.
    pub fn make_final_calls(&mut self, more: u64) {
        self.limit = self.calls + more;
        self.quick = true;
        self.rests_until_ns = 0;
    }

    /// Retry the pending call or start the next one, if due.
    pub fn wake(&mut self, world: &mut ClientContext<'_>) -> Vec<ClientAction> {
        if self.pending.is_some() {
            if world.now_ns < self.retry_ns {
                return Vec::new();
            }
            if self.attempts >= ATTEMPTS && !self.quick {
                return self.give_up(world);
            }
            self.primary = (self.primary + 1) % world.replicas;
            return self.send(world);
        }
        if self.calls >= self.limit || (world.options.rests && world.now_ns < self.rests_until_ns) {
            return Vec::new();
        }
        self.start(world)
    }

    /// Handle a response.
    pub fn handle_response(
        &mut self,
        world: &mut ClientContext<'_>,
        response: ClientResponse,
    ) -> Vec<ClientAction> {
        match response {
            ClientResponse::Frame(bytes) => self.frame(world, &bytes),
            ClientResponse::Proposed { call, outcome } => self.proposed(world, call, &outcome),
            ClientResponse::Read { call, outcome } => self.read(world, call, outcome),
        }
    }

    fn draw(&mut self, world: &ClientContext<'_>) -> Draw {
        self.draws += 1;
        world
            .fates
            .draw(Domain::Workload, self.index.into(), 0, self.draws)
    }

    fn start(&mut self, world: &mut ClientContext<'_>) -> Vec<ClientAction> {
        let mut draw = self.draw(world);
        self.attempts = 0;
        if draw.chance(world.options.restart_ppm) {
            self.forget_session();
        }
        let read = draw.chance(world.options.read_ppm);
        let key = draw.below(world.options.keys.into()).to_le_bytes()[0];
        // Half of the clients use sessions.
        let sessions = self.index.is_multiple_of(2);
        if read {
            let call = world.history.begin(world.now_ns, Invocation::Read { key });
            self.calls += 1;
            self.pending = Some(Pending::Read { call, key });
            return self.send(world);
        }
        if sessions && self.session == 0 {
            let request =
                self.request_frame(world, Operation::REGISTER, 0, Slice::from_vec(Vec::new()));
            self.pending = Some(Pending::Register(request));
            return self.send(world);
        }
        self.calls += 1;
        let id = (u64::from(self.index) + 1) | (self.calls << 8);
        let Some(body) = command(world, &mut draw, key, id) else {
            return Vec::new();
        };
        let command = Command::decode(&body).expect("it was encoded a moment ago");
        let call = (world.history).begin(world.now_ns, Invocation::Execute { command });
        let repeat = draw.chance(world.options.repeat_ppm);
        self.pending = Some(if sessions {
            self.request += if draw.chance(world.options.gap_ppm) {
                3
            } else {
                1
            };
            let frame = self.request_frame(world, Operation::METADATA_FIRST, self.request, body);
            Pending::Request {
                call,
                frame,
                number: self.request,
            }
        } else {
            Pending::Propose { call, id, body }
        });
        let mut deeds = self.send(world);
        if let (true, Some(Pending::Request { frame, .. })) = (repeat, &self.pending) {
            // The same request to a second replica, and an old one again.
            let other = (self.primary + 1) % world.replicas;
            deeds.push(ClientAction::Send(
                other,
                ClientRequest::Frame(Slice::from_vec(frame.encode())),
            ));
            if let Some(previous) = &self.previous {
                deeds.push(ClientAction::Send(
                    self.primary,
                    ClientRequest::Frame(Slice::from_vec(previous.encode())),
                ));
            }
        }
        deeds
    }

    fn request_frame(
        &self,
        world: &ClientContext<'_>,
        operation: Operation,
        request: u64,
        body: Slice,
    ) -> Frame {
        let origin = Origin {
            cluster: world.cluster,
            group: 1,
            release: since(&body),
            ..Origin::default()
        };
        let area = Request {
            client: self.identity(),
            session: self.session,
            request,
            client_timestamp_ns: world.now_ns,
            user_id: u32::from(self.index / 6),
            count: 1,
            operation,
            ack_level: 0,
        };
        Frame::seal(origin, area.into(), body)
    }

    fn send(&mut self, world: &ClientContext<'_>) -> Vec<ClientAction> {
        let ask = match &self.pending {
            Some(Pending::Register(frame) | Pending::Request { frame, .. }) => {
                ClientRequest::Frame(Slice::from_vec(frame.encode()))
            }
            Some(Pending::Propose { call, body, .. }) => ClientRequest::Propose {
                call: *call,
                body: body.clone(),
            },
            Some(Pending::Read { call, key }) => ClientRequest::Read {
                call: *call,
                key: *key,
            },
            None => return Vec::new(),
        };
        if matches!(ask, ClientRequest::Propose { .. }) && self.attempts > 0 {
            // A proposal is attempted once: a retry would be a different command.
            self.pending = None;
            self.limit += u64::from(self.quick);
            return self.next(world);
        }
        let mut draw = self.draw(world);
        self.attempts += 1;
        let wait_ns = (draw.within(150, 400) * MILLISECOND) << self.attempts.min(3);
        self.retry_ns = world.now_ns + wait_ns;
        vec![
            ClientAction::Send(self.primary, ask),
            ClientAction::Wake(self.retry_ns),
        ]
    }

    /// Abandon the call with unknown result. The session continues with the next number or is dropped.
    fn give_up(&mut self, world: &ClientContext<'_>) -> Vec<ClientAction> {
        let mut draw = self.draw(world);
        self.pending = None;
        if draw.chance(500_000) {
            self.forget_session();
        }
        self.next(world)
    }

    fn forget_session(&mut self) {
        self.session_generation += 1;
        self.session = 0;
        self.request = 0;
        self.previous = None;
    }

    fn next(&mut self, world: &ClientContext<'_>) -> Vec<ClientAction> {
        let mut draw = self.draw(world);
        let pause_ns = if self.quick {
            5 * MILLISECOND
        } else {
            draw.exponential(world.options.pause_mean_ns)
        };
        self.rests_until_ns = world.now_ns + pause_ns;
        vec![ClientAction::Wake(self.rests_until_ns)]
    }

    fn end(
        &mut self,
        world: &mut ClientContext<'_>,
        call: usize,
        ending: CallResult,
    ) -> Vec<ClientAction> {
        world.history.end(call, ending);
        self.pending = None;
        if matches!(ending, CallResult::Answered { .. }) {
            return self.next(world);
        }
        // After healing a client continues until it gets an answer.
        self.limit += u64::from(self.quick);
        vec![ClientAction::Wake(world.now_ns + 20 * MILLISECOND)]
    }

    fn ask_again(
        &mut self,
        world: &ClientContext<'_>,
        primary: u8,
        wait_ns: u64,
    ) -> Vec<ClientAction> {
        self.primary = if primary < world.replicas {
            primary
        } else {
            (self.primary + 1) % world.replicas
        };
        // `wake` advances to the next replica.
        self.primary = (self.primary + world.replicas - 1) % world.replicas;
        self.retry_ns = world.now_ns + wait_ns;
        vec![ClientAction::Wake(self.retry_ns)]
    }

    fn frame(&mut self, world: &mut ClientContext<'_>, bytes: &Slice) -> Vec<ClientAction> {
        let intake = headrace_vsr::frame::Intake {
            cluster: world.cluster,
            message_size_max: 16 << 20,
        };
        let Ok(frame) = intake.decode(bytes) else {
            return Vec::new();
        };
        match (&frame.header.area, self.pending.clone()) {
            (Area::Reply(reply), _) if reply.client != self.identity() => Vec::new(),
            (Area::Reply(reply), Some(Pending::Register(request)))
                if reply.request_checksum == request.header.checksum =>
            {
                self.session = reply.session;
                self.pending = None;
                vec![ClientAction::Wake(world.now_ns)]
            }
            (
                Area::Reply(reply),
                Some(Pending::Request {
                    call,
                    frame: request,
                    number,
                }),
            ) if reply.request_checksum == request.header.checksum && reply.request == number => {
                let Some(answer) = world.machines.answer(reply.status, &frame.body) else {
                    return Vec::new();
                };
                self.previous = Some(request);
                self.primary = frame.header.replica;
                self.end(
                    world,
                    call,
                    CallResult::Answered {
                        at_ns: world.now_ns,
                        op: reply.op,
                        answer,
                    },
                )
            }
            (Area::Redirect(redirect), Some(Pending::Request { call, .. }))
                if redirect.client == self.identity()
                    && redirect.reason == RedirectReason::Release =>
            {
                // Another primary may have accepted an earlier copy.
                self.end(world, call, CallResult::Unknown)
            }
            (Area::Redirect(redirect), Some(Pending::Register(_) | Pending::Request { .. }))
                if redirect.client == self.identity() =>
            {
                let wait_ns = u64::from(redirect.retry_after_ms).max(5) * MILLISECOND;
                self.ask_again(world, redirect.primary, wait_ns)
            }
            (Area::Eviction(eviction), Some(Pending::Request { call, .. }))
                if eviction.client == self.identity() && eviction.session == self.session =>
            {
                if eviction.reason == EvictionReason::Protocol {
                    // The session is unknown to the replica, which lags behind.
                    return self.ask_again(world, NO_REPLICA, 20 * MILLISECOND);
                }
                self.forget_session();
                self.end(world, call, CallResult::Unknown)
            }
            _ => Vec::new(),
        }
    }

    fn proposed(
        &mut self,
        world: &mut ClientContext<'_>,
        call: usize,
        outcome: &Outcome,
    ) -> Vec<ClientAction> {
        let current = match &self.pending {
            Some(Pending::Propose {
                call: pending, id, ..
            }) if *pending == call => Some(*id),
            _ => None,
        };
        let Some(id) = current else { return Vec::new() };
        match outcome {
            Outcome::Committed { op, reply } => {
                match world.machines.answer(reply.status, &reply.body) {
                    Some(answer) => self.end(
                        world,
                        call,
                        CallResult::Answered {
                            at_ns: world.now_ns,
                            op: *op,
                            answer,
                        },
                    ),
                    None => Vec::new(),
                }
            }
            Outcome::Redirected { primary } => {
                self.primary = if *primary < world.replicas {
                    *primary
                } else {
                    (self.primary + 1) % world.replicas
                };
                world.refused.push(id);
                self.end(world, call, CallResult::Refused)
            }
            Outcome::Busy | Outcome::Refused | Outcome::ReleaseNotInForce { .. } => {
                world.refused.push(id);
                self.end(world, call, CallResult::Refused)
            }
            Outcome::Unknown => self.end(world, call, CallResult::Unknown),
        }
    }

    fn read(
        &mut self,
        world: &mut ClientContext<'_>,
        call: usize,
        outcome: Result<(u64, Answer), u8>,
    ) -> Vec<ClientAction> {
        if !matches!(&self.pending, Some(Pending::Read { call: pending, .. }) if *pending == call) {
            return Vec::new();
        }
        match outcome {
            Ok((op, answer)) => self.end(
                world,
                call,
                CallResult::Answered {
                    at_ns: world.now_ns,
                    op,
                    answer,
                },
            ),
            Err(primary) => self.ask_again(world, primary, 10 * MILLISECOND),
        }
    }
}
