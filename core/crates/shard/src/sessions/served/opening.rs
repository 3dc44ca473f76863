//! Opening of links.

use headrace_link::ToGateway;
use headrace_model::Timestamp;
use headrace_wire::Status;

use super::{GatewayLink, Opening};
use crate::{
    moment::Moment,
    sessions::{
        Sessions,
        closing::DeadlineKind,
        connection::{Connection, status_response},
    },
};

/// Time after which a link tries again to move to a shard that had no room for it.
const MOVE_AGAIN_MICROS: u64 = 5_000;
/// Maximum number of links of one shard. Each shard of each gateway has one.
const LINKS_MAX: usize = 4096;

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
