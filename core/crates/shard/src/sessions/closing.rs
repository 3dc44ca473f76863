//! Closing of connections: either after everything was answered and delivered, or at once.

use std::{cmp::Reverse, collections::BTreeSet};

use headrace_buffer::BufferPool;
use headrace_model::{ClientId, ShardId, Timestamp};
use headrace_proto::control::v1::{self as control, request::Operation};

use crate::{
    api::Effect,
    calls::ConnectionKey,
    config::Hosting,
    moment::Moment,
    sessions::{
        Sessions,
        connection::{CatchingUp, Connection, Inbox, Registration, Session, WebSocket},
        served::GatewayLink,
    },
};

/// Interval between checks for consumer group members whose connections are closed.
const STALE_MEMBER_CHECK_MICROS: u64 = 5_000_000;
/// Interval between two heartbeat checks.
const HEARTBEAT_CHECK_MICROS: u64 = 1_000_000;

/// Time that a finished connection waits for its peer to close.
const LINGER_MICROS: u64 = 1_000_000;
/// Time after which a connection to a partition node is closed if it has not presented a ticket.
const TICKET_TIMEOUT_MICROS: u64 = 10_000_000;
/// Time that a closing WebSocket waits for the answers to requests in flight.
const CONCLUSION_MICROS: u64 = 1_000_000;
/// Base time within which a payload with a dedicated buffer must arrive, within which the last bytes of a closing
/// connection must leave, and within which a part of an answer must be read while others wait for its memory.
const TRANSFER_MICROS: u64 = 20_000_000;
/// Minimum rate of such a transfer: each this many bytes add one second to the deadline.
const TRANSFER_BYTES_PER_SECOND_MIN: u64 = 128 * 1024;
/// Interval between two checks for clients that do not read.
const SLOW_READERS_CHECK_MICROS: u64 = 1_000_000;
/// Size of the buffer for data that a lingering peer still sends and that is discarded.
const LINGER_RECEIVE_BYTES: usize = 16 * 1024;

/// Condition that a connection must meet by a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeadlineKind {
    /// The client has requested the WebSocket upgrade.
    Upgrade,
    /// All requests in flight of a closing connection are answered.
    Answers,
    /// The client has logged in or presented a ticket.
    Login,
    /// The payload that has begun has arrived completely.
    Payload,
    /// The last bytes of a closing connection are sent.
    Sent,
    /// The catalog is as new as that of the connection's gateway.
    CatalogVersion,
    /// The shard to which the connection is to move has room for it.
    Room,
}

/// Deadline that has passed and that concerns more than the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// The connection is to be closed.
    Close(ConnectionKey),
    /// The link is to be drained.
    Drain(ConnectionKey),
}

/// Time that the transfer of this many bytes may take.
fn transfer_micros(bytes: u64) -> u64 {
    TRANSFER_MICROS + bytes / TRANSFER_BYTES_PER_SECOND_MIN * 1_000_000
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

impl Sessions {
    /// Take the connections whose peers had their time to close.
    pub(crate) fn take_lingered(&mut self, now: Timestamp) -> Vec<ConnectionKey> {
        let mut over = Vec::new();
        for key in core::mem::take(&mut self.lingering) {
            match self.get_mut(key).map(|known| known.lingers_until) {
                Some(Some(until)) if until <= now => over.push(key),
                Some(_) => self.lingering.push(key),
                None => {}
            }
        }
        over
    }

    /// Shut down the sending side after the last byte, and discard incoming data until the peer closes, too. Returns
    /// false if the connection is to be closed at once, because there is no buffer for such data.
    pub(crate) fn linger(
        &mut self,
        now: Timestamp,
        pool: &BufferPool,
        key: ConnectionKey,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let until = Timestamp(now.0 + LINGER_MICROS);
        let scratch = pool.acquire(LINGER_RECEIVE_BYTES);
        let Some(connection) = self.get_mut(key) else {
            return true;
        };
        if connection.lingers_until.is_none() {
            connection.lingers_until = Some(until);
            connection.inbox = Inbox::new(None, false);
            let (client, may_be_member) =
                (connection.session.client, connection.session.may_be_member);
            let is_client = connection.gateway_link.is_none();
            effects.push(Effect::Finish { connection: key });
            if is_client {
                self.disconnected(client, may_be_member, effects);
            }
            self.lingering.push(key);
        }
        let Some(connection) = self.get_mut(key).filter(|known| !known.receiving) else {
            return true;
        };
        let Ok(buffer) = scratch else {
            return false;
        };
        connection.receiving = true;
        effects.push(Effect::Receive {
            connection: key,
            buffer,
            start: 0,
            minimum: 1,
            quickack: false,
        });
        true
    }

    /// Return whether the WebSocket of a connection has just ended, so that the connection is to be closed.
    pub(crate) fn concludes(&mut self, key: ConnectionKey) -> bool {
        self.get_mut(key).is_some_and(Connection::conclude)
    }

    /// Set the deadline for the last answers of a closing WebSocket.
    pub(crate) fn await_answers(&mut self, now: Timestamp, key: ConnectionKey) {
        let connection = self.get_mut(key);
        if connection.is_some_and(|connection| !connection.pipeline.is_idle()) {
            let until = Timestamp(now.0 + CONCLUSION_MICROS);
            self.add_deadline(until, key, DeadlineKind::Answers);
        }
    }

    /// Process expired deadlines, such as those of missing upgrades and of the last answers of closing connections, up
    /// to one that others have to act on.
    pub(crate) fn next_due(&mut self, now: Timestamp) -> Option<Due> {
        while let Some(Reverse((until, key, awaited))) = self.deadlines.peek().copied()
            && until <= now
        {
            self.deadlines.pop();
            let Some(connection) = self.get_mut(key) else {
                continue;
            };
            match awaited {
                DeadlineKind::Answers => connection.pipeline.abandon(),
                DeadlineKind::Upgrade => {
                    if let Some(websocket) = connection.inbox.websocket_mut() {
                        websocket.give_up_handshake();
                    }
                }
                DeadlineKind::Login => {
                    let session = &connection.session;
                    let is_late = session.login_until <= now && !session.is_authenticated();
                    let ends = |websocket: &mut WebSocket| websocket.is_over();
                    let ends = connection.inbox.websocket_mut().is_some_and(ends);
                    if connection.gateway_link.is_none() && is_late && !ends {
                        if connection.pipeline.is_idle() {
                            connection.closing = true;
                        } else {
                            // A login is in flight, or queued behind other requests.
                            let again = Timestamp(now.0 + LINGER_MICROS);
                            self.add_deadline(again, key, DeadlineKind::Login);
                        }
                    }
                }
                DeadlineKind::Payload => {
                    connection.payload.is_awaited = connection.inbox.awaits_large();
                    let until = connection.payload.until;
                    if !connection.payload.is_awaited {
                        continue;
                    }
                    if until > now {
                        self.add_deadline(until, key, DeadlineKind::Payload);
                        continue;
                    }
                    connection.closing = true;
                }
                DeadlineKind::Sent => {
                    if connection.sending {
                        return Some(Due::Close(key));
                    }
                }
                DeadlineKind::Room => {
                    let served = connection.gateway_link.as_deref();
                    connection.moving_to = served.and_then(GatewayLink::wanted_shard);
                }
                DeadlineKind::CatalogVersion => {
                    let served = connection.gateway_link.as_deref();
                    if served.is_some_and(|served| served.is_late(now)) {
                        return Some(Due::Drain(key));
                    }
                }
            }
            self.touch(key);
        }
        None
    }

    /// Return the connections whose clients have not taken the next part of an answer for longer than its transfer may
    /// take, with the bytes that they hold, when they are to be searched for again.
    pub(crate) fn slow_readers(&mut self, now: Timestamp) -> Vec<(ConnectionKey, u64)> {
        if self.checks.slow_readers > now {
            return Vec::new();
        }
        self.checks.slow_readers = Timestamp(now.0 + SLOW_READERS_CHECK_MICROS);
        let is_slow = |connection: &&Connection| {
            let until = connection.last_send.since.0 + transfer_micros(connection.last_send.bytes);
            connection.sending && connection.gateway_link.is_none() && until <= now.0
        };
        let held = |connection: &Connection| {
            let bytes = connection.last_send.bytes + connection.pipeline.outgoing_bytes();
            (connection.key, bytes)
        };
        self.iter().filter(is_slow).map(held).collect()
    }

    /// Begin to shut down. Returns false if that was done before.
    pub(crate) fn begin_shutdown(&mut self) -> bool {
        !core::mem::replace(&mut self.shutting_down, true)
    }

    /// Have every connection close after its requests in flight are answered, with the frame that redirects its client.
    pub(crate) fn close_gracefully(&mut self) {
        for connection in self.connections.iter_mut().flatten() {
            connection.begin_graceful_close();
        }
    }

    /// Require a login or a ticket within a time limit: unauthenticated connections would use up connection slots.
    pub(crate) fn add_login_deadline(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        session: &mut Session,
    ) {
        let timeout_micros = match moment.config.hosting {
            Hosting::Placed { .. } => Some(TICKET_TIMEOUT_MICROS),
            Hosting::Everything | Hosting::Nothing => moment.config.login_timeout_micros,
        };
        if let Some(micros) = timeout_micros {
            session.login_until = Timestamp(moment.now.0 + micros);
            self.add_deadline(session.login_until, key, DeadlineKind::Login);
        }
    }

    /// Require a login within the time limit of a client whose session may have ended.
    pub(crate) fn require_login(&mut self, moment: Moment<'_>, key: ConnectionKey) {
        let Some(mut connection) = self.take(key) else {
            return;
        };
        let is_client = connection.gateway_link.is_none();
        if is_client && !connection.session.is_authenticated() {
            self.add_login_deadline(moment, key, &mut connection.session);
        }
        self.put(connection);
    }

    /// Report again, when that is due, that connections are closed whose memberships are still in the catalog. The first notice may have
    /// been lost, or may have arrived before the join that it was to undo.
    pub(crate) fn report_stale_members(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        if self.checks.stale_members > moment.now {
            return;
        }
        self.checks.stale_members = Timestamp(moment.now.0 + STALE_MEMBER_CHECK_MICROS);
        if moment.config.shard != ShardId(0) {
            return;
        }
        let gateway = moment.config.gateway;
        let catalog = moment.catalog;
        let members = catalog.groups().flat_map(|group| &group.members);
        let here: BTreeSet<ClientId> = members
            .filter(|member| member.client.gateway == gateway)
            .map(|member| member.client.client)
            .collect();
        effects.extend(self.clients.missing(here).into_iter().map(client_gone));
    }

    /// Check for silent clients when the check is due.
    pub(crate) fn tick_heartbeats(
        &mut self,
        moment: Moment<'_>,
        has_wait: impl Fn(ConnectionKey) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        if self.checks.heartbeats <= moment.now {
            self.checks.heartbeats = Timestamp(moment.now.0 + HEARTBEAT_CHECK_MICROS);
            self.unregister_silent(moment, has_wait, effects);
        }
    }

    /// Remove silent clients from the registry and from their groups. Their connections continue to work.
    fn unregister_silent(
        &mut self,
        moment: Moment<'_>,
        has_wait: impl Fn(ConnectionKey) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let asks_nodes = moment.config.hosting == Hosting::Nothing;
        let silent: Vec<ConnectionKey> = self
            .iter()
            .filter(|connection| is_silent(moment, &connection.session))
            .filter(|connection| {
                !matches!(connection.session.registration, Registration::Silent { .. })
            })
            // An in-process API lives as long as the process, and sends nothing while idle.
            .filter(|connection| !connection.session.arrival.is_in_process())
            // A gateway is not a client.
            .filter(|connection| connection.gateway_link.is_none())
            // A client cannot send a heartbeat before its request is answered, and a node may take its time.
            .filter(|connection| !asks_nodes || connection.pipeline.is_idle())
            .filter(|connection| connection.session.catching_up != CatchingUp::Asked)
            .map(|connection| connection.key)
            .filter(|key| !has_wait(*key))
            .collect();
        for key in silent {
            let Some(connection) = self.get_mut(key) else {
                continue;
            };
            let session = &mut connection.session;
            let was_member = session.may_be_member || session.registration == Registration::Stale;
            let (client, may_be_member) =
                (session.client, core::mem::take(&mut session.may_be_member));
            session.registration = Registration::Silent { was_member };
            self.disconnected(client, may_be_member, effects);
        }
    }
}

/// Return whether a client has been silent for longer than a living one is. Existing clients without groups need not
/// be heard of, unless the configuration asks for their pings.
pub(crate) fn is_silent(moment: Moment<'_>, session: &Session) -> bool {
    let silence = moment.now.0.saturating_sub(session.last_heartbeat.0);
    let interval = moment.config.heartbeat_interval_micros;
    interval.is_some_and(|interval| silence > interval + interval / 5)
        || session.repeats_membership && silence > moment.config.member_silence_micros_max
}

impl Sessions {
    /// Check a condition of a connection at a deadline.
    pub(crate) fn add_deadline(
        &mut self,
        until: Timestamp,
        key: ConnectionKey,
        awaited: DeadlineKind,
    ) {
        self.deadlines.push(Reverse((until, key, awaited)));
    }

    /// Set the deadline of a payload of this size that has begun to arrive. A connection has one entry at most,
    /// regardless of the number of payloads.
    pub(crate) fn add_payload_deadline(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
        bytes: usize,
    ) {
        connection.payload.until = Timestamp(now.0 + transfer_micros(bytes as u64));
        if !connection.payload.is_awaited {
            connection.payload.is_awaited = true;
            self.add_deadline(
                connection.payload.until,
                connection.key,
                DeadlineKind::Payload,
            );
        }
    }

    /// Set the deadline for the last bytes of a closing connection. Without one, a peer that does not read would keep
    /// its place for ever.
    pub(crate) fn await_last_send(&mut self, now: Timestamp, key: ConnectionKey) {
        let Some(connection) = self.get_mut(key).filter(|known| !known.is_end_awaited) else {
            return;
        };
        connection.is_end_awaited = true;
        let bytes = connection.last_send.bytes + connection.pipeline.outgoing_bytes();
        let until = Timestamp(now.0 + transfer_micros(bytes));
        self.add_deadline(until, key, DeadlineKind::Sent);
    }

    /// End a session, wherever it began, together with its group memberships.
    pub(crate) fn disconnected(
        &self,
        client: ClientId,
        may_be_member: bool,
        effects: &mut Vec<Effect>,
    ) {
        self.clients.disconnected(client);
        if may_be_member {
            effects.push(client_gone(client));
        }
    }

    /// Register a silent client again when it sends a command. It gets another number, because the end of its
    /// memberships may still be on its way.
    pub(crate) fn register_again(&self, now: Timestamp, session: &mut Session) {
        if let Registration::Silent { was_member } = session.registration {
            session.client = self.clients.connected(session.arrival);
            self.clients.set_user(session.client, session.user());
            session.last_heartbeat = now;
            session.registration = if was_member {
                Registration::Stale
            } else {
                Registration::Registered
            };
        }
    }
}
