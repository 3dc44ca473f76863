//! End of sessions before their connections close: when the user, the password or the access token is revoked or
//! expires.

use headrace_catalog::Changes;
use headrace_model::{Timestamp, UserId};

use crate::{
    api::Effect,
    calls::ConnectionKey,
    config::Hosting,
    moment::Moment,
    sessions::{Sessions, closing::client_gone, connection::TICKET_HOLDER},
};

impl Sessions {
    /// Take the connections whose logins have expired, with their users.
    pub(crate) fn take_expired(&mut self, wall: Timestamp) -> Vec<(ConnectionKey, UserId)> {
        if self.logins_expire_at.is_none_or(|at| at > wall) {
            return Vec::new();
        }
        let mut expired = Vec::new();
        let mut next = None;
        for connection in self.iter() {
            let session = &connection.session;
            match (session.user(), session.expires_at()) {
                (Some(user), Some(at)) if at <= wall => expired.push((connection.key, user)),
                (Some(_), Some(at)) => next = Some(next.map_or(at, |next: Timestamp| next.min(at))),
                _ => {}
            }
        }
        self.logins_expire_at = next;
        expired
    }

    /// Take the connections of clients for which a disconnect was requested.
    pub(crate) fn take_unwanted(&mut self) -> Vec<ConnectionKey> {
        let disconnections = self.clients.disconnections();
        if disconnections == self.disconnections_seen {
            return Vec::new();
        }
        self.disconnections_seen = disconnections;
        let unwanted = self.clients.to_disconnect();
        self.iter()
            .filter(|connection| unwanted.contains(&connection.session.client))
            .map(|connection| connection.key)
            .collect()
    }

    /// Apply a new catalog: end the sessions whose user or credential it no longer contains.
    pub(crate) fn review_sessions(
        &mut self,
        moment: Moment<'_>,
        changes: &Changes,
        effects: &mut Vec<Effect>,
    ) {
        if !changes.has_users() {
            return;
        }
        let is_touched = |user| changes.has_user(user) || user == TICKET_HOLDER;
        let keys: Vec<ConnectionKey> = self
            .iter()
            .filter(|connection| {
                let session = &connection.session;
                let user = session.user().or(session.ticket.map(|_| TICKET_HOLDER));
                user.is_some_and(is_touched)
            })
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            self.review_session(moment, key, effects);
        }
    }

    /// End one session if its login is no longer valid. The caller reviews its waiting requests.
    pub(crate) fn review_session(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        effects: &mut Vec<Effect>,
    ) {
        let (catalog, now) = (moment.catalog, moment.wall);
        let closes = matches!(moment.config.hosting, Hosting::Placed { .. });
        let Some(connection) = self.get_mut(key) else {
            return;
        };
        let session = &mut connection.session;
        let holds = match (&session.login, &session.ticket) {
            (Some(login), _) => session.changes_password || login.holds(catalog, now),
            (None, Some(holder)) => holder.holds(catalog),
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
            self.clients.set_user(client, None);
            self.require_login(moment, key);
        }
        self.touch(key);
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
