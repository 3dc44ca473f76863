//! Tickets: issued by users to third parties, and presented by these and by gateways.

use std::sync::Arc;

use headrace_catalog::Action;
use headrace_link::{OLDEST_VERSION, VERSION};
use headrace_model::{NodeId, ShardId};
use headrace_ticket::{Access, Issuer, Scope, Ticket};
use headrace_wire::{
    Status,
    command::{IssueTicket, LoginWithTicket, OpenLink},
    response::IssuedTicket,
};

use super::{Context, Handled, Outcome, lookups::LookedUp};
use crate::{
    config::Hosting,
    moment::Moment,
    sessions::{
        arrival::Framing,
        connection::{Login, Session, TicketHolder},
        registry::ClientRegistry,
        served::Opening,
    },
};

const MICROS_PER_SECOND: u64 = 1_000_000;
/// Default lifetime of a ticket.
const LIFETIME_SECONDS: u64 = 600;

/// Scope that a user may grant with a ticket.
pub(crate) struct Permitted {
    holder: Arc<str>,
    scope: Scope,
}

impl Context<'_> {
    /// Return the scope of a requested ticket. Users can grant only permissions that they have themselves.
    pub(crate) fn permitted(&self, request: &IssueTicket<'_>) -> Result<Permitted, Status> {
        let looked_up = LookedUp::new(self.catalog, request.stream, request.topic);
        let (stream, id) = (looked_up.stream, looked_up.topic);
        if request.read {
            self.allow(Action::Poll(stream, id))?;
        }
        if request.write {
            self.allow(Action::Send(stream, id))?;
        }
        let topic = looked_up.found?;
        let user = self.catalog.user_by_id(self.user);
        Ok(Permitted {
            holder: Arc::clone(&user.ok_or(Status::UNAUTHENTICATED)?.username),
            scope: Scope::Topic {
                stream,
                topic: id,
                incarnation: topic.incarnation,
                access: Access {
                    read: request.read,
                    write: request.write,
                },
            },
        })
    }
}

pub(crate) fn issue_ticket(
    moment: Moment<'_>,
    random: &mut fastrand::Rng,
    login: Option<&Login>,
    permitted: &Permitted,
    lifetime_seconds: u32,
) -> Handled {
    let key = (moment.config.ticket_key.as_ref()).ok_or(Status::FEATURE_UNAVAILABLE)?;
    let credential = login.ok_or(Status::UNAUTHENTICATED)?.credential();
    let user = moment.catalog.user_by_id(credential.user);
    let password_version = user.map_or(0, |user| user.password_version);
    let wanted = match lifetime_seconds {
        0 => LIFETIME_SECONDS,
        seconds => seconds.into(),
    };
    let now = moment.wall.0 / MICROS_PER_SECOND;
    let lifetime = wanted.min(moment.config.ticket_seconds_max);
    let login_ends = credential.expires_at.map(|at| at.0 / MICROS_PER_SECOND);
    let not_after = (now + lifetime).min(login_ends.unwrap_or(u64::MAX));
    let ticket = Ticket {
        holder: permitted.holder.as_ref().into(),
        scope: permitted.scope,
        not_after,
        id: random.u128(..),
        issuer: Some(Issuer {
            user: credential.user,
            // Another interface of this process vouches for its callers. Tickets that they issue end with the
            // password.
            password_version: match credential.password_version {
                0 => password_version,
                version => version,
            },
            token: credential.token,
        }),
    };
    let text = ticket.sign(key).map_err(|_| Status::INVALID_USERNAME)?;
    let issued = IssuedTicket {
        ticket: &text,
        not_after,
    };
    Ok(Outcome::payload(|out| issued.encode(out)))
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

/// Verify a ticket and return its content.
pub(crate) fn check_ticket(moment: Moment<'_>, text: &str) -> Result<Ticket, Status> {
    let key = (moment.config.ticket_key.as_ref()).ok_or(Status::INVALID_TICKET)?;
    let now = moment.wall.0 / MICROS_PER_SECOND;
    Ticket::verify(text, key, now).map_err(|_| Status::INVALID_TICKET)
}

/// Check whether a connection may become a link.
pub(crate) fn check_link_request(
    moment: Moment<'_>,
    session: &Session,
    request: &OpenLink<'_>,
) -> Result<Opening, Status> {
    let scope = check_ticket(moment, request.ticket)?.scope;
    let Hosting::Placed { node: name } = &moment.config.hosting else {
        return Err(Status::INVALID_TICKET);
    };
    if scope != Scope::Cluster {
        return Err(Status::INVALID_TICKET);
    }
    let is_fresh = session.arrival.framing == Framing::Plain && !session.is_authenticated();
    let is_spoken = (OLDEST_VERSION..=VERSION).contains(&request.version);
    let is_known = is_spoken && request.shard < moment.config.shards.get();
    if !is_fresh || !is_known {
        return Err(Status::INVALID_COMMAND);
    }
    let node = NodeId(request.node_id);
    let catalog = moment.catalog;
    let is_meant = match catalog.node(node) {
        Some(node) => node.name == *name,
        // This node was registered a moment ago, and its catalog does not contain that yet.
        None => catalog.version() < request.catalog_version,
    };
    if !is_meant {
        return Err(Status::PARTITION_ELSEWHERE);
    }
    Ok(Opening {
        shard: ShardId(request.shard),
        node,
        catalog_version: request.catalog_version,
    })
}
