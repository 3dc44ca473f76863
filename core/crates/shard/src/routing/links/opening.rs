//! Opening of links: on demand, again after growing pauses, and one to each node, which shows whether it is reached.

use headrace_catalog::Node;
use headrace_model::{Level, ShardId, Timestamp};
use headrace_ticket::{LIFETIME_SECONDS, Scope, Ticket};
use headrace_wire::{Command, command::OpenLink};

use super::{
    Links,
    link::{Link, State},
};
use crate::{
    api::Effect,
    calls::{ConnectionKey, LinkNumber, Peer},
    config::Hosting,
    moment::Moment,
};

/// Time after which an unanswered opening request fails.
const OPENING_MICROS_MAX: u64 = 5_000_000;
/// First pause after a failure.
const PAUSE_MICROS: u64 = 50_000;
/// Maximum number of times that the pause doubles.
const PAUSE_DOUBLINGS_MAX: u32 = 5;

fn is_same_run(link: &Link, node: &Node) -> bool {
    (link.incarnation, &link.address) == (node.incarnation, &node.binary_address)
}

impl Links {
    /// Return whether a link is open. If it is not, start an attempt unless a pause is in progress.
    pub(super) fn ensure_open(
        &mut self,
        moment: Moment<'_>,
        peer: Peer,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(node) = moment.catalog.node(peer.node) else {
            return false;
        };
        let link = self.by_peer.entry(peer).or_insert_with(|| Link::new(node));
        match link.state {
            State::Open { .. } => true,
            State::Connecting { .. } | State::Opening { .. } => false,
            State::Resting { until } if until > moment.now => false,
            State::Resting { .. } => {
                link.incarnation = node.incarnation;
                link.address = node.binary_address.clone();
                let address = link.address.clone();
                let number = self.next_number();
                if let Some(link) = self.by_peer.get_mut(&peer) {
                    link.state = State::Connecting { number };
                }
                effects.push(Effect::Connect {
                    link: number,
                    address,
                });
                false
            }
        }
    }

    /// Try the live nodes that may not be reached, without a request for them: lists show which are.
    ///
    /// Lost links are tried again. The first shard of a gateway has a link to each node.
    pub(super) fn keep_in_contact(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        if self.config.hosting != Hosting::Nothing || self.is_stopping {
            return;
        }
        let is_live = |peer: &Peer| {
            let node = moment.catalog.node(peer.node);
            node.is_some_and(|node| node.is_live)
        };
        let mut untried: Vec<Peer> = (self.by_peer.iter())
            .filter(|(peer, link)| link.failures > 0 && is_live(peer))
            .map(|(peer, _)| *peer)
            .collect();
        if self.config.shard == ShardId(0) {
            let live = moment.catalog.nodes().filter(|node| node.is_live);
            untried.extend(live.map(|node| Peer {
                node: node.id,
                shard: ShardId(0),
            }));
        }
        for peer in untried {
            self.ensure_open(moment, peer, effects);
        }
    }

    /// Process the result of the host's connection attempt.
    pub(crate) fn connected(
        &mut self,
        moment: Moment<'_>,
        number: LinkNumber,
        result: Result<ConnectionKey, String>,
        effects: &mut Vec<Effect>,
    ) {
        let wanted = (self.by_peer.iter())
            .find(|(_, link)| link.state == State::Connecting { number })
            .map(|(peer, _)| *peer);
        match (wanted, result) {
            (Some(peer), Ok(connection)) => self.queue_opening(moment, peer, connection),
            (Some(peer), Err(reason)) => self.lose(moment, peer, &reason, effects),
            // The attempt was abandoned meanwhile.
            (None, Ok(connection)) => effects.push(Effect::Close { connection }),
            (None, Err(_)) => {}
        }
    }

    /// Ticket that proves to a node that this is a gateway of its cluster. Without a secret it is empty, and nodes
    /// refuse it.
    fn ticket(&mut self, now: Timestamp) -> String {
        let Some(key) = &self.config.ticket_key else {
            return String::new();
        };
        let name = self.config.cluster.nodes.first();
        let ticket = Ticket {
            holder: name.map_or_else(String::new, |node| node.name.clone()),
            scope: Scope::Cluster,
            not_after: now.0 / 1_000_000 + LIFETIME_SECONDS,
            id: self.random.u128(..),
            issuer: None,
        };
        ticket.sign(key).unwrap_or_default()
    }

    fn queue_opening(&mut self, moment: Moment<'_>, peer: Peer, connection: ConnectionKey) {
        let catalog_version = moment.catalog.version();
        let ticket = self.ticket(moment.now);
        let command = Command::OpenLink(OpenLink {
            version: headrace_link::VERSION,
            node_id: peer.node.0,
            shard: peer.shard.0,
            gateway: self.config.gateway,
            catalog_version,
            ticket: &ticket,
        });
        let mut words = Vec::new();
        command
            .try_encode_frame(&mut words)
            .expect("a ticket is far shorter than a frame");
        let Some(link) = self.by_peer.get_mut(&peer) else {
            return;
        };
        link.state = State::Opening {
            connection,
            until: Timestamp(moment.now.0 + OPENING_MICROS_MAX),
        };
        link.greet(words, catalog_version);
        self.connected.insert(connection, peer);
        self.touch(peer);
    }

    /// Process the node's acceptance of the link.
    pub(super) fn welcomed(&mut self, moment: Moment<'_>, peer: Peer, effects: &mut Vec<Effect>) {
        let Some(link) = self.by_peer.get_mut(&peer) else {
            return;
        };
        let State::Opening { connection, .. } = link.state else {
            return;
        };
        link.state = State::Open { connection };
        link.failures = 0;
        self.contacts.note((peer.node, link.incarnation), true);
        if core::mem::take(&mut link.is_reported) {
            let message = format!("node {} at {} is reached again", peer.node, link.address);
            effects.push(Effect::Report {
                level: Level::Info,
                message,
            });
        }
        self.arm_watches(moment, effects);
        self.request_statistics(moment, effects);
        self.pump_all(moment, effects);
    }

    /// Return the time of the next attempt after this many failures.
    pub(super) fn rest_until(&mut self, now: Timestamp, failures: u32) -> Timestamp {
        let longest = PAUSE_MICROS << failures.min(PAUSE_DOUBLINGS_MAX);
        Timestamp(now.0 + self.random.u64(longest / 2..=longest))
    }

    /// Close links to nodes that are no longer what they were when the links were opened.
    pub(super) fn leave_gone_nodes(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let left: Vec<Peer> = (self.by_peer.iter())
            .filter(|(peer, link)| {
                let node = moment.catalog.node(peer.node);
                !node.is_some_and(|node| is_same_run(link, node))
            })
            .map(|(peer, _)| *peer)
            .collect();
        for peer in left {
            self.lose(
                moment,
                peer,
                "the node has gone, or has started anew",
                effects,
            );
            if let Some(link) = self.by_peer.remove(&peer) {
                self.contacts.forget((peer.node, link.incarnation));
            }
        }
    }

    /// Close links whose opening is overdue, and silent ones with calls that should have been answered.
    pub(super) fn lose_silent(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let silence = self.config.links.silence_timeout_micros;
        let then = Timestamp(moment.now.0.saturating_sub(silence));
        // The answers may have arrived: this process has no memory to receive them.
        for link in self.by_peer.values_mut().filter(|link| link.is_starved) {
            link.heard_at = moment.now;
        }
        let silent: Vec<Peer> = (self.by_peer.iter())
            .filter(|(_, link)| match link.state {
                State::Opening { until, .. } => until <= moment.now,
                State::Open { .. } => link.is_silent_since(then),
                State::Resting { .. } | State::Connecting { .. } => false,
            })
            .map(|(peer, _)| *peer)
            .collect();
        for peer in silent {
            self.lose(moment, peer, "the node does not answer", effects);
        }
    }
}
