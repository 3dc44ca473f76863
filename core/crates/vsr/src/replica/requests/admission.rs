//! Admission of requests: validated, queued, joined into prepares (VRR 4.1, steps 1 to 3).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{Config, Notice, Outcome, Proposal};
use crate::clients::{ClientTable, Verdict};
use crate::frame::area::{EvictionReason, Prepare, Request};
use crate::frame::body::multi::{self, SubRequest};
use crate::frame::{Frame, Operation, PrepareFlags, Release, checksum_body};
use crate::replica::requests::responder::Responder;
use crate::rules::Rules;

/// Request of a client that is in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    request: u64,
    /// Checksum of the command.
    checksum: u128,
    /// Checksum of the request's header.
    request_checksum: u128,
    /// Operation of its prepare, once it has one.
    op: Option<u64>,
}

/// Request that waits for a prepare.
#[derive(Debug)]
struct Waiting {
    client: u128,
    session: u64,
    request: u64,
    /// Checksum of the request's header, for the reply.
    request_checksum: u128,
    user_id: u32,
    count: u32,
    ack_level: u8,
    operation: Operation,
    /// Id of a proposal of this process; 0 for the request of a client.
    request_id: u64,
    body: Slice,
}

/// Requests for the next prepare.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) area: Prepare,
    pub(crate) body: Slice,
    pub(crate) clients: Vec<u128>,
    /// Ids of proposals, one per request; 0 for none.
    pub(crate) request_ids: Vec<u64>,
}

/// Conditions under which requests are admitted in this step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    /// This replica is the primary and has not abdicated.
    pub(crate) serves: bool,
    /// This replica has executed the log that it inherited, too.
    pub(crate) admits: bool,
    /// One more prepare can be made now.
    pub(crate) may_prepare: bool,
    pub(crate) release: Release,
}

/// Requests that have not been executed. Empty unless this replica is, or was, a primary.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Requests that wait for a prepare, in order of arrival. New ones are refused above `request_queue_max`, unless a
    /// prepare can be made at once.
    queue: VecDeque<Waiting>,
    /// Request of each client in the queue or in the pipeline: at most one per client.
    in_flight: BTreeMap<u128, InFlight>,
    /// Request ids of proposals in prepares of this process, with the checksum of the prepare. Kept when the view is
    /// lost: another primary may still commit the prepare, and the proposals are answered when its place is decided.
    proposal_ids: BTreeMap<u64, (u128, Vec<u64>)>,
    /// Release that all members support, as reported by the host.
    common_release: Release,
    queue_max: usize,
    batch_bytes_max: usize,
    batch_requests_max: usize,
}

/// Proposals of this process that an operation affects.
#[derive(Debug, Default)]
pub(crate) struct ProposalIds {
    /// Request ids, one per request of the prepare; 0 for none.
    pub(crate) executed: Vec<u64>,
    /// Request ids of a prepare that lost this place in the log.
    pub(crate) lost: Vec<u64>,
}

impl Admission {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            proposal_ids: BTreeMap::new(),
            common_release: Release::FIRST,
            queue_max: config.request_queue_max,
            batch_bytes_max: config.batch_bytes_max,
            batch_requests_max: config.batch_requests_max.min(multi::REQUESTS_MAX),
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn common_release(&self) -> Release {
        self.common_release
    }

    /// Record that all members run this release, or a later one.
    pub(crate) fn set_common_release(&mut self, release: Release) {
        self.common_release = release;
    }

    /// Take the request ids of proposals in the prepare of an operation.
    pub(crate) fn take_ids(&mut self, op: u64, checksum: u128) -> ProposalIds {
        match self.proposal_ids.remove(&op) {
            Some((prepare, ids)) if prepare == checksum => ProposalIds {
                executed: ids,
                lost: Vec::new(),
            },
            Some((_, ids)) => ProposalIds {
                executed: Vec::new(),
                lost: ids.into_iter().filter(|id| *id != 0).collect(),
            },
            None => ProposalIds::default(),
        }
    }

    /// Forget the operations that a transferred state covers. Returns their request ids, whose outcome is unknown here.
    pub(crate) fn forget_covered(&mut self, op: u64) -> Vec<u64> {
        self.in_flight
            .retain(|_, open| open.op.is_none_or(|prepared| prepared > op));
        let above = self.proposal_ids.split_off(&(op + 1));
        ids_of(core::mem::replace(&mut self.proposal_ids, above))
    }

    /// Redirect the proposals above the head of a log that was begun without them: they will never be executed, and an
    /// operation that takes the place of one may not come for long.
    pub(crate) fn redirect_above(&mut self, head: u64, responder: &mut Responder<'_>) {
        for request_id in ids_of(self.proposal_ids.split_off(&(head + 1))) {
            responder.redirect_proposal(request_id);
        }
    }

    /// Redirect the clients of a former primary: requests that were not prepared go to the next primary.
    pub(crate) fn redirect_all(&mut self, responder: &mut Responder<'_>) {
        self.in_flight.clear();
        for waiting in core::mem::take(&mut self.queue) {
            if waiting.request_id != 0 {
                responder.redirect_proposal(waiting.request_id);
            } else if waiting.client != 0 {
                responder.redirect(waiting.client, waiting.request);
            }
        }
    }

    /// Mark a request as executed, so that its client may send the next one. Returns the checksum of the request's
    /// header if this primary received the request.
    pub(crate) fn complete(&mut self, client: u128, request: u64) -> Option<u128> {
        let open = self.in_flight.get(&client)?;
        if open.request != request {
            return None;
        }
        self.in_flight
            .remove(&client)
            .map(|open| open.request_checksum)
    }

    /// Return whether a request is one that this crate admits at all.
    pub(crate) fn is_well_formed(&self, frame: &Frame, area: &Request) -> bool {
        let is_known = area.operation.is_metadata()
            || matches!(area.operation, Operation::REGISTER | Operation::UNREGISTER);
        area.client != 0 && frame.body.len() <= self.batch_bytes_max && is_known
    }

    /// Queue the well-formed request of a client, or answer it.
    pub(crate) fn request(
        &mut self,
        frame: &Frame,
        area: &Request,
        gate: Gate,
        clients: &ClientTable,
        rules: &impl Rules,
        responder: &mut Responder<'_>,
    ) {
        let (client, request) = (area.client, area.request);
        if !gate.serves {
            return responder.redirect(client, request);
        }
        if !gate.admits {
            return responder.busy(client, request);
        }
        if !rules.is_in_force(frame.header.release, gate.release) {
            return responder.too_new(client, request);
        }
        let request_checksum = frame.header.checksum;
        let checksum = checksum_body(&frame.body);
        if area.operation == Operation::REGISTER {
            if self.in_flight.contains_key(&client) {
                return;
            }
        } else {
            let verdict = clients.check(rules, client, area.session, request, checksum);
            if !self.is_fresh(area, &verdict, checksum, request_checksum, responder) {
                return;
            }
        }
        if self.is_full(gate) {
            return responder.busy(client, request);
        }
        self.in_flight.insert(
            client,
            InFlight {
                request,
                checksum,
                request_checksum,
                op: None,
            },
        );
        self.queue.push_back(Waiting {
            client,
            session: area.session,
            request,
            request_checksum,
            user_id: area.user_id,
            count: area.count,
            ack_level: area.ack_level,
            operation: area.operation,
            request_id: 0,
            body: frame.body.clone(),
        });
    }

    /// Return whether a request of a session must be prepared; otherwise answer the request.
    fn is_fresh(
        &self,
        area: &Request,
        verdict: &Verdict<'_>,
        checksum: u128,
        request_checksum: u128,
        responder: &mut Responder<'_>,
    ) -> bool {
        let (client, session) = (area.client, area.session);
        match verdict {
            Verdict::NoSession => {
                // The registration may still be in flight.
                if !self.in_flight.contains_key(&client) {
                    responder.evict(client, session, EvictionReason::NoSession);
                }
            }
            Verdict::Fenced => responder.evict(client, session, EvictionReason::SessionFenced),
            Verdict::Unknown => responder.evict(client, session, EvictionReason::Protocol),
            Verdict::Stale => responder.outbox.notice(Notice::DuplicateRequest),
            Verdict::Repeated(entry) => {
                responder.outbox.notice(Notice::DuplicateRequest);
                responder.reply(client, entry, request_checksum);
            }
            Verdict::Reused(entry) => responder.reply_reused(client, entry, request_checksum),
            Verdict::Fresh => match self.in_flight.get(&client) {
                None => return true,
                // The reply follows when the operation has been executed.
                Some(open) if open.request == area.request && open.checksum == checksum => {
                    responder.outbox.notice(Notice::DuplicateRequest);
                }
                Some(_) => responder.busy(client, area.request),
            },
        }
        false
    }

    fn is_full(&self, gate: Gate) -> bool {
        !gate.may_prepare && self.queue.len() >= self.queue_max
    }

    /// Queue a proposal of this process, or answer it.
    pub(crate) fn propose(
        &mut self,
        proposal: Proposal,
        gate: Gate,
        rules: &impl Rules,
        responder: &mut Responder<'_>,
    ) {
        let request_id = proposal.request_id;
        let refused = if !gate.serves {
            return responder.redirect_proposal(request_id);
        } else if !proposal.operation.is_for_state_machine()
            || proposal.body.len() > self.batch_bytes_max
        {
            Outcome::Refused
        } else if !rules.is_in_force(proposal.min_release, gate.release) {
            Outcome::ReleaseNotInForce {
                in_force: gate.release,
            }
        } else if !gate.admits || self.is_full(gate) {
            Outcome::Busy
        } else {
            return self.queue.push_back(Waiting {
                client: 0,
                session: 0,
                request: 0,
                request_checksum: 0,
                user_id: proposal.user_id,
                count: 1,
                ack_level: 0,
                operation: proposal.operation,
                request_id,
                body: proposal.body,
            });
        };
        responder.outbox.answer_proposal(request_id, refused);
    }

    /// Take the requests for the next prepare; none if no request waits.
    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        let batch = self.take_adjacent();
        let first = batch.first()?;
        let area = Prepare {
            user_id: first.user_id,
            count: batch.iter().map(|waiting| waiting.count).sum(),
            operation: first.operation,
            ..Prepare::default()
        };
        let request_ids = batch.iter().map(|waiting| waiting.request_id).collect();
        let clients = batch.iter().map(|waiting| waiting.client).collect();
        let (area, body) = if let [single] = batch.as_slice() {
            let area = Prepare {
                request_checksum: single.request_checksum,
                client: single.client,
                request: single.request,
                session: single.session,
                ..area
            };
            (area, single.body.clone())
        } else {
            let requests: Vec<SubRequest> = batch
                .into_iter()
                .map(|waiting| SubRequest {
                    client: waiting.client,
                    session: waiting.session,
                    request: waiting.request,
                    count: waiting.count,
                    ack_level: waiting.ack_level,
                    body: waiting.body,
                })
                .collect();
            let area = Prepare {
                flags: PrepareFlags::MULTI,
                ..area
            };
            (area, Slice::from_vec(multi::encode(&requests)))
        };
        Some(Batch {
            area,
            body,
            clients,
            request_ids,
        })
    }

    /// Take the requests that share the next prepare: adjacent in the queue, with the same operation and user.
    fn take_adjacent(&mut self) -> Vec<Waiting> {
        let mut batch: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.queue.front() {
            let is_alone = !next.operation.is_for_state_machine();
            if let Some(first) = batch.first() {
                let joins = !is_alone
                    && next.operation == first.operation
                    && next.user_id == first.user_id
                    && batch.len() < self.batch_requests_max
                    && bytes + next.body.len() <= self.batch_bytes_max;
                if !joins {
                    break;
                }
            }
            bytes += next.body.len();
            batch.extend(self.queue.pop_front());
            if is_alone {
                break;
            }
        }
        batch
    }

    /// Record that a batch has become the prepare of `op`. Returns the request ids of proposals whose outcome is
    /// unknown now.
    ///
    /// The log may have another prepare in the place of one that this replica made in an earlier view. The earlier prepare
    /// could still win if this view ends before any other replica hears of it.
    pub(crate) fn prepared(
        &mut self,
        clients: &[u128],
        request_ids: Vec<u64>,
        op: u64,
        checksum: u128,
    ) -> Vec<u64> {
        for client in clients {
            if let Some(open) = self.in_flight.get_mut(client) {
                open.op = Some(op);
            }
        }
        let before = if request_ids.iter().any(|id| *id != 0) {
            self.proposal_ids.insert(op, (checksum, request_ids))
        } else {
            self.proposal_ids.remove(&op)
        };
        let ids = before.into_iter().flat_map(|(_, ids)| ids);
        ids.filter(|id| *id != 0).collect()
    }
}

/// Request ids of proposals in these prepares.
fn ids_of(prepares: BTreeMap<u64, (u128, Vec<u64>)>) -> Vec<u64> {
    let ids = prepares.into_values().flat_map(|(_, ids)| ids);
    ids.filter(|id| *id != 0).collect()
}
