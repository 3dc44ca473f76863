//! Admission of requests: validated, queued, joined into prepares (VRR 4.1, steps 1 to 3).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{DropReason, Notice, Outcome, Output, Proposal};
use crate::clients::Verdict;
use crate::frame::area::{Area, EvictionReason, Prepare, Request};
use crate::frame::body::multi::{self, SubRequest};
use crate::frame::{Frame, Operation, PrepareFlags, PrepareHeader, Release, checksum_body};
use crate::rules::{Rules, past_recovery_barrier};

use crate::replica::normal::execution::is_for_state_machine;
use crate::replica::{Flow, Replica};

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
    ticket: u64,
    body: Slice,
}

#[derive(Debug, Default)]
pub(in crate::replica) struct Admission {
    queue: VecDeque<Waiting>,
    /// Request of each client in the queue or in the pipeline.
    in_flight: BTreeMap<u128, InFlight>,
    /// Request ids of proposals in prepares of this process.
    proposal_ids: BTreeMap<u64, (u128, Vec<u64>)>,
}

/// Proposals of this process that an operation affects.
#[derive(Debug, Default)]
pub(in crate::replica) struct Tickets {
    /// Request ids, one per request of the prepare; 0 for none.
    pub(in crate::replica) tickets: Vec<u64>,
    /// Request ids of a prepare that lost this place in the log.
    pub(in crate::replica) lost: Vec<u64>,
}

impl Admission {
    pub(in crate::replica) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(in crate::replica) fn take_tickets(&mut self, op: u64, checksum: u128) -> Tickets {
        match self.proposal_ids.remove(&op) {
            Some((prepare, tickets)) if prepare == checksum => Tickets {
                tickets,
                lost: Vec::new(),
            },
            Some((_, tickets)) => Tickets {
                tickets: Vec::new(),
                lost: tickets.into_iter().filter(|ticket| *ticket != 0).collect(),
            },
            None => Tickets::default(),
        }
    }

    /// Forget the operations that a transferred state covers. Returns their request ids, whose outcome is unknown here.
    pub(in crate::replica) fn forget_covered(&mut self, op: u64) -> Vec<u64> {
        self.in_flight
            .retain(|_, open| open.op.is_none_or(|prepared| prepared > op));
        let above = self.proposal_ids.split_off(&(op + 1));
        ids_of(core::mem::replace(&mut self.proposal_ids, above))
    }

    /// Take the request ids of prepares above the head of a log that was begun without them.
    fn take_above(&mut self, head: u64) -> Vec<u64> {
        ids_of(self.proposal_ids.split_off(&(head + 1)))
    }

    /// Mark a request as executed, so that its client may send the next one. Returns the checksum of the request's
    /// header if this primary received the request.
    pub(in crate::replica) fn complete(&mut self, client: u128, request: u64) -> Option<u128> {
        let open = self.in_flight.get(&client)?;
        if open.request != request {
            return None;
        }
        self.in_flight
            .remove(&client)
            .map(|open| open.request_checksum)
    }
}

/// Request ids of proposals in these prepares.
fn ids_of(prepares: BTreeMap<u64, (u128, Vec<u64>)>) -> Vec<u64> {
    let tickets = prepares.into_values().flat_map(|(_, tickets)| tickets);
    tickets.filter(|ticket| *ticket != 0).collect()
}

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn on_client_frame(&mut self, frame: &Frame) {
        match frame.header.area {
            Area::Request(area) => self.on_request(frame, area),
            Area::PingClient(area) => self.pong_client(area.client, area.ping_monotonic_ns),
            _ => self.dropped(DropReason::Malformed),
        }
    }

    /// Return whether this replica admits requests in its current state.
    pub(in crate::replica) fn admits(&self) -> bool {
        self.leads()
            && !self.abdicated
            && past_recovery_barrier(self.commit_min, self.view_start_op)
    }

    fn on_request(&mut self, frame: &Frame, area: Request) {
        let Request {
            client, request, ..
        } = area;
        if client == 0 || frame.body.len() > self.config.batch_bytes_max {
            self.dropped(DropReason::Malformed);
            return;
        }
        let known = area.operation.is_metadata()
            || matches!(area.operation, Operation::REGISTER | Operation::UNREGISTER);
        if !known {
            self.dropped(DropReason::Malformed);
            return;
        }
        if !self.leads() || self.abdicated {
            self.redirect(client, request);
            return;
        }
        if !self.admits() {
            self.busy(client, request);
            return;
        }
        if !self
            .rules
            .is_in_force(frame.header.release, self.release_in_force())
        {
            self.too_new(client, request);
            return;
        }
        let checksum = checksum_body(&frame.body);
        if area.operation == Operation::REGISTER {
            if self.admission.in_flight.contains_key(&client) {
                return;
            }
        } else if !self.is_fresh(&area, checksum, frame.header.checksum) {
            return;
        }
        if self.queue_is_full() {
            self.busy(client, request);
            return;
        }
        self.admission.in_flight.insert(
            client,
            InFlight {
                request,
                checksum,
                request_checksum: frame.header.checksum,
                op: None,
            },
        );
        self.admission.queue.push_back(Waiting {
            client,
            session: area.session,
            request,
            request_checksum: frame.header.checksum,
            user_id: area.user_id,
            count: area.count,
            ack_level: area.ack_level,
            operation: area.operation,
            ticket: 0,
            body: frame.body.clone(),
        });
    }

    /// Return whether a request of a session must be prepared; otherwise answer the request.
    fn is_fresh(&mut self, area: &Request, checksum: u128, request_checksum: u128) -> bool {
        let Request {
            client,
            session,
            request,
            ..
        } = *area;
        let verdict = self
            .clients
            .check(&self.rules, client, session, request, checksum);
        match verdict {
            Verdict::NoSession => {
                // The registration may still be in flight.
                if !self.admission.in_flight.contains_key(&client) {
                    self.evict(client, session, EvictionReason::NoSession);
                }
            }
            Verdict::Fenced => self.evict(client, session, EvictionReason::SessionFenced),
            Verdict::Unknown => self.evict(client, session, EvictionReason::Protocol),
            Verdict::Stale => self.notice(Notice::DuplicateRequest),
            Verdict::Repeated(entry) => {
                let entry = entry.clone();
                self.notice(Notice::DuplicateRequest);
                self.reply(client, &entry, request_checksum);
            }
            Verdict::Reused(entry) => {
                let entry = entry.clone();
                self.reply_reused(client, &entry, request_checksum);
            }
            Verdict::Fresh => match self.admission.in_flight.get(&client) {
                None => return true,
                // The reply follows when the operation has been executed.
                Some(open) if open.request == request && open.checksum == checksum => {
                    self.notice(Notice::DuplicateRequest);
                }
                Some(_) => self.busy(client, request),
            },
        }
        false
    }

    /// Return whether one more prepare can be made now. Prepares wait until the time window is known: after a start the
    /// log time would resume in the past, and a lease granted at that time would expire with the next operation.
    pub(in crate::replica) fn may_prepare(&self) -> bool {
        self.pipeline_has_room() && self.now.wall.is_known()
    }

    fn queue_is_full(&self) -> bool {
        !self.may_prepare() && self.admission.queue.len() >= self.config.request_queue_max
    }

    pub(in crate::replica) fn on_proposal(&mut self, proposal: Proposal) {
        let Proposal {
            request_id: ticket,
            operation,
            user_id,
            min_release: since,
            body,
        } = proposal;
        let outcome = if !self.leads() || self.abdicated {
            Outcome::Redirected {
                primary: self.primary_hint(),
            }
        } else if !is_for_state_machine(operation) || body.len() > self.config.batch_bytes_max {
            Outcome::Refused
        } else if !self.rules.is_in_force(since, self.release_in_force()) {
            Outcome::ReleaseNotInForce {
                in_force: self.release_in_force(),
            }
        } else if !self.admits() || self.queue_is_full() {
            Outcome::Busy
        } else {
            self.admission.queue.push_back(Waiting {
                client: 0,
                session: 0,
                request: 0,
                request_checksum: 0,
                user_id,
                count: 1,
                ack_level: 0,
                operation,
                ticket,
                body,
            });
            return;
        };
        self.out.push(Output::Proposed {
            request_id: ticket,
            outcome,
        });
    }

    /// Make prepares of the queued requests, as far as the pipeline has room.
    pub(in crate::replica) fn admit(&mut self) -> Flow {
        while !self.admission.queue.is_empty() && self.admits() && self.may_prepare() {
            self.admit_batch()?;
        }
        Ok(())
    }

    fn admit_batch(&mut self) -> Flow {
        let batch = self.take_batch();
        let Some(first) = batch.first() else {
            return Ok(());
        };
        let (operation, user_id) = (first.operation, first.user_id);
        let count = batch.iter().map(|waiting| waiting.count).sum();
        let tickets: Vec<u64> = batch.iter().map(|waiting| waiting.ticket).collect();
        let clients: Vec<u128> = batch.iter().map(|waiting| waiting.client).collect();
        let (area, body) = if let [single] = batch.as_slice() {
            let area = Prepare {
                request_checksum: single.request_checksum,
                client: single.client,
                request: single.request,
                session: single.session,
                user_id,
                count,
                operation,
                ..Prepare::default()
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
                user_id,
                count,
                operation,
                flags: PrepareFlags::MULTI,
                ..Prepare::default()
            };
            (area, Slice::from_vec(multi::encode(&requests)))
        };
        let release = self
            .header(self.head)
            .map_or(Release::FIRST, PrepareHeader::release_in_force);
        self.prepare(release, area, body)?;
        for client in clients {
            if let Some(open) = self.admission.in_flight.get_mut(&client) {
                open.op = Some(self.head);
            }
        }
        self.note_tickets(tickets);
        Ok(())
    }

    fn note_tickets(&mut self, tickets: Vec<u64>) {
        let checksum = self.header(self.head).map_or(0, |header| header.checksum);
        let before = if tickets.iter().any(|ticket| *ticket != 0) {
            self.admission
                .proposal_ids
                .insert(self.head, (checksum, tickets))
        } else {
            self.admission.proposal_ids.remove(&self.head)
        };
        // This log has another prepare in the place of one that this replica made in an earlier view. The earlier
        // prepare could still win if this view ends before any other replica hears of it, so the outcome of its
        // commands is unknown.
        for ticket in before.into_iter().flat_map(|(_, tickets)| tickets) {
            if ticket != 0 {
                self.report_unknown_outcome(ticket);
            }
        }
    }

    /// Take the requests that share the next prepare: adjacent in the queue, with the same operation and user.
    fn take_batch(&mut self) -> Vec<Waiting> {
        let mut batch: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.admission.queue.front() {
            if let Some(first) = batch.first() {
                let joins = is_for_state_machine(next.operation)
                    && next.operation == first.operation
                    && next.user_id == first.user_id
                    && batch.len() < self.config.batch_requests_max.min(multi::REQUESTS_MAX)
                    && bytes + next.body.len() <= self.config.batch_bytes_max;
                if !joins {
                    break;
                }
            }
            let Some(next) = self.admission.queue.pop_front() else {
                break;
            };
            bytes += next.body.len();
            let alone = !is_for_state_machine(next.operation);
            batch.push(next);
            if alone {
                break;
            }
        }
        batch
    }

    /// Redirect the proposals of a former primary that the recorded log of the view has cut: they will never be executed,
    /// and an operation that takes the place of one may not come for long.
    pub(in crate::replica) fn redirect_cut_proposals(&mut self) {
        for ticket in self.admission.take_above(self.head) {
            self.redirect_proposal(ticket);
        }
    }

    /// Redirect the clients of a former primary: requests that were not prepared go to the next primary.
    pub(in crate::replica) fn redirect_clients(&mut self) {
        self.admission.in_flight.clear();
        for waiting in core::mem::take(&mut self.admission.queue) {
            if waiting.ticket != 0 {
                self.redirect_proposal(waiting.ticket);
            } else if waiting.client != 0 {
                self.redirect(waiting.client, waiting.request);
            }
        }
    }
}
