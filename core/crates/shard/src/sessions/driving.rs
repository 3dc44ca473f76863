//! Steps of a connection that concern no other part: sending, moving to another shard, refusing short frames.

use headrace_buffer::Slice;
use headrace_model::ShardId;
use headrace_wire::{Status, frame::REQUEST_HEADER_BYTES, newer};

use super::connection::{Connection, Session, status_response};
use crate::{
    api::{Effect, MovedConnection},
    calls::ConnectionKey,
    dispatch::notes::note_newer_client,
    moment::Moment,
    owner::Owner,
    sessions::Sessions,
};

/// Maximum bytes of one send to a client.
const SENT_AT_ONCE_BYTES_MAX: u64 = 1024 * 1024;

impl Sessions {
    /// Refuse a frame that is too short for a command code. A newer client, whose requests begin like one, is answered in
    /// its own frames.
    pub(crate) fn refuse_short(&mut self, connection: &mut Connection, effects: &mut Vec<Effect>) {
        connection.pipeline.announce(0);
        if !connection.session.is_authenticated()
            && let Some((header, payload_bytes)) = connection.inbox.newer_request()
        {
            let answer = newer::answer(header).to_vec();
            connection.inbox.consume(newer::HEADER_BYTES);
            connection.inbox.discard(payload_bytes);
            connection.pipeline.respond(Slice::from_vec(answer));
            return note_newer_client(
                &mut self.reported.newer_clients,
                &connection.session,
                effects,
            );
        }
        connection.inbox.consume(REQUEST_HEADER_BYTES);
        let refusal = status_response(Status::INVALID_COMMAND);
        connection.pipeline.respond(refusal);
    }

    /// Send what is ready. Returns false if it has to wait for the next turn.
    pub(crate) fn send_some(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some((connection, turns)) = self.connection_and_turns(key) else {
            return false;
        };
        // A client shows by each part that it still reads. Gateways are watched by the silence of their links.
        let bytes_max = match connection.gateway_link {
            Some(_) => u64::MAX,
            None => SENT_AT_ONCE_BYTES_MAX,
        };
        if !turns.may_send(connection, bytes_max) {
            return false;
        }
        connection.sending = true;
        let (slices, bytes) = connection.pipeline.take_outgoing(bytes_max);
        connection.last_send.bytes = bytes;
        connection.last_send.since = moment.now;
        effects.push(Effect::Send {
            connection: key,
            slices,
        });
        true
    }

    /// Move a connection to the shard that owns the partitions of its requests.
    pub(crate) fn depart(&mut self, key: ConnectionKey, to: ShardId, effects: &mut Vec<Effect>) {
        if let Some(mut connection) = self.take(key) {
            self.count_change(&connection, -1);
            connection.moving_to = None;
            effects.push(Effect::Move {
                connection: key,
                to,
                connection_state: MovedConnection(connection),
            });
        }
    }

    /// Record the owner of a request's partition. After many requests in a row for one other shard the connection moves
    /// there.
    pub(crate) fn count_affinity(
        &mut self,
        moment: Moment<'_>,
        session: &mut Session,
        owner: Owner,
    ) {
        let home = moment.config.shard;
        let shard = owner.shard_for(home);
        if session.affinity.count(shard, home) {
            self.transition.shard = Some(shard);
        }
    }
}
