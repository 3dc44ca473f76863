//! Requests that know more than the catalogue here (GW-8).
//!
//! A gateway follows the catalogue. What was made at another gateway a moment ago may not have come here, while a client that
//! a balancer brings here knows of it already. So what would be refused for its absence stays in the inbox until the
//! catalogue has come to what was newest when the control plane was asked, and is tried once more, and so is what was
//! received with it. The control plane asks once for all who wait.

use headrace_proto::control::v1::{CatchUp, request::Operation};
use headrace_wire::Status;

use crate::{
    Shard,
    api::{ConnectionKey, Effect, Origin},
    config::Hosting,
    connection::{Sequence, Session},
    dispatch::control_request,
};

/// What something newer in the catalogue may take back. Also a permission: somebody may have just granted it.
const BY_ABSENCE: [Status; 6] = [
    Status::STREAM_ID_NOT_FOUND,
    Status::TOPIC_ID_NOT_FOUND,
    Status::PARTITION_NOT_FOUND,
    Status::CONSUMER_GROUP_ID_NOT_FOUND,
    Status::RESOURCE_NOT_FOUND,
    Status::UNAUTHORIZED,
];

/// How what is in a connection's inbox stands to the catalogue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CatchingUp {
    /// It misses nothing so far.
    #[default]
    No,
    /// Its first request misses something, and the control plane was asked; nothing more is received meanwhile.
    Asked,
    /// The catalogue has all that anybody knew when the last of it came: what is missing does not exist.
    Done,
}

/// Whether a refusal may be for the absence of something that another gateway knows.
pub(crate) fn is_by_absence(status: Status) -> bool {
    BY_ABSENCE.contains(&status)
}

impl Shard {
    /// A request misses something. Returns whether it is to stay in the inbox, to be tried again.
    pub(crate) fn catches_up(
        &self,
        key: ConnectionKey,
        session: &mut Session,
        effects: &mut Vec<Effect>,
    ) -> bool {
        // The catalogue of a whole server is behind nobody's, and nodes are asked by gateways.
        let is_behind = self.config.hosting == Hosting::Nothing
            && session.login.is_some()
            && session.catching_up == CatchingUp::No;
        if is_behind {
            session.catching_up = CatchingUp::Asked;
            effects.push(Effect::Control {
                origin: Origin {
                    shard: self.config.shard,
                    connection: key,
                    // None in flight has it: the request has not begun.
                    sequence: Sequence(u64::MAX),
                    member: None,
                    trace: None,
                },
                request: control_request(session, Operation::CatchUp(CatchUp {})),
            });
        }
        is_behind
    }

    /// The control plane has answered on this connection. Returns whether that is what its next request waits for; whether
    /// the catalogue has come does not matter: what is missing then is refused.
    pub(crate) fn has_caught_up(&mut self, key: ConnectionKey) -> bool {
        let now = self.now;
        let Some(connection) = self.connection_mut(key) else {
            return false;
        };
        let has_waited = connection.session.catching_up == CatchingUp::Asked;
        if has_waited {
            connection.session.catching_up = CatchingUp::Done;
            // It could not say that it is alive.
            connection.session.last_heartbeat = now;
            self.touch(key);
        }
        has_waited
    }
}
