//! Requests: who answers each of them, and what is done until then.

use headrace_buffer::Buffer;
use headrace_link::TraceContext;
use headrace_model::{Namespace, UserId};
use headrace_partition::{Batch, Request};
use headrace_proto::control::v1::request::Operation;
use headrace_wire::{Command, Status, WatchAction};

use super::Shard;
use crate::{
    api::Effect,
    calls::{Mail, Origin, PartitionCall},
    config::Hosting,
    dispatch::{
        Context, Handled, Outcome, SEND_MESSAGES, STAGE_MESSAGES, Wait, control, control_request,
        explaining::refuse,
        holders::is_allowed_with_ticket,
        messages::{self, prepare_send},
        notes,
        stages::prepare_owned,
        statistics::{needs_statistics, scope},
        tickets::{check_link_request, issue_ticket, login_with_ticket},
        trace_of, users,
        waits::capabilities,
    },
    hosting::BorrowedBatch,
    owner::Owner,
    routing::waits,
    sessions::{
        catching_up::{catches_up, may_be_stale_catalog},
        connection::{Pipeline, Registration, Requester, Session, status_response},
        pacing::Traffic,
    },
};

impl Shard {
    /// Handle one request whose payload is `payload`. Returns false if it stays in the inbox to be tried again.
    pub(crate) fn dispatch(
        &mut self,
        requester: &mut Requester<'_>,
        code: u32,
        payload: &mut [u8],
        effects: &mut Vec<Effect>,
    ) -> bool {
        if code == SEND_MESSAGES {
            return self.send_in_place(requester, payload, effects);
        }
        if self.gather(requester, code, payload, effects) {
            return true;
        }
        let key = requester.key;
        let session = &mut *requester.session;
        let was_authenticated = session.is_authenticated();
        let outcome =
            Command::decode(code, payload).and_then(|command| self.handle(session, &command));
        if was_authenticated && !session.is_authenticated() {
            self.sessions
                .add_login_deadline(self.present.moment(), key, session);
        }
        let misses_something = match &outcome {
            Err(status) => may_be_stale_catalog(*status),
            Ok(outcome) => matches!(outcome, Outcome::Missing),
        };
        if misses_something && catches_up(self.present.moment(), key, session, effects) {
            return false;
        }
        match outcome {
            Err(status) => {
                self.note_refusal(session, code, status, effects);
                refuse(self.present.moment(), requester, code, payload, status);
            }
            Ok(Outcome::Respond(response)) => {
                notes::note_disconnection(session, code, payload, effects);
                requester.pipeline.respond(response);
            }
            Ok(Outcome::Missing) => requester.pipeline.respond(status_response(Status::OK)),
            Ok(Outcome::Control(operation)) => ask_control(requester, operation, effects),
            Ok(Outcome::Partition {
                namespace,
                mut request,
                member,
                rate,
            }) => {
                let topic = (namespace.stream(), namespace.topic());
                if !self.pay(
                    requester,
                    code,
                    Traffic {
                        topic,
                        rate,
                        bytes: payload.len(),
                    },
                    effects,
                ) {
                    return false;
                }
                notes::note_partition_change(requester.session, code, namespace, effects);
                let origin = Origin {
                    member,
                    ..requester.begin_alone()
                };
                if let Request::Poll(poll) = &mut request {
                    poll.bytes_max = requester.pipeline.answer_bytes_max();
                    requester.pipeline.remember_poll(PartitionCall {
                        origin,
                        namespace,
                        request: *poll,
                    });
                }
                let call = PartitionCall {
                    origin,
                    namespace,
                    request,
                };
                let owner = self.owner_for(requester.session, namespace);
                self.route(requester.pipeline, owner, call, effects);
            }
            Ok(Outcome::Trace(context)) => {
                let pipeline = &mut *requester.pipeline;
                pipeline.respond(status_response(Status::OK));
                pipeline.trace(context.filter(|_| self.present.meter.tracer.is_on()));
            }
            Ok(Outcome::Nothing) => requester.pipeline.respond_nothing(),
            Ok(Outcome::Explain) => {
                requester.pipeline.explain();
                requester.pipeline.respond(status_response(Status::OK));
            }
            Ok(Outcome::ReportOffsets) => {
                requester.pipeline.report_offsets();
                requester.pipeline.respond(status_response(Status::OK));
            }
            Ok(Outcome::Link(opening)) => self.sessions.request_link(opening),
            Ok(Outcome::Wait(wait)) => return self.wait(requester, code, wait, payload, effects),
            Ok(Outcome::Watch { action, places }) => {
                self.watch(requester, action, &places, effects);
            }
        }
        true
    }

    pub(super) fn handle(&mut self, session: &mut Session, command: &Command<'_>) -> Handled {
        self.sessions.register_again(self.present.now, session);
        match command {
            Command::Ping => {
                session.last_heartbeat = self.present.now;
                return Ok(Outcome::empty());
            }
            Command::Capabilities => return Ok(capabilities(self.present.moment())),
            Command::ExplainRefusals => return Ok(Outcome::Explain),
            Command::ReportOffsets => return Ok(Outcome::ReportOffsets),
            Command::LoginUser(request) => return users::login(request),
            Command::LoginWithPersonalAccessToken(request) => {
                return Ok(users::login_with_token(request));
            }
            Command::OpenLink(request) => {
                return Ok(Outcome::Link(check_link_request(
                    self.present.moment(),
                    session,
                    request,
                )));
            }
            Command::LoginWithTicket(request) => {
                return login_with_ticket(
                    self.present.moment(),
                    self.sessions.clients(),
                    session,
                    request,
                );
            }
            // Members ask again and again, so they need no other heartbeat.
            Command::GetMembership(_) => {
                session.last_heartbeat = self.present.now;
                session.repeats_membership = true;
            }
            _ => {}
        }
        let user = session
            .current_user(self.present.moment())
            .ok_or(Status::UNAUTHENTICATED)?;
        if session.ticket.is_some() && !is_allowed_with_ticket(command) {
            return Err(Status::UNAUTHORIZED);
        }
        if matches!(command, Command::LogoutUser) {
            session.login = None;
            session.ticket = None;
            session.route = None;
            self.sessions.clients().set_user(session.client, None);
            return Ok(Outcome::empty());
        }
        let moment = self.present.moment();
        let context = Context::new(moment, self.sessions.clients(), session, user);
        if let Command::IssueTicket(request) = command {
            let permitted = context.permitted(request)?;
            let login = session.login.as_ref();
            return issue_ticket(
                moment,
                &mut self.random,
                login,
                &permitted,
                request.lifetime_seconds,
            );
        }
        context
            .handle(command, self.memory.pool(), &self.routing.links)
            .map_err(|status| {
                let was_member = session.registration == Registration::Stale;
                if was_member && status == Status::CONSUMER_GROUP_MEMBER_NOT_FOUND {
                    Status::STALE_CLIENT
                } else {
                    status
                }
            })
    }

    /// Send a batch whose bytes are in the receive buffer. Returns false if it stays there to be tried again.
    pub(super) fn send_in_place(
        &mut self,
        requester: &mut Requester<'_>,
        payload: &mut [u8],
        effects: &mut Vec<Effect>,
    ) -> bool {
        let mut prepared = match prepare_send(self.present.moment(), requester.session, payload) {
            Ok(prepared) => prepared,
            Err(status) => {
                return self.refuse_append(requester, SEND_MESSAGES, payload, status, effects);
            }
        };
        let Some(origin) = self.begin_append(requester, payload, &mut prepared, effects) else {
            return false;
        };
        let namespace = prepared.namespace;
        let owner = self.owner_for(requester.session, namespace);
        let batch = BorrowedBatch {
            messages: &mut payload[prepared.messages],
            messages_count: prepared.messages_count,
        };
        if owner == Owner::Here {
            let call = PartitionCall {
                origin,
                namespace,
                request: batch,
            };
            let catalog = self.present.catalog.load();
            self.partitions
                .append(catalog, call, self.present.now, effects);
        } else {
            let batch = batch.copy(self.memory.pool());
            let call = PartitionCall {
                origin,
                namespace,
                request: Request::Append { batch },
            };
            self.route(requester.pipeline, owner, call, effects);
        }
        true
    }

    /// Return the owner of a partition, and count the request for the choice of the session's shard.
    fn owner_for(&mut self, session: &mut Session, namespace: Namespace) -> Owner {
        let owner = self
            .partitions
            .owner(self.present.catalog.load(), namespace);
        self.sessions
            .count_affinity(self.present.moment(), session, owner);
        owner
    }

    /// Send a batch with a buffer of its own, without copying it. Returns the buffer if the batch is to be tried again.
    pub(crate) fn send_owned(
        &mut self,
        requester: &mut Requester<'_>,
        payload: Buffer,
        effects: &mut Vec<Effect>,
    ) -> Option<Buffer> {
        let mut prepared = match prepare_send(self.present.moment(), requester.session, &payload) {
            Ok(prepared) => prepared,
            Err(status) => {
                let taken = self.refuse_append(requester, SEND_MESSAGES, &payload, status, effects);
                return (!taken).then_some(payload);
            }
        };
        let Some(origin) = self.begin_append(requester, &payload, &mut prepared, effects) else {
            return Some(payload);
        };
        let messages::Prepared {
            namespace,
            messages,
            messages_count,
            ..
        } = prepared;
        let owner = self.owner_for(requester.session, namespace);
        let batch = Batch::new(payload, messages, messages_count);
        let call = PartitionCall {
            origin,
            namespace,
            request: Request::Append { batch },
        };
        self.route(requester.pipeline, owner, call, effects);
        None
    }

    /// Answer a batch that is refused. Returns false if it is to be tried again with a newer catalog instead.
    pub(super) fn refuse_append(
        &mut self,
        requester: &mut Requester<'_>,
        code: u32,
        payload: &[u8],
        status: Status,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let key = requester.key;
        if may_be_stale_catalog(status)
            && catches_up(self.present.moment(), key, requester.session, effects)
        {
            return false;
        }
        self.note_refusal(requester.session, code, status, effects);
        refuse(self.present.moment(), requester, code, payload, status);
        true
    }

    /// Begin an append; `None` if it waits because of the quota of its topic.
    fn begin_append(
        &mut self,
        requester: &mut Requester<'_>,
        payload: &[u8],
        prepared: &mut messages::Prepared,
        effects: &mut Vec<Effect>,
    ) -> Option<Origin> {
        let topic = (prepared.namespace.stream(), prepared.namespace.topic());
        let (code, rate) = (SEND_MESSAGES, prepared.rate.take());
        if !self.pay(
            requester,
            code,
            Traffic {
                topic,
                rate,
                bytes: payload.len(),
            },
            effects,
        ) {
            return None;
        }
        self.present.meter.took(payload.len() as u64);
        let pipeline = &mut *requester.pipeline;
        if self.present.meter.tracer.is_on() && !pipeline.is_traced() {
            pipeline.trace(TraceContext::of_first(&payload[prepared.messages.clone()]));
        }
        Some(requester.begin_append(payload.len()))
    }

    /// Route a call to the owner of its partition.
    pub(super) fn route(
        &mut self,
        pipeline: &Pipeline,
        owner: Owner,
        call: PartitionCall,
        effects: &mut Vec<Effect>,
    ) {
        if call.origin.trace.is_some() {
            self.routing.links.trace(pipeline.context_last());
        }
        self.ways().carry(owner, Mail::Call(call), effects);
    }

    /// Gather the statistics that a request needs. Returns false if it needs none, or if all partitions are local.
    pub(super) fn gather(
        &mut self,
        requester: &mut Requester<'_>,
        code: u32,
        payload: &[u8],
        effects: &mut Vec<Effect>,
    ) -> bool {
        if self.present.config.hosting != Hosting::Nothing || !needs_statistics(code) {
            return false;
        }
        let Some(user) = requester.session.current_user(self.present.moment()) else {
            return false;
        };
        let Some(scope) = scope(
            self.present.moment(),
            self.sessions.clients(),
            requester.session,
            user,
            code,
            payload,
        ) else {
            return false;
        };
        let origin = Origin {
            trace: None,
            ..requester.begin_alone()
        };
        let moment = self.present.moment();
        let request = (code, payload.into());
        self.routing
            .links
            .gather(moment, origin, scope, request, effects);
        true
    }

    /// Store a chunk with a buffer of its own, without copying it. Returns the buffer if the chunk is to be tried
    /// again.
    pub(crate) fn stage_owned(
        &mut self,
        requester: &mut Requester<'_>,
        payload: Buffer,
        effects: &mut Vec<Effect>,
    ) -> Option<Buffer> {
        let prepared = match prepare_owned(
            self.present.moment(),
            self.sessions.clients(),
            requester.session,
            &payload,
        ) {
            Ok(prepared) => prepared,
            Err(status) => {
                let taken =
                    self.refuse_append(requester, STAGE_MESSAGES, &payload, status, effects);
                return (!taken).then_some(payload);
            }
        };
        let namespace = prepared.namespace;
        let topic = (namespace.stream(), namespace.topic());
        let rate = prepared.rate.clone();
        if !self.pay(
            requester,
            STAGE_MESSAGES,
            Traffic {
                topic,
                rate,
                bytes: payload.len(),
            },
            effects,
        ) {
            return Some(payload);
        }
        let origin = requester.begin_alone();
        let owner = self.owner_for(requester.session, namespace);
        let messages = payload.len() - prepared.messages_bytes..payload.len();
        let batch = Batch::new(payload, messages, prepared.messages_count);
        let call = PartitionCall {
            origin,
            namespace,
            request: prepared.request(batch),
        };
        self.route(requester.pipeline, owner, call, effects);
        None
    }

    /// Begin to wait. Returns false if the request has to wait for its topic's quota first.
    pub(super) fn wait(
        &mut self,
        requester: &mut Requester<'_>,
        code: u32,
        wait: Wait,
        payload: &[u8],
        effects: &mut Vec<Effect>,
    ) -> bool {
        let is_paid = self.pay(
            requester,
            code,
            Traffic {
                topic: wait.plan.topic,
                rate: wait.rate,
                bytes: 0,
            },
            effects,
        );
        if is_paid {
            let user = requester.session.principal().unwrap_or(wait.plan.user);
            if self.may_subscribe(user, waits::cost(&wait.plan)) {
                self.waiting()
                    .begin_wait(requester, wait.plan, wait.micros, payload, effects);
            } else {
                let response = status_response(Status::TOO_MANY_WAITS);
                requester.pipeline.respond(response);
            }
        }
        is_paid
    }

    /// Start or stop to watch partitions, if the user may watch so many.
    fn watch(
        &mut self,
        requester: &mut Requester<'_>,
        action: WatchAction,
        places: &[(Namespace, u64)],
        effects: &mut Vec<Effect>,
    ) {
        let user = requester.session.principal().unwrap_or_default();
        if action == WatchAction::Remove || self.may_subscribe(user, places.len()) {
            self.watching().watch(requester, action, places, effects);
        } else {
            let response = status_response(Status::TOO_MANY_WAITS);
            requester.pipeline.respond(response);
        }
    }

    /// Charge a request to its user and to its topic. Returns false if it has to wait because of its topic.
    #[inline]
    fn pay(
        &mut self,
        requester: &mut Requester<'_>,
        code: u32,
        traffic: Traffic,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let moment = self.present.moment();
        (self.sessions).pay(moment, requester, code, traffic, effects)
    }

    fn note_refusal(
        &mut self,
        session: &Session,
        code: u32,
        status: Status,
        effects: &mut Vec<Effect>,
    ) {
        let now = self.present.now;
        (self.sessions.reported.refusals).note(now, session, code, status, effects);
    }

    fn may_subscribe(&self, user: UserId, count: usize) -> bool {
        let count_max = self.present.config.waited_partitions_max;
        self.routing.may_subscribe(user, count, count_max)
    }
}

/// Have the control plane answer a request.
fn ask_control(requester: &mut Requester<'_>, operation: Operation, effects: &mut Vec<Effect>) {
    let origin = requester.begin_alone();
    let session = &mut *requester.session;
    if control::is_join(&operation) {
        session.may_be_member = true;
        session.registration = Registration::Registered;
    }
    session.changes_password = control::is_own_password(session, &operation);
    let mut request = control_request(session, operation);
    request.trace = requester.pipeline.context_last().map(trace_of);
    effects.push(Effect::Control { origin, request });
}
