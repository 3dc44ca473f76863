//! Opening of links.

use headrace_link::{OLDEST_VERSION, ToGateway, VERSION};
use headrace_model::{NodeId, ShardId, Timestamp};
use headrace_ticket::{Scope, Ticket};
use headrace_wire::{Status, command::OpenLink};

use super::GatewayLink;
use crate::moment::Moment;
use crate::sessions::Sessions;
use crate::{
    config::Hosting,
    sessions::{
        arrival::Framing,
        closing::DeadlineKind,
        connection::{Connection, Session, status_response},
    },
};

const MICROS_PER_SECOND: u64 = 1_000_000;
/// Time after which a link tries again to move to a shard that had no room for it.
const MOVE_AGAIN_MICROS: u64 = 5_000;
/// Maximum number of links of one shard. Each shard of each gateway has one.
const LINKS_MAX: usize = 4096;

/// Parameters of an accepted link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    pub(super) shard: ShardId,
    node: NodeId,
    pub(super) catalog_version: u64,
}

impl Sessions {
    /// Turn a connection into a link, or refuse and close it.
    pub(crate) fn begin_link(
        &mut self,
        moment: Moment<'_>,
        connection: &mut Connection,
        opening: Result<Opening, Status>,
    ) {
        let opening = match opening {
            Ok(opening) => opening,
            Err(status) => {
                connection.pipeline.respond(status_response(status));
                connection.closing = true;
                return;
            }
        };
        self.count_change(connection, -1);
        // A gateway is no client of this node.
        self.clients().disconnected(connection.session.client);
        connection.gateway_link = Some(Box::new(GatewayLink::new(opening)));
        self.count_change(connection, 1);
        self.settle_link(moment, connection);
    }

    /// Process a link that has moved here from another shard.
    pub(crate) fn receive_link(&mut self, moment: Moment<'_>, connection: &mut Connection) {
        let key = connection.key;
        match connection
            .gateway_link
            .as_deref()
            .and_then(GatewayLink::wanted_shard)
        {
            // The requested shard had no room. An immediate retry would keep that shard from making room.
            Some(shard) if shard != moment.config.shard => {
                let until = Timestamp(moment.now.0 + MOVE_AGAIN_MICROS);
                self.add_deadline(until, key, DeadlineKind::Room);
            }
            Some(_) => self.settle_link(moment, connection),
            None => {}
        }
    }

    /// Greet the gateway, or move the link to the requested shard.
    pub(crate) fn settle_link(&mut self, moment: Moment<'_>, connection: &mut Connection) {
        if connection.closing {
            return;
        }
        let Connection {
            gateway_link: Some(served),
            pipeline,
            ..
        } = &mut *connection
        else {
            return;
        };
        let Some(opening) = served.opening else {
            return;
        };
        if opening.shard != moment.config.shard {
            connection.moving_to = Some(opening.shard);
            return;
        }
        served.opening = None;
        if self.links_count() > LINKS_MAX {
            pipeline.respond(status_response(Status::PARTITION_UNAVAILABLE));
            served.has_parted = true;
            connection.closing = true;
            return;
        }
        let welcome = ToGateway::Welcome {
            catalog_version: moment.catalog.version(),
            node: opening.node,
            shards: moment.config.shards,
        };
        served.queue(welcome, pipeline);
    }
}

/// Verify a ticket and return its content.
pub(crate) fn check_ticket(moment: Moment<'_>, text: &str) -> Result<Ticket, Status> {
    let key = (moment.config.ticket_key.as_ref()).ok_or(Status::INVALID_TICKET)?;
    let now = moment.wall.0 / MICROS_PER_SECOND;
    Ticket::verify(text, key, now).map_err(|_| Status::INVALID_TICKET)
}

/// Check whether a connection may become a link.
pub(crate) fn check_link_request(
    moment: Moment<'_>,
    session: &Session,
    request: &OpenLink<'_>,
) -> Result<Opening, Status> {
    let scope = check_ticket(moment, request.ticket)?.scope;
    let Hosting::Placed { node: name } = &moment.config.hosting else {
        return Err(Status::INVALID_TICKET);
    };
    if scope != Scope::Cluster {
        return Err(Status::INVALID_TICKET);
    }
    let is_fresh = session.arrival.framing == Framing::Plain && !session.is_authenticated();
    let is_spoken = (OLDEST_VERSION..=VERSION).contains(&request.version);
    let is_known = is_spoken && request.shard < moment.config.shards.get();
    if !is_fresh || !is_known {
        return Err(Status::INVALID_COMMAND);
    }
    let node = NodeId(request.node_id);
    let catalog = moment.catalog;
    let is_meant = match catalog.node(node) {
        Some(node) => node.name == *name,
        // This node was registered a moment ago, and its catalog does not contain that yet.
        None => catalog.version() < request.catalog_version,
    };
    if !is_meant {
        return Err(Status::PARTITION_ELSEWHERE);
    }
    Ok(Opening {
        shard: ShardId(request.shard),
        node,
        catalog_version: request.catalog_version,
    })
}
