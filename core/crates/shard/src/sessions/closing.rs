//! Closing of connections: either after everything was answered and delivered, or at once.

use std::{cmp::Reverse, collections::BTreeSet};

use headrace_model::{ClientId, Level, ShardId, Timestamp};
use headrace_proto::control::v1::{self as control, request::Operation};

use crate::{
    api::{ConnectionKey, Effect},
    config::Hosting,
    routing::served::GatewayLink,
    sessions::{
        Sessions,
        catching_up::CatchingUp,
        connection::{Connection, Inbox, Session, Standing, WebSocket},
    },
    shard::Shard,
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

impl Shard {
    /// Shut down the sending side after the last byte, and discard incoming data until the peer closes, too.
    pub(crate) fn linger(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let until = Timestamp(self.now.0 + LINGER_MICROS);
        let scratch = self.memory.pool().acquire(LINGER_RECEIVE_BYTES);
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        if connection.lingers_until.is_none() {
            connection.lingers_until = Some(until);
            connection.inbox = Inbox::new(None, false);
            let (client, may_be_member) =
                (connection.session.client, connection.session.may_be_member);
            let is_client = connection.gateway_link.is_none();
            effects.push(Effect::Finish { connection: key });
            if is_client {
                self.sessions.disconnected(client, may_be_member, effects);
            }
            self.sessions.lingering.push(key);
        }
        let Some(connection) = self.sessions.get_mut(key) else {
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

    /// Start to close a connection whose WebSocket has ended. Returns false if it has not ended.
    pub(crate) fn begin_websocket_close(
        &mut self,
        key: ConnectionKey,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let now = self.now;
        let Some(connection) = self.sessions.get_mut(key) else {
            return false;
        };
        if !connection.conclude() {
            return false;
        }
        self.cancel_wait(key, effects);
        let Some(connection) = self.sessions.get_mut(key) else {
            return true;
        };
        if !connection.pipeline.is_idle() {
            let until = Timestamp(now.0 + CONCLUSION_MICROS);
            self.sessions
                .add_deadline(until, key, DeadlineKind::Answers);
        }
        true
    }

    /// Require a login or a ticket within a time limit: unauthenticated connections would use up connection slots.
    pub(crate) fn add_login_deadline(&mut self, key: ConnectionKey, session: &mut Session) {
        let timeout_micros = match self.config.hosting {
            Hosting::Placed { .. } => Some(TICKET_TIMEOUT_MICROS),
            Hosting::Everything | Hosting::Nothing => self.config.login_timeout_micros,
        };
        if let Some(micros) = timeout_micros {
            session.login_until = Timestamp(self.now.0 + micros);
            self.sessions
                .add_deadline(session.login_until, key, DeadlineKind::Login);
        }
    }

    /// Require a login within the time limit of a client whose session may have ended.
    pub(crate) fn require_login(&mut self, key: ConnectionKey) {
        let Some(mut connection) = self.sessions.take(key) else {
            return;
        };
        let is_client = connection.gateway_link.is_none();
        if is_client && !connection.session.is_authenticated() {
            self.add_login_deadline(key, &mut connection.session);
        }
        self.sessions.put(connection);
    }

    /// Process expired deadlines, such as those of missing upgrades and of the last answers of closing connections.
    pub(crate) fn process_deadlines(&mut self, effects: &mut Vec<Effect>) {
        let now = self.now;
        while let Some(Reverse((until, key, awaited))) = self.sessions.deadlines.peek().copied()
            && until <= now
        {
            self.sessions.deadlines.pop();
            let Some(connection) = self.sessions.get_mut(key) else {
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
                            self.sessions.deadlines.push(Reverse((
                                again,
                                key,
                                DeadlineKind::Login,
                            )));
                        }
                    }
                }
                DeadlineKind::Payload => {
                    connection.is_payload_awaited = connection.inbox.awaits_large();
                    let until = connection.payload_until;
                    if !connection.is_payload_awaited {
                        continue;
                    }
                    if until > now {
                        self.sessions
                            .deadlines
                            .push(Reverse((until, key, DeadlineKind::Payload)));
                        continue;
                    }
                    connection.closing = true;
                }
                DeadlineKind::Sent => {
                    if connection.sending {
                        self.close(key, effects);
                        continue;
                    }
                }
                DeadlineKind::Room => {
                    let served = connection.gateway_link.as_deref();
                    connection.moving_to = served.and_then(GatewayLink::wanted_shard);
                }
                DeadlineKind::CatalogVersion => {
                    let served = connection.gateway_link.as_deref();
                    if served.is_some_and(|served| served.is_late(now)) {
                        self.drain_link(key);
                    }
                }
            }
            self.sessions.touch(key);
        }
    }

    /// Close connections whose clients have not taken the next part of an answer for longer than its transfer may take,
    /// while others wait for the memory: requests of their users or large requests, or answers of nodes.
    pub(crate) fn close_slow_readers(&mut self, effects: &mut Vec<Effect>) {
        let now = self.now;
        if self.sessions.slow_readers_at > now {
            return;
        }
        let memory = self.memory.shared();
        if !memory.has_excess() && !memory.is_waiting() && !self.routing.links.is_starved() {
            return;
        }
        self.sessions.slow_readers_at = Timestamp(now.0 + SLOW_READERS_CHECK_MICROS);
        let is_slow = |connection: &&Connection| {
            let until = connection.sending_since.0 + transfer_micros(connection.sending_bytes);
            connection.sending && connection.gateway_link.is_none() && until <= now.0
        };
        let slow: Vec<_> = (self.sessions.connections.iter().flatten())
            .map(Box::as_ref)
            .filter(is_slow)
            .map(|connection| {
                let bytes = connection.sending_bytes + connection.pipeline.outgoing_bytes();
                (connection.key, bytes)
            })
            .collect();
        if slow.is_empty() {
            return;
        }
        let (count, bytes) = (slow.len(), slow.iter().map(|(_, bytes)| bytes).sum::<u64>());
        for (key, _) in slow {
            self.close(key, effects);
        }
        effects.push(Effect::Report {
            level: Level::Warning,
            message: format!(
                "{count} connections were closed: their clients left answers of {bytes} bytes unread while others \
                 waited for memory"
            ),
        });
    }

    pub(crate) fn close_lingering(&mut self, effects: &mut Vec<Effect>) {
        let now = self.now;
        for key in core::mem::take(&mut self.sessions.lingering) {
            match self.sessions.get_mut(key).map(|known| known.lingers_until) {
                Some(Some(until)) if until <= now => self.close(key, effects),
                Some(_) => self.sessions.lingering.push(key),
                None => {}
            }
        }
    }

    pub(crate) fn close(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        self.forget_wait(key, effects);
        self.forget_watches(key, effects);
        self.forget_link(key);
        self.routing.links.forget(key);
        if let Some(connection) = self.sessions.take(key) {
            self.sessions.count_change(&connection, -1);
            if connection.lingers_until.is_none() && connection.gateway_link.is_none() {
                let session = &connection.session;
                self.sessions
                    .disconnected(session.client, session.may_be_member, effects);
            }
            effects.push(Effect::Close { connection: key });
        }
    }

    /// Report again, when that is due, that connections are closed whose memberships are still in the catalog. The first notice may have
    /// been lost, or may have arrived before the join that it was to undo.
    pub(crate) fn report_stale_members(&mut self, effects: &mut Vec<Effect>) {
        if self.sessions.stale_members_at > self.now {
            return;
        }
        self.sessions.stale_members_at = Timestamp(self.now.0 + STALE_MEMBER_CHECK_MICROS);
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
        effects.extend(
            self.sessions
                .clients
                .missing(here)
                .into_iter()
                .map(client_gone),
        );
    }

    /// Check for silent clients when the check is due.
    pub(crate) fn tick_heartbeats(&mut self, effects: &mut Vec<Effect>) {
        if self.sessions.heartbeats_at <= self.now {
            self.sessions.heartbeats_at = Timestamp(self.now.0 + HEARTBEAT_CHECK_MICROS);
            self.unregister_silent(effects);
        }
    }

    /// Return whether a client has been silent for longer than a living one is. Existing clients without groups need not
    /// be heard of, unless the configuration asks for their pings.
    fn is_silent(&self, session: &Session) -> bool {
        let silence = self.now.0.saturating_sub(session.last_heartbeat.0);
        let interval = self.config.heartbeat_interval_micros;
        interval.is_some_and(|interval| silence > interval + interval / 5)
            || session.repeats_membership && silence > self.config.member_silence_micros_max
    }

    /// Remove silent clients from the registry and from their groups. Their connections continue to work.
    fn unregister_silent(&mut self, effects: &mut Vec<Effect>) {
        let asks_nodes = self.config.hosting == Hosting::Nothing;
        let silent: Vec<ConnectionKey> = self
            .sessions
            .iter()
            .filter(|connection| self.is_silent(&connection.session))
            .filter(|connection| !matches!(connection.session.standing, Standing::Silent { .. }))
            // An in-process API lives as long as the process, and sends nothing while idle.
            .filter(|connection| !connection.session.arrival.is_in_process())
            // A gateway is not a client.
            .filter(|connection| connection.gateway_link.is_none())
            // A client cannot send a heartbeat before its request is answered, and a node may take its time.
            .filter(|connection| !asks_nodes || connection.pipeline.is_idle())
            .filter(|connection| connection.session.catching_up != CatchingUp::Asked)
            .map(|connection| connection.key)
            .filter(|key| !self.routing.has_wait(*key))
            .collect();
        for key in silent {
            let Some(connection) = self.sessions.get_mut(key) else {
                continue;
            };
            let session = &mut connection.session;
            let was_member = session.may_be_member || session.standing == Standing::Stale;
            let (client, may_be_member) =
                (session.client, core::mem::take(&mut session.may_be_member));
            session.standing = Standing::Silent { was_member };
            self.sessions.disconnected(client, may_be_member, effects);
        }
    }

    pub(crate) fn shut_down(&mut self, effects: &mut Vec<Effect>) {
        if self.sessions.shutting_down {
            return;
        }
        self.sessions.shutting_down = true;
        self.drain_all_links();
        for connection in self.sessions.connections.iter_mut().flatten() {
            // Requests in flight are answered first, followed by the frame that redirects the client.
            connection.begin_graceful_close();
        }
        self.end_all_waits(effects);
        self.routing.links.shut_down();
        self.sessions.touch_all();
    }

    /// Close the connections that are left when the time for answers is over, such as those of clients that do not
    /// read: an answer in flight to one of them has no end.
    pub(crate) fn close_connections(&mut self, effects: &mut Vec<Effect>) {
        let keys: Vec<ConnectionKey> = self
            .sessions
            .iter()
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            self.close(key, effects);
        }
    }
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
    pub(super) fn add_payload_deadline(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
        bytes: usize,
    ) {
        connection.payload_until = Timestamp(now.0 + transfer_micros(bytes as u64));
        if !connection.is_payload_awaited {
            connection.is_payload_awaited = true;
            self.add_deadline(
                connection.payload_until,
                connection.key,
                DeadlineKind::Payload,
            );
        }
    }

    /// Set the deadline for the last bytes of a closing connection. Without one, a peer that does not read would keep
    /// its place for ever.
    pub(super) fn await_last_send(&mut self, now: Timestamp, key: ConnectionKey) {
        let Some(connection) = self.get_mut(key).filter(|known| !known.is_end_awaited) else {
            return;
        };
        connection.is_end_awaited = true;
        let bytes = connection.sending_bytes + connection.pipeline.outgoing_bytes();
        let until = Timestamp(now.0 + transfer_micros(bytes));
        self.add_deadline(until, key, DeadlineKind::Sent);
    }

    /// End a session, wherever it began, together with its group memberships.
    fn disconnected(&self, client: ClientId, may_be_member: bool, effects: &mut Vec<Effect>) {
        self.clients.disconnected(client);
        if may_be_member {
            effects.push(client_gone(client));
        }
    }

    /// Register a silent client again when it sends a command. It gets another number, because the end of its
    /// memberships may still be on its way.
    pub(crate) fn register_again(&self, now: Timestamp, session: &mut Session) {
        if let Standing::Silent { was_member } = session.standing {
            session.client = self.clients.connected(session.arrival);
            self.clients.set_user(session.client, session.user());
            session.last_heartbeat = now;
            session.standing = if was_member {
                Standing::Stale
            } else {
                Standing::Registered
            };
        }
    }
}
