//! Costs of every batch: decoding a small send, validating a batch, hashing messages, iterating over them.
//!
//! Run with `cargo bench -p headrace-wire`. Throughput is in bytes of messages, headers included.

#![allow(missing_docs, reason = "the macro's function cannot carry any")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use headrace_wire::batch::{BatchBuilder, validate};
use headrace_wire::message::{CHECKSUM_BYTES, Messages, checksum};
use headrace_wire::{Command, CommandCode, Identifier, Partitioning, SendMetadata};

/// Number of messages of a batch and payload bytes of each: small frames, many small messages, one large frame.
const SHAPES: [(usize, usize); 3] = [(10, 100), (1000, 100), (1000, 1000)];

/// The payload of a `SendMessages`.
fn send(messages_count: usize, payload_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let payload = vec![b'x'; payload_bytes];
    for _ in 0..messages_count {
        builder.push(0, 1, &payload, &[]).expect("fits");
    }
    let mut request = Vec::new();
    Command::SendMessages(builder.request(
        Identifier::Named("orders"),
        Identifier::Numeric(3),
        Partitioning::PartitionId(1),
    ))
    .encode(&mut request);
    request
}

fn decode(criterion: &mut Criterion) {
    let payload = send(10, 100);
    let code = CommandCode::SendMessages.code();
    criterion.bench_function("decode/command", |bencher| {
        bencher.iter(|| Command::decode(black_box(code), black_box(&payload)));
    });
    let payload_bytes = u32::try_from(payload.len()).expect("small");
    criterion.bench_function("decode/metadata", |bencher| {
        bencher.iter(|| SendMetadata::decode_prefix(black_box(&payload), payload_bytes));
    });
}

fn per_batch(criterion: &mut Criterion) {
    for (messages_count, payload_bytes) in SHAPES {
        let payload = send(messages_count, payload_bytes);
        let Ok(Command::SendMessages(send)) =
            Command::decode(CommandCode::SendMessages.code(), &payload)
        else {
            panic!("the builder's batches decode");
        };
        let shape = format!("{messages_count}x{payload_bytes}B");
        let mut group = criterion.benchmark_group("batch");
        group.throughput(Throughput::Bytes(send.messages.len() as u64));
        group.bench_function(BenchmarkId::new("validate", &shape), |bencher| {
            bencher.iter(|| {
                validate(
                    black_box(send.indexes),
                    black_box(send.messages),
                    send.messages_count,
                )
            });
        });
        group.bench_function(BenchmarkId::new("checksum", &shape), |bencher| {
            bencher.iter(|| {
                Messages::new(black_box(send.messages))
                    .flatten()
                    .map(|message| checksum(&message.bytes()[CHECKSUM_BYTES..]))
                    .fold(0, u64::wrapping_add)
            });
        });
        group.bench_function(BenchmarkId::new("walk", &shape), |bencher| {
            bencher.iter(|| {
                Messages::new(black_box(send.messages))
                    .flatten()
                    .map(|message| message.payload().len())
                    .sum::<usize>()
            });
        });
        group.finish();
    }
}

criterion_group!(benches, decode, per_batch);
criterion_main!(benches);
