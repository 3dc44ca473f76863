//! Links from a gateway's shard to the shards of partition nodes (decision 19).
//!
//! A request for a partition becomes a *call*. Calls of one partition are queued in a *lane*, which keeps their order:
//! a call that has to wait blocks those behind it. A lane leads to a *link*, the connection to the shard of the node
//! that hosts the partition. The lane changes to another link when the catalog assigns the partition elsewhere, but
//! only after everything in flight on the old link is answered. Notifications about watched partitions need no order
//! and use no lane.
//!
//! Results are collected as [`LinkEvent`]s, which the shard takes after every step.

mod answers;
mod asking;
mod budget;
mod calls;
mod config;
mod contacts;
mod events;
mod gatherings;
mod lane;
mod lanes;
mod link;
mod loss;
mod opening;
mod statistics;
mod waiting;
mod watch;
mod watching;

use std::{collections::BTreeSet, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_buffer::{Buffer, BufferPool};
use headrace_catalog::{Catalog, Node};
use headrace_link::TraceContext;
use headrace_model::{Namespace, Timestamp};

use self::{
    budget::Budgets, calls::Calls, gatherings::Gatherings, lane::Lane, link::Link, watch::Watch,
};
use crate::{
    api::Effect,
    calls::{ConnectionKey, LinkNumber, Peer},
    config::ShardConfig,
    memory::Memory,
    moment::Moment,
    owner::Owner,
};

pub(crate) use self::events::LinkEvent;
pub use self::{config::LinksConfig, contacts::NodeContacts};

/// All links of a shard, and all calls and watches on them.
pub(crate) struct Links {
    config: Arc<ShardConfig>,
    contacts: NodeContacts,
    pool: BufferPool,
    memory: Memory,
    random: fastrand::Rng,
    by_peer: HashMap<Peer, Link, FixedState>,
    connected: HashMap<ConnectionKey, Peer, FixedState>,
    last_number: u32,
    calls: Calls,
    lanes: HashMap<Namespace, Lane, FixedState>,
    /// Partitions whose lanes have parked calls.
    parked: BTreeSet<Namespace>,
    watches: HashMap<Namespace, Watch, FixedState>,
    /// Watched partitions that are not registered at any node.
    unarmed: BTreeSet<Namespace>,
    gatherings: Gatherings,
    budgets: Budgets,
    /// Links with something to send or receive.
    touched: Vec<Peer>,
    events: Vec<LinkEvent>,
    /// Trace of the next request.
    trace: Option<TraceContext>,
    /// Catalog at the last review of lanes and watches.
    reviewed: Arc<Catalog>,
    /// True during shutdown: calls wait for a node no longer.
    is_stopping: bool,
}

impl Links {
    pub(crate) fn new(
        config: Arc<ShardConfig>,
        contacts: NodeContacts,
        memory: Memory,
        seed: u64,
    ) -> Self {
        let budgets = Budgets::new(config.links.in_flight_bytes_max);
        Self {
            config,
            contacts,
            pool: memory.pool().clone(),
            memory,
            random: fastrand::Rng::with_seed(seed),
            by_peer: HashMap::default(),
            connected: HashMap::default(),
            last_number: 0,
            calls: Calls::default(),
            lanes: HashMap::default(),
            parked: BTreeSet::new(),
            watches: HashMap::default(),
            unarmed: BTreeSet::new(),
            gatherings: Gatherings::default(),
            budgets,
            touched: Vec::new(),
            events: Vec::new(),
            trace: None,
            reviewed: Arc::default(),
            is_stopping: false,
        }
    }

    /// Set the trace of the next request.
    pub(crate) fn trace(&mut self, context: Option<TraceContext>) {
        self.trace = context;
    }

    /// Return whether results are pending.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Take the results since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<LinkEvent> {
        core::mem::take(&mut self.events)
    }

    /// Return whether a link has something to send or receive.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Return whether a connection has to wait until the budget has room for what it wants to send.
    #[inline]
    pub(crate) fn holds(&self, connection: ConnectionKey) -> bool {
        self.budgets.holds(connection)
    }

    /// Approximate memory of links, lanes and watches. The bytes of calls are in buffers and counted there.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.by_peer.len() * size_of::<Link>()
            + self.lanes.len() * size_of::<Lane>()
            + self.watches.len() * size_of::<Watch>()
    }

    /// Return whether a node is reachable: the newest experience of this process is that it answers, and the cluster
    /// receives its heartbeats.
    pub(crate) fn reaches(&self, node: &Node) -> bool {
        node.is_live && self.contacts.reaches(node)
    }

    /// Return whether a link waits for memory.
    pub(crate) fn is_starved(&self) -> bool {
        self.by_peer.values().any(|link| link.is_starved)
    }

    /// Return the node's shard that hosts a partition.
    fn peer_of(&self, catalog: &Catalog, namespace: Namespace) -> Option<Peer> {
        match self.config.owner(catalog, namespace) {
            Owner::Remote { node, shard } => Some(Peer { node, shard }),
            Owner::Here | Owner::Shard(_) | Owner::Nowhere => None,
        }
    }

    fn touch(&mut self, peer: Peer) {
        if let Some(link) = self.by_peer.get_mut(&peer)
            && !link.is_touched
        {
            link.is_touched = true;
            self.touched.push(peer);
        }
    }

    /// Cancel everything that a closed client connection has requested and that was not sent yet.
    pub(crate) fn forget(&mut self, connection: ConnectionKey) {
        self.budgets.forget(connection);
        for call in self.calls.take_parked(connection) {
            self.drop_call(call);
        }
    }

    /// Send what is ready, and start to receive.
    pub(crate) fn end_of_turn(&mut self, effects: &mut Vec<Effect>) {
        for peer in core::mem::take(&mut self.touched) {
            if let Some(link) = self.by_peer.get_mut(&peer) {
                link.is_touched = false;
                link.advance(&self.pool, effects);
            }
        }
    }

    /// Process a completed receive of a link.
    pub(crate) fn received(
        &mut self,
        moment: Moment<'_>,
        connection: ConnectionKey,
        buffer: Buffer,
        count: Option<usize>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.connected.get(&connection).copied() else {
            return;
        };
        let Some(link) = self.by_peer.get_mut(&peer) else {
            return;
        };
        link.is_receiving = false;
        match count.filter(|count| *count > 0) {
            None => self.lose(moment, peer, "the node has closed the connection", effects),
            Some(count) => {
                link.heard_at = moment.now;
                link.inbox.received(buffer, count);
                self.read(moment, peer, effects);
                self.touch(peer);
            }
        }
    }

    /// Process a completed send of a link.
    pub(crate) fn sent(
        &mut self,
        moment: Moment<'_>,
        connection: ConnectionKey,
        sent: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.connected.get(&connection).copied() else {
            return;
        };
        if let Some(link) = self.by_peer.get_mut(&peer) {
            link.is_sending = false;
        }
        if sent {
            self.touch(peer);
        } else {
            self.lose(moment, peer, "the connection broke", effects);
        }
    }

    /// Apply a new catalog: redirect calls and watches of partitions that are now elsewhere.
    pub(crate) fn follow(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let is_placed_alike = moment.catalog.shares_placements_with(&self.reviewed);
        self.reviewed = Arc::clone(moment.catalog);
        if !is_placed_alike {
            self.leave_gone_nodes(moment, effects);
            self.follow_watches(moment, effects);
        }
        self.pump_all(moment, effects);
    }

    /// Run work that is due by time.
    pub(crate) fn tick(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        self.keep_in_contact(moment, effects);
        // A node that has gone leaves no link, but requests that wait for it.
        let is_waited_for = !self.gatherings.is_empty() || !self.unarmed.is_empty();
        if self.by_peer.is_empty() && self.parked.is_empty() && !is_waited_for {
            return;
        }
        self.lose_silent(moment, effects);
        self.expire(moment.now);
        self.end_gatherings(moment.now);
        self.arm_watches(moment, effects);
        self.pump_all(moment, effects);
        let starved: Vec<Peer> = (self.by_peer.iter())
            .filter(|(_, link)| link.is_starved)
            .map(|(peer, _)| *peer)
            .collect();
        for peer in starved {
            self.read_again(moment, peer, effects);
        }
    }

    /// Resume reading from a link that waited for memory.
    pub(crate) fn read_again(&mut self, moment: Moment<'_>, peer: Peer, effects: &mut Vec<Effect>) {
        self.read(moment, peer, effects);
        self.touch(peer);
    }

    /// Begin shutdown: refuse calls that wait for a node, and wait for those in flight.
    pub(crate) fn shut_down(&mut self) {
        self.is_stopping = true;
        self.expire(Timestamp(u64::MAX));
    }

    /// Close all links. No client connection is left, so no more calls arrive.
    pub(crate) fn close_all(&mut self, effects: &mut Vec<Effect>) {
        self.connected.clear();
        for (_, link) in self.by_peer.drain() {
            effects.extend(
                link.connection()
                    .map(|connection| Effect::Close { connection }),
            );
        }
    }

    /// Return an unused number for an outgoing connection.
    fn next_number(&mut self) -> LinkNumber {
        self.last_number = self.last_number.wrapping_add(1);
        LinkNumber(self.last_number)
    }
}
