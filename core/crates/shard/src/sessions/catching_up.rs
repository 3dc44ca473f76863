//! Requests of clients that know newer metadata than the local catalog (GW-8).
//!
//! A gateway follows the catalog with a delay. A change made at another gateway a moment ago may not have arrived here,
//! although a client that a load balancer routes here already relies on it. A request that would be refused for a
//! missing entity therefore stays in the inbox until the catalog has reached the version that was newest when the
//! control plane was asked. The request and those received with it are then tried once more. The control plane asks
//! once for all waiting requests.

use headrace_proto::control::v1::{CatchUp, request::Operation};
use headrace_wire::Status;

use crate::{
    api::Effect,
    calls::{ConnectionKey, Origin, Sequence},
    config::Hosting,
    dispatch::control_request,
    moment::Moment,
    sessions::{
        Sessions,
        connection::{CatchingUp, Session},
    },
};

/// Errors that a newer catalog may revoke. Includes missing permissions, which may have been granted a moment ago.
const STALE_CATALOG_STATUSES: [Status; 6] = [
    Status::STREAM_ID_NOT_FOUND,
    Status::TOPIC_ID_NOT_FOUND,
    Status::PARTITION_NOT_FOUND,
    Status::CONSUMER_GROUP_ID_NOT_FOUND,
    Status::RESOURCE_NOT_FOUND,
    Status::UNAUTHORIZED,
];

/// Return whether a refusal may be caused by an entity that only another gateway knows yet.
pub(crate) fn may_be_stale_catalog(status: Status) -> bool {
    STALE_CATALOG_STATUSES.contains(&status)
}

impl Sessions {
    /// Process the control plane's reply on this connection. Returns true if the next request waits for it. The reply
    /// counts even if the catalog did not arrive: what is missing then is refused.
    pub(crate) fn has_caught_up(&mut self, moment: Moment<'_>, key: ConnectionKey) -> bool {
        let now = moment.now;
        let Some(connection) = self.get_mut(key) else {
            return false;
        };
        let has_waited = connection.session.catching_up == CatchingUp::Asked;
        if has_waited {
            connection.session.catching_up = CatchingUp::Done;
            // The client could not send a heartbeat while it waited.
            connection.session.last_heartbeat = now;
            self.touch(key);
        }
        has_waited
    }
}

/// Handle a request that misses something. Returns true if it stays in the inbox to be tried again.
pub(crate) fn catches_up(
    moment: Moment<'_>,
    key: ConnectionKey,
    session: &mut Session,
    effects: &mut Vec<Effect>,
) -> bool {
    // The catalog of a complete server is always current, and nodes are asked by gateways only.
    let is_behind = moment.config.hosting == Hosting::Nothing
        && session.login.is_some()
        && session.catching_up == CatchingUp::No;
    if is_behind {
        session.catching_up = CatchingUp::Asked;
        effects.push(Effect::Control {
            origin: Origin {
                shard: moment.config.shard,
                connection: key,
                // No request in flight has this sequence: the request has not begun.
                sequence: Sequence(u64::MAX),
                member: None,
                trace: None,
            },
            request: control_request(session, Operation::CatchUp(CatchUp {})),
        });
    }
    is_behind
}
