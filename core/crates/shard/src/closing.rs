//! The end of connections: with everything answered and nothing lost on the way, or at once.

use std::{cmp::Reverse, collections::BTreeSet};

use headrace_model::{ClientId, ShardId, Timestamp};
use headrace_proto::control::v1::{self as control, request::Operation};

use crate::{
    api::{ConnectionKey, Effect},
    catching_up::CatchingUp,
    config::Hosting,
    connection::{Connection, Inbox, Session, Standing, WebSocket},
    served::Served,
    shard::Shard,
};

/// Heartbeats are looked at this often.
const HEARTBEAT_CHECK_MICROS: u64 = 1_000_000;

/// How long a connection that was said goodbye to waits for its peer to close.
const LINGER_MICROS: u64 = 1_000_000;
/// A connection with a partition node that has shown no ticket for so long is nobody's.
const TICKET_TIMEOUT_MICROS: u64 = 10_000_000;
/// How long a WebSocket that ends waits for the answers to what is in flight.
const CONCLUSION_MICROS: u64 = 1_000_000;
/// A payload with a buffer for itself has to arrive within this time,
const PAYLOAD_MICROS: u64 = 20_000_000;
/// and a second more for each so many bytes.
const PAYLOAD_BYTES_PER_SECOND_MIN: u64 = 128 * 1024;
/// What is dropped at once of what such a peer still sends.
const LINGER_RECEIVE_BYTES: usize = 16 * 1024;

/// What must have happened to a connection at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// Its WebSocket was asked for.
    Upgrade,
    /// It ends, and everything in flight is answered.
    Answers,
    /// Somebody has logged in, or has shown a ticket.
    Login,
    /// The payload that has begun is there.
    Payload,
    /// The catalogue is as new as its gateway's.
    Catalogue,
    /// The shard where it is to be has room for it.
    Room,
}

pub(crate) fn client_gone(client: ClientId) -> Effect {
    Effect::Notice {
        request: control::Request {
            client_id: client.0,
            operation: Some(Operation::ClientGone(control::ClientGone {})),
            ..Default::default()
        },
    }
}

impl Shard {
    /// All was sent: tell the peer, and drop what it still sends until it has closed, too.
    pub(crate) fn linger(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let until = Timestamp(self.now.0 + LINGER_MICROS);
        let scratch = self.pool.acquire(LINGER_RECEIVE_BYTES);
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        if connection.lingers_until.is_none() {
            connection.lingers_until = Some(until);
            connection.inbox = Inbox::new(None, false);
            let (client, may_be_member) =
                (connection.session.client, connection.session.may_be_member);
            let is_client = connection.served.is_none();
            effects.push(Effect::Finish { connection: key });
            if is_client {
                self.disconnected(client, may_be_member, effects);
            }
            self.lingering.push(key);
        }
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        if connection.receiving {
            return;
        }
        match scratch {
            Ok(buffer) => {
                connection.receiving = true;
                effects.push(Effect::Receive {
                    connection: key,
                    buffer,
                    start: 0,
                    minimum: 1,
                    quickack: false,
                });
            }
            Err(_) => self.close(key, effects),
        }
    }

    /// End the connection of a WebSocket that has come to its end. `false`: it has not.
    pub(crate) fn conclude(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) -> bool {
        let now = self.now;
        let Some(connection) = self.connection_mut(key) else {
            return false;
        };
        if !connection.conclude() {
            return false;
        }
        self.give_wait_up(key, effects);
        let Some(connection) = self.connection_mut(key) else {
            return true;
        };
        if !connection.pipeline.is_idle() {
            let until = Timestamp(now.0 + CONCLUSION_MICROS);
            self.expect(until, key, Awaited::Answers);
        }
        true
    }

    /// Look after a connection at a time.
    pub(crate) fn expect(&mut self, until: Timestamp, key: ConnectionKey, awaited: Awaited) {
        self.impatient.push(Reverse((until, key, awaited)));
    }

    /// Somebody has to log in soon, or to show a ticket: strangers would keep the places of others.
    pub(crate) fn expect_login(&mut self, key: ConnectionKey, session: &mut Session) {
        let timeout_micros = match self.config.hosting {
            Hosting::Placed { .. } => Some(TICKET_TIMEOUT_MICROS),
            Hosting::Everything | Hosting::Nothing => self.config.login_timeout_micros,
        };
        if let Some(micros) = timeout_micros {
            session.login_until = Timestamp(self.now.0 + micros);
            self.expect(session.login_until, key, Awaited::Login);
        }
    }

    /// A payload of so many bytes has begun to arrive. There is one entry for a connection at most, however many follow.
    pub(crate) fn expect_payload(&mut self, connection: &mut Connection, bytes: usize) {
        let micros = PAYLOAD_MICROS + bytes as u64 / PAYLOAD_BYTES_PER_SECOND_MIN * 1_000_000;
        connection.payload_until = Timestamp(self.now.0 + micros);
        if !connection.is_payload_awaited {
            connection.is_payload_awaited = true;
            self.expect(connection.payload_until, connection.key, Awaited::Payload);
        }
    }

    /// End what takes too long, such as upgrades that nobody asks for and the last answers of connections that end.
    pub(crate) fn lose_patience(&mut self) {
        let now = self.now;
        while let Some(Reverse((until, key, awaited))) = self.impatient.peek().copied()
            && until <= now
        {
            self.impatient.pop();
            let Some(connection) = self.connection_mut(key) else {
                continue;
            };
            match awaited {
                Awaited::Answers => connection.pipeline.abandon(),
                Awaited::Upgrade => {
                    if let Some(websocket) = connection.inbox.websocket_mut() {
                        websocket.give_up_handshake();
                    }
                }
                Awaited::Login => {
                    let session = &connection.session;
                    let is_late = session.login_until <= now && !session.is_anybody();
                    let ends = |websocket: &mut WebSocket| websocket.is_over();
                    let ends = connection.inbox.websocket_mut().is_some_and(ends);
                    if connection.served.is_none() && is_late && !ends {
                        if connection.pipeline.is_idle() {
                            connection.closing = true;
                        } else {
                            // A login is under way, and others are in front of it.
                            let again = Timestamp(now.0 + LINGER_MICROS);
                            self.impatient.push(Reverse((again, key, Awaited::Login)));
                        }
                    }
                }
                Awaited::Payload => {
                    connection.is_payload_awaited = connection.inbox.awaits_large();
                    let until = connection.payload_until;
                    if !connection.is_payload_awaited {
                        continue;
                    }
                    if until > now {
                        self.impatient.push(Reverse((until, key, Awaited::Payload)));
                        continue;
                    }
                    connection.closing = true;
                }
                Awaited::Room => {
                    let served = connection.served.as_deref();
                    connection.moving_to = served.and_then(Served::wanted_shard);
                }
                Awaited::Catalogue => {
                    let served = connection.served.as_deref();
                    if served.is_some_and(|served| served.is_late(now)) {
                        self.part_with(key);
                    }
                }
            }
            self.touch(key);
        }
    }

    pub(crate) fn close_lingering(&mut self, effects: &mut Vec<Effect>) {
        let now = self.now;
        for key in core::mem::take(&mut self.lingering) {
            match self.connection_mut(key).map(|known| known.lingers_until) {
                Some(Some(until)) if until <= now => self.close(key, effects),
                Some(_) => self.lingering.push(key),
                None => {}
            }
        }
    }

    pub(crate) fn close(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        self.forget_wait(key, effects);
        self.forget_watches(key, effects);
        self.forget_link(key);
        self.links.forget(key);
        if let Some(connection) = self.take_connection(key) {
            self.count(&connection, -1);
            if connection.lingers_until.is_none() && connection.served.is_none() {
                let session = &connection.session;
                self.disconnected(session.client, session.may_be_member, effects);
            }
            effects.push(Effect::Close { connection: key });
        }
    }

    /// A session is over, wherever it began: its memberships are, too.
    fn disconnected(&self, client: ClientId, may_be_member: bool, effects: &mut Vec<Effect>) {
        self.clients.disconnected(client);
        if may_be_member {
            effects.push(client_gone(client));
        }
    }

    /// Say again that connections are gone of which the catalogue still knows memberships: the first notice may have
    /// been lost, or have arrived before the joining that it was to undo.
    pub(crate) fn report_ghosts(&mut self, effects: &mut Vec<Effect>) {
        if self.config.shard != ShardId(0) {
            return;
        }
        let gateway = self.config.gateway;
        let catalog = self.catalog.load();
        let members = catalog.groups().flat_map(|group| &group.members);
        let here: BTreeSet<ClientId> = members
            .filter(|member| member.client.gateway == gateway)
            .map(|member| member.client.client)
            .collect();
        effects.extend(self.clients.missing(here).into_iter().map(client_gone));
    }

    /// Look for silent clients, when that is due.
    pub(crate) fn tick_heartbeats(&mut self, effects: &mut Vec<Effect>) {
        let now = self.now;
        if let Some(interval) = self.config.heartbeat_interval_micros
            && self.heartbeats_at <= now
        {
            self.heartbeats_at = Timestamp(now.0 + HEARTBEAT_CHECK_MICROS);
            self.unregister_silent(now.0.saturating_sub(interval + interval / 5), effects);
        }
    }

    /// Take clients that are silent out of the registry and of their groups. Their connections go on working.
    fn unregister_silent(&mut self, heard_since: u64, effects: &mut Vec<Effect>) {
        let asks_nodes = self.config.hosting == Hosting::Nothing;
        let silent: Vec<ConnectionKey> = self
            .connections
            .iter()
            .flatten()
            .filter(|connection| connection.session.last_heartbeat.0 < heard_since)
            .filter(|connection| !matches!(connection.session.standing, Standing::Silent { .. }))
            // A door of this process is alive as long as the process is, and has nothing to say when nobody asks.
            .filter(|connection| !connection.session.arrival.is_in_process())
            // A gateway is no client.
            .filter(|connection| connection.served.is_none())
            // It cannot say anything before it is answered, and a node may take its time.
            .filter(|connection| !asks_nodes || connection.pipeline.is_idle())
            .filter(|connection| connection.session.catching_up != CatchingUp::Asked)
            .map(|connection| connection.key)
            .filter(|key| !self.waits.has(*key))
            .collect();
        for key in silent {
            let Some(connection) = self.connection_mut(key) else {
                continue;
            };
            let session = &mut connection.session;
            let was_member = session.may_be_member || session.standing == Standing::Stale;
            let (client, may_be_member) =
                (session.client, core::mem::take(&mut session.may_be_member));
            session.standing = Standing::Silent { was_member };
            self.disconnected(client, may_be_member, effects);
        }
    }

    /// A command has come on a connection: one that was silent is registered again. Under another number, because the
    /// end of its memberships may still be on its way.
    pub(crate) fn register_again(&self, session: &mut Session) {
        if let Standing::Silent { was_member } = session.standing {
            session.client = self.clients.connected(session.arrival);
            self.clients.set_user(session.client, session.user());
            session.last_heartbeat = self.now;
            session.standing = if was_member {
                Standing::Stale
            } else {
                Standing::Registered
            };
        }
    }

    pub(crate) fn shut_down(&mut self, effects: &mut Vec<Effect>) {
        if self.shutting_down {
            return;
        }
        self.shutting_down = true;
        self.part_with_all();
        for connection in self.connections.iter_mut().flatten() {
            // Requests in flight are answered first; then the frame that tells a client to go elsewhere.
            connection.say_goodbye();
        }
        self.end_all_waits(effects);
        self.links.shut_down();
        self.touch_all();
    }
}
