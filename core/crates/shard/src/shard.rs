//! One shard: the connections and partitions of one core, driven by events.

use std::sync::Arc;

use headrace_catalog::CatalogReader;
use headrace_model::{ShardId, Timestamp};

use crate::{
    api::{Effect, Input},
    config::ShardConfig,
    hosting::Partitions,
    memory::{Memory, MemoryUse},
    meter::Meter,
    routing::{
        Routing,
        links::{Links, NodeContacts},
    },
    sessions::{Sessions, registry::ClientRegistry},
    tracer::Tracer,
};

/// Relation of a shard's time, which never goes back, to the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockState {
    /// Microseconds by which the shard's time is ahead of the wall clock, which was set back.
    pub lead_micros: u64,
    /// Microseconds of steps forward of the wall clock that may be mistakes: nothing is deleted because of them.
    pub doubted_micros: u64,
}

/// State of one shard. Feed it with [`Shard::step`] and call [`Shard::end_of_turn`] afterwards.
pub struct Shard {
    pub(crate) config: Arc<ShardConfig>,
    pub(crate) catalog: CatalogReader,
    pub(crate) sessions: Sessions,
    pub(crate) routing: Routing,
    pub(crate) partitions: Partitions,
    pub(crate) memory: MemoryUse,
    pub(crate) meter: Arc<Meter>,
    pub(crate) now: Timestamp,
    clock: ClockState,
    /// Random source of ticket ids; nothing else may depend on it.
    pub(crate) random: fastrand::Rng,
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
            meter,
            config,
            catalog,
            now: Timestamp(0),
            clock: ClockState::default(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Number of this shard.
    pub fn id(&self) -> ShardId {
        self.config.shard
    }

    /// Statistics of this shard.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn set_now(&mut self, now: Timestamp) {
        self.now = now;
        self.meter.set_now(now);
    }

    /// Set the relation of the time that this shard is given to the wall clock.
    pub fn set_clock(&mut self, clock: ClockState) {
        self.clock = clock;
    }

    /// Time of the wall clock. Moments that others have chosen, as the expiry of a ticket or a login, are compared with
    /// this time; everything else is with `now`, which never goes back.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp(self.now.0.saturating_sub(self.clock.lead_micros))
    }

    /// Time by which messages are old enough to be deleted: the wall clock, without steps forward that are doubted.
    fn trusted(&self) -> Timestamp {
        Timestamp(self.wall().0.saturating_sub(self.clock.doubted_micros))
    }

    /// Begin a turn: every user has a new share of it, and connections go on that had to wait for it. Call it whenever
    /// the host has looked for completions.
    pub fn begin_turn(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.set_now(now);
        self.serve_turns(effects);
    }

    /// Return whether connections wait for the next turn, so that the host does not wait for completions.
    pub fn awaits_turn(&self) -> bool {
        self.sessions.turns.are_awaited()
    }

    /// Process one input. Effects are pushed in the order in which the host must start them.
    pub fn step(&mut self, now: Timestamp, input: Input, effects: &mut Vec<Effect>) {
        self.set_now(now);
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
                let catalog = self.catalog.load();
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
            } => self.adopted(connection, connection_state, effects),
            Input::CatalogChanged => {
                let catalog = Arc::clone(self.catalog.load());
                self.partitions.reconcile(&catalog, now, effects);
                self.wake_links();
                let changes = self.routing.changes_until(catalog);
                if !changes.is_empty() {
                    self.sessions.review_delays();
                    self.review_sessions(&changes, effects);
                    self.review_waits(&changes, effects);
                    self.review_watches(&changes, effects);
                }
                self.follow_nodes(effects);
            }
            Input::StageHorizon(horizon) => {
                let catalog = self.catalog.load();
                self.partitions.pass_stage_horizon(catalog, horizon);
            }
            Input::Connected { .. } => self.link_input(input, effects),
            Input::DirectoryRemoved { namespace } => {
                let catalog = self.catalog.load();
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

    /// Return the time at which [`Shard::end_waits`] must be called.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.routing.next_deadline()
    }

    /// Answer waiting polls whose deadline has passed. Part of [`Shard::tick`]; may be called more often.
    pub fn end_waits(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.set_now(now);
        self.end_due_waits(effects);
        self.deliver_answers(effects);
    }

    /// Run work that is due by time.
    pub fn tick(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.set_now(now);
        self.partitions.tick(now, effects);
        self.tick_memory();
        self.tick_links(effects);
        self.end_waits(now, effects);
        self.sessions.retry_starved(now);
        self.resume_delayed();
        self.sessions.turns.forget_idle();
        self.close_lingering(effects);
        self.process_deadlines(effects);
        self.close_slow_readers(effects);
        self.end_expired_sessions(effects);
        self.end_unwanted(effects);
        self.report_stale_members(effects);
        let trusted = self.trusted();
        let catalog = self.catalog.load();
        self.partitions
            .tick_retention(catalog, now, trusted, effects);
        self.tick_heartbeats(effects);
    }

    /// Run the group commit, and send and receive on every connection with pending work.
    ///
    /// Completions that the host has at once (inline writes) go through [`Shard::step`] and need another call, which
    /// puts all acknowledgements of one connection into one send.
    pub fn end_of_turn(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.set_now(now);
        // Advancing a connection may start queued requests, which belong to the same commit.
        loop {
            while self.has_work() {
                self.routing.links.end_of_turn(effects);
                let catalog = self.catalog.load();
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
