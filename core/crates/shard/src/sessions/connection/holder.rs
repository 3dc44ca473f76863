//! Tickets that authenticate sessions.

use headrace_catalog::{Catalog, Credential};
use headrace_model::UserId;
use headrace_ticket::{Issuer, Scope, Ticket};

/// User id of ticket holders. No user has this number, so it grants nothing by itself.
pub(crate) const TICKET_HOLDER: UserId = UserId(u32::MAX);

/// Scope of a ticket, and its issuer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TicketHolder {
    pub(crate) scope: Scope,
    /// Credential of the issuing user; `None` if a service issued the ticket.
    pub(crate) issuer: Option<Credential>,
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

pub(crate) fn credential(issuer: Issuer) -> Credential {
    Credential {
        password_version: issuer.password_version,
        token: issuer.token,
        ..Credential::of_user(issuer.user)
    }
}
