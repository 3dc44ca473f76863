//! Cost of appending and polling from memory, compared with the unavoidable cost: the hash over every message.
//!
//! The storage completes at once and does nothing, so the results are the costs of the log alone.
#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use headrace_buffer::{Buffer, BufferPool};
use headrace_log::storage::{StorageCompletion, StorageOperation, StorageOutcome, StorageRequest};
use headrace_log::{Batch, Log, LogConfig, ReadFrom, Started};
use headrace_model::{Durability, Namespace, Offset, PartitionId, StreamId, Timestamp, TopicId};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, Messages, checksum};

const NOW: Timestamp = Timestamp(1);

struct Host {
    log: Log,
    out: Vec<StorageRequest>,
}

impl Host {
    fn new(pool: &BufferPool) -> Self {
        let namespace =
            Namespace::new(StreamId(0), TopicId(0), PartitionId(0)).expect("small numbers");
        let config = LogConfig {
            durability: Durability::Os,
            sync_interval_micros: 0,
            ..LogConfig::new(namespace, 1)
        };
        let mut out = Vec::new();
        let log = Log::open(config, pool.clone(), 7, &mut out);
        let mut host = Self { log, out };
        host.complete_all();
        host
    }

    /// End a turn with a storage that completes every request at once.
    fn complete_all(&mut self) {
        self.log.end_of_turn(NOW, &mut self.out);
        while let Some(StorageRequest { id, operation }) = self.out.pop() {
            let outcome = match operation {
                StorageOperation::OpenDirectory => StorageOutcome::Listed(Vec::new()),
                _ => StorageOutcome::Done,
            };
            let completion = StorageCompletion {
                id,
                result: Ok(outcome),
            };
            self.log.complete(NOW, completion, &mut self.out);
        }
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

fn hash_all(messages: &[u8]) -> u64 {
    Messages::new(messages)
        .map(|message| checksum(&message.expect("whole").bytes()[CHECKSUM_BYTES..]))
        .fold(0, u64::wrapping_add)
}

fn append(criterion: &mut Criterion) {
    let pool = BufferPool::new(1 << 30);
    for (count, payload) in [(1000_usize, 1000_usize), (100, 1000), (10, 100), (1, 100)] {
        let mut group = criterion.benchmark_group("append");
        let bytes = packed(count, payload);
        let messages_count = u32::try_from(count).expect("few");
        let name = format!("{count}x{payload}B");
        group.throughput(Throughput::Bytes(bytes.len() as u64));

        let mut host = Host::new(&pool);
        if bytes.len() > headrace_log::COPIED_BYTES_MAX {
            // The copy that stands for receiving the batch is not measured, but it warms the caches in the same way for
            // both benchmarks.
            group.bench_function(BenchmarkId::new("log", &name), |bencher| {
                bencher.iter_batched(
                    || pooled(&pool, &bytes),
                    |buffer| {
                        let range = 0..buffer.len();
                        let batch = Batch::new(buffer, range, messages_count);
                        host.log.append(NOW, batch).expect("appended");
                        host.complete_all();
                    },
                    BatchSize::PerIteration,
                );
            });
            group.bench_function(BenchmarkId::new("hash_only", &name), |bencher| {
                bencher.iter_batched(
                    || pooled(&pool, &bytes),
                    |buffer| black_box(hash_all(&buffer)),
                    BatchSize::PerIteration,
                );
            });
        } else {
            group.bench_function(BenchmarkId::new("log", &name), |bencher| {
                bencher.iter(|| {
                    host.log
                        .append_copied(NOW, black_box(&bytes), messages_count)
                        .expect("appended");
                    host.complete_all();
                });
            });
            group.bench_function(BenchmarkId::new("log_without_write", &name), |bencher| {
                let mut host = Host::new(&pool);
                let mut appended = 0;
                bencher.iter(|| {
                    host.log
                        .append_copied(NOW, black_box(&bytes), messages_count)
                        .expect("appended");
                    appended += bytes.len();
                    if appended > 1 << 20 {
                        appended = 0;
                        host.complete_all();
                    }
                });
            });
            group.bench_function(BenchmarkId::new("hash_only", &name), |bencher| {
                bencher.iter(|| hash_all(black_box(&bytes)));
            });
        }
        let mut target = bytes.clone();
        group.bench_function(BenchmarkId::new("memcpy_only", &name), |bencher| {
            bencher.iter(|| target.copy_from_slice(black_box(&bytes)));
        });
        group.finish();
    }
}

fn poll(criterion: &mut Criterion) {
    let pool = BufferPool::new(1 << 30);
    for (count, payload) in [(1000_usize, 1000_usize), (10, 100)] {
        let mut group = criterion.benchmark_group("poll_from_tail");
        let mut host = Host::new(&pool);
        let bytes = packed(count, payload);
        let messages_count = u32::try_from(count).expect("few");
        let batches = (2 << 20) / bytes.len().max(1);
        for _ in 0..batches.max(2) {
            let buffer = pooled(&pool, &bytes);
            let range = 0..buffer.len();
            let batch = Batch::new(buffer, range, messages_count);
            host.log.append(NOW, batch).expect("appended");
            host.complete_all();
        }
        let end = host.log.next_offset().0;
        let name = format!("{count}x{payload}B");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        for (place, start) in [
            ("within_a_batch", end - u64::from(messages_count)),
            ("across_batches", end - u64::from(messages_count) * 3 / 2),
        ] {
            group.bench_function(BenchmarkId::new(place, &name), |bencher| {
                bencher.iter(|| {
                    let from = ReadFrom::Offset(Offset(black_box(start)));
                    match host.log.read(from, messages_count, &mut host.out) {
                        Started::Done(messages) => messages.expect("in memory"),
                        Started::Pending(_) => panic!("not in memory"),
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(40);
    targets = append, poll
}
criterion_main!(benches);
