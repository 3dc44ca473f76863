//! Table of a shard's connections, and list of the connections with pending work.

use std::sync::Arc;

use headrace_catalog::Catalog;
use headrace_model::{Timestamp, UserId};

use crate::{
    Shard,
    api::{ConnectionKey, Effect, MovedConnection},
    dispatch::note_certificate_login,
    sessions::{
        Sessions,
        arrival::{Arrival, Framing},
        catching_up::CatchingUp,
        closing::DeadlineKind,
        connection::{Affinity, Connection, Login, Session, Source, Standing},
        pacing::Pace,
        registry::Places,
    },
};

impl Shard {
    /// Number of connections that all shards may have, and that the quota of a user allows.
    pub(crate) fn places(&self, catalog: &Catalog, user: UserId) -> Places {
        let shards = usize::from(self.config.shards.get());
        let allowed = (catalog.user_by_id(user)).map_or(0, |user| user.quota.connections);
        Places {
            of_all: self.config.connections_max.saturating_mul(shards),
            of_quota: match allowed {
                0 => usize::MAX,
                allowed => allowed as usize,
            },
        }
    }

    fn has_place_for(&mut self, user: UserId) -> bool {
        let catalog = Arc::clone(self.catalog.load());
        let places = self.places(&catalog, user);
        self.sessions.clients.has_place_for(user, places)
    }

    pub(crate) fn accepted(
        &mut self,
        key: ConnectionKey,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) {
        // In-process APIs limit their own connections.
        let is_limited = !arrival.is_in_process();
        if is_limited && self.sessions.counts.limited >= self.config.connections_max {
            self.close_unauthenticated(effects);
        }
        let is_full = self.sessions.counts.limited >= self.config.connections_max;
        let is_beyond_share = (arrival.user).is_some_and(|user| !self.has_place_for(user));
        if self.sessions.shutting_down || is_limited && (is_full || is_beyond_share) {
            effects.push(Effect::Close { connection: key });
            return;
        }
        let mut session = Session {
            client: self.sessions.clients.connected(arrival),
            arrival,
            login: arrival.credential().map(Login::new),
            ticket: None,
            changes_password: false,
            login_until: Timestamp(0),
            last_heartbeat: self.now,
            repeats_membership: false,
            standing: Standing::Registered,
            route: None,
            affinity: Affinity::default(),
            may_be_member: false,
            is_watching: false,
            catching_up: CatchingUp::No,
            share: None,
            pace: Pace::default(),
        };
        if arrival.framing == Framing::WebSocket {
            let until = Timestamp(self.now.0 + self.config.websocket.handshake_timeout_micros);
            self.sessions
                .add_deadline(until, key, DeadlineKind::Upgrade);
        }
        if !session.is_authenticated() {
            self.add_login_deadline(key, &mut session);
        } else if !arrival.is_in_process() {
            note_certificate_login(&session, effects);
        }
        let connection = Connection::new(key, session, &self.config.websocket);
        self.meter.accepted();
        self.admit(Box::new(connection));
    }

    pub(crate) fn adopted(
        &mut self,
        key: ConnectionKey,
        connection_state: MovedConnection,
        effects: &mut Vec<Effect>,
    ) {
        let mut connection = connection_state.0;
        connection.key = key;
        connection.touched = false;
        connection.session.affinity = Affinity::default();
        connection.is_payload_awaited = false;
        connection.share_turn = 0;
        connection.awaits_turn = false;
        connection.session.pace.forget_delay();
        if self.sessions.shutting_down {
            connection.begin_graceful_close();
        }
        self.receive_link(&mut connection);
        self.sessions
            .note_login_expiry(connection.session.expires_at());
        self.admit(connection);
        // Disconnection requests during the move were seen by neither shard.
        self.sessions.disconnections_seen = 0;
        // A session that ended while the connection was to move has its deadline on the other shard.
        self.require_login(key);
        self.review_session(key, effects);
    }

    fn admit(&mut self, mut connection: Box<Connection>) {
        connection.pipeline.measure(&self.meter);
        self.sessions.insert(connection);
    }

    /// Take the peer's address from the PROXY header. Returns false, and closes the connection, if its first bytes are
    /// not such a header.
    pub(crate) fn learn_source(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) -> bool {
        let Some(connection) = self.sessions.get_mut(key) else {
            return false;
        };
        match connection.inbox.take_source() {
            Source::Received(Some(address)) => {
                connection.session.arrival.address = address;
                let client = connection.session.client;
                self.sessions.clients.set_address(client, address);
            }
            Source::Missing => {
                self.close(key, effects);
                return false;
            }
            Source::Known | Source::Awaited | Source::Received(None) => {}
        }
        true
    }
}

impl Sessions {
    /// Add a connection, which has pending work.
    fn insert(&mut self, connection: Box<Connection>) {
        let key = connection.key;
        let index = key.index as usize;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.count_change(&connection, 1);
        self.connections[index] = Some(connection);
        self.touch(key);
    }

    /// Count a connection that opens (1) or closes (-1).
    pub(crate) fn count_change(&mut self, connection: &Connection, change: isize) {
        let count = |number: &mut usize| *number = number.saturating_add_signed(change);
        count(&mut self.counts.all);
        if connection.gateway_link.is_some() {
            count(&mut self.counts.links);
        } else if !connection.session.arrival.is_in_process() {
            count(&mut self.counts.limited);
        }
    }

    /// All connections that are in the table.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.connections
            .iter()
            .flatten()
            .map(|connection| &**connection)
    }

    /// Note that every connection has pending work.
    pub(crate) fn touch_all(&mut self) {
        let keys: Vec<ConnectionKey> = self.iter().map(|connection| connection.key).collect();
        for key in keys {
            self.touch(key);
        }
    }

    /// Note that a connection has pending work.
    pub(crate) fn touch(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.get_mut(key)
            && !connection.touched
        {
            connection.touched = true;
            self.touched.push(key);
        }
    }

    /// Return a connection that is in the table.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        self.connections
            .get_mut(key.index as usize)?
            .as_deref_mut()
            .filter(|connection| connection.key == key)
    }

    /// Take a connection out of the table: for good, or until it is put back.
    pub(crate) fn take(&mut self, key: ConnectionKey) -> Option<Box<Connection>> {
        let place = self.connections.get_mut(key.index as usize)?;
        if place.as_ref()?.key == key {
            place.take()
        } else {
            None
        }
    }

    /// Put a connection back into the table.
    pub(crate) fn put(&mut self, connection: Box<Connection>) {
        let index = connection.key.index as usize;
        self.connections[index] = Some(connection);
    }
}
