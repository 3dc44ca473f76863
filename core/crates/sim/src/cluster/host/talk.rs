//! Translation of client requests to the types of the production host, and of its responses back.

use headrace_buffer::Slice;
use headrace_replica::{Refusal, RequestKind, SessionRequest};
use headrace_vsr::api::{CommandReply, Outcome};
use headrace_vsr::frame::area::{
    Area, Eviction, EvictionReason, Redirect, RedirectReason, Reply, Request,
};
use headrace_vsr::frame::{Frame, Intake, NO_REPLICA, Operation, Origin};

use super::node::Waiting;
use super::{Cluster, Host};
use crate::checker::{Check, Violation};
use crate::client::{ClientRequest, ClientResponse, since};
use crate::cluster::checks::FRAME_BYTES_MAX;
use crate::machine::Answer;

/// Bytes of a state machine's reply before the answer: the operation and its status.
const PREFIX_BYTES: usize = 12;

/// Encoded reply. The production host passes nothing else on.
pub(super) fn reply(op: u64, reply: &CommandReply) -> Slice {
    let mut bytes = op.to_le_bytes().to_vec();
    bytes.extend(reply.status.to_le_bytes());
    bytes.extend_from_slice(&reply.body);
    Slice::from_vec(bytes)
}

/// Parts of an encoded reply.
fn parts(bytes: &Slice) -> Option<(u64, u32, Slice)> {
    let op = u64::from_le_bytes(*bytes.first_chunk()?);
    let status = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    Some((op, status, bytes.slice(PREFIX_BYTES..)))
}

impl Cluster<Host> {
    /// Handle a client request that arrives at a process.
    pub(super) fn request(&mut self, from: u8, to: u8, ask: ClientRequest) {
        let now_ns = self.now_ns();
        self.trace.event(now_ns, to, "asked", &[from.into()]);
        let cluster = self.kind.cluster;
        let Some(process) = &mut self.nodes[usize::from(to)].process else {
            return;
        };
        let (asked, waiting) = match ask {
            ClientRequest::Frame(bytes) => {
                let intake = Intake {
                    cluster,
                    message_size_max: FRAME_BYTES_MAX,
                };
                let Ok(frame) = intake.decode(&bytes) else {
                    return self.tally.add("frames rejected as damaged");
                };
                let Area::Request(request) = frame.header.area else {
                    return;
                };
                let checksum = frame.header.checksum;
                let waiting = Waiting::Session {
                    from,
                    request,
                    checksum,
                };
                let question = question(&request, frame.body);
                (process.replica.request(vec![question]), waiting)
            }
            ClientRequest::Propose { call, body } => (
                process.replica.propose(vec![(since(&body), body)]),
                Waiting::Proposal { from, call },
            ),
            ClientRequest::Read { call, key } => (
                process.replica.read_index(),
                Waiting::Read { from, call, key },
            ),
        };
        if let Ok(ticket) = asked {
            process.waiting.insert(ticket, waiting);
        }
        self.run_turn(to);
    }

    /// Take the client that waits for the result of a request. A second result is a violation.
    fn ended(&mut self, node: u8, ticket: u64) -> Option<Waiting> {
        let process = self.nodes[usize::from(node)].process.as_mut()?;
        let waiting = process.waiting.remove(&ticket);
        if waiting.is_none() {
            let what = format!("replica {node} ends question {ticket} twice");
            self.fail(node, Violation::new(Check::Tokens, what));
        }
        waiting
    }

    /// Handle the execution of a command that was proposed here.
    pub(super) fn proposal_executed(
        &mut self,
        node: u8,
        ticket: u64,
        op: u64,
        reply: CommandReply,
    ) {
        let Some(Waiting::Proposal { from, call }) = self.ended(node, ticket) else {
            return;
        };
        let outcome = Outcome::Committed { op, reply };
        self.respond(node, from, &ClientResponse::Proposed { call, outcome });
    }

    /// Handle the execution of a request of a session.
    pub(super) fn answered(&mut self, node: u8, ticket: u64, session: u64, bytes: &Slice) {
        let Some(Waiting::Session {
            from,
            request,
            checksum,
        }) = self.ended(node, ticket)
        else {
            return;
        };
        let is_command = request.operation == Operation::METADATA_FIRST;
        let (op, status, body) = match parts(bytes) {
            Some(parts) => parts,
            None if is_command => {
                let what = format!("replica {node} answers a request without a reply");
                return self.fail(node, Violation::new(Check::Linearizability, what));
            }
            None => (session, 0, Slice::default()),
        };
        let area = Reply {
            client: request.client,
            request_checksum: checksum,
            op,
            commit: op,
            timestamp_ns: 0,
            request: request.request,
            session,
            base_offset: 0,
            count: 0,
            status,
            operation: request.operation,
        };
        self.respond_with_frame(node, from, area.into(), body);
    }

    /// Answer a read from the current state.
    pub(super) fn read(&mut self, node: u8, ticket: u64, op: u64) {
        let Some(Waiting::Read { from, call, key }) = self.ended(node, ticket) else {
            return;
        };
        let passed = self.pass(node, op);
        self.check(node, passed);
        let Some(process) = &self.nodes[usize::from(node)].process else {
            return;
        };
        let answer: Answer = process.machine.get(key);
        let seen = op.max(process.executed);
        let outcome = Ok((seen, answer));
        self.respond(node, from, &ClientResponse::Read { call, outcome });
    }

    /// Handle the refusal of a request.
    pub(super) fn refused(&mut self, node: u8, ticket: u64, refusal: Refusal) {
        let Some(waiting) = self.ended(node, ticket) else {
            return;
        };
        let primary = match refusal {
            Refusal::NotPrimary(Some(primary)) => primary,
            _ => NO_REPLICA,
        };
        match waiting {
            Waiting::Proposal { from, call } => {
                let outcome = match refusal {
                    Refusal::Unknown => Outcome::Unknown,
                    Refusal::NotPrimary(_) => Outcome::Redirected { primary },
                    Refusal::Oversize => Outcome::Refused,
                    _ => Outcome::Busy,
                };
                self.respond(node, from, &ClientResponse::Proposed { call, outcome });
            }
            Waiting::Read { from, call, .. } => {
                let outcome = Err(primary);
                self.respond(node, from, &ClientResponse::Read { call, outcome });
            }
            Waiting::Session { from, request, .. } => {
                if refusal == Refusal::Reused {
                    let what = format!(
                        "request {} of a session is taken for another command",
                        request.request
                    );
                    return self.fail(node, Violation::new(Check::ExactlyOnce, what));
                }
                if let Some(area) = refusal_of(&request, refusal, primary) {
                    self.respond_with_frame(node, from, area, Slice::default());
                }
            }
        }
    }

    fn respond_with_frame(&mut self, node: u8, to: u8, area: Area, body: Slice) {
        let origin = Origin {
            cluster: self.kind.cluster,
            group: 1,
            replica: node,
            ..Origin::default()
        };
        let frame = Frame::seal(origin, area, body);
        let bytes = Slice::from_vec(frame.encode());
        self.respond(node, to, &ClientResponse::Frame(bytes));
    }
}

/// Request as a type of the production host.
fn question(request: &Request, command: Slice) -> SessionRequest {
    SessionRequest {
        client: request.client,
        session: request.session,
        number: request.request,
        kind: match request.operation {
            Operation::REGISTER => RequestKind::Open,
            Operation::UNREGISTER => RequestKind::Close,
            _ => RequestKind::Propose,
        },
        min_release: since(&command),
        command,
    }
}

/// Refusal as sent to the client; `None` if the client has to retry on its own.
fn refusal_of(request: &Request, refusal: Refusal, primary: u8) -> Option<Area> {
    let redirect = |reason| {
        Area::from(Redirect {
            client: request.client,
            request: request.request,
            retry_after_ms: 0,
            primary,
            reason,
        })
    };
    let eviction = |reason| {
        Area::from(Eviction {
            client: request.client,
            session: request.session,
            reason,
        })
    };
    Some(match refusal {
        Refusal::NotPrimary(_) => redirect(RedirectReason::NotPrimary),
        Refusal::Busy => redirect(RedirectReason::Busy),
        Refusal::Storage => redirect(RedirectReason::Storage),
        Refusal::Release => redirect(RedirectReason::Release),
        Refusal::SessionEnded => eviction(EvictionReason::NoSession),
        Refusal::SessionFenced => eviction(EvictionReason::SessionFenced),
        Refusal::Unknown | Refusal::Stale | Refusal::Oversize | Refusal::Reused => return None,
    })
}
