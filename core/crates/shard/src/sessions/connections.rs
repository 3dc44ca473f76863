//! Table of a shard's connections, and list of the connections with pending work.

use headrace_model::Timestamp;

use crate::{
    Shard,
    api::{ConnectionKey, Effect, MovedConnection},
    dispatch::note_certificate_login,
    sessions::arrival::{Arrival, Framing},
    sessions::catching_up::CatchingUp,
    sessions::closing::DeadlineKind,
    sessions::connection::{Affinity, Connection, Login, Session, Source, Standing},
};

impl Shard {
    pub(crate) fn accepted(
        &mut self,
        key: ConnectionKey,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) {
        // In-process APIs limit their own connections.
        let is_full =
            self.counted_connections >= self.config.connections_max && !arrival.is_in_process();
        if self.shutting_down || is_full {
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
            last_heartbeat: self.now,
            standing: Standing::Registered,
            route: None,
            affinity: Affinity::default(),
            may_be_member: false,
            is_watching: false,
            catching_up: CatchingUp::No,
            share: None,
        };
        if arrival.framing == Framing::WebSocket {
            let until = Timestamp(self.now.0 + self.config.websocket.handshake_timeout_micros);
            self.add_deadline(until, key, DeadlineKind::Upgrade);
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
        if self.shutting_down {
            connection.begin_graceful_close();
        }
        self.receive_link(&mut connection);
        self.note_login_expiry(connection.session.expires_at());
        self.admit(connection);
        // Disconnection requests during the move were seen by neither shard.
        self.disconnections_seen = 0;
        self.review_session(key, effects);
    }

    fn admit(&mut self, mut connection: Box<Connection>) {
        connection.pipeline.measure(&self.meter);
        let key = connection.key;
        let index = key.index as usize;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.count(&connection, 1);
        self.connections[index] = Some(connection);
        self.touch(key);
    }

    /// Count a connection that opens (1) or closes (-1).
    pub(crate) fn count(&mut self, connection: &Connection, change: isize) {
        let count = |number: &mut usize| *number = number.saturating_add_signed(change);
        count(&mut self.connections_count);
        if connection.gateway_link.is_some() {
            count(&mut self.links_count);
        } else if !connection.session.arrival.is_in_process() {
            count(&mut self.counted_connections);
        }
    }

    pub(crate) fn touch_all(&mut self) {
        let keys: Vec<ConnectionKey> = self
            .connections
            .iter()
            .flatten()
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            self.touch(key);
        }
    }

    pub(crate) fn touch(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connection_mut(key)
            && !connection.touched
        {
            connection.touched = true;
            self.touched.push(key);
        }
    }

    pub(crate) fn connection_mut(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        self.connections
            .get_mut(key.index as usize)?
            .as_deref_mut()
            .filter(|connection| connection.key == key)
    }

    /// Take the peer's address from the PROXY header. Returns false, and closes the connection, if its first bytes are
    /// not such a header.
    pub(crate) fn learn_source(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) -> bool {
        let clients = self.clients.clone();
        let Some(connection) = self.connection_mut(key) else {
            return false;
        };
        match connection.inbox.take_source() {
            Source::Received(Some(address)) => {
                connection.session.arrival.address = address;
                clients.set_address(connection.session.client, address);
            }
            Source::Missing => {
                self.close(key, effects);
                return false;
            }
            Source::Known | Source::Awaited | Source::Received(None) => {}
        }
        true
    }

    pub(crate) fn take_connection(&mut self, key: ConnectionKey) -> Option<Box<Connection>> {
        let place = self.connections.get_mut(key.index as usize)?;
        if place.as_ref()?.key == key {
            place.take()
        } else {
            None
        }
    }

    pub(crate) fn put_connection(&mut self, connection: Box<Connection>) {
        let index = connection.key.index as usize;
        self.connections[index] = Some(connection);
    }
}
