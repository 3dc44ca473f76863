//! One shard: the connections and partitions of one core, driven by events.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use headrace_buffer::{Buffer, BufferPool};
use headrace_catalog::{Catalog, CatalogReader};
use headrace_model::{ShardId, Timestamp};
use headrace_wire::{Status, frame::REQUEST_HEADER_BYTES};

use crate::{
    api::{ConnectionKey, Effect, Input, MovedConnection},
    config::ShardConfig,
    dispatch::Refusals,
    hosting::Partitions,
    memory::{Excess, Memory, MemoryWork, Place, Receiver},
    meter::Meter,
    routing::links::Links,
    routing::owner::Owner,
    routing::served::{GatewayLink, Opening},
    routing::waits::Waits,
    routing::watches::Watches,
    sessions::catching_up::CatchingUp,
    sessions::closing::DeadlineKind,
    sessions::connection::{
        Connection, Head, Requester, SMALL_PAYLOAD_BYTES_MAX, Session, status_response,
    },
    sessions::registry::ClientRegistry,
    tracer::Tracer,
};

/// Interval between retries of connections that found the buffer pool empty.
const STARVED_RETRY_MICROS: u64 = 5_000;
/// Interval between checks for consumer group members whose connections are closed.
const STALE_MEMBER_CHECK_MICROS: u64 = 5_000_000;

/// State of one shard. Feed it with [`Shard::step`] and call [`Shard::end_of_turn`] afterwards.
pub struct Shard {
    pub(crate) config: Arc<ShardConfig>,
    pub(crate) catalog: CatalogReader,
    pub(crate) clients: ClientRegistry,
    pub(crate) partitions: Partitions,
    pub(crate) waits: Waits,
    pub(crate) watches: Watches,
    pub(crate) links: Links,
    /// Catalog of the last review of sessions, waits and watches, or an older one.
    reviewed: Arc<Catalog>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) pool: BufferPool,
    pub(crate) memory: Memory,
    pub(crate) memory_work: MemoryWork,
    /// Connections whose users have used up their memory share.
    pub(crate) excess: Excess,
    pub(crate) now: Timestamp,
    /// Random source of ticket ids; nothing else may depend on it.
    pub(crate) random: fastrand::Rng,
    pub(crate) connections: Vec<Option<Box<Connection>>>,
    pub(crate) connections_count: usize,
    /// Number of connections that count against the limit: all but in-process ones and links.
    pub(crate) counted_connections: usize,
    /// Number of connections that are links of gateways.
    pub(crate) links_count: usize,
    pub(crate) touched: Vec<ConnectionKey>,
    /// Connections that wait for their peer to close.
    pub(crate) lingering: Vec<ConnectionKey>,
    /// Deadlines of connections, with the condition that each must meet.
    pub(crate) deadlines: BinaryHeap<Reverse<(Timestamp, ConnectionKey, DeadlineKind)>>,
    starved: Vec<ConnectionKey>,
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) heartbeats_at: Timestamp,
    ghosts_at: Timestamp,
    pub(crate) retention_at: Timestamp,
    /// Earliest expiry of a login on this shard; possibly of a session that has already ended.
    pub(crate) logins_expire_at: Option<Timestamp>,
    /// Number of disconnect requests at the last check.
    pub(crate) disconnections_seen: u64,
    /// Rate limit of reported refusals.
    pub(crate) refusals: Refusals,
    congested: bool,
    pub(crate) shutting_down: bool,
    /// Set by the current request if its connection should move.
    move_wanted: Option<ShardId>,
    /// Set by the current request if its connection is to become a link.
    pub(crate) link_wanted: Option<Result<Opening, Status>>,
}

impl Shard {
    /// Create a shard without connections. Its partitions open with the first [`Input::CatalogChanged`].
    pub fn new(
        config: Arc<ShardConfig>,
        catalog: CatalogReader,
        clients: ClientRegistry,
        memory: Memory,
        seed: u64,
    ) -> Self {
        let pool = memory.pool().clone();
        let meter = Meter::new(config.shard, Tracer::new(config.tracing));
        Self {
            partitions: Partitions::new(
                Arc::clone(&config),
                Arc::clone(&meter),
                pool.clone(),
                seed,
            ),
            waits: Waits::default(),
            watches: Watches::default(),
            links: Links::new(Arc::clone(&config), memory.clone(), seed),
            reviewed: Arc::default(),
            meter,
            config,
            catalog,
            clients,
            pool,
            memory_work: MemoryWork::new(memory.pool()),
            excess: Excess::default(),
            memory,
            now: Timestamp(0),
            random: fastrand::Rng::with_seed(seed),
            connections: Vec::new(),
            connections_count: 0,
            counted_connections: 0,
            links_count: 0,
            touched: Vec::new(),
            starved: Vec::new(),
            lingering: Vec::new(),
            deadlines: BinaryHeap::new(),
            retry_at: None,
            heartbeats_at: Timestamp(0),
            ghosts_at: Timestamp(0),
            retention_at: Timestamp(0),
            logins_expire_at: None,
            disconnections_seen: 0,
            refusals: Refusals::default(),
            congested: false,
            shutting_down: false,
            move_wanted: None,
            link_wanted: None,
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
                let changes = catalog.changes_since(&self.reviewed);
                self.reviewed = catalog;
                if !changes.is_empty() {
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
            Input::Congested(congested) => {
                self.congested = congested;
                if !congested {
                    self.touch_all();
                }
            }
            Input::Shutdown => self.shut_down(effects),
            Input::ClosePartitions => {
                self.links.close_all(effects);
                self.partitions.close_all(now, effects);
            }
        }
        self.deliver_answers(effects);
    }

    /// Return the time at which [`Shard::end_waits`] must be called.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.waits.next_deadline()
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
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            for key in core::mem::take(&mut self.starved) {
                self.touch(key);
            }
        }
        if !self.lingering.is_empty() {
            self.close_lingering(effects);
        }
        if !self.deadlines.is_empty() {
            self.process_deadlines();
        }
        self.end_expired_sessions(effects);
        self.end_unwanted(effects);
        if self.ghosts_at <= now {
            self.ghosts_at = Timestamp(now.0 + STALE_MEMBER_CHECK_MICROS);
            self.report_stale_members(effects);
        }
        self.tick_retention(effects);
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
                self.links.end_of_turn(effects);
                let catalog = self.catalog.load();
                self.partitions.end_of_turn(catalog, now, effects);
                self.deliver_answers(effects);
                for key in core::mem::take(&mut self.touched) {
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
        self.partitions.has_work() || !self.touched.is_empty() || self.links.has_work()
    }

    fn received(
        &mut self,
        key: ConnectionKey,
        buffer: Buffer,
        count: Option<usize>,
        effects: &mut Vec<Effect>,
    ) {
        if self.connection_mut(key).is_none() {
            let input = Input::Received {
                connection: key,
                buffer,
                count,
            };
            return self.link_input(input, effects);
        }
        self.meter.received(count.unwrap_or(0) as u64);
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        connection.receiving = false;
        let Some(count) = count.filter(|count| *count > 0) else {
            self.close(key, effects);
            return;
        };
        if connection.lingers_until.is_some() {
            self.touch(key);
            return;
        }
        connection.received(buffer, count);
        connection.session.catching_up = CatchingUp::No;
        if !self.learn_source(key, effects) {
            return;
        }
        self.touch(key);
        self.drive(key, effects);
    }

    fn sent(&mut self, key: ConnectionKey, sent: bool, effects: &mut Vec<Effect>) {
        let Some(connection) = self.connection_mut(key) else {
            let input = Input::Sent {
                connection: key,
                sent,
            };
            return self.link_input(input, effects);
        };
        connection.sending = false;
        if sent {
            self.touch(key);
        } else {
            self.close(key, effects);
        }
    }

    /// Start every request of a connection that can start.
    fn drive(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let Some(mut connection) = self.take_connection(key) else {
            return;
        };
        while !connection.closing
            && connection.moving_to.is_none()
            && !self.congested
            && !self.is_held(key)
            && connection.session.catching_up != CatchingUp::Asked
            && self.drive_one(&mut connection, effects)
        {
            connection.moving_to = self.move_wanted.take();
            if let Some(opening) = self.link_wanted.take() {
                self.begin_link(&mut connection, opening);
            }
        }
        let is_broken = connection
            .gateway_link
            .as_deref()
            .is_some_and(GatewayLink::has_violated_protocol);
        self.put_connection(connection);
        if is_broken {
            self.close(key, effects);
        }
    }

    /// Start one request. Returns false if there is none, or if it has to wait.
    fn drive_one(&mut self, connection: &mut Connection, effects: &mut Vec<Effect>) -> bool {
        if connection.gateway_link.is_some() {
            return self.process_frame(connection, effects);
        }
        if let Some((code, mut payload)) = connection.inbox.take_large() {
            if !connection.may_start(code) {
                connection.inbox.restore_large(code, payload);
                return false;
            }
            let claim = connection.inbox.take_claim();
            connection.pipeline.announce(code);
            let mut requester = Requester {
                shard: self.config.shard,
                key: connection.key,
                session: &mut connection.session,
                pipeline: &mut connection.pipeline,
            };
            let kept = if code == crate::dispatch::SEND_MESSAGES {
                self.send_owned(&mut requester, payload, effects)
            } else if code == crate::dispatch::STAGE_MESSAGES {
                self.stage_owned(&mut requester, payload, effects)
            } else {
                let taken = self.dispatch(&mut requester, code, &mut payload, effects);
                (!taken).then_some(payload)
            };
            let taken = kept.is_none();
            if let Some(payload) = kept {
                connection.inbox.restore_large(code, payload);
                connection.inbox.hold(claim);
            } else if let Some(claim) = claim {
                connection.pipeline.hold(claim);
            }
            return taken;
        }
        let (code, payload_bytes) = match connection.inbox.head() {
            Head::Incomplete => return false,
            Head::TooShort => {
                connection.inbox.consume(REQUEST_HEADER_BYTES);
                connection.pipeline.announce(0);
                connection
                    .pipeline
                    .respond(status_response(Status::INVALID_COMMAND));
                return true;
            }
            Head::Request {
                code,
                payload_bytes,
            } => (code, payload_bytes),
        };
        if !connection.may_start(code) {
            return false;
        }
        connection.pipeline.announce(code);
        if let Some(status) = self.refusal(&connection.session, code, payload_bytes) {
            // The frame boundary is known: skip the payload, answer, and continue with the next frame.
            connection.share_turn = 0;
            connection.inbox.consume(REQUEST_HEADER_BYTES);
            connection.inbox.discard(payload_bytes);
            connection.pipeline.respond(status_response(status));
            return true;
        }
        if payload_bytes > SMALL_PAYLOAD_BYTES_MAX {
            if !self.claim_memory(connection, payload_bytes) {
                return false;
            }
            let place = self.place_of(connection.key);
            let begun = (connection.inbox).begin_large(code, payload_bytes, &self.memory, place);
            if begun.is_err() {
                return false;
            }
            self.add_payload_deadline(connection, payload_bytes);
            return connection.inbox.is_large_whole();
        }
        let Connection {
            key,
            inbox,
            session,
            pipeline,
            ..
        } = connection;
        let Some(payload) = inbox.payload_mut(payload_bytes) else {
            return false;
        };
        let mut requester = Requester {
            shard: self.config.shard,
            key: *key,
            session,
            pipeline,
        };
        let taken = self.dispatch(&mut requester, code, payload, effects);
        if taken {
            inbox.consume(REQUEST_HEADER_BYTES + payload_bytes);
        }
        taken
    }

    /// Send what is ready, receive if more is wanted, and close the connection if it has ended.
    pub(crate) fn advance(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        connection.touched = false;
        if !connection.receiving {
            self.drive(key, effects);
            self.deliver_answers(effects);
        }
        self.begin_websocket_close(key, effects);
        self.conclude_link(key);
        self.notify(key, effects);
        let pool = self.pool.clone();
        let congested = self.congested;
        let Some(connection) = self.connection_mut(key) else {
            return;
        };
        connection.touched = false;
        if !connection.sending && connection.pipeline.has_outgoing() {
            connection.sending = true;
            let slices = connection.pipeline.take_outgoing();
            effects.push(Effect::Send {
                connection: key,
                slices,
            });
        }
        if connection.closing {
            if !connection.sending && connection.has_ended() {
                self.linger(key, effects);
            }
            return;
        }
        if let Some(to) = connection.moving_to {
            if connection.is_quiet() {
                self.depart(key, to, effects);
            }
            return;
        }
        // Nothing more is received while a complete request waits for its turn: back-pressure through the socket.
        if connection.receiving || congested || connection.has_whole_request() {
            return;
        }
        // Nothing more is received from a peer that does not read its responses: replies to its pings would pile up.
        if connection.is_held_back() {
            return;
        }
        let is_somebody =
            connection.session.is_authenticated() || connection.gateway_link.is_some();
        match connection.inbox.next_receive(&pool, is_somebody) {
            Ok(Some(receive)) => {
                connection.receiving = true;
                effects.push(Effect::Receive {
                    connection: key,
                    buffer: receive.buffer,
                    start: receive.start,
                    minimum: receive.minimum,
                    quickack: receive.quickack,
                });
            }
            Ok(None) => {}
            Err(_) => self.starve(key),
        }
    }

    /// Move a connection to the shard that owns the partitions of its requests.
    fn depart(&mut self, key: ConnectionKey, to: ShardId, effects: &mut Vec<Effect>) {
        if let Some(mut connection) = self.take_connection(key) {
            self.count(&connection, -1);
            connection.moving_to = None;
            effects.push(Effect::Move {
                connection: key,
                to,
                connection_state: MovedConnection(connection),
            });
        }
    }

    /// Record the owner of a request's partition. After many requests in a row for one other shard the connection moves
    /// there.
    pub(crate) fn count_affinity(&mut self, session: &mut Session, owner: Owner) {
        let home = self.config.shard;
        let shard = owner.shard_for(home);
        if session.affinity.count(shard, home) {
            self.move_wanted = Some(shard);
        }
    }

    /// Return the location of a connection for the memory queue.
    pub(crate) fn place_of(&self, key: ConnectionKey) -> Place {
        Place {
            shard: self.config.shard,
            receiver: Receiver::Connection(key),
        }
    }

    pub(crate) fn starve(&mut self, key: ConnectionKey) {
        if !self.starved.contains(&key) {
            self.starved.push(key);
        }
        self.retry_at
            .get_or_insert(Timestamp(self.now.0 + STARVED_RETRY_MICROS));
    }
}
