//! Handling of requests from payload bytes to outcome, with one file per family of commands.
//!
//! Every handler keeps the documented order of its checks, because clients and their tests rely on which of several
//! errors they see.

pub(crate) mod answers;
pub(crate) mod control;
pub(crate) mod explaining;
mod groups;
pub(crate) mod holders;
mod lookups;
pub(crate) mod messages;
pub(crate) mod notes;
mod partitions;
mod quotas;
pub(crate) mod stages;
pub(crate) mod statistics;
mod streams;
pub(crate) mod system;
pub(crate) mod tickets;
mod topics;
mod transactions;
pub(crate) mod users;
pub(crate) mod waits;
mod watches;

use std::sync::Arc;

use headrace_buffer::{BufferPool, Slice};
use headrace_catalog::{Action, Catalog, Rate, Stream, Topic};
use headrace_link::{Membership, TraceContext};
use headrace_model::{ClientId, Namespace, StreamId, TopicId, UserId, limits};
use headrace_partition::{Poll, Request};
use headrace_proto::control::v1::{self as proto_control, request::Operation};
use headrace_proto::metadata::v1::{self as proto_metadata, command::Meant};
use headrace_wire::{Command, CommandCode, Identifier, Status, WatchAction, command::Attributes};
use lookups::{LookedUp, find_stream, stream_number};

use crate::{
    moment::Moment,
    routing::links::Links,
    sessions::{
        connection::{
            Session, TicketHolder, UNAUTHENTICATED_PAYLOAD_BYTES_MAX, payload_response,
            status_response,
        },
        registry::ClientRegistry,
        served::Opening,
    },
};

pub use holders::issuer_may;

/// Command whose payload may be large and of which several may be in flight.
pub(crate) const SEND_MESSAGES: u32 = CommandCode::SendMessages.code();

/// Second command whose payload may be large.
pub(crate) const STAGE_MESSAGES: u32 = CommandCode::StageMessages.code();

/// Return whether the answer to a command may be large, so that it counts for the user who asks until it is taken.
pub(crate) fn has_sizeable_answer(code: u32) -> bool {
    CommandCode::try_from(code)
        .is_ok_and(|command| command.attributes().has(Attributes::LARGE_RESPONSE))
}

/// Partitions and poll parameters of a waiting request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Inputs of the plan: while these are unchanged, the plan is the same.
    pub(crate) user: UserId,
    pub(crate) topic: (StreamId, TopicId),
    pub(crate) poll: Poll,
    pub(crate) member: Option<Membership>,
    /// Partitions, ascending. Empty for a member that owns none, or not the one that it has named.
    pub(crate) places: Vec<Namespace>,
    /// True if the request names its partition, or means partition 0 as a consumer outside a group.
    pub(crate) is_named: bool,
}

/// A request that waits for messages.
pub(crate) struct Wait {
    pub(crate) plan: Plan,
    pub(crate) micros: u64,
    /// Rate of reading the topic, if it has a quota.
    pub(crate) rate: Option<Arc<Rate>>,
}

/// Decision of a handler.
pub(crate) enum Outcome {
    /// Answered with this response.
    Respond(Slice),
    /// Answered by the control plane.
    Control(Operation),
    /// Answered by a partition.
    Partition {
        namespace: Namespace,
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
        places: Vec<(Namespace, u64)>,
    },
}

impl Outcome {
    pub(crate) fn payload(encode: impl FnOnce(&mut Vec<u8>)) -> Self {
        Self::Respond(payload_response(encode))
    }

    /// Success without payload.
    pub(crate) fn empty() -> Self {
        Self::Respond(status_response(Status::OK))
    }
}

/// Result of a handler: an outcome, or the status that refuses the request.
pub(crate) type Handled = Result<Outcome, Status>;

impl From<Outcome> for Handled {
    fn from(outcome: Outcome) -> Self {
        Ok(outcome)
    }
}

/// State that handlers can access.
pub(crate) struct Context<'a> {
    moment: Moment<'a>,
    catalog: &'a Catalog,
    /// Clients of all shards.
    clients: &'a ClientRegistry,
    client: ClientId,
    user: UserId,
    /// Set if a ticket grants the permissions.
    ticket: Option<TicketHolder>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        moment: Moment<'a>,
        clients: &'a ClientRegistry,
        session: &Session,
        user: UserId,
    ) -> Self {
        Self {
            catalog: moment.catalog,
            moment,
            clients,
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

pub(crate) fn trace_of(context: TraceContext) -> proto_control::TraceContext {
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

/// Return the status if a request can be refused by its header alone; its payload is then skipped.
pub(crate) fn refusal(
    moment: Moment<'_>,
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
        return (is_large && session.current_user(moment).is_none())
            .then_some(Status::UNAUTHENTICATED);
    }
    if session.current_user(moment).is_none() {
        // Authenticate before allocating a receive buffer.
        return Some(Status::UNAUTHENTICATED);
    }
    (payload_bytes > moment.config.send_payload_bytes_max).then_some(Status::INVALID_COMMAND)
}

macro_rules! handlers {
    ({ $($command:ident $(($request:ident))? $handler:ident,)+ } { $($other:ident,)+ }) => {
        impl Context<'_> {
            /// Call the handler of a command.
            fn handle_alone(&self, command: &Command<'_>) -> Handled {
                match command {
                    $(Command::$command $(($request))? => self.$handler($($request)?).into(),)+
                    $(Command::$other { .. })|+ => Err(Status::INVALID_COMMAND),
                }
            }
        }
    };
}

headrace_wire::command_handlers! { handlers }

impl Context<'_> {
    /// Handle a command of a user. Staged messages get buffers of the pool, and the links show which nodes are reached.
    pub(crate) fn handle(
        &self,
        command: &Command<'_>,
        pool: &BufferPool,
        links: &Links,
    ) -> Handled {
        match command {
            Command::StageMessages(request) => self.stage_messages(request, pool),
            Command::DescribePartitions(request) => self.describe_partitions(request, links),
            command => self.handle_alone(command),
        }
    }
}
