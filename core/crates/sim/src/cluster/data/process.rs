//! A process with its shards, their inputs, connections, and operations under way.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;

use headrace_buffer::{Buffer, BufferPool};
use headrace_catalog::{Catalog, CatalogWriter};
use headrace_log::storage::{StorageError, StorageOutcome, StorageRequest};
use headrace_model::{Namespace, ShardId};
use headrace_partition::{IndexCaching, PartitionConfig};
use headrace_shard::{
    ClientRegistry, ClusterView, ConnectionKey, Hosting, Input, LinksConfig, Memory, NodeContacts,
    NodeView, RetentionConfig, Shard, ShardConfig, WebSocketConfig,
};

use super::catalog;
use crate::cluster;
use crate::options::DataOptions;

/// Memory that the shards share.
const MEMORY_BYTES: u64 = 256 << 20;

/// Process of a data node.
pub(crate) struct Process {
    pub(super) incarnation: u64,
    pub(super) shards: Vec<Shard>,
    pub(super) inputs: Vec<VecDeque<Input>>,
    pub(super) memory: Memory,
    pub(super) connections: BTreeMap<(u8, u32), Connection>,
    /// Client and its number of each connection, by the index of its key.
    pub(super) ends: BTreeMap<u32, (u8, u32)>,
    pub(super) operations: BTreeMap<u64, Operation>,
    pub(super) operations_begun: u64,
    pub(super) is_turn_planned: bool,
    /// Time in microseconds of the last turn.
    pub(super) now_micros: u64,
    /// Keeps the catalog.
    _catalog: CatalogWriter,
}

/// End of a connection at a process.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) shard: usize,
    pub(super) key: ConnectionKey,
    /// Receive under way: buffer, start, minimum.
    pub(super) receive: Option<(Buffer, usize, usize)>,
    pub(super) unread: VecDeque<u8>,
    /// True if the client sends nothing more.
    pub(super) is_ended: bool,
}

/// Operation on files that is under way.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) shard: usize,
    pub(super) namespace: Namespace,
    pub(super) request: StorageRequest,
    /// Result, once it has taken effect.
    pub(super) outcome: Option<Result<StorageOutcome, StorageError>>,
}

impl cluster::Process for Process {
    fn incarnation(&self) -> u64 {
        self.incarnation
    }
}

impl Process {
    pub(super) fn new(options: &DataOptions, incarnation: u64, seed: u64) -> Self {
        let mut writer = CatalogWriter::new(Catalog::default());
        writer
            .publish_update(&catalog::catalog(options))
            .expect("a sound catalog");
        let (clients, contacts) = (ClientRegistry::default(), NodeContacts::default());
        let memory = Memory::new(BufferPool::new(MEMORY_BYTES));
        let shards = (0..u16::from(options.shards)).map(|index| {
            Shard::new(
                Arc::new(config(options, ShardId(index))),
                writer.reader(),
                clients.clone(),
                contacts.clone(),
                memory.clone(),
                seed.wrapping_add(index.into()),
            )
        });
        Self {
            incarnation,
            shards: shards.collect(),
            inputs: (0..options.shards)
                .map(|_| [Input::CatalogChanged].into())
                .collect(),
            memory,
            connections: BTreeMap::new(),
            ends: BTreeMap::new(),
            operations: BTreeMap::new(),
            operations_begun: 0,
            is_turn_planned: false,
            now_micros: 0,
            _catalog: writer,
        }
    }

    /// Return whether a partition is not open yet.
    pub(super) fn is_opening(&self) -> bool {
        let progress = self.shards.iter().map(Shard::progress);
        self.now_micros == 0 || progress.map(|it| it.recovering).sum::<usize>() > 0
    }

    /// The connection with this key, unless it is closed.
    pub(super) fn connection(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        let end = self.ends.get(&key.index)?;
        self.connections.get_mut(end).filter(|it| it.key == key)
    }
}

fn config(options: &DataOptions, shard: ShardId) -> ShardConfig {
    let namespace = catalog::partitions(options)[0].0;
    ShardConfig {
        shard,
        shards: NonZeroU16::new(options.shards.into()).expect("at least one"),
        hosting: Hosting::Everything,
        links: LinksConfig {
            unsent_timeout_micros: 2_000_000,
            silence_timeout_micros: 5_000_000,
            in_flight_bytes_max: 1 << 20,
        },
        ticket_key: None,
        ticket_seconds_max: 0,
        partition: PartitionConfig {
            segment_size_bytes: options.segment_bytes,
            flush_messages: 64,
            flush_interval_micros: options.flush_interval_micros,
            sync_interval_micros: options.sync_interval_micros,
            tail_cache_bytes: options.tail_cache_bytes,
            verified_micros: options.verified_micros,
            index_caching: match options.index_caching {
                0 => IndexCaching::All,
                1 => IndexCaching::OpenSegment,
                _ => IndexCaching::None,
            },
            ..PartitionConfig::new(namespace, 0)
        },
        connections_max: 1024,
        send_payload_bytes_max: 4 << 20,
        websocket: WebSocketConfig::default(),
        heartbeat_interval_micros: None,
        member_silence_micros_max: 30_000_000,
        login_timeout_micros: None,
        wait_micros_max: 30_000_000,
        waited_partitions_max: 64,
        gateway: 1,
        retention: RetentionConfig {
            interval_micros: None,
            keeps_unread: false,
        },
        tracing: false,
        cluster: ClusterView {
            name: "simulated".into(),
            nodes: vec![NodeView {
                name: "node".into(),
                ip: "127.0.0.1".into(),
                tcp_port: 8090,
                quic_port: 0,
                http_port: 0,
                websocket_port: 0,
            }],
        },
        version: (0, 0, 0),
    }
}
