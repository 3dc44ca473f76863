//! Delivery of answers and notifications from nodes.

use super::{LinkEvent, Moment, Peer};
use crate::{
    Shard,
    api::{ConnectionKey, Effect, Input, Mail},
    config::Hosting,
    owner::Owner,
};

impl Shard {
    /// Send a request to the node that hosts the partition.
    pub(crate) fn ask_node(&mut self, mail: Mail, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.routing.links.take(moment, mail, effects);
    }

    /// Return whether requests are forwarded to other nodes. A node forwards none: it returns the location of the
    /// partition.
    #[inline]
    pub(crate) fn is_asked_elsewhere(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Remote { .. } | Owner::Nowhere)
            && self.config.hosting == Hosting::Nothing
    }

    /// Process an input of a connection that is not a client's.
    pub(crate) fn link_input(&mut self, input: Input, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        match input {
            Input::Connected { link, result } => {
                self.routing.links.connected(moment, link, result, effects);
            }
            Input::Received {
                connection,
                buffer,
                count,
            } => {
                self.routing
                    .links
                    .received(moment, connection, buffer, count, effects);
            }
            Input::Sent { connection, sent } => {
                self.routing.links.sent(moment, connection, sent, effects);
            }
            _ => {}
        }
    }

    /// Apply a new catalog to the links.
    pub(crate) fn follow_nodes(&mut self, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.routing.links.follow(moment, effects);
    }

    /// Run work on links that is due by time.
    pub(crate) fn tick_links(&mut self, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.routing.links.tick(moment, effects);
    }

    /// Read a link whose turn in the memory queue has come.
    pub(crate) fn read_link(&mut self, peer: Peer, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.routing.links.read_again(moment, peer, effects);
        self.deliver_answers(effects);
    }

    /// Deliver results of links to their destinations.
    pub(crate) fn deliver_link_events(&mut self, effects: &mut Vec<Effect>) {
        for event in self.routing.links.take_events() {
            match event {
                LinkEvent::Answer { answer, has_waited } => {
                    let (now, key) = (self.now, answer.origin.connection);
                    if has_waited && let Some(connection) = self.sessions.get_mut(key) {
                        connection.session.last_heartbeat = now;
                    }
                    self.deliver_answer(answer, effects);
                }
                LinkEvent::MessagesAvailable { origin, namespace } => {
                    self.wait_notified(origin, namespace, effects);
                }
                LinkEvent::Seen { namespace, view } => self.watch_notified(namespace, view),
                LinkEvent::OutcomeUnknown { connection } => self.close(connection, effects),
                LinkEvent::Room { connection } => self.sessions.touch(connection),
                LinkEvent::StatisticsGathered {
                    origin,
                    request: (code, payload),
                } => self.statistics_gathered(origin, code, &payload, effects),
            }
        }
    }

    /// Return whether a connection is held because it has exceeded the budget of a link.
    #[inline]
    pub(crate) fn is_held(&self, key: ConnectionKey) -> bool {
        self.routing.links.holds(key)
    }
}
