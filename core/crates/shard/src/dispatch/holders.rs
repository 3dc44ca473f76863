//! Connections that were opened with a ticket, and what their holders may do.
//!
//! A holder need not be a user: it sends and polls at the node that has the partition, which somebody else has allowed it
//! to. Everything else is for users.

use headrace_catalog::{Action, Catalog, Partition, Topic, authorise};
use headrace_model::UserId;
use headrace_ticket::{Access, Scope};
use headrace_wire::{Command, ConsumerKind, Status, command::LoginWithTicket};

use super::{Handled, Outcome};
use crate::{Shard, config::Hosting, connection::Session};

/// In whose name a holder asks. No record has this number, so nothing is allowed in this name.
pub(super) const NOBODY: UserId = UserId(u32::MAX);

/// Whether `user`, or the holder of a ticket for `scope`, may do something.
pub(super) fn may(catalog: &Catalog, user: UserId, scope: Option<&Scope>, action: Action) -> bool {
    let Some(scope) = scope else {
        return authorise(catalog, user, action);
    };
    let (Action::Send(stream, topic) | Action::Poll(stream, topic)) = action else {
        return false;
    };
    // Which partitions, and in what way, is looked at when they are known.
    match scope {
        Scope::Cluster => true,
        Scope::Topic {
            stream: of,
            topic: its,
            ..
        } => (*of, *its) == (stream, topic),
        Scope::Partition { namespace, .. } => {
            (namespace.stream(), namespace.topic()) == (stream, topic)
        }
    }
}

/// The holder of a ticket for `scope` may do something with a partition; who has none is a user, and was asked before.
pub(super) fn opens(
    scope: Option<&Scope>,
    topic: &Topic,
    partition: &Partition,
    wanted: Access,
) -> Result<(), Status> {
    let incarnations = (topic.incarnation, partition.incarnation);
    match scope {
        Some(scope) if !scope.opens(partition.namespace, incarnations, wanted) => {
            Err(Status::UNAUTHORIZED)
        }
        _ => Ok(()),
    }
}

/// Whether a request is one that tickets are for.
pub(super) fn is_for_holders(command: &Command<'_>) -> bool {
    let kind = match command {
        Command::FlushUnsavedBuffer(_)
        | Command::PlanRange(_)
        | Command::StageMessages(_)
        | Command::SetTraceContext(_)
        | Command::LogoutUser => {
            return true;
        }
        Command::PollMessages(request) => request.consumer.kind,
        Command::WaitMessages(request) => request.poll.consumer.kind,
        Command::GetConsumerOffset(path) | Command::DeleteConsumerOffset(path) => {
            path.consumer.kind
        }
        Command::StoreConsumerOffset(request) => request.path.consumer.kind,
        _ => return false,
    };
    // Members of groups are known by their gateways.
    kind == ConsumerKind::Consumer
}

impl Shard {
    /// From now on the connection is for what the ticket opens.
    pub(super) fn login_with_ticket(
        &mut self,
        session: &mut Session,
        request: &LoginWithTicket<'_>,
    ) -> Handled {
        let scope = self.check_ticket(request.ticket)?;
        if !matches!(self.config.hosting, Hosting::Placed { .. }) {
            return Err(Status::INVALID_TICKET);
        }
        session.user = None;
        session.ticket = Some(scope);
        session.route = None;
        self.clients.set_user(session.client, None);
        Ok(Outcome::empty())
    }
}
