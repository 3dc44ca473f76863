//! The way from a gateway's shard to the shards of partition nodes (decision 19).
//!
//! A request for a partition becomes a *call*. Calls of one partition stand in a *lane*, which keeps their order: while
//! one of them has to wait, those behind it wait, too. A lane leads to a *link*, the connection with the node's shard
//! that has the partition, and takes another when the catalogue says so, but not before everything in flight on the old
//! one is answered. What is told of partitions that are watched needs no order and has no lane.
//!
//! What comes of it is collected as [`Told`], which the shard takes after every step.

mod answers;
mod asking;
mod budget;
mod calls;
mod config;
mod lanes;
mod link;
mod loss;
mod opening;
mod statistics;
mod told;
mod waiting;
mod watching;

use std::{collections::BTreeSet, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_buffer::{Buffer, BufferPool};
use headrace_catalog::{Catalog, Node};
use headrace_link::{Refusal, TraceContext, View};
use headrace_model::{Namespace, NodeId, ShardId, Timestamp};
use headrace_partition::Response;

pub use self::config::LinksConfig;
use self::{
    budget::Budgets, calls::Calls, lanes::Lane, link::Link, statistics::Gatherings, watching::Watch,
};
use crate::{
    api::{ConnectionKey, Effect, LinkNumber, Origin},
    config::ShardConfig,
    memory::Memory,
    owner::Owner,
};

/// One shard of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) shard: ShardId,
}

/// What has come of what was asked.
#[derive(Debug)]
pub(crate) enum Told {
    /// An answer.
    Answer {
        origin: Origin,
        namespace: Namespace,
        result: Result<Response, Refusal>,
        /// For so long that its client may not have been able to say that it is alive.
        has_waited: bool,
    },
    /// A poll that is wanted will find enough now.
    Enough {
        origin: Origin,
        namespace: Namespace,
    },
    /// How a partition is that was watched.
    Seen { namespace: Namespace, view: View },
    /// Nobody can say what has become of a request of this connection: it ends, as if the server had died.
    Unknown { connection: ConnectionKey },
    /// There is room again for what this connection wants to send.
    Room { connection: ConnectionKey },
    /// The figures that this request waited for are in the catalogue, as far as they are to be had.
    Figures {
        origin: Origin,
        request: (u32, Box<[u8]>),
    },
}

/// What the moment brings along.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) now: Timestamp,
}

/// All links of a shard, and all that is asked over them.
pub(crate) struct Links {
    config: Arc<ShardConfig>,
    pool: BufferPool,
    memory: Memory,
    random: fastrand::Rng,
    by_peer: HashMap<Peer, Link, FixedState>,
    connected: HashMap<ConnectionKey, Peer, FixedState>,
    last_number: u32,
    calls: Calls,
    lanes: HashMap<Namespace, Lane, FixedState>,
    /// Those in which something waits.
    parked: BTreeSet<Namespace>,
    watches: HashMap<Namespace, Watch, FixedState>,
    /// Those of which no node knows.
    unarmed: BTreeSet<Namespace>,
    gatherings: Gatherings,
    budgets: Budgets,
    /// Links on which something is to be sent or received.
    touched: Vec<Peer>,
    told: Vec<Told>,
    /// The trace that the next request is a part of.
    trace: Option<TraceContext>,
    /// By which the ways were judged last.
    reviewed: Arc<Catalog>,
    /// Nobody waits for a node any longer.
    is_stopping: bool,
}

impl Links {
    pub(crate) fn new(config: Arc<ShardConfig>, memory: Memory, seed: u64) -> Self {
        let budgets = Budgets::new(config.links.in_flight_bytes_max);
        Self {
            config,
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
            told: Vec::new(),
            trace: None,
            reviewed: Arc::default(),
            is_stopping: false,
        }
    }

    /// The next request is a part of this trace.
    pub(crate) fn trace(&mut self, context: Option<TraceContext>) {
        self.trace = context;
    }

    /// Whether there is something to tell.
    #[inline]
    pub(crate) fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// What there is to tell, since the last call.
    pub(crate) fn take_told(&mut self) -> Vec<Told> {
        core::mem::take(&mut self.told)
    }

    /// Whether something is to be sent or received.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Whether a connection has to wait until there is room for what it wants to send.
    #[inline]
    pub(crate) fn holds(&self, connection: ConnectionKey) -> bool {
        self.budgets.holds(connection)
    }

    /// About what links take, with those calls that wait in lanes and what is watched; their bytes are in buffers.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.by_peer.len() * size_of::<Link>()
            + self.lanes.len() * size_of::<Lane>()
            + self.watches.len() * size_of::<Watch>()
    }

    /// Whether a node can be asked: there is a link with one of its shards, and the cluster hears from it.
    pub(crate) fn reaches(&self, node: &Node) -> bool {
        let is_open = |(peer, link): (&Peer, &Link)| peer.node == node.id && link.is_open();
        node.is_live && self.by_peer.iter().any(is_open)
    }

    /// Whether a link waits for memory.
    pub(crate) fn is_starved(&self) -> bool {
        self.by_peer.values().any(|link| link.is_starved)
    }

    /// The node's shard that has a partition.
    fn way(&self, catalog: &Catalog, namespace: Namespace) -> Option<Peer> {
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

    /// A connection of a client is gone: nothing that it has asked for and that was not sent is wanted any more.
    pub(crate) fn forget(&mut self, connection: ConnectionKey) {
        self.budgets.forget(connection);
        for call in self.calls.take_parked(connection) {
            self.drop_call(call);
        }
    }

    /// Send what is ready and receive what comes.
    pub(crate) fn end_of_turn(&mut self, effects: &mut Vec<Effect>) {
        for peer in core::mem::take(&mut self.touched) {
            if let Some(link) = self.by_peer.get_mut(&peer) {
                link.is_touched = false;
                link.advance(&self.pool, effects);
            }
        }
    }

    /// A receive of a link has ended.
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

    /// A send of a link has ended.
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

    /// The catalogue has changed: what leads elsewhere now goes there.
    pub(crate) fn follow(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let is_placed_alike = moment.catalog.is_placed_like(&self.reviewed);
        self.reviewed = Arc::clone(moment.catalog);
        if !is_placed_alike {
            self.leave_gone_nodes(moment, effects);
            self.follow_watches(moment, effects);
        }
        self.pump_all(moment, effects);
    }

    /// Work that is due by time.
    pub(crate) fn tick(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        if self.by_peer.is_empty() && self.parked.is_empty() {
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

    /// A link has waited for memory.
    pub(crate) fn read_again(&mut self, moment: Moment<'_>, peer: Peer, effects: &mut Vec<Effect>) {
        self.read(moment, peer, effects);
        self.touch(peer);
    }

    /// The process stops: what waits for a node is refused, and what is in flight is waited for.
    pub(crate) fn shut_down(&mut self) {
        self.is_stopping = true;
        self.expire(Timestamp(u64::MAX));
    }

    /// No connection of a client is left: nothing is asked any more.
    pub(crate) fn close_all(&mut self, effects: &mut Vec<Effect>) {
        self.connected.clear();
        for (_, link) in self.by_peer.drain() {
            effects.extend(
                link.connection()
                    .map(|connection| Effect::Close { connection }),
            );
        }
    }

    /// A number for a connection that is asked for.
    fn next_number(&mut self) -> LinkNumber {
        self.last_number = self.last_number.wrapping_add(1);
        LinkNumber(self.last_number)
    }
}
