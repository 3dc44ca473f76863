//! Progress of a connection: its requests start, its responses leave, and more is received.

use headrace_buffer::Buffer;
use headrace_wire::frame::REQUEST_HEADER_BYTES;

use super::Shard;
use crate::{
    api::Effect,
    calls::ConnectionKey,
    dispatch::{SEND_MESSAGES, STAGE_MESSAGES, has_sizeable_answer, refusal},
    memory::ReceiverId,
    sessions::{
        connection::CatchingUp,
        connection::{Connection, Head, Requester, SMALL_PAYLOAD_BYTES_MAX, status_response},
        served::GatewayLink,
        turns::Payer,
    },
};

impl Shard {
    /// Send a connection its due notifications, unless earlier ones are still being sent.
    fn notify(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        if let Some(due) = self.watching().take_due(key, effects) {
            self.deliver_answers(effects);
            self.watching().send(key, &due);
        }
    }

    /// Process a completed receive.
    pub(crate) fn received(
        &mut self,
        key: ConnectionKey,
        buffer: Buffer,
        count: Option<usize>,
        effects: &mut Vec<Effect>,
    ) {
        if self.sessions.get_mut(key).is_none() {
            let moment = self.present.moment();
            return (self.routing.links).received(moment, key, buffer, count, effects);
        }
        self.present.meter.received(count.unwrap_or(0) as u64);
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        connection.receiving = false;
        let Some(count) = count.filter(|count| *count > 0) else {
            self.close(key, effects);
            return;
        };
        if connection.lingers_until.is_some() {
            self.sessions.touch(key);
            return;
        }
        connection.received(buffer, count);
        connection.session.catching_up = CatchingUp::No;
        if !self.sessions.learn_source(key) {
            self.close(key, effects);
            return;
        }
        self.sessions.touch(key);
        self.drive(key, effects);
    }

    /// Process a completed send.
    pub(crate) fn sent(&mut self, key: ConnectionKey, sent: bool, effects: &mut Vec<Effect>) {
        let Some(connection) = self.sessions.get_mut(key) else {
            let moment = self.present.moment();
            return self.routing.links.sent(moment, key, sent, effects);
        };
        connection.sending = false;
        connection.pipeline.sent(connection.last_send.bytes);
        if sent {
            self.sessions.touch(key);
        } else {
            self.close(key, effects);
        }
    }

    /// Start every request of a connection that can start.
    fn drive(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let Some(mut connection) = self.sessions.take(key) else {
            return;
        };
        let payer = Payer::of(&connection);
        if !self.sessions.turns.begin(payer, &mut connection) {
            self.sessions.put(connection);
            return;
        }
        while !connection.closing
            && connection.moving_to.is_none()
            && !self.sessions.is_congested()
            && !self.routing.links.holds(key)
            && connection.session.catching_up != CatchingUp::Asked
            && !connection.session.pace.is_delayed()
            && self.sessions.turns.goes_on(payer, &mut connection)
            && self.drive_one(&mut connection, effects)
        {
            let (moving_to, link) = self.sessions.take_transition();
            connection.moving_to = moving_to;
            if let Some(opening) = link {
                self.sessions
                    .begin_link(self.present.moment(), &mut connection, opening);
            }
        }
        self.sessions.turns.end(payer);
        let is_broken = connection
            .gateway_link
            .as_deref()
            .is_some_and(GatewayLink::has_violated_protocol);
        let is_surplus = connection.session.pace.is_surplus();
        self.sessions.put(connection);
        if is_broken || is_surplus {
            self.close(key, effects);
        }
    }

    /// Start one request. Returns false if there is none, or if it has to wait.
    fn drive_one(&mut self, connection: &mut Connection, effects: &mut Vec<Effect>) -> bool {
        if connection.gateway_link.is_some() {
            return self.serving().process_frame(connection, effects);
        }
        if let Some((code, payload)) = connection.inbox.take_large() {
            return self.drive_large(connection, code, payload, effects);
        }
        let (code, payload_bytes) = match connection.inbox.head() {
            Head::Incomplete => return false,
            Head::TooShort => {
                // Refusals to a client that does not read them would pile up.
                let has_room = connection.may_start(0);
                if has_room {
                    self.sessions.turns.spend(0);
                    self.sessions.refuse_short(connection, effects);
                }
                return has_room;
            }
            Head::Request {
                code,
                payload_bytes,
            } => (code, payload_bytes),
        };
        if !connection.may_start(code) {
            return false;
        }
        connection.pipeline.announce(code);
        if let Some(status) = refusal(
            self.present.moment(),
            &connection.session,
            code,
            payload_bytes,
        ) {
            // The frame boundary is known: skip the payload, answer, and continue with the next frame.
            self.sessions.turns.spend(0);
            connection.share_turn = 0;
            connection.inbox.consume(REQUEST_HEADER_BYTES);
            connection.inbox.discard(payload_bytes);
            connection.pipeline.respond(status_response(status));
            return true;
        }
        if !self.sessions.is_user_paid_up(
            self.present.moment(),
            connection.key,
            &mut connection.session,
            code,
            effects,
        ) {
            return false;
        }
        if payload_bytes > SMALL_PAYLOAD_BYTES_MAX {
            if !self.memory.claim_memory(connection, payload_bytes) {
                return false;
            }
            let place = ReceiverId::of(self.present.config.shard, connection.key);
            let begun =
                (connection.inbox).begin_large(code, payload_bytes, self.memory.shared(), place);
            if begun.is_err() {
                return false;
            }
            self.sessions
                .add_payload_deadline(self.present.now, connection, payload_bytes);
            return connection.inbox.is_large_whole();
        }
        if !self.has_room_for_answer(connection, code, payload_bytes) {
            return false;
        }
        let Connection {
            key,
            inbox,
            session,
            pipeline,
            ..
        } = connection;
        let Some(payload) = inbox.payload_mut(payload_bytes) else {
            return false;
        };
        self.sessions.turns.spend(payload_bytes);
        let mut requester = Requester {
            shard: self.present.config.shard,
            key: *key,
            session,
            pipeline,
        };
        let taken = self.dispatch(&mut requester, code, payload, effects);
        if taken {
            inbox.consume(REQUEST_HEADER_BYTES + payload_bytes);
        }
        taken
    }

    /// Start a request whose payload has a buffer of its own. Returns false if it has to wait.
    fn drive_large(
        &mut self,
        connection: &mut Connection,
        code: u32,
        mut payload: Buffer,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if !connection.may_start(code) {
            connection.inbox.restore_large(code, payload);
            return false;
        }
        self.sessions.turns.spend(payload.len());
        let claim = connection.inbox.take_claim();
        connection.pipeline.announce(code);
        let mut requester = Requester {
            shard: self.present.config.shard,
            key: connection.key,
            session: &mut connection.session,
            pipeline: &mut connection.pipeline,
        };
        let kept = if code == SEND_MESSAGES {
            self.send_owned(&mut requester, payload, effects)
        } else if code == STAGE_MESSAGES {
            self.stage_owned(&mut requester, payload, effects)
        } else {
            let taken = self.dispatch(&mut requester, code, &mut payload, effects);
            (!taken).then_some(payload)
        };
        let taken = kept.is_none();
        if let Some(payload) = kept {
            connection.inbox.restore_large(code, payload);
            connection.inbox.hold(claim);
        } else if let Some(claim) = claim {
            connection.pipeline.hold(claim);
        }
        taken
    }

    /// Return whether there is room for the answer to a request whose payload has arrived.
    fn has_room_for_answer(
        &mut self,
        connection: &mut Connection,
        code: u32,
        payload_bytes: usize,
    ) -> bool {
        !has_sizeable_answer(code)
            || connection.inbox.payload_mut(payload_bytes).is_none()
            || self.memory.claim_answer(connection)
    }

    /// Send what is ready, receive if more is wanted, and close the connection if it has ended.
    pub(crate) fn advance(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        connection.touched = false;
        if !connection.receiving {
            self.drive(key, effects);
            self.deliver_answers(effects);
        }
        self.begin_websocket_close(key, effects);
        self.sessions.conclude_link(key);
        self.notify(key, effects);
        let congested = self.sessions.is_congested();
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        connection.touched = false;
        let is_ready = !connection.sending && connection.pipeline.has_outgoing();
        if is_ready && !self.sessions.send_some(self.present.moment(), key, effects) {
            return;
        }
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        if connection.closing {
            if !connection.has_ended() {
                return;
            }
            if connection.sending {
                self.sessions.await_last_send(self.present.now, key);
            } else {
                let now = self.present.now;
                let pool = self.memory.pool();
                if !self.sessions.linger(now, pool, key, effects) {
                    self.close(key, effects);
                }
            }
            return;
        }
        if let Some(to) = connection.moving_to {
            if connection.is_quiet() {
                self.sessions.depart(key, to, effects);
            }
            return;
        }
        // Nothing more is received while a complete request waits for its turn: back-pressure through the socket.
        if connection.receiving || congested || connection.has_whole_request() {
            return;
        }
        // Nothing more is received from a peer that does not read its responses: replies to its pings would pile up.
        if connection.is_held_back() {
            return;
        }
        let is_authenticated =
            connection.session.is_authenticated() || connection.gateway_link.is_some();
        match connection
            .inbox
            .next_receive(self.memory.pool(), is_authenticated)
        {
            Ok(Some(receive)) => {
                connection.receiving = true;
                effects.push(Effect::Receive {
                    connection: key,
                    buffer: receive.buffer,
                    start: receive.start,
                    minimum: receive.minimum,
                    quickack: receive.quickack,
                });
            }
            Ok(None) => {}
            Err(_) => self.sessions.starve(self.present.now, key),
        }
    }

    /// Begin a turn, and go on with the connections that have waited for it.
    pub(super) fn serve_turns(&mut self, effects: &mut Vec<Effect>) {
        for _ in 0..self.sessions.begin_turn() {
            let Some(payer) = self.sessions.next_payer() else {
                return;
            };
            while let Some(key) = self.sessions.next_waiting(payer) {
                self.advance(key, effects);
            }
            self.sessions.end_payer(payer);
        }
    }
}
