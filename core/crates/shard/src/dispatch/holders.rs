//! Connections that were opened with a ticket, and what their holders may do.
//!
//! A holder need not be a user: it sends and polls at the node that has the partition, which somebody else has allowed it
//! to. Everything else is for users.

use headrace_catalog::{Action, Catalog, Credential, Partition, Topic, authorise};
use headrace_model::{StreamId, TopicId, UserId};
use headrace_ticket::{Access, Issuer, Scope, Ticket};
use headrace_wire::{Command, ConsumerKind, Status, command::LoginWithTicket};

use super::{Handled, Outcome};
use crate::{Shard, config::Hosting, connection::Session};

/// In whose name a holder asks. No record has this number, so nothing is allowed in this name.
pub(crate) const NOBODY: UserId = UserId(u32::MAX);

/// What a ticket that was shown opens, and in whose name it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    scope: Scope,
    /// `None`: in a service's.
    issuer: Option<Credential>,
}

impl Holder {
    pub(crate) fn of(ticket: &Ticket) -> Self {
        Self {
            scope: ticket.scope,
            issuer: ticket.issuer.map(credential),
        }
    }

    /// The user in whose name the ticket was made; `None`: a service's.
    pub(crate) fn issuer(&self) -> Option<UserId> {
        self.issuer.as_ref().map(|issuer| issuer.user)
    }

    /// Whether the login in whose name the ticket was made goes on.
    pub(crate) fn holds(&self, catalog: &Catalog) -> bool {
        (self.issuer).is_none_or(|issuer| catalog.accepts(&issuer))
    }
}

fn credential(issuer: Issuer) -> Credential {
    Credential {
        password_version: issuer.password_version,
        token: issuer.token,
        ..Credential::of_user(issuer.user)
    }
}

/// Whether a ticket still opens a topic in this way: the login in whose name it was made goes on, and has the rights. What
/// the ticket itself says is the caller's to check.
pub fn issuer_may(
    catalog: &Catalog,
    issuer: Issuer,
    (stream, topic): (StreamId, TopicId),
    access: Access,
) -> bool {
    catalog.accepts(&credential(issuer))
        && (!access.read || authorise(catalog, issuer.user, Action::Poll(stream, topic)))
        && (!access.write || authorise(catalog, issuer.user, Action::Send(stream, topic)))
}

/// Whether `user`, or the holder of a ticket, may do something.
pub(super) fn may(
    catalog: &Catalog,
    user: UserId,
    holder: Option<&Holder>,
    action: Action,
) -> bool {
    let Some(Holder { scope, issuer }) = holder else {
        return authorise(catalog, user, action);
    };
    // Who has made it has lost the right.
    if (issuer.as_ref()).is_some_and(|issuer| !authorise(catalog, issuer.user, action)) {
        return false;
    }
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

/// The holder of a ticket may do something with a partition; who has none is a user, and was asked before.
pub(super) fn opens(
    holder: Option<&Holder>,
    topic: &Topic,
    partition: &Partition,
    wanted: Access,
) -> Result<(), Status> {
    let incarnations = (topic.incarnation, partition.incarnation);
    match holder {
        Some(holder)
            if !holder
                .scope
                .opens(partition.namespace, incarnations, wanted) =>
        {
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
        Command::WaitMessages(request) | Command::ReadMessages(request) => {
            request.poll.consumer.kind
        }
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
        let holder = Holder::of(&self.check_ticket(request.ticket)?);
        if !matches!(self.config.hosting, Hosting::Placed { .. }) {
            return Err(Status::INVALID_TICKET);
        }
        // The catalogue here may be behind the gateway's that has made it, and then knows the user soon.
        if !holder.holds(self.catalog.load()) {
            return Err(Status::INVALID_TICKET);
        }
        session.login = None;
        session.ticket = Some(holder);
        session.route = None;
        self.clients.set_user(session.client, None);
        Ok(Outcome::empty())
    }
}
