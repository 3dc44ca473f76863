//! End of sessions before their connections close: when the user, the password or the access token is revoked or
//! expires.

use std::sync::Arc;

use headrace_catalog::Changes;
use headrace_model::Timestamp;

use crate::{
    Shard,
    api::{ConnectionKey, Effect},
    config::Hosting,
    dispatch::TICKET_HOLDER,
    sessions::{Sessions, closing::client_gone},
};

impl Shard {
    /// Apply a new catalog: end the sessions whose user or credential it no longer contains.
    pub(crate) fn review_sessions(&mut self, changes: &Changes, effects: &mut Vec<Effect>) {
        if !changes.has_users() {
            return;
        }
        let is_touched = |user| changes.has_user(user) || user == TICKET_HOLDER;
        let keys: Vec<ConnectionKey> = self
            .sessions
            .iter()
            .filter(|connection| {
                let session = &connection.session;
                let user = session.user().or(session.ticket.map(|_| TICKET_HOLDER));
                user.is_some_and(is_touched)
            })
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            self.review_session(key, effects);
        }
    }

    /// End one session if its login is no longer valid. The caller reviews its waiting requests.
    pub(crate) fn review_session(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let (catalog, now) = (Arc::clone(self.catalog.load()), self.wall());
        let closes = matches!(self.config.hosting, Hosting::Placed { .. });
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        let session = &mut connection.session;
        let holds = match (&session.login, &session.ticket) {
            (Some(login), _) => session.changes_password || login.holds(&catalog, now),
            (None, Some(holder)) => holder.holds(&catalog),
            (None, None) => true,
        };
        if holds {
            return;
        }
        let client = session.client;
        if core::mem::take(&mut session.may_be_member) {
            effects.push(client_gone(client));
        }
        session.route = None;
        // An in-process session resumes when its user becomes active again.
        if !session.arrival.is_in_process() {
            session.login = None;
            session.ticket = None;
            connection.closing |= closes;
            self.sessions.clients.set_user(client, None);
            self.require_login(key);
        }
        self.sessions.touch(key);
    }

    /// End expired sessions.
    pub(crate) fn end_expired_sessions(&mut self, effects: &mut Vec<Effect>) {
        let now = self.wall();
        if self.sessions.logins_expire_at.is_none_or(|at| at > now) {
            return;
        }
        self.sessions.logins_expire_at = None;
        let expiring: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|connection| {
                let session = &connection.session;
                Some((connection.key, session.user()?, session.expires_at()?))
            })
            .collect();
        for (key, user, expires_at) in expiring {
            if expires_at <= now {
                self.review_session(key, effects);
                let changes = Changes::of_user(user);
                self.review_waits(&changes, effects);
                self.review_watches(&changes, effects);
            } else {
                self.sessions.note_login_expiry(Some(expires_at));
            }
        }
    }

    /// Close the connections of clients for which a disconnect was requested.
    pub(crate) fn end_unwanted(&mut self, effects: &mut Vec<Effect>) {
        let disconnections = self.sessions.clients.disconnections();
        if disconnections == self.sessions.disconnections_seen {
            return;
        }
        self.sessions.disconnections_seen = disconnections;
        let unwanted = self.sessions.clients.to_disconnect();
        let keys: Vec<ConnectionKey> = self
            .sessions
            .iter()
            .filter(|connection| unwanted.contains(&connection.session.client))
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            self.close(key, effects);
        }
    }
}

impl Sessions {
    /// Note the time at which a login expires.
    pub(crate) fn note_login_expiry(&mut self, expires_at: Option<Timestamp>) {
        if let Some(expires_at) = expires_at {
            let next = self.logins_expire_at.unwrap_or(expires_at);
            self.logins_expire_at = Some(next.min(expires_at));
        }
    }
}
