//! Handling of requests from payload bytes to outcome, with one file per family of commands.
//!
//! Every handler keeps the documented order of its checks, because clients and their tests rely on which of several
//! errors they see.

mod answers;
mod control;
mod explaining;
mod groups;
mod holders;
mod lookups;
mod messages;
mod notes;
mod partitions;
mod quotas;
mod stages;
mod statistics;
mod streams;
mod system;
mod tickets;
mod topics;
mod transactions;
mod users;
mod waits;
mod watches;

use std::sync::Arc;

use headrace_buffer::Slice;
use headrace_catalog::{Action, Catalog, Rate, Stream, Topic};
use headrace_link::{Membership, TraceContext};
use headrace_model::{ClientId, StreamId, TopicId, UserId, limits};
use headrace_partition::Request;
use headrace_proto::control::v1::{self as proto_control, request::Operation};
use headrace_proto::metadata::v1::{self as proto_metadata, command::Meant};
use headrace_wire::{Command, CommandCode, Identifier, Status, WatchAction, command::Attributes};

pub use holders::issuer_may;

pub(crate) use answers::{count_outcome, encode_partition_answer, nothing_polled, refusal_status};
pub(crate) use holders::{TICKET_HOLDER, TicketHolder};
pub use notes::Refusals;
pub(crate) use notes::note_certificate_login;
pub(crate) use waits::{Plan, Wait};

use control::is_join;
use lookups::{LookedUp, find_stream, stream_number};

use crate::{
    Shard,
    api::{Effect, Origin, PartitionCall},
    routing::served::Opening,
    sessions::{
        catching_up::may_be_stale_catalog,
        connection::{
            Requester, Session, Standing, UNAUTHENTICATED_PAYLOAD_BYTES_MAX, payload_response,
            status_response,
        },
    },
};

/// Command whose payload may be large and of which several may be in flight.
pub(crate) const SEND_MESSAGES: u32 = CommandCode::SendMessages.code();

/// Second command whose payload may be large.
pub(crate) const STAGE_MESSAGES: u32 = CommandCode::StageMessages.code();

/// Return whether the answer to a command may be large, so that it counts for the user who asks until it is taken.
pub(crate) fn has_sizeable_answer(code: u32) -> bool {
    let Ok(command) = CommandCode::try_from(code) else {
        return false;
    };
    matches!(
        command,
        CommandCode::PollMessages
            | CommandCode::WaitMessages
            | CommandCode::ReadMessages
            | CommandCode::PlanRange
            | CommandCode::GetStats
            | CommandCode::GetSnapshot
            | CommandCode::GetClusterMetadata
            | CommandCode::GetClients
            | CommandCode::GetUsers
            | CommandCode::GetPersonalAccessTokens
            | CommandCode::GetStream
            | CommandCode::GetStreams
            | CommandCode::GetTopic
            | CommandCode::GetTopics
            | CommandCode::GetConsumerGroup
            | CommandCode::GetConsumerGroups
            | CommandCode::DescribePartitions
            | CommandCode::GetTransaction
            | CommandCode::GetQuotas
    )
}

/// Decision of a handler.
pub(crate) enum Outcome {
    /// Answered with this response.
    Respond(Slice),
    /// Answered by the control plane.
    Control(Operation),
    /// Answered by a partition.
    Partition {
        namespace: headrace_model::Namespace,
        request: Request,
        /// Set if the caller asks as a member of a consumer group.
        member: Option<Membership>,
        /// Rate of the topic in the direction of the request's messages, if there is one.
        rate: Option<Arc<Rate>>,
    },
    /// Answered by a partition as soon as it has enough messages.
    Wait(Wait),
    /// The connection becomes a link, or ends with this status.
    Link(Result<Opening, Status>),
    /// Answered; the next request is a part of this trace.
    Trace(Option<TraceContext>),
    /// Answered: a poll has no messages to return.
    Nothing,
    /// Answered: refusals are explained from now on.
    Explain,
    /// Answered: answers to batches carry partition and offset from now on.
    ReportOffsets,
    /// The entity does not exist. The protocol reports that as a success without payload.
    Missing,
    /// Start or stop watching these partitions, each with its incarnation.
    Watch {
        action: WatchAction,
        places: Vec<(headrace_model::Namespace, u64)>,
    },
}

impl Outcome {
    fn payload(encode: impl FnOnce(&mut Vec<u8>)) -> Self {
        Self::Respond(payload_response(encode))
    }

    /// Success without payload.
    fn empty() -> Self {
        Self::Respond(status_response(Status::OK))
    }
}

/// Result of a handler: an outcome, or the status that refuses the request.
pub(crate) type Handled = Result<Outcome, Status>;

/// State that handlers can access.
pub(crate) struct Context<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) catalog: &'a Catalog,
    pub(crate) client: ClientId,
    pub(crate) user: UserId,
    /// Set if a ticket grants the permissions.
    pub(crate) ticket: Option<TicketHolder>,
}

impl<'a> Context<'a> {
    fn new(shard: &'a Shard, catalog: &'a Catalog, session: &Session, user: UserId) -> Self {
        Self {
            shard,
            catalog,
            client: session.client,
            user,
            ticket: session.ticket,
        }
    }
}

impl Context<'_> {
    fn allow(&self, action: Action) -> Result<(), Status> {
        if holders::may(self.catalog, self.user, self.ticket.as_ref(), action) {
            Ok(())
        } else {
            Err(Status::UNAUTHORIZED)
        }
    }

    fn find_stream(&self, identifier: Identifier<'_>) -> Option<&Arc<Stream>> {
        find_stream(self.catalog, identifier)
    }

    /// Return a stream, if it exists and this action is allowed on it.
    ///
    /// Permission is checked first, also for a stream that does not exist: a permission on all streams covers it as
    /// well. A user without permission therefore gets the same answer whether or not the stream exists.
    fn stream_if(
        &self,
        identifier: Identifier<'_>,
        action: impl FnOnce(StreamId) -> Action,
    ) -> Result<Option<&Arc<Stream>>, Status> {
        let stream = self.find_stream(identifier);
        self.allow(action(stream_number(identifier, stream)))?;
        Ok(stream)
    }

    /// Return a stream as `stream_if` does, but refuse one that does not exist.
    fn stream(
        &self,
        identifier: Identifier<'_>,
        action: impl FnOnce(StreamId) -> Action,
    ) -> Result<&Arc<Stream>, Status> {
        self.stream_if(identifier, action)?
            .ok_or(Status::STREAM_ID_NOT_FOUND)
    }

    /// Return a topic if this action is allowed on it, or the status for what is missing.
    fn topic(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        action: impl FnOnce(StreamId, TopicId) -> Action,
    ) -> Result<&Arc<Topic>, Status> {
        let looked_up = LookedUp::new(self.catalog, stream, topic);
        self.allow(action(looked_up.stream, looked_up.topic))?;
        looked_up.found
    }

    /// Return a topic, if it exists and this action is allowed on it.
    fn topic_if(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        action: impl FnOnce(StreamId, TopicId) -> Action,
    ) -> Result<Option<&Arc<Topic>>, Status> {
        match self.topic(stream, topic, action) {
            Err(Status::STREAM_ID_NOT_FOUND | Status::TOPIC_ID_NOT_FOUND) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Propose a command of the metadata state machine, on behalf of the session's user.
    fn propose(&self, operation: proto_metadata::command::Operation) -> Outcome {
        self.command(None, operation)
    }

    /// Propose a command about a stream or its contents. The precondition excludes another stream that has reused its
    /// number.
    fn propose_in(
        &self,
        stream: &Stream,
        operation: proto_metadata::command::Operation,
    ) -> Outcome {
        self.command(
            Some(Meant::StreamIncarnation(stream.incarnation)),
            operation,
        )
    }

    /// Propose a command about a topic or its contents, with its incarnation as the precondition.
    fn propose_on(&self, topic: &Topic, operation: proto_metadata::command::Operation) -> Outcome {
        self.command(Some(Meant::TopicIncarnation(topic.incarnation)), operation)
    }

    fn command(
        &self,
        meant: Option<Meant>,
        operation: proto_metadata::command::Operation,
    ) -> Outcome {
        Outcome::Control(Operation::Command(proto_metadata::Command {
            actor_user_id: self.user.0,
            meant,
            operation: Some(operation),
        }))
    }
}

/// Build a request to the control plane on behalf of a session.
pub(crate) fn control_request(session: &Session, operation: Operation) -> proto_control::Request {
    proto_control::Request {
        client_id: session.client.0,
        address: session.arrival.address.to_string(),
        user_id: session.user().map(|user| user.0),
        transport: session.arrival.transport as u32,
        interface: session.arrival.interface.into(),
        trace: None,
        operation: Some(operation),
    }
}

fn trace_of(context: TraceContext) -> proto_control::TraceContext {
    proto_control::TraceContext {
        trace_id: context.trace_id.to_be_bytes().to_vec(),
        span_id: context.span_id.to_be_bytes().to_vec(),
    }
}

/// Reject new names with control characters, which terminals would execute and which could start new lines in logs. An
/// unchanged name is accepted: the metadata service has no such rule, so stored names remain valid.
fn check_new_name(name: &str, present: &str) -> Result<(), Status> {
    if name != present && name.chars().any(char::is_control) {
        return Err(Status::INVALID_FORMAT);
    }
    Ok(())
}

impl Shard {
    /// Return the status if a request can be refused by its header alone; its payload is then skipped.
    pub(crate) fn refusal(
        &mut self,
        session: &Session,
        code: u32,
        payload_bytes: usize,
    ) -> Option<Status> {
        let Ok(command) = CommandCode::try_from(code) else {
            return Some(Status::INVALID_COMMAND);
        };
        // A response to any other command could not be distinguished from a notification.
        let attributes = command.attributes();
        if session.is_watching && !attributes.has(Attributes::WHILE_WATCHING) {
            return Some(Status::INVALID_COMMAND);
        }
        if !attributes.has(Attributes::CARRIES_MESSAGES) {
            if payload_bytes > limits::CONTROL_PAYLOAD_SIZE_BYTES_MAX as usize {
                return Some(Status::INVALID_COMMAND);
            }
            let is_large = payload_bytes > UNAUTHENTICATED_PAYLOAD_BYTES_MAX;
            return (is_large && self.current_user(session).is_none())
                .then_some(Status::UNAUTHENTICATED);
        }
        if self.current_user(session).is_none() {
            // Authenticate before allocating a receive buffer.
            return Some(Status::UNAUTHENTICATED);
        }
        (payload_bytes > self.config.send_payload_bytes_max).then_some(Status::INVALID_COMMAND)
    }

    /// Return the user of a session that is still valid; with a ticket, a reserved number that no user has.
    pub(crate) fn current_user(&mut self, session: &Session) -> Option<UserId> {
        let now = self.wall();
        let catalog = self.catalog.load();
        match (&session.login, &session.ticket) {
            (Some(login), _) => login.holds(catalog, now).then(|| login.user()),
            (None, Some(holder)) => holder.holds(catalog).then_some(TICKET_HOLDER),
            (None, None) => None,
        }
    }

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
            self.add_login_deadline(key, session);
        }
        let misses_something = match &outcome {
            Err(status) => may_be_stale_catalog(*status),
            Ok(outcome) => matches!(outcome, Outcome::Missing),
        };
        if misses_something && self.catches_up(key, session, effects) {
            return false;
        }
        match outcome {
            Err(status) => {
                self.note_refusal(session, code, status, effects);
                self.refuse(requester, code, payload, status);
            }
            Ok(Outcome::Respond(response)) => {
                notes::note_disconnection(session, code, payload, effects);
                requester.pipeline.respond(response);
            }
            Ok(Outcome::Missing) => requester.pipeline.respond(status_response(Status::OK)),
            Ok(Outcome::Control(operation)) => {
                let origin = requester.begin_alone();
                let session = &mut *requester.session;
                if is_join(&operation) {
                    session.may_be_member = true;
                    session.standing = Standing::Registered;
                }
                session.changes_password = control::is_own_password(session, &operation);
                let mut request = control_request(session, operation);
                request.trace = requester.pipeline.context_last().map(trace_of);
                effects.push(Effect::Control { origin, request });
            }
            Ok(Outcome::Partition {
                namespace,
                mut request,
                member,
                rate,
            }) => {
                let topic = (namespace.stream(), namespace.topic());
                if !self.pay(requester, code, topic, rate, payload.len(), effects) {
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
                let owner = self.owner(namespace);
                self.count_affinity(requester.session, owner);
                self.route(requester.pipeline, owner, call, effects);
            }
            Ok(Outcome::Trace(context)) => {
                let pipeline = &mut *requester.pipeline;
                pipeline.respond(status_response(Status::OK));
                pipeline.trace(context.filter(|_| self.meter.tracer.is_on()));
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

    fn handle(&mut self, session: &mut Session, command: &Command<'_>) -> Handled {
        self.sessions.register_again(self.now, session);
        match command {
            Command::Ping => {
                session.last_heartbeat = self.now;
                return Ok(Outcome::empty());
            }
            Command::Capabilities => return Ok(self.capabilities()),
            Command::ExplainRefusals => return Ok(Outcome::Explain),
            Command::ReportOffsets => return Ok(Outcome::ReportOffsets),
            Command::LoginUser(request) => return users::login(request),
            Command::LoginWithPersonalAccessToken(request) => {
                return Ok(users::login_with_token(request));
            }
            Command::OpenLink(request) => {
                return Ok(Outcome::Link(self.check_link_request(session, request)));
            }
            Command::LoginWithTicket(request) => return self.login_with_ticket(session, request),
            // Members ask again and again, so they need no other heartbeat.
            Command::GetMembership(_) => {
                session.last_heartbeat = self.now;
                session.repeats_membership = true;
            }
            _ => {}
        }
        let user = self.current_user(session).ok_or(Status::UNAUTHENTICATED)?;
        if session.ticket.is_some() && !holders::is_allowed_with_ticket(command) {
            return Err(Status::UNAUTHORIZED);
        }
        if matches!(command, Command::LogoutUser) {
            session.login = None;
            session.ticket = None;
            session.route = None;
            self.sessions.clients().set_user(session.client, None);
            return Ok(Outcome::empty());
        }
        let catalog = Arc::clone(self.catalog.load());
        let context = Context::new(self, &catalog, session, user);
        if let Command::IssueTicket(request) = command {
            let permitted = context.permitted(request)?;
            let login = session.login.as_ref();
            return self.issue_ticket(login, &permitted, request.lifetime_seconds);
        }
        context.handle(command).map_err(|status| {
            let was_member = session.standing == Standing::Stale;
            if was_member && status == Status::CONSUMER_GROUP_MEMBER_NOT_FOUND {
                Status::STALE_CLIENT
            } else {
                status
            }
        })
    }
}

impl Context<'_> {
    fn handle(&self, command: &Command<'_>) -> Handled {
        match command {
            Command::GetStats => self.get_stats(),
            Command::GetSnapshot(request) => self.get_snapshot(request),
            Command::GetClusterMetadata => Ok(self.get_cluster_metadata()),
            Command::GetMe => self.get_me(),
            Command::GetClient(request) => self.get_client(*request),
            Command::GetClients => self.get_clients(),
            Command::DisconnectClient(request) => self.disconnect_client(*request),
            Command::GetUser(request) => self.get_user(request),
            Command::GetUsers => self.get_users(),
            Command::CreateUser(request) => self.create_user(request),
            Command::DeleteUser(request) => self.delete_user(request),
            Command::UpdateUser(request) => self.update_user(request),
            Command::UpdatePermissions(request) => self.update_permissions(request),
            Command::ChangePassword(request) => self.change_password(request),
            Command::GetQuotas => Ok(self.get_quotas()),
            Command::GetUserQuota(request) => self.get_user_quota(request),
            Command::SetUserQuota(request) => self.set_user_quota(request),
            Command::GetTopicQuota(request) => self.get_topic_quota(request),
            Command::SetTopicQuota(request) => self.set_topic_quota(request),
            Command::GetPersonalAccessTokens => Ok(self.get_access_tokens()),
            Command::CreatePersonalAccessToken(request) => users::create_access_token(request),
            Command::DeletePersonalAccessToken(request) => Ok(self.delete_access_token(request)),
            Command::PollMessages(request) => self.poll_messages(request),
            Command::WaitMessages(request) | Command::ReadMessages(request) => {
                self.wait_messages(request)
            }
            Command::DescribePartitions(request) => self.describe_partitions(request),
            Command::WatchPartitions(request) => self.watch_partitions(request),
            Command::SetTraceContext(request) => Ok(Outcome::Trace(TraceContext::sampled(
                request.trace_id,
                request.span_id,
                request.flags,
            ))),
            Command::PlanRange(request) => self.plan_range(request),
            Command::StageMessages(request) => self.stage_messages(request),
            Command::CommitTransaction(request) => self.commit_transaction(request),
            Command::AbortTransaction(request) => self.abort_transaction(request),
            Command::GetTransaction(request) => self.get_transaction(request),
            Command::DeleteTransaction(request) => self.delete_transaction(request),
            Command::PinReader(request) => self.pin_reader(request),
            Command::UnpinReader(request) => self.unpin_reader(request),
            Command::FlushUnsavedBuffer(request) => self.flush_unsaved_buffer(request),
            Command::GetConsumerOffset(request) => self.get_consumer_offset(request),
            Command::StoreConsumerOffset(request) => self.store_consumer_offset(request),
            Command::DeleteConsumerOffset(request) => self.delete_consumer_offset(request),
            Command::GetStream(request) => self.get_stream(request),
            Command::GetStreams => self.get_streams(),
            Command::CreateStream(request) => self.create_stream(request),
            Command::DeleteStream(request) => self.delete_stream(request),
            Command::UpdateStream(request) => self.update_stream(request),
            Command::PurgeStream(request) => self.purge_stream(request),
            Command::GetTopic(request) => self.get_topic(request),
            Command::GetTopics(request) => self.get_topics(request),
            Command::CreateTopic(request) => self.create_topic(request),
            Command::DeleteTopic(request) => self.delete_topic(request),
            Command::UpdateTopic(request) => self.update_topic(request),
            Command::PurgeTopic(request) => self.purge_topic(request),
            Command::CreatePartitions(request) => self.create_partitions(request),
            Command::DeletePartitions(request) => self.delete_partitions(request),
            Command::DeleteSegments(request) => self.delete_segments(request),
            Command::GetConsumerGroup(request) => self.get_consumer_group(request),
            Command::GetConsumerGroups(request) => self.get_consumer_groups(request),
            Command::CreateConsumerGroup(request) => self.create_consumer_group(request),
            Command::DeleteConsumerGroup(request) => self.delete_consumer_group(request),
            Command::JoinConsumerGroup(request) => self.join_consumer_group(request),
            Command::LeaveConsumerGroup(request) => self.leave_consumer_group(request),
            Command::GetMembership(request) => self.get_membership(request),
            Command::Ping
            | Command::Capabilities
            | Command::ExplainRefusals
            | Command::ReportOffsets
            | Command::LoginUser(_)
            | Command::LoginWithPersonalAccessToken(_)
            | Command::LogoutUser
            | Command::OpenLink(_)
            | Command::LoginWithTicket(_)
            | Command::IssueTicket(_)
            | Command::SendMessages(_) => Err(Status::INVALID_COMMAND),
        }
    }
}
