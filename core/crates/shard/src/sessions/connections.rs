//! Table of a shard's connections, and list of the connections with pending work.

use headrace_model::{Timestamp, UserId};

use crate::{
    api::{Effect, MovedConnection},
    calls::ConnectionKey,
    dispatch::notes::note_certificate_login,
    moment::Moment,
    sessions::{
        Sessions,
        arrival::{Arrival, Framing},
        closing::DeadlineKind,
        connection::{
            Affinity, CatchingUp, Connection, Login, Pace, Registration, Session, Source,
        },
        registry::Places,
    },
};

impl Sessions {
    /// Return whether a new connection would exceed the limit of connections. In-process APIs limit their own.
    pub(crate) fn is_full(&self, moment: Moment<'_>, arrival: &Arrival) -> bool {
        !arrival.is_in_process() && self.counts.limited >= moment.config.connections_max
    }

    /// Take a new connection, or close it if there is no place for it.
    pub(crate) fn accept(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) {
        let is_beyond_share =
            || (arrival.user).is_some_and(|user| !self.has_place_for(moment, user));
        let is_refused =
            self.is_full(moment, &arrival) || !arrival.is_in_process() && is_beyond_share();
        if self.shutting_down || is_refused {
            effects.push(Effect::Close { connection: key });
            return;
        }
        let mut session = Session {
            client: self.clients.connected(arrival),
            arrival,
            login: arrival.credential().map(Login::new),
            ticket: None,
            changes_password: false,
            login_until: Timestamp(0),
            last_heartbeat: moment.now,
            repeats_membership: false,
            registration: Registration::Registered,
            route: None,
            affinity: Affinity::default(),
            may_be_member: false,
            is_watching: false,
            catching_up: CatchingUp::No,
            share: None,
            pace: Pace::default(),
        };
        if arrival.framing == Framing::WebSocket {
            let until = Timestamp(moment.now.0 + moment.config.websocket.handshake_timeout_micros);
            self.add_deadline(until, key, DeadlineKind::Upgrade);
        }
        if !session.is_authenticated() {
            self.add_login_deadline(moment, key, &mut session);
        } else if !arrival.is_in_process() {
            note_certificate_login(&session, effects);
        }
        let connection = Connection::new(key, session, &moment.config.websocket);
        moment.meter.accepted();
        self.admit(moment, Box::new(connection));
    }

    /// Take the peer's address from the PROXY header. Returns false if its first bytes are not such a header.
    pub(crate) fn learn_source(&mut self, key: ConnectionKey) -> bool {
        let Some(connection) = self.get_mut(key) else {
            return false;
        };
        match connection.inbox.take_source() {
            Source::Received(Some(address)) => {
                connection.session.arrival.address = address;
                let client = connection.session.client;
                self.clients.set_address(client, address);
            }
            Source::Missing => return false,
            Source::Known | Source::Awaited | Source::Received(None) => {}
        }
        true
    }

    /// Remove a connection, and end its session.
    pub(crate) fn remove(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        if let Some(connection) = self.take(key) {
            self.count_change(&connection, -1);
            if connection.lingers_until.is_none() && connection.gateway_link.is_none() {
                let session = &connection.session;
                self.disconnected(session.client, session.may_be_member, effects);
            }
            effects.push(Effect::Close { connection: key });
        }
    }

    fn has_place_for(&self, moment: Moment<'_>, user: UserId) -> bool {
        let places = Places::of(moment, user);
        self.clients.has_place_for(user, places)
    }

    pub(crate) fn adopted(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        connection_state: MovedConnection,
        effects: &mut Vec<Effect>,
    ) {
        let mut connection = connection_state.0;
        connection.key = key;
        connection.touched = false;
        connection.session.affinity = Affinity::default();
        connection.payload.is_awaited = false;
        connection.share_turn = 0;
        connection.awaits_turn = false;
        connection.session.pace.forget_delay();
        if self.shutting_down {
            connection.begin_graceful_close();
        }
        self.receive_link(moment, &mut connection);
        self.note_login_expiry(connection.session.expires_at());
        self.admit(moment, connection);
        // Disconnection requests during the move were seen by neither shard.
        self.disconnections_seen = 0;
        // A session that ended while the connection was to move has its deadline on the other shard.
        self.require_login(moment, key);
        self.review_session(moment, key, effects);
    }

    fn admit(&mut self, moment: Moment<'_>, mut connection: Box<Connection>) {
        connection.pipeline.measure(moment.meter);
        self.insert(connection);
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
