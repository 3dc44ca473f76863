//! Answers: of partitions, of other nodes and of the control plane, to the connections that have asked.

use headrace_buffer::Slice;
use headrace_link::Refusal;
use headrace_partition::{PartitionError, ReadError, Request};
use headrace_proto::control::v1::{Reply, reply::Body};
use headrace_wire::{Command, Status};

use super::Shard;
use crate::{
    api::Effect,
    calls::{ConnectionKey, Mail, Origin, PartitionAnswer, PartitionCall},
    dispatch::{
        Outcome,
        answers::encode_partition_answer,
        control::{credential, encode_body},
        control_request,
        explaining::{explain_refusal, explanation},
        system::stats_response,
    },
    hosting::NotificationTarget,
    routing::links::LinkEvent,
    sessions::connection::{Login, explained_response, payload_response, status_response},
    sessions::registry::Places,
};
use headrace_model::UserId;

impl Shard {
    /// Take mail of another shard.
    pub(super) fn take_mail(&mut self, mail: Mail, effects: &mut Vec<Effect>) {
        match mail {
            Mail::Answer(answer) => self.deliver_answer(answer, effects),
            Mail::MessagesAvailable { origin, namespace } => {
                self.waiting().wait_notified(origin, namespace, effects);
            }
            Mail::ViewChanged { namespace, view } => {
                self.watching().watch_notified(namespace, view);
            }
            Mail::Reclaim { bytes, held_bytes } => self.partitions.reclaim(bytes, held_bytes),
            // Handled by `end_of_turn`.
            Mail::MemoryAvailable => {}
            Mail::Call(_)
            | Mail::Wait(_)
            | Mail::StopWaiting { .. }
            | Mail::Watch { .. }
            | Mail::Unwatch { .. } => self.ways().take(mail, effects),
        }
    }

    /// Deliver answers of this shard's partitions and of other nodes to their destinations.
    pub(crate) fn deliver_answers(&mut self, effects: &mut Vec<Effect>) {
        while self.partitions.has_answers() || self.routing.links.has_events() {
            if self.routing.links.has_events() {
                self.deliver_link_events(effects);
            }
            for (origin, namespace) in self.partitions.take_wakeups() {
                if origin.shard == self.present.config.shard {
                    if !self.sessions.notify_link(origin) {
                        self.waiting().wait_notified(origin, namespace, effects);
                    }
                } else {
                    effects.push(Effect::Mail {
                        to: origin.shard,
                        mail: Mail::MessagesAvailable { origin, namespace },
                    });
                }
            }
            for (whom, namespace, view) in self.partitions.take_view_changes() {
                match (whom, view) {
                    (NotificationTarget::Link(key), view) => {
                        self.sessions
                            .notify_link_view(self.present.moment(), key, namespace, view);
                    }
                    (NotificationTarget::Shard(shard), Some(view))
                        if shard == self.present.config.shard =>
                    {
                        self.watching().watch_notified(namespace, view);
                    }
                    (NotificationTarget::Shard(to), Some(view)) => {
                        let mail = Mail::ViewChanged { namespace, view };
                        effects.push(Effect::Mail { to, mail });
                    }
                    // Watchers on this shard get the change from the catalog.
                    (NotificationTarget::Shard(_), None) => {}
                }
            }
            let mut answers = self.partitions.take_answers();
            for answer in answers.drain(..) {
                let to = answer.origin.shard;
                if to == self.present.config.shard {
                    self.deliver_answer(answer, effects);
                } else {
                    let mail = Mail::Answer(answer);
                    effects.push(Effect::Mail { to, mail });
                }
            }
            self.partitions.recycle_answers(answers);
        }
    }

    /// Deliver a partition's answer to the waiting request, the connection or the link that has called it.
    pub(crate) fn deliver_answer(&mut self, answer: PartitionAnswer, effects: &mut Vec<Effect>) {
        let (origin, namespace) = (answer.origin, answer.namespace);
        if self.routing.waits.has_asked(&origin) {
            return self.waiting().wait_answered(answer, effects);
        }
        let explanation = explanation(self.present.moment(), namespace, &answer.result);
        let Some(connection) = self.sessions.get_mut(origin.connection) else {
            return;
        };
        if connection.gateway_link.is_some() {
            return self.sessions.answer_link(self.present.moment(), answer);
        }
        if let Err(Refusal::Partition(PartitionError::Read(ReadError::TooLarge { bytes }))) =
            answer.result
        {
            return self.poll_again(origin.connection, bytes, effects);
        }
        encode_partition_answer(
            &mut connection.pipeline,
            origin.sequence,
            namespace,
            answer.result,
            explanation.as_deref(),
        );
        self.sessions.touch(origin.connection);
    }

    /// Deliver results of links to their destinations.
    pub(crate) fn deliver_link_events(&mut self, effects: &mut Vec<Effect>) {
        for event in self.routing.links.take_events() {
            match event {
                LinkEvent::Answer { answer, has_waited } => {
                    let (now, key) = (self.present.now, answer.origin.connection);
                    if has_waited && let Some(connection) = self.sessions.get_mut(key) {
                        connection.session.last_heartbeat = now;
                    }
                    self.deliver_answer(answer, effects);
                }
                LinkEvent::MessagesAvailable { origin, namespace } => {
                    self.waiting().wait_notified(origin, namespace, effects);
                }
                LinkEvent::Seen { namespace, view } => {
                    self.watching().watch_notified(namespace, view);
                }
                LinkEvent::OutcomeUnknown { connection } => self.close(connection, effects),
                LinkEvent::Room { connection } => self.sessions.touch(connection),
                LinkEvent::StatisticsGathered {
                    origin,
                    request: (code, payload),
                } => self.statistics_gathered(origin, code, &payload, effects),
            }
        }
    }

    /// Deliver a reply to its connection; a login updates the session first.
    pub(crate) fn control_replied(
        &mut self,
        origin: Origin,
        reply: Reply,
        effects: &mut Vec<Effect>,
    ) {
        if self
            .sessions
            .has_caught_up(self.present.moment(), origin.connection)
        {
            return;
        }
        let host_statistics = match &reply.body {
            Some(Body::HostStatistics(host)) => Some(stats_response(
                self.present.moment(),
                self.sessions.clients(),
                host,
            )),
            _ => None,
        };
        let clients = self.sessions.clients().clone();
        let moment = self.present.moment();
        let places = match &reply.body {
            Some(Body::UserId(user)) => Some(Places::of(moment, UserId(*user))),
            _ => None,
        };
        let Some(connection) = self.sessions.get_mut(origin.connection) else {
            return;
        };
        let session = &mut connection.session;
        let changed_password = core::mem::take(&mut session.changes_password);
        let mut status = Status(reply.status);
        let grounds = reply.credential.unwrap_or_default();
        if let (true, Some(Body::UserId(user)), Some(places)) =
            (status.is_ok(), &reply.body, places)
        {
            let login = Login::new(credential(UserId(*user), &grounds));
            // The credential may have been revoked since the control plane checked it.
            if !login.holds(moment.catalog, moment.wall) {
                status = Status::INVALID_CREDENTIALS;
            } else if !clients.log_in(session.client, UserId(*user), places) {
                status = Status::TOO_MANY_CONNECTIONS;
            } else {
                session.login = Some(login);
                session.ticket = None;
                session.route = None;
            }
        } else if let Some(login) = (session.login.as_ref())
            .filter(|login| login.credential().password_version != 0)
            .filter(|_| changed_password && status.is_ok())
        {
            // The session that changed the password remains valid: it proved the old password, and knows the new one.
            session.login = Some(Login::new(headrace_catalog::Credential {
                password_version: grounds.password_version,
                ..login.credential()
            }));
        }
        let expires_at = session.expires_at();
        let response = if !status.is_ok() {
            status_response(status)
        } else if let Some(response) = host_statistics {
            response
        } else {
            match reply.body {
                None | Some(Body::HostStatistics(_)) => status_response(Status::OK),
                Some(body) => payload_response(|out| encode_body(&body, out)),
            }
        };
        connection.pipeline.answer_one(origin.sequence, response);
        self.sessions.touch(origin.connection);
        self.sessions.note_login_expiry(expires_at);
        if changed_password {
            // The review skipped this session while the change was in progress.
            self.sessions
                .review_session(self.present.moment(), origin.connection, effects);
        }
    }

    /// Answer a request after its statistics were gathered, or after the timeout.
    pub(crate) fn statistics_gathered(
        &mut self,
        origin: Origin,
        code: u32,
        payload: &[u8],
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut connection) = self.sessions.take(origin.connection) else {
            return;
        };
        let session = &mut connection.session;
        let outcome = Command::decode(code, payload).and_then(|command| {
            let outcome = self.handle(session, &command)?;
            Ok(outcome)
        });
        let explanation = match &outcome {
            Err(status) if connection.pipeline.explains() => {
                let user = session.current_user(self.present.moment());
                explain_refusal(self.present.moment(), user, code, payload, *status)
            }
            _ => None,
        };
        let mut answer = |response: Slice| {
            connection.pipeline.answer_one(origin.sequence, response);
        };
        match outcome {
            Err(status) => answer(explained_response(status, explanation.as_deref())),
            Ok(Outcome::Respond(response)) => answer(response),
            // The entity was deleted while its statistics were gathered.
            Ok(Outcome::Missing) => answer(status_response(Status::OK)),
            Ok(Outcome::Control(operation)) => effects.push(Effect::Control {
                origin,
                request: control_request(session, operation),
            }),
            Ok(_) => debug_assert!(false, "nothing that shows statistics asks a partition"),
        }
        self.sessions.put(connection);
        self.sessions.touch(origin.connection);
    }

    /// Continue a request in flight that has got room for its answer.
    pub(super) fn repeat_poll(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        if self.routing.has_wait(key) {
            return self.waiting().resume_wait(key, effects);
        }
        let connection = self.sessions.get_mut(key);
        if let Some(call) = connection.and_then(|connection| connection.pipeline.limit_poll()) {
            let owner = self.ways().owner(call.namespace);
            let PartitionCall {
                origin,
                namespace,
                request,
            } = call;
            let call = PartitionCall {
                origin,
                namespace,
                request: Request::Poll(request),
            };
            self.ways().carry(owner, Mail::Call(call), effects);
        }
    }

    /// Repeat a poll whose first message is larger than its part of the share, as soon as there is room for it.
    pub(crate) fn poll_again(
        &mut self,
        key: ConnectionKey,
        message_bytes: u64,
        effects: &mut Vec<Effect>,
    ) {
        if self
            .memory
            .claim_again(&mut self.sessions, key, Some(message_bytes))
            .is_some()
        {
            self.repeat_poll(key, effects);
        }
    }
}
