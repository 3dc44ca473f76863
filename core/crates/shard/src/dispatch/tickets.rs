//! Tickets that users have made for somebody else.

use std::sync::Arc;

use headrace_catalog::Action;
use headrace_ticket::{Access, Scope, Ticket};
use headrace_wire::{Status, command::IssueTicket, response::IssuedTicket};

use super::{Context, Handled, Outcome};
use crate::Shard;

const MICROS_PER_SECOND: u64 = 1_000_000;
/// How long a ticket is valid when nobody says.
const LIFETIME_SECONDS: u64 = 3600;

/// What a user may have a ticket for.
pub(super) struct Permitted {
    holder: Arc<str>,
    scope: Scope,
}

impl Context<'_> {
    /// Nobody lets others do what they may not do themselves.
    pub(super) fn permitted(&self, request: &IssueTicket<'_>) -> Result<Permitted, Status> {
        let topic = self.topic(request.stream, request.topic)?;
        let (stream, id) = (topic.stream_id, topic.id);
        if request.read {
            self.allow(Action::Poll(stream, id))?;
        }
        if request.write {
            self.allow(Action::Send(stream, id))?;
        }
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

impl Shard {
    pub(super) fn issue_ticket(&mut self, permitted: &Permitted, lifetime_seconds: u32) -> Handled {
        let key = (self.config.ticket_key.as_ref()).ok_or(Status::FEATURE_UNAVAILABLE)?;
        let wanted = match lifetime_seconds {
            0 => LIFETIME_SECONDS,
            seconds => seconds.into(),
        };
        let not_after = self.now.0 / MICROS_PER_SECOND + wanted.min(self.config.ticket_seconds_max);
        let ticket = Ticket {
            holder: permitted.holder.as_ref().into(),
            scope: permitted.scope,
            not_after,
            id: self.random.u128(..),
        };
        let text = ticket.sign(key).map_err(|_| Status::INVALID_USERNAME)?;
        let issued = IssuedTicket {
            ticket: &text,
            not_after,
        };
        Ok(Outcome::payload(|out| issued.encode(out)))
    }
}
