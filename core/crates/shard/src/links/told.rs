//! What nodes have told, brought to where it belongs.

use super::{Moment, Peer, Told};
use crate::{
    Shard,
    api::{ConnectionKey, Effect, Input, Mail},
    config::Hosting,
    owner::Owner,
};

impl Shard {
    /// Ask the node that has the partition.
    pub(crate) fn ask_node(&mut self, mail: Mail, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.links.take(moment, mail, effects);
    }

    /// Whether nodes are asked for what they have. A node asks no other: it says who has it.
    #[inline]
    pub(crate) fn is_asked_elsewhere(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Remote { .. } | Owner::Nowhere)
            && self.config.hosting == Hosting::Nothing
    }

    /// Something has happened to a connection that is no client's.
    pub(crate) fn link_input(&mut self, input: Input, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        match input {
            Input::Connected { link, result } => {
                self.links.connected(moment, link, result, effects);
            }
            Input::Received {
                connection,
                buffer,
                count,
            } => {
                self.links
                    .received(moment, connection, buffer, count, effects);
            }
            Input::Sent { connection, sent } => {
                self.links.sent(moment, connection, sent, effects);
            }
            _ => {}
        }
    }

    /// The catalogue has changed.
    pub(crate) fn follow_nodes(&mut self, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.links.follow(moment, effects);
    }

    /// Work on links that is due by time.
    pub(crate) fn tick_links(&mut self, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.links.tick(moment, effects);
    }

    /// It is the turn of a link that has waited for memory.
    pub(crate) fn read_link(&mut self, peer: Peer, effects: &mut Vec<Effect>) {
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        self.links.read_again(moment, peer, effects);
        self.deliver_answers(effects);
    }

    /// Bring what nodes have told to where it belongs.
    pub(crate) fn deliver_told(&mut self, effects: &mut Vec<Effect>) {
        for told in self.links.take_told() {
            match told {
                Told::Answer {
                    origin,
                    namespace,
                    result,
                    has_waited,
                } => {
                    let now = self.now;
                    if has_waited && let Some(connection) = self.connection_mut(origin.connection) {
                        connection.session.last_heartbeat = now;
                    }
                    self.answer_connection(origin, namespace, result, effects);
                }
                Told::Enough { origin, namespace } => self.wait_told(origin, namespace, effects),
                Told::Seen { namespace, view } => self.watch_told(namespace, view),
                Told::Unknown { connection } => self.close(connection, effects),
                Told::Room { connection } => self.touch(connection),
                Told::Figures {
                    origin,
                    request: (code, payload),
                } => self.figures_gathered(origin, (code, &payload), effects),
            }
        }
    }

    /// Whether a connection has to wait for the node that it has asked for most.
    #[inline]
    pub(crate) fn is_held(&self, key: ConnectionKey) -> bool {
        self.links.holds(key)
    }
}
