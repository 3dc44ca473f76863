//! Cost of a request from submission to response, with a storage that completes at once and does nothing.
#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use headrace_buffer::{Buffer, BufferPool};
use headrace_model::{
    Durability, Namespace, PartitionId, PartitionStatistics, StreamId, Timestamp, TopicId,
};
use headrace_partition::storage::{
    StorageCompletion, StorageOperation, StorageOutcome, StorageRequest,
};
use headrace_partition::{
    Batch, ConsumerKey, Outbox, Partition, PartitionConfig, Poll, PollingStrategy, Request,
    RequestId,
};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, Messages, checksum};

const NOW: Timestamp = Timestamp(1);

struct Host {
    partition: Partition,
    out: Outbox,
}

impl Host {
    fn new(pool: &BufferPool, durability: Durability) -> Self {
        let namespace =
            Namespace::new(StreamId(0), TopicId(0), PartitionId(0)).expect("small numbers");
        let config = PartitionConfig {
            durability,
            sync_interval_micros: 0,
            ..PartitionConfig::new(namespace, 1)
        };
        let statistics = Arc::new(PartitionStatistics::default());
        let mut out = Outbox::default();
        let partition = Partition::open(config, statistics, pool.clone(), 7, NOW, &mut out);
        let mut host = Self { partition, out };
        host.turn();
        host
    }

    /// End a turn. The responses of the turn are counted and dropped.
    fn turn(&mut self) -> usize {
        self.partition.end_of_turn(NOW, &mut self.out);
        while let Some(StorageRequest { id, operation }) = self.out.storage.pop() {
            let outcome = match operation {
                StorageOperation::OpenDirectory => StorageOutcome::Listed(Vec::new()),
                _ => StorageOutcome::Done,
            };
            let completion = StorageCompletion {
                id,
                result: Ok(outcome),
            };
            self.partition.complete(NOW, completion, &mut self.out);
        }
        self.out
            .responses
            .drain(..)
            .filter(|(_, answer)| answer.is_ok())
            .count()
    }
}

fn packed(count: usize, payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let mut header = [0; HEADER_BYTES];
        HeaderMut(&mut header).set_payload_length(u32::try_from(payload).expect("short"));
        bytes.extend_from_slice(&header);
        bytes.resize(bytes.len() + payload, 0x5a);
    }
    bytes
}

fn pooled(pool: &BufferPool, bytes: &[u8]) -> Buffer {
    let mut buffer = pool.acquire(bytes.len()).expect("within the budget");
    buffer.copy_from_slice(bytes);
    buffer
}

fn produce(criterion: &mut Criterion) {
    let pool = BufferPool::new(1 << 30);
    let mut group = criterion.benchmark_group("produce");
    let small = packed(10, 100);
    let large = packed(1000, 1000);
    group.throughput(Throughput::Elements(10));
    for durability in Durability::ALL {
        let mut host = Host::new(&pool, durability);
        let mut received = small.clone();
        group.bench_function(format!("10x100B/{}", durability.name()), |bencher| {
            bencher.iter(|| {
                let messages = black_box(&mut received);
                host.partition
                    .append_copied(NOW, RequestId(1), messages, 10, &mut host.out);
                assert_eq!(host.turn(), 1);
            });
        });
    }
    group.bench_function("10x100B/hash_only", |bencher| {
        bencher.iter(|| {
            Messages::new(black_box(&small))
                .map(|message| checksum(&message.expect("whole").bytes()[CHECKSUM_BYTES..]))
                .fold(0, u64::wrapping_add)
        });
    });
    group.throughput(Throughput::Elements(1000));
    let mut host = Host::new(&pool, Durability::Os);
    group.bench_function("1000x1000B/os", |bencher| {
        bencher.iter_batched(
            || pooled(&pool, &large),
            |buffer| {
                let range = 0..buffer.len();
                let batch = Batch::new(buffer, range, 1000);
                let request = Request::Append { batch };
                host.partition
                    .submit(NOW, RequestId(1), request, &mut host.out);
                assert_eq!(host.turn(), 1);
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("1000x1000B/hash_only", |bencher| {
        bencher.iter_batched(
            || pooled(&pool, &large),
            |buffer| {
                Messages::new(&buffer)
                    .map(|message| checksum(&message.expect("whole").bytes()[CHECKSUM_BYTES..]))
                    .fold(0, u64::wrapping_add)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn consume(criterion: &mut Criterion) {
    let pool = BufferPool::new(1 << 30);
    let mut group = criterion.benchmark_group("consume");
    let mut host = Host::new(&pool, Durability::Os);
    for _ in 0..1000 {
        let mut messages = packed(10, 100);
        host.partition
            .append_copied(NOW, RequestId(1), &mut messages, 10, &mut host.out);
        host.turn();
    }
    let end = host.partition.visible_end().0;
    for (name, strategy, auto_commit) in [
        ("10x100B/offset", PollingStrategy::Offset(end - 500), false),
        ("10x100B/last", PollingStrategy::Last, false),
        (
            "10x100B/auto_commit",
            PollingStrategy::Offset(end - 500),
            true,
        ),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let request = Request::Poll(Poll {
                    strategy,
                    count: 10,
                    consumer: Some(ConsumerKey::Consumer(1)),
                    auto_commit,
                    by: None,
                    minimum_bytes: 0,
                    bytes_max: Poll::UNLIMITED,
                });
                host.partition
                    .submit(NOW, RequestId(1), request, &mut host.out);
                assert_eq!(host.turn(), 1);
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(40);
    targets = produce, consume
}
criterion_main!(benches);
