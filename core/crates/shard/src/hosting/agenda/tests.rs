//! The walk over all partitions is the model: nothing that is due is lost, and nothing else is touched.

use std::{collections::BTreeSet, num::NonZeroU16, sync::Arc};

use headrace_buffer::BufferPool;
use headrace_catalog::{Catalog, CatalogWriter, Partition as Record};
use headrace_link::WhenReady;
use headrace_log::storage::{
    StorageCompletion, StorageError, StorageErrorKind, StorageOperation, StorageOutcome,
    StorageRequest,
};
use headrace_model::{Namespace, Offset, PartitionId, ShardId, StreamId, Timestamp, TopicId};
use headrace_partition::{
    Batch, ConsumerKey, Partition, PartitionConfig, Poll, PollingStrategy, Request,
};
use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_wire::message::{HEADER_BYTES, HeaderMut};
use proptest::prelude::*;

use super::super::{HostingState, Partitions, cleaning::retention_rule, find};
use crate::{
    LinksConfig,
    api::Effect,
    calls::{ConnectionKey, Origin, PartitionCall, Sequence, WaitingPoll},
    config::{ClusterView, Hosting, RetentionConfig, ShardConfig, WebSocketConfig},
    meter::Meter,
    tracer::Tracer,
};

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3600 * SECOND;

fn config() -> ShardConfig {
    ShardConfig {
        shard: ShardId(0),
        shards: NonZeroU16::MIN,
        hosting: Hosting::Everything,
        links: LinksConfig::default(),
        ticket_key: None,
        ticket_seconds_max: 0,
        partition: PartitionConfig {
            segment_size_bytes: 4096,
            flush_interval_micros: 3 * SECOND,
            sync_interval_micros: 5 * SECOND,
            ..PartitionConfig::new(namespace(0), 0)
        },
        connections_max: 0,
        send_payload_bytes_max: 0,
        websocket: WebSocketConfig::default(),
        heartbeat_interval_micros: None,
        member_silence_micros_max: 0,
        login_timeout_micros: None,
        wait_micros_max: 0,
        waited_partitions_max: 0,
        gateway: 0,
        cluster: ClusterView {
            name: String::new(),
            nodes: Vec::new(),
        },
        retention: RetentionConfig::default(),
        tracing: false,
        version: (0, 0, 0),
    }
}

fn namespace(id: u32) -> Namespace {
    Namespace::new(StreamId(0), TopicId(0), PartitionId(id)).expect("a small number")
}

/// A message of this size.
fn batch(size: usize) -> Batch {
    let mut bytes = vec![0; HEADER_BYTES + size];
    let header = bytes.first_chunk_mut::<HEADER_BYTES>().expect("a header");
    HeaderMut(header).set_payload_length(u32::try_from(size).expect("short"));
    Batch::copied(&bytes, 1)
}

/// Partitions with storage that takes its time, and the catalog.
struct Host {
    partitions: Partitions,
    catalog: CatalogWriter,
    topic: records::Topic,
    now: Timestamp,
    /// Time by which the clock is ahead, perhaps.
    doubted_micros: u64,
    under_way: Vec<(Namespace, StorageRequest)>,
    effects: Vec<Effect>,
    requests: u64,
}

impl Host {
    fn new(partitions: u32) -> Self {
        let config = Arc::new(config());
        let meter = Meter::new(config.shard, Tracer::new(false));
        let topic = records::Topic {
            name: "t".into(),
            incarnation: 1,
            compression: records::CompressionAlgorithm::None.into(),
            message_expiry_micros: u64::MAX,
            max_size_bytes: u64::MAX,
            replication_factor: 1,
            partitions: (0..partitions)
                .map(|id| records::Partition {
                    id,
                    created_at_micros: 1,
                    incarnation: 1,
                })
                .collect(),
            ..Default::default()
        };
        let mut host = Self {
            partitions: Partitions::new(config, meter, BufferPool::new(1 << 30), 7),
            catalog: CatalogWriter::new(Catalog::default()),
            topic,
            now: Timestamp(1_700_000_000 * SECOND),
            doubted_micros: 0,
            under_way: Vec::new(),
            effects: Vec::new(),
            requests: 0,
        };
        host.change(vec![Change::StreamPut(records::Stream {
            name: "s".into(),
            incarnation: 1,
            ..Default::default()
        })]);
        host.put_topic();
        host.settle();
        host
    }

    fn put_topic(&mut self) {
        self.change(vec![Change::TopicPut(self.topic.clone())]);
    }

    fn change(&mut self, changes: Vec<Change>) {
        let deltas = changes.into_iter().map(|change| records::Delta {
            change: Some(change),
        });
        let update = records::Update {
            version: self.catalog.current().version() + 1,
            deltas: deltas.collect(),
        };
        let catalog = (self.catalog.publish_update(&update)).expect("a sound update");
        (self.partitions).reconcile(&catalog, self.now, &mut self.effects);
        self.end_of_turn();
    }

    fn end_of_turn(&mut self) {
        let catalog = self.catalog.current();
        while self.partitions.has_work() {
            (self.partitions).end_of_turn(&catalog, self.now, &mut self.effects);
        }
        self.partitions.take_answers();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Storage { namespace, request } => {
                    self.under_way.push((namespace, request));
                }
                Effect::RemoveDirectory { namespace, .. } => {
                    self.partitions.directory_removed(
                        &catalog,
                        namespace,
                        self.now,
                        &mut self.effects,
                    );
                    self.end_of_turn();
                }
                _ => {}
            }
        }
    }

    /// Complete the storage operation with this number of those under way.
    fn complete(&mut self, number: usize, error: Option<StorageErrorKind>) {
        let (namespace, request) = self.under_way.remove(number);
        let result = match (error, &request.operation) {
            (Some(kind), _) => Err(StorageError { kind, os_error: 1 }),
            (None, StorageOperation::OpenDirectory) => Ok(StorageOutcome::Listed(Vec::new())),
            (None, StorageOperation::Read { .. }) => Err(StorageError {
                kind: StorageErrorKind::Damaged,
                os_error: 1,
            }),
            (None, _) => Ok(StorageOutcome::Done),
        };
        let completion = StorageCompletion {
            id: request.id,
            result,
        };
        let catalog = self.catalog.current();
        (self.partitions).complete(&catalog, namespace, completion, self.now, &mut self.effects);
        self.end_of_turn();
    }

    fn settle(&mut self) {
        while let Some(last) = self.under_way.len().checked_sub(1) {
            self.complete(last, None);
        }
    }

    fn origin(&mut self) -> Origin {
        self.requests += 1;
        Origin {
            shard: ShardId(0),
            connection: ConnectionKey {
                index: 0,
                generation: 0,
            },
            sequence: Sequence(self.requests),
            member: None,
            trace: None,
        }
    }

    fn submit(&mut self, id: u32, request: Request) {
        let call = PartitionCall {
            origin: self.origin(),
            namespace: namespace(id),
            request,
        };
        let catalog = self.catalog.current();
        (self.partitions).submit(&catalog, call, self.now, &mut self.effects);
        self.end_of_turn();
    }

    fn wait(&mut self, id: u32) {
        let poll = Poll {
            strategy: PollingStrategy::Next,
            count: 10,
            consumer: Some(ConsumerKey::Consumer(1)),
            auto_commit: true,
            by: None,
            minimum_bytes: 1000,
            bytes_max: Poll::UNLIMITED,
        };
        let call = PartitionCall {
            origin: self.origin(),
            namespace: namespace(id),
            request: WaitingPoll {
                poll,
                when_ready: WhenReady::Answer,
            },
        };
        let catalog = self.catalog.current();
        (self.partitions).wait(&catalog, call, self.now, &mut self.effects);
        self.end_of_turn();
    }

    fn trusted(&self) -> Timestamp {
        Timestamp(self.now.0 - self.doubted_micros)
    }

    /// Partitions of which this is true, found by a walk.
    fn walk(&self, is_meant: impl Fn(Namespace, &HostingState) -> bool) -> BTreeSet<Namespace> {
        let hosted = self.partitions.hosted.iter();
        hosted
            .filter(|(namespace, hosted)| is_meant(**namespace, &hosted.state))
            .map(|(namespace, _)| *namespace)
            .collect()
    }

    /// Partitions that were touched since the last turn.
    fn touched(&self) -> BTreeSet<Namespace> {
        self.partitions.dirty.iter().copied().collect()
    }

    /// Run a tick with its turn, and compare what it touches. Returns the number of partitions touched.
    fn tick(&mut self) -> usize {
        let (now, trusted) = (self.now, self.trusted());
        let catalog = self.catalog.current();
        let is_due = |state: &HostingState| {
            let deadline = state.partition().and_then(Partition::next_deadline);
            deadline.is_some_and(|deadline| deadline <= now)
        };
        let mut due = self.walk(|_, state| is_due(state));
        due.extend(
            self.partitions
                .hosted
                .iter()
                .filter_map(|(namespace, hosted)| {
                    (!hosted.waiting.is_empty()).then_some(*namespace)
                }),
        );
        self.partitions.tick(now, &mut self.effects);
        assert_eq!(self.touched(), due);
        let count = due.len();
        self.end_of_turn();
        let due = self.walk(|namespace, state| {
            let found = find(&catalog, namespace).and_then(|(topic, _)| retention_rule(topic));
            let (HostingState::Open(partition), Some(rule)) = (state, found) else {
                return false;
            };
            let due = partition.retention_due(&rule);
            self.partitions.cleaner.run_at <= now && due.is_some_and(|due| due <= trusted)
        });
        (self.partitions).tick_retention(&catalog, now, trusted, &mut self.effects);
        assert_eq!(self.touched(), due);
        let count = count + due.len();
        self.end_of_turn();
        count
    }

    /// Return whether each partition notes one entry at most, not later than its deadline.
    fn check_entries(&self) {
        let agenda = &self.partitions.agenda;
        let hosted = || self.partitions.hosted.iter();
        for (namespace, hosted) in hosted() {
            let deadline = hosted.state.partition().and_then(Partition::next_deadline);
            let noted = hosted.deadline;
            assert!(deadline.is_none_or(|deadline| noted.is_some_and(|noted| noted <= deadline)));
            let is_entered = |noted| agenda.deadlines.0.contains(&(noted, *namespace));
            assert!(noted.is_none_or(is_entered));
        }
        let noted = hosted().filter(|(_, hosted)| hosted.deadline.is_some());
        assert_eq!(noted.count(), agenda.deadlines.0.len());
        let noted = hosted().filter(|(_, hosted)| hosted.retention_due.is_some());
        assert_eq!(noted.count(), agenda.retentions.0.len());
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append(u32, usize),
    StoreOffset(u32, ConsumerKey),
    Flush(u32),
    Wait(u32),
    Complete(usize, Option<StorageErrorKind>),
    Settle,
    Pass(u64),
    Doubt(u64),
    Expire(u64),
    Purge,
    CreateAnew,
}

fn steps() -> impl Strategy<Value = Step> {
    let id = || 0..6_u32;
    let consumers = prop_oneof![
        Just(ConsumerKey::Consumer(1)),
        // No such group exists, so the next catalog deletes its offset.
        Just(ConsumerKey::Group(1)),
    ];
    let errors = prop_oneof![
        4 => Just(None),
        1 => Just(Some(StorageErrorKind::Exhausted)),
        1 => Just(Some(StorageErrorKind::NoSpace)),
        1 => Just(Some(StorageErrorKind::Other)),
    ];
    let times = || prop_oneof![0..SECOND, 0..10 * SECOND, 0..3 * HOUR];
    prop_oneof![
        6 => (id(), 1..3000_usize).prop_map(|(id, size)| Step::Append(id, size)),
        2 => (id(), consumers).prop_map(|(id, consumer)| Step::StoreOffset(id, consumer)),
        1 => id().prop_map(Step::Flush),
        1 => id().prop_map(Step::Wait),
        6 => (any::<usize>(), errors).prop_map(|(number, error)| Step::Complete(number, error)),
        3 => Just(Step::Settle),
        6 => times().prop_map(Step::Pass),
        1 => times().prop_map(Step::Doubt),
        1 => prop_oneof![Just(u64::MAX), 60 * SECOND..4 * HOUR].prop_map(Step::Expire),
        1 => Just(Step::Purge),
        1 => Just(Step::CreateAnew),
    ]
}

proptest! {
    #[test]
    fn a_tick_touches_what_is_due(steps in proptest::collection::vec(steps(), 1..60)) {
        let mut host = Host::new(6);
        for step in steps {
            match step {
                Step::Append(id, size) => host.submit(id, Request::Append { batch: batch(size) }),
                Step::StoreOffset(id, consumer) => {
                    let request = Request::StoreOffset { consumer, offset: Offset(0), by: None };
                    host.submit(id, request);
                }
                Step::Flush(id) => host.submit(id, Request::Flush { fsync: true }),
                Step::Wait(id) => host.wait(id),
                Step::Complete(number, error) => {
                    if !host.under_way.is_empty() {
                        host.complete(number % host.under_way.len(), error);
                    }
                }
                Step::Settle => host.settle(),
                Step::Pass(micros) => host.now.0 += micros,
                Step::Doubt(micros) => host.doubted_micros = micros,
                Step::Expire(micros) => {
                    host.topic.message_expiry_micros = micros;
                    host.put_topic();
                }
                Step::Purge => {
                    host.topic.purge_epoch += 1;
                    host.put_topic();
                }
                Step::CreateAnew => {
                    for partition in &mut host.topic.partitions {
                        partition.incarnation += 1;
                    }
                    host.put_topic();
                }
            }
            host.check_entries();
            host.tick();
            host.check_entries();
        }
    }
}

/// Idle partitions with messages that will expire are touched when these do, and never before.
#[test]
fn idle_partitions_are_left_alone() {
    const PARTITIONS: u32 = 1000;
    let mut host = Host::new(PARTITIONS);
    host.topic.message_expiry_micros = 4 * HOUR;
    host.put_topic();
    for id in 0..PARTITIONS {
        host.submit(id, Request::Append { batch: batch(10) });
        host.submit(id, Request::Flush { fsync: true });
    }
    host.settle();
    for _ in 0..30 {
        host.now.0 += SECOND;
        host.tick();
        host.settle();
    }
    let mut touched = Vec::new();
    for _ in 0..5 * 60 {
        host.now.0 += 60 * SECOND;
        let count = host.tick();
        host.settle();
        if count > 0 {
            touched.push(count);
        }
    }
    // Segments are sealed after an hour, which is recorded, and removed three hours later.
    let few = 8 * PARTITIONS as usize;
    assert!(touched.iter().sum::<usize>() <= few, "{touched:?}");
    let catalog = host.catalog.current();
    let is_gone = |record: &Record| record.statistics.first_offset() == 1;
    assert!(catalog.partitions().all(|(_, record)| is_gone(record)));
}
