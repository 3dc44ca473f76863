//! Connections authenticated by a ticket, and the permissions of their holders.
//!
//! A holder need not be a user: it sends and polls at the node that hosts the partition, with the permission of the
//! user who issued the ticket. All other commands are for users.

use headrace_catalog::{Action, Catalog, Credential, Partition, Topic, authorise};
use headrace_model::{StreamId, TopicId, UserId};
use headrace_ticket::{Access, Issuer, Scope, Ticket};
use headrace_wire::{
    Command, ConsumerKind, Status,
    command::{Attributes, LoginWithTicket},
};

use super::{Handled, Outcome};
use crate::moment::Moment;
use crate::sessions::registry::ClientRegistry;
use crate::sessions::served::check_ticket;
use crate::{config::Hosting, sessions::connection::Session};

/// User id of ticket holders. No user has this number, so it grants nothing by itself.
pub(crate) const TICKET_HOLDER: UserId = UserId(u32::MAX);

/// Scope of a ticket, and its issuer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TicketHolder {
    scope: Scope,
    /// Credential of the issuing user; `None` if a service issued the ticket.
    issuer: Option<Credential>,
}

impl TicketHolder {
    pub(crate) fn of(ticket: &Ticket) -> Self {
        Self {
            scope: ticket.scope,
            issuer: ticket.issuer.map(credential),
        }
    }

    /// Return the user who issued the ticket; `None` if a service did.
    pub(crate) fn issuer(&self) -> Option<UserId> {
        self.issuer.as_ref().map(|issuer| issuer.user)
    }

    /// Return whether the issuer's login is still valid.
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

/// Return whether a ticket still grants this action on a topic: the issuer's login is valid and has the permission. The
/// caller checks the scope of the ticket itself.
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

/// Return whether `user`, or the holder of a ticket, may perform an action.
pub(crate) fn may(
    catalog: &Catalog,
    user: UserId,
    holder: Option<&TicketHolder>,
    action: Action,
) -> bool {
    let Some(TicketHolder { scope, issuer }) = holder else {
        return authorise(catalog, user, action);
    };
    // The issuer has lost the permission.
    if (issuer.as_ref()).is_some_and(|issuer| !authorise(catalog, issuer.user, action)) {
        return false;
    }
    let (Action::Send(stream, topic) | Action::Poll(stream, topic)) = action else {
        return false;
    };
    // Partitions and modes are checked once they are known.
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

/// Check that a ticket permits an action on a partition. Without a ticket the caller is a user, who was authorised
/// before.
pub(super) fn check_ticket_access(
    holder: Option<&TicketHolder>,
    topic: &Topic,
    partition: &Partition,
    wanted: Access,
) -> Result<(), Status> {
    let incarnations = (topic.incarnation, partition.incarnation);
    match holder {
        Some(holder)
            if !holder
                .scope
                .permits(partition.namespace, incarnations, wanted) =>
        {
            Err(Status::UNAUTHORIZED)
        }
        _ => Ok(()),
    }
}

/// Return whether ticket holders may send this request.
pub(crate) fn is_allowed_with_ticket(command: &Command<'_>) -> bool {
    // Members of groups are known only to their gateways.
    command.code().attributes().has(Attributes::TICKETS)
        && (command.consumer()).is_none_or(|consumer| consumer.kind == ConsumerKind::Consumer)
}

/// Authenticate a connection with a ticket.
pub(crate) fn login_with_ticket(
    moment: Moment<'_>,
    clients: &ClientRegistry,
    session: &mut Session,
    request: &LoginWithTicket<'_>,
) -> Handled {
    let holder = TicketHolder::of(&check_ticket(moment, request.ticket)?);
    if !matches!(moment.config.hosting, Hosting::Placed { .. }) {
        return Err(Status::INVALID_TICKET);
    }
    // The local catalog may be behind that of the issuing gateway, and the user may become known soon.
    if !holder.holds(moment.catalog) {
        return Err(Status::INVALID_TICKET);
    }
    session.login = None;
    session.ticket = Some(holder);
    session.route = None;
    clients.set_user(session.client, None);
    Ok(Outcome::empty())
}
