//! Connections authenticated by a ticket, and the permissions of their holders.
//!
//! A holder need not be a user: it sends and polls at the node that hosts the partition, with the permission of the
//! user who issued the ticket. All other commands are for users.

use headrace_catalog::{Action, Catalog, Partition, Topic, authorise};
use headrace_model::{StreamId, TopicId, UserId};
use headrace_ticket::{Access, Issuer, Scope};
use headrace_wire::{Command, ConsumerKind, Status, command::Attributes};

use crate::sessions::connection::{TicketHolder, credential};

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
