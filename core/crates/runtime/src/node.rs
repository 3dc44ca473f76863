//! A node: the shard threads of one process, started, fed and stopped together.

mod adopt;
mod partitions;

use std::{
    io,
    net::SocketAddr,
    num::NonZeroU16,
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use headrace_buffer::{BufferPool, PoolStatistics};
use headrace_catalog::{ApplyError, Catalog, CatalogWriter};
use headrace_model::{Namespace, PartitionId, ShardId, StreamId, Timestamp, TopicId};
use headrace_partition::PartitionConfig;
use headrace_proto::{catalog::v1 as catalog, control::v1 as control};
use headrace_shard::{
    ClientRegistry, ClusterView, Framing, Hosting, MESSAGES_HEAD_BYTES_MAX, Memory, NodeContacts,
    NodeView, RetentionConfig, ShardConfig, TraceRecord, WebSocketConfig,
};
use headrace_websocket::{Limits, Origins};

use crate::{
    bridge::{ControlBridge, ControlRequest},
    config::{InvalidSetting, NodeConfig, hosting, index_caching},
    connector::{Connector, TcpConnector},
    cpus::Placement,
    driver::{DriverChoice, DriverUnavailable, Selection, Waker, Workers},
    events::{Event, Events},
    host::Message,
    listener::{self, Listener},
    mailbox,
    memory::freed_memory::keep_freed_memory,
    metrics::gauges::ShardGauges,
    metrics::report::{NodeReport, memory_by_purpose},
    metrics::traffic::TrafficReport,
    open_files::Division,
    scrub::Scrub,
    shard_threads::{ShardHandle, ThreadParts, cut_off, deliver},
    storage::{Storage, create_durably, finish_removals, set_aside_directories},
};

/// Maximum number of messages that wait for one shard.
const MAILBOX_CAPACITY: usize = 4096;

/// Time to write, sync and close the partitions, after the time that clients had for their last answers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Error of a node's startup.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The requested I/O driver is not available.
    #[error(transparent)]
    Driver(#[from] DriverUnavailable),
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Address to bind.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The data directory cannot be used.
    #[error("the data directory {path} cannot be used: {source}")]
    DataDirectory {
        /// Path of the directory.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A shard thread failed to start.
    #[error("shard {shard} cannot start: {source}")]
    Shard {
        /// Number of the shard.
        shard: ShardId,
        /// Error of the system.
        source: io::Error,
    },
    /// The node was started before.
    #[error("the node was started before")]
    AlreadyStarted,
}

/// Properties of a started node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// I/O driver: `uring` or `poll`.
    pub driver: String,
    /// Reason why the ring is not used, with the remedy; empty if it is.
    pub driver_reason: String,
    /// Number of shards.
    pub shards: u16,
    /// Bound address of the TCP listener.
    pub tcp_address: Option<SocketAddr>,
    /// Bound address of the WebSocket listener.
    pub websocket_address: Option<SocketAddr>,
}

/// Bound addresses.
#[derive(Debug, Clone, Copy, Default)]
struct Bound {
    tcp: Option<SocketAddr>,
    websocket: Option<SocketAddr>,
}

#[derive(Default)]
struct Running {
    shards: Vec<ShardHandle>,
    /// Shard that received the last connection from [`Node::adopt`].
    next_shard: usize,
    /// Listeners that are bound but not yet passed to a shard.
    listeners: Vec<Listener>,
    started: bool,
    scrub: Option<Scrub>,
}

/// The data plane of one process.
pub struct Node {
    config: NodeConfig,
    driver: DriverChoice,
    placement: Placement,
    partition: PartitionConfig,
    hosting: Hosting,
    catalog: Mutex<CatalogWriter>,
    catalog_identity: Mutex<u128>,
    running: Mutex<Running>,
    bridge: Arc<ControlBridge>,
    events: Events,
    clients: ClientRegistry,
    contacts: NodeContacts,
    connector: Arc<dyn Connector>,
    memory: Memory,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Poisoned locks are accepted: a panic leaves none of the protected values half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn invalid(setting: &'static str) -> impl Fn(&dyn std::fmt::Display) -> InvalidSetting {
    move |problem| InvalidSetting {
        setting,
        problem: problem.to_string(),
    }
}

impl Node {
    /// Validate the settings; nothing is started or opened yet.
    pub fn new(config: NodeConfig) -> Result<Self, StartError> {
        let driver = config
            .driver
            .parse()
            .map_err(|error| invalid("driver")(&error))?;
        let durability = config
            .durability
            .parse()
            .map_err(|error| invalid("durability")(&error))?;
        let placement = Placement::parse(&config.cpu_allocation)
            .map_err(|error| invalid("cpu_allocation")(&error))?;
        let nowhere = Namespace::new(StreamId(0), TopicId(0), PartitionId(0)).expect("zero fits");
        let partition = PartitionConfig {
            durability,
            segment_size_bytes: config.segment_size_bytes,
            flush_messages: config.flush_messages,
            flush_bytes: config.flush_bytes,
            flush_interval_micros: config.flush_interval_micros,
            sync_interval_micros: config.sync_interval_micros,
            sync_bytes: config.sync_bytes,
            tail_cache_bytes: config.tail_cache_bytes,
            consumers_max: config.consumers_max,
            verified_micros: config.verified_micros,
            poll_size_bytes_max: config.poll_size_bytes_max,
            index_caching: index_caching(&config.index_caching)?,
            ..PartitionConfig::new(nowhere, 0)
        };
        let hosting = hosting(&config.hosting, &config.node_name)?;
        let bridge = ControlBridge::new().map_err(|error| invalid("control bridge")(&error))?;
        Ok(Self {
            driver,
            placement,
            partition,
            hosting,
            catalog: Mutex::new(CatalogWriter::new(Catalog::default())),
            catalog_identity: Mutex::default(),
            running: Mutex::default(),
            bridge: Arc::new(bridge),
            events: Events::default(),
            clients: ClientRegistry::default(),
            contacts: NodeContacts::default(),
            connector: Arc::new(TcpConnector),
            memory: Memory::new(BufferPool::new(config.memory_pool_bytes)),
            config,
        })
    }

    /// Use this connector for links to other nodes instead of plain TCP.
    #[must_use]
    pub fn with_connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = connector;
        self
    }

    /// Set the identity of the catalogs that will be published: directories of another one are not opened. To be
    /// called before [`Node::start`].
    pub fn identify_catalog(&self, identity: u128) {
        *lock(&self.catalog_identity) = identity;
    }

    /// Publish a complete catalog.
    pub fn publish_snapshot(&self, snapshot: &catalog::Snapshot) -> Result<u64, ApplyError> {
        let version = lock(&self.catalog).publish_snapshot(snapshot)?.version();
        self.send_to_all(|| Message::CatalogChanged);
        Ok(version)
    }

    /// Publish the next version of the catalog.
    pub fn publish_update(&self, update: &catalog::Update) -> Result<u64, ApplyError> {
        let version = lock(&self.catalog).publish_update(update)?.version();
        self.send_to_all(|| Message::CatalogChanged);
        Ok(version)
    }

    /// Drop expired staged batches. The catalog published last has all changes up to the time `horizon` of the metadata
    /// service: stages that had expired at that time and that the catalog does not name are dropped.
    pub fn pass_stage_horizon(&self, horizon: Timestamp) {
        self.send_to_all(|| Message::StageHorizon(horizon));
    }

    /// Bind, start the shard threads, and begin to open the partitions of the catalog.
    pub fn start(&self) -> Result<Started, StartError> {
        let mut running = lock(&self.running);
        if running.started {
            return Err(StartError::AlreadyStarted);
        }
        let selection = Selection::decide(self.driver)?;
        let unusable = |source| {
            let path = self.config.data_path.display().to_string();
            StartError::DataDirectory { path, source }
        };
        create_durably(&self.config.data_path.join("streams")).map_err(unusable)?;
        finish_removals(&self.config.data_path, &self.events).map_err(unusable)?;
        let mut listeners = Vec::new();
        let proxies: Arc<[_]> = self.config.proxies.clone().into();
        let mut bind = |address: Option<SocketAddr>, framing| {
            address
                .map(|address| {
                    let (socket, bound) = listener::bind(address)
                        .map_err(|source| StartError::Bind { address, source })?;
                    let proxies = Arc::clone(&proxies);
                    listeners.push(Listener {
                        socket,
                        framing,
                        proxies,
                    });
                    Ok::<_, StartError>(bound)
                })
                .transpose()
        };
        let bound = Bound {
            tcp: bind(self.config.tcp_address, Framing::Plain)?,
            websocket: bind(self.config.websocket_address, Framing::WebSocket)?,
        };
        // Only performance suffers if it fails.
        keep_freed_memory();
        running.shards = self.start_shards(&selection, bound)?;
        running.scrub = self.start_scrub();
        running.listeners = listeners;
        running.started = true;
        let driver_reason = selection
            .fallback()
            .map(|fallback| {
                format!(
                    "{}: {}; {}",
                    fallback.code, fallback.reason, fallback.remedy
                )
            })
            .unwrap_or_default();
        Ok(Started {
            driver: selection.name().to_owned(),
            driver_reason,
            shards: u16::try_from(running.shards.len()).expect("shards are counted in 16 bits"),
            tcp_address: bound.tcp,
            websocket_address: bound.websocket,
        })
    }

    fn start_shards(
        &self,
        selection: &Selection,
        bound: Bound,
    ) -> Result<Vec<ShardHandle>, StartError> {
        let cpus = self.placement.shards();
        let count = u16::try_from(cpus.len()).ok().and_then(NonZeroU16::new);
        let shards =
            count.ok_or_else(|| invalid("cpu_allocation")(&"there must be 1 to 65535 shards"))?;
        let open_files =
            Division::of_raised_limit(shards, self.config.connections_max, &self.events);
        let workers = Workers::new(Workers::threads_by_default());
        let mut senders = Vec::new();
        let mut receivers = Vec::new();
        for index in 0..shards.get() {
            let waker = Waker::new().map_err(|source| StartError::Shard {
                shard: ShardId(index),
                source,
            })?;
            let (sender, receiver) = mailbox::channel(MAILBOX_CAPACITY, waker.clone());
            senders.push(sender);
            receivers.push((receiver, waker));
        }
        let mut handles: Vec<ShardHandle> = Vec::new();
        for (index, (receiver, waker)) in (0..).zip(receivers) {
            let parts = ThreadParts {
                config: Arc::new(self.shard_config(ShardId(index), shards, bound, open_files)),
                catalog: lock(&self.catalog).reader(),
                clients: self.clients.clone(),
                contacts: self.contacts.clone(),
                memory: self.memory.clone(),
                memory_idle_micros: self.config.memory_pool_idle_micros,
                receiver,
                peers: senders
                    .iter()
                    .map(|sender| sender.for_shard(waker.clone()))
                    .collect(),
                waker,
                bridge: Arc::clone(&self.bridge),
                events: self.events.clone(),
                connector: Arc::clone(&self.connector),
                connect_timeout: Duration::from_micros(self.config.link_connect_timeout_micros),
                gauges: Arc::new(ShardGauges::starting()),
                selection: selection.clone(),
                workers: workers.clone(),
                storage: Storage::new(&self.config.data_path, self.memory.pool().clone())
                    .with_catalog(*lock(&self.catalog_identity))
                    .with_handles_max(open_files.handles),
                cpu: cpus[usize::from(index)],
            };
            let handle = ShardHandle {
                sender: senders[usize::from(index)].clone(),
                gauges: Arc::clone(&parts.gauges),
                thread: None,
            };
            handles.push(handle);
            match parts.spawn(ShardId(index)) {
                Ok(thread) => handles[usize::from(index)].thread = Some(thread),
                Err(source) => {
                    cut_off(&mut handles);
                    return Err(StartError::Shard {
                        shard: ShardId(index),
                        source,
                    });
                }
            }
        }
        Ok(handles)
    }

    fn shard_config(
        &self,
        shard: ShardId,
        shards: NonZeroU16,
        bound: Bound,
        open_files: Division,
    ) -> ShardConfig {
        let config = &self.config;
        let tcp_address = config.tcp_advertised_address.or(bound.tcp);
        ShardConfig {
            shard,
            shards,
            hosting: self.hosting.clone(),
            links: config.links(),
            ticket_key: config.ticket_key(),
            ticket_seconds_max: config.ticket_lifetime_micros_max / 1_000_000,
            partition: PartitionConfig {
                catalog: *lock(&self.catalog_identity),
                ..self.partition.clone()
            },
            connections_max: open_files.connections,
            send_payload_bytes_max: self.send_payload_bytes_max(),
            websocket: WebSocketConfig {
                limits: Limits {
                    frame_bytes_max: config.websocket_frame_bytes_max,
                    message_bytes_max: config.websocket_message_bytes_max,
                },
                handshake_timeout_micros: config.websocket_handshake_timeout_micros,
                origins: Arc::new(Origins::new(&config.websocket_allowed_origins)),
                ..WebSocketConfig::default()
            },
            heartbeat_interval_micros: (config.heartbeat_interval_micros > 0)
                .then_some(config.heartbeat_interval_micros),
            member_silence_micros_max: config.member_silence_micros_max,
            login_timeout_micros: (config.login_timeout_micros > 0)
                .then_some(config.login_timeout_micros),
            wait_micros_max: config.wait_micros_max,
            waited_partitions_max: config
                .waited_partitions_max
                .div_ceil(usize::from(shards.get())),
            gateway: config.gateway_id,
            retention: RetentionConfig {
                interval_micros: (config.cleaner_interval_micros > 0)
                    .then_some(config.cleaner_interval_micros),
                keeps_unread: config.cleaner_keeps_unread,
            },
            tracing: config.tracing,
            cluster: ClusterView {
                name: config.cluster_name.clone(),
                nodes: vec![NodeView {
                    name: config.node_name.clone(),
                    ip: tcp_address
                        .map(|address| address.ip().to_string())
                        .unwrap_or_default(),
                    tcp_port: tcp_address.map_or(0, |address| address.port()),
                    quic_port: config.quic_port,
                    http_port: config.http_port,
                    websocket_port: bound
                        .websocket
                        .map_or(config.websocket_port, |address| address.port()),
                }],
            },
            version: config.protocol_version,
        }
    }

    /// Maximum payload of a send: a batch larger than the pool is refused, since it would wait for ever.
    fn send_payload_bytes_max(&self) -> usize {
        let receivable = self.memory.pool().receivable_bytes_max();
        // A gateway prepends some bytes to the requests it forwards.
        (self.config.send_payload_bytes_max as usize)
            .min(receivable.saturating_sub(MESSAGES_HEAD_BYTES_MAX))
    }

    /// Start to accept connections.
    pub fn listen(&self) -> io::Result<()> {
        let mut running = lock(&self.running);
        for listener in std::mem::take(&mut running.listeners) {
            listener::listen(&listener.socket)?;
            if let Some(first) = running.shards.first() {
                deliver(&first.sender, Message::Listen(listener));
            }
        }
        Ok(())
    }

    /// Descriptor that is readable while control requests wait.
    pub fn descriptor(&self) -> RawFd {
        self.bridge.descriptor()
    }

    /// Take the control requests that arrived.
    pub fn take_requests(&self) -> Vec<ControlRequest> {
        self.bridge.take()
    }

    /// Answer a control request; a second answer is ignored.
    pub fn reply(&self, id: u64, reply: control::Reply) {
        let Some(origin) = self.bridge.answered(id) else {
            return;
        };
        let running = lock(&self.running);
        if let Some(handle) = running.shards.get(usize::from(origin.shard.0)) {
            deliver(
                &handle.sender,
                Message::ControlReply {
                    origin,
                    reply: Box::new(reply),
                },
            );
        }
    }

    /// Take the waiting log events.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.take()
    }

    /// Read all metrics of the node.
    pub fn report(&self) -> NodeReport {
        let running = lock(&self.running);
        let PoolStatistics {
            in_use_bytes,
            cached_bytes,
            capacity_bytes,
            hits,
            misses,
            refusals,
            ..
        } = self.memory.pool().statistics();
        let catalog = lock(&self.catalog).current();
        // A gateway only has copies of the statistics that nodes report.
        let has_partitions = self.hosting != Hosting::Nothing;
        let records = catalog.partitions().filter(|_| has_partitions);
        let (mut removed_segments, mut removed_bytes, mut held_partitions) = (0, 0, 0);
        for (_, record) in records {
            removed_segments += record.statistics.removed_segments();
            removed_bytes += record.statistics.removed_bytes();
            held_partitions += u64::from(record.statistics.retention_held());
        }
        NodeReport {
            shards: running
                .shards
                .iter()
                .map(|handle| handle.gauges.report())
                .collect(),
            mailboxes: running
                .shards
                .iter()
                .map(|handle| handle.sender.len())
                .collect(),
            pool_in_use_bytes: in_use_bytes,
            pool_cached_bytes: cached_bytes,
            pool_capacity_bytes: capacity_bytes,
            pool_hits: hits,
            pool_misses: misses,
            pool_refusals: refusals,
            memory_bytes: memory_by_purpose(self.memory.pool()),
            connections: self.clients.count(),
            catalog_version: catalog.version(),
            retention_removed_segments: removed_segments,
            retention_removed_bytes: removed_bytes,
            retention_held_partitions: held_partitions,
            traffic: TrafficReport::read(
                running
                    .shards
                    .iter()
                    .filter_map(|handle| handle.gauges.meter()),
                &self.clients,
            ),
            set_aside_directories: set_aside_directories(&self.config.data_path),
            scrub: running.scrub.as_ref().map(Scrub::report),
            events_dropped: self.events.dropped(),
        }
    }

    /// Take the trace records that were written since the last call.
    pub fn take_traces(&self) -> Vec<TraceRecord> {
        let running = lock(&self.running);
        let meters = running
            .shards
            .iter()
            .filter_map(|handle| handle.gauges.meter());
        meters.flat_map(|meter| meter.tracer().take()).collect()
    }

    /// Shut down: answer requests in flight, flush, sync, close. `false`: the timeout expired and the rest was cut off.
    pub fn stop(&self, timeout: Duration) -> bool {
        let scrub = {
            let mut running = lock(&self.running);
            running.listeners.clear();
            running.scrub.take()
        };
        drop(scrub);
        // The threads must stay reachable until they have ended: requests in flight may wait for the control plane. No
        // partition closes before the last connection of any shard, whose requests it may have to answer.
        let deadline = Instant::now() + timeout;
        self.send_to_all(|| Message::Shutdown);
        let is_answered = self.wait_for(ShardHandle::is_drained, deadline);
        // The connections that are left are closed now, and cost the partitions none of their time.
        let deadline = deadline.max(Instant::now() + CLOSE_TIMEOUT);
        self.send_to_all(|| Message::ClosePartitions);
        self.wait_for(ShardHandle::has_ended, deadline);
        let mut shards = std::mem::take(&mut lock(&self.running).shards);
        cut_off(&mut shards) && is_answered
    }

    fn wait_for(&self, state: impl Fn(&ShardHandle) -> bool, deadline: Instant) -> bool {
        let holds = || lock(&self.running).shards.iter().all(&state);
        while !holds() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        holds()
    }

    fn send_to_all(&self, message: impl Fn() -> Message) {
        for handle in &lock(&self.running).shards {
            deliver(&handle.sender, message());
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop(Duration::from_secs(5));
    }
}
