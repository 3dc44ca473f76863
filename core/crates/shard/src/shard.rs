//! One shard: the connections and partitions of one core, driven by events. This file has the order of a turn.

mod answers;
mod closing;
mod driving;
mod memory;
mod progress;
mod requests;

use std::sync::Arc;

use headrace_catalog::CatalogReader;
use headrace_model::{ShardId, Timestamp};

use crate::{
    api::{Effect, Input},
    config::ShardConfig,
    hosting::Partitions,
    memory::{Memory, usage::MemoryUse},
    meter::Meter,
    moment::{ClockState, Present},
    routing::{
        Routing,
        links::{Links, NodeContacts},
        mail::Ways,
        waits::Waiting,
        watches::Watching,
    },
    sessions::{Sessions, registry::ClientRegistry, serving::Serving},
    tracer::Tracer,
};

/// State of one shard. Feed it with [`Shard::step`] and call [`Shard::end_of_turn`] afterwards.
///
/// The methods of a shard are the steps of its turn. All other rules are methods of its parts, which reach each other
/// only as far as `Ways`, `Waiting`, `Watching` and `Serving` name them.
pub struct Shard {
    present: Present,
    sessions: Sessions,
    routing: Routing,
    partitions: Partitions,
    memory: MemoryUse,
    /// Random source of ticket ids; nothing else may depend on it.
    random: fastrand::Rng,
}

impl Shard {
    /// Create a shard without connections. Its partitions open with the first [`Input::CatalogChanged`].
    pub fn new(
        config: Arc<ShardConfig>,
        catalog: CatalogReader,
        clients: ClientRegistry,
        contacts: NodeContacts,
        memory: Memory,
        seed: u64,
    ) -> Self {
        let pool = memory.pool().clone();
        let meter = Meter::new(config.shard, Tracer::new(config.tracing));
        let links = Links::new(Arc::clone(&config), contacts, memory.clone(), seed);
        Self {
            sessions: Sessions::new(clients),
            routing: Routing::new(links),
            partitions: Partitions::new(Arc::clone(&config), Arc::clone(&meter), pool, seed),
            memory: MemoryUse::new(memory),
            present: Present::new(config, catalog, meter),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Number of this shard.
    pub fn id(&self) -> ShardId {
        self.present.config.shard
    }

    /// Statistics of this shard.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.present.meter
    }

    /// Set the relation of the time that this shard is given to the wall clock.
    pub fn set_clock(&mut self, clock: ClockState) {
        self.present.set_clock(clock);
    }

    /// Ways of requests to their partitions.
    #[inline]
    fn ways(&mut self) -> Ways<'_> {
        Ways {
            moment: self.present.moment(),
            links: &mut self.routing.links,
            partitions: &mut self.partitions,
        }
    }

    /// Requests that wait for messages.
    fn waiting(&mut self) -> Waiting<'_> {
        Waiting {
            waits: &mut self.routing.waits,
            ways: Ways {
                moment: self.present.moment(),
                links: &mut self.routing.links,
                partitions: &mut self.partitions,
            },
            sessions: &mut self.sessions,
            memory: &mut self.memory,
        }
    }

    /// Watched partitions.
    fn watching(&mut self) -> Watching<'_> {
        Watching {
            watches: &mut self.routing.watches,
            ways: Ways {
                moment: self.present.moment(),
                links: &mut self.routing.links,
                partitions: &mut self.partitions,
            },
            sessions: &mut self.sessions,
        }
    }

    /// Links of gateways.
    #[inline]
    fn serving(&mut self) -> Serving<'_> {
        Serving {
            moment: self.present.moment(),
            sessions: &mut self.sessions,
            partitions: &mut self.partitions,
            memory: &self.memory,
        }
    }

    /// Begin a turn: every user has a new share of it, and connections go on that had to wait for it. Call it whenever
    /// the host has looked for completions.
    pub fn begin_turn(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.present.set_now(now);
        self.serve_turns(effects);
    }

    /// Return whether connections wait for the next turn, so that the host does not wait for completions.
    pub fn awaits_turn(&self) -> bool {
        self.sessions.turns.are_awaited()
    }

    /// Process one input. Effects are pushed in the order in which the host must start them.
    pub fn step(&mut self, now: Timestamp, input: Input, effects: &mut Vec<Effect>) {
        self.present.set_now(now);
        match input {
            Input::Received {
                connection,
                buffer,
                count,
            } => {
                self.received(connection, buffer, count, effects);
            }
            Input::Storage {
                namespace,
                completion,
            } => {
                let catalog = self.present.catalog.load();
                self.partitions
                    .complete(catalog, namespace, completion, now, effects);
            }
            Input::Mail(mail) => self.take_mail(mail, effects),
            Input::Sent { connection, sent } => self.sent(connection, sent, effects),
            Input::ControlReply { origin, reply } => {
                self.control_replied(origin, reply, effects);
            }
            Input::Accepted {
                connection,
                arrival,
            } => self.accepted(connection, arrival, effects),
            Input::Adopted {
                connection,
                connection_state,
            } => {
                let moment = self.present.moment();
                self.sessions
                    .adopted(moment, connection, connection_state, effects);
            }
            Input::CatalogChanged => self.follow_catalog(effects),
            Input::StageHorizon(horizon) => {
                let catalog = self.present.catalog.load();
                self.partitions.pass_stage_horizon(catalog, horizon);
            }
            Input::Connected { link, result } => {
                let moment = self.present.moment();
                self.routing.links.connected(moment, link, result, effects);
            }
            Input::DirectoryRemoved { namespace } => {
                let catalog = self.present.catalog.load();
                self.partitions
                    .directory_removed(catalog, namespace, now, effects);
            }
            Input::Congested(congested) => self.sessions.set_congested(congested),
            Input::Shutdown => self.shut_down(effects),
            Input::ClosePartitions => {
                self.close_connections(effects);
                self.routing.links.close_all(effects);
                self.partitions.close_all(now, effects);
            }
        }
        self.deliver_answers(effects);
    }

    /// Apply a new catalog to all parts.
    fn follow_catalog(&mut self, effects: &mut Vec<Effect>) {
        let moment = self.present.moment();
        self.partitions
            .reconcile(moment.catalog, moment.now, effects);
        self.sessions.wake_links();
        let changes = self.routing.changes_until(Arc::clone(moment.catalog));
        if !changes.is_empty() {
            self.sessions.review_delays();
            self.sessions.review_sessions(moment, &changes, effects);
            self.waiting().review_waits(&changes, effects);
            self.watching().review_watches(&changes, effects);
        }
        let moment = self.present.moment();
        self.routing.links.follow(moment, effects);
    }

    /// Return the time at which [`Shard::end_waits`] must be called.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.routing.next_deadline()
    }

    /// Answer waiting polls whose deadline has passed. Part of [`Shard::tick`]; may be called more often.
    pub fn end_waits(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.present.set_now(now);
        self.waiting().end_due_waits(effects);
        self.deliver_answers(effects);
    }

    /// Run work that is due by time.
    pub fn tick(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.present.set_now(now);
        self.partitions.tick(now, effects);
        self.tick_memory();
        let moment = self.present.moment();
        self.routing.links.tick(moment, effects);
        self.end_waits(now, effects);
        self.sessions.retry_starved(now);
        self.sessions.resume_delayed(self.present.moment());
        self.sessions.turns.forget_idle();
        self.tick_sessions(effects);
        let moment = self.present.moment();
        self.sessions.report_stale_members(moment, effects);
        let trusted = self.present.trusted();
        let catalog = self.present.catalog.load();
        self.partitions
            .tick_retention(catalog, now, trusted, effects);
        let moment = self.present.moment();
        let has_wait = |key| self.routing.has_wait(key);
        self.sessions.tick_heartbeats(moment, has_wait, effects);
    }

    /// Run the group commit, and send and receive on every connection with pending work.
    ///
    /// Completions that the host has at once (inline writes) go through [`Shard::step`] and need another call, which
    /// puts all acknowledgements of one connection into one send.
    pub fn end_of_turn(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.present.set_now(now);
        // Advancing a connection may start queued requests, which belong to the same commit.
        loop {
            while self.has_work() {
                self.routing.links.end_of_turn(effects);
                let catalog = self.present.catalog.load();
                self.partitions.end_of_turn(catalog, now, effects);
                self.deliver_answers(effects);
                for key in self.sessions.take_touched() {
                    self.advance(key, effects);
                }
            }
            self.see_to_memory(effects);
            if !self.has_work() {
                return;
            }
        }
    }

    fn has_work(&self) -> bool {
        self.partitions.has_work() || self.sessions.has_work() || self.routing.links.has_work()
    }
}
