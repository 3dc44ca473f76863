//! Records of traced requests.

use std::collections::BTreeSet;

use headrace_shard::{Key, PartitionTrace, RequestTrace, TraceRecord};
use headrace_wire::{
    Command, CommandCode, PollingStrategy, Status,
    batch::BatchBuilder,
    command::SetTraceContext,
    headers::{Field, Pair, encode},
};

use crate::shards::messages::poll;
use crate::world::{World, to_partition};

const TRACE_ID: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const SPAN_ID: u64 = 0x00f0_67aa_0ba9_02b7;

fn records(world: &World) -> (Vec<RequestTrace>, Vec<PartitionTrace>) {
    let (mut requests, mut partitions) = (Vec::new(), Vec::new());
    for record in (0..2).flat_map(|shard| world.meter(shard).tracer().take()) {
        match record {
            TraceRecord::Request(trace) => requests.push(trace),
            TraceRecord::Partition(trace) => partitions.push(trace),
        }
    }
    (requests, partitions)
}

/// A batch whose first message has these user headers.
fn with_headers(key: &str, value: &str) -> BatchBuilder {
    let field = |text| Field::new(2, text).expect("short");
    let mut headers = Vec::new();
    for (key, value) in [("other", "first"), (key, value)] {
        let pair = Pair {
            key: field(key.as_bytes()),
            value: field(value.as_bytes()),
        };
        encode([pair], &mut headers);
    }
    let mut batch = BatchBuilder::new();
    batch.push(0, 1, b"first", &headers).expect("small");
    batch.push(0, 1, b"second", &[]).expect("small");
    batch
}

fn send(batch: &BatchBuilder, partition: u32) -> Command<'_> {
    Command::SendMessages(to_partition(batch, partition))
}

fn context(flags: u8) -> Command<'static> {
    Command::SetTraceContext(SetTraceContext {
        trace_id: TRACE_ID,
        span_id: SPAN_ID,
        flags,
    })
}

fn traceparent(flags: u8) -> String {
    format!("00-{TRACE_ID:032x}-{SPAN_ID:016x}-{flags:02x}")
}

/// USE-6: from the header of the first message to the write, on the shard of the partition, and back.
#[test]
fn a_batch_is_followed_to_the_file() {
    let mut world = World::traced().with_topic(8);
    let link = world.login(0);
    let batch = with_headers("traceparent", &traceparent(1));
    for partition in 0..8 {
        assert_eq!(world.ask(link, &send(&batch, partition)).status, Status::OK);
        let (requests, partitions) = records(&world);
        let ([request], [stored]) = (&requests[..], &partitions[..]) else {
            panic!("{requests:?} {partitions:?}");
        };
        assert_eq!(request.key, stored.key);
        assert_eq!(request.context.trace_id, TRACE_ID);
        assert_eq!(request.context.span_id, SPAN_ID);
        assert_eq!(request.command, Some(CommandCode::SendMessages));
        assert_eq!((request.status, stored.messages_count), (0, 2));
        assert!(stored.is_append && stored.is_fulfilled);
        assert_eq!(stored.namespace.partition().0, partition);
        let steps = [
            request.began,
            stored.began,
            stored.issued,
            stored.written,
            stored.ended,
            request.ended,
        ];
        assert!(steps.is_sorted(), "{steps:?}");
        assert!(stored.issued < stored.written);
    }
}

/// Batches that wait for their partition to open are written after that, and not before.
#[test]
fn a_batch_that_came_early_is_followed_to_the_file() {
    let mut world = World::traced();
    let link = world.login(0);
    world.storage_held = true;
    let mut world = world.with_topic(1);
    world.request(
        link,
        &send(&with_headers("traceparent", &traceparent(1)), 0),
    );
    world.pass(1_000_000);
    let opened = world.now;
    world.release_storage();
    assert_eq!(world.reply(link).status, Status::OK);
    let (requests, partitions) = records(&world);
    // The batch waits where batches wait for memory: the time belongs to the request, and not to the partition.
    assert!(requests[0].began < opened && partitions[0].began > opened);
    assert!(partitions[0].written >= partitions[0].began);
    assert!(partitions[0].synced == 0, "no sync was requested");
}

/// A refused request has a record of the request, and none of a partition.
#[test]
fn a_refused_batch_is_followed_to_its_refusal() {
    let mut world = World::traced().with_topic(1);
    let link = world.login(1);
    world.ask(link, &context(1));
    let batch = with_headers("x", "y");
    let status = world.ask(link, &send(&batch, 99)).status;
    assert_eq!(status, Status::PARTITION_NOT_FOUND);
    let (requests, partitions) = records(&world);
    assert_eq!(requests[0].status, status.0);
    assert!(partitions.is_empty());
}

/// A trace context applies to the next request of any kind, and to no other.
#[test]
fn a_context_is_that_of_the_next_request() {
    let mut world = World::traced().with_topic(2);
    let link = world.login(0);
    world.send(link, 1, &[b"one"]);
    assert_eq!(world.ask(link, &context(1)).status, Status::OK);
    for _ in 0..2 {
        world.ask(link, &poll(1, PollingStrategy::First, 10));
    }
    let (requests, partitions) = records(&world);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].command, Some(CommandCode::PollMessages));
    assert_eq!(partitions.len(), 1);
    assert!(!partitions[0].is_append);
    assert_eq!(partitions[0].messages_count, 1);
    assert_eq!((partitions[0].issued, partitions[0].written), (0, 0));
    // The context of the connection takes precedence over that of the message.
    world.ask(link, &context(1));
    let batch = with_headers(
        "traceparent",
        &format!("00-{}-{:016x}-01", "1".repeat(32), 7),
    );
    world.ask(link, &send(&batch, 0));
    assert_eq!(records(&world).0[0].context.trace_id, TRACE_ID);
    world.ask(link, &context(1));
    world.ask(link, &Command::Ping);
    assert_eq!(records(&world).0[0].command, Some(CommandCode::Ping));
}

/// Request numbers are unique, even when batches are in flight together.
#[test]
fn batches_in_flight_are_distinguished() {
    let mut world = World::traced().with_topic(4);
    let link = world.login(0);
    world.storage_held = true;
    let traced = with_headers("traceparent", &traceparent(1));
    let plain = with_headers("traceparent", "nothing");
    let mut frames = Vec::new();
    for number in 0..40 {
        let batch = if number % 2 == 0 { &traced } else { &plain };
        send(batch, number % 4)
            .try_encode_frame(&mut frames)
            .unwrap();
    }
    world.write(link, &frames);
    world.release_storage();
    for _ in 0..40 {
        assert_eq!(world.reply(link).status, Status::OK);
    }
    let (requests, partitions) = records(&world);
    // The connection may have moved to the other shard in between, which has numbers of its own.
    let number = |key: Key| (key.shard.0, key.request.get());
    let keys: BTreeSet<_> = requests.iter().map(|it| number(it.key)).collect();
    let stored: BTreeSet<_> = partitions.iter().map(|it| number(it.key)).collect();
    assert_eq!(keys, stored);
    assert_eq!((keys.len(), requests.len(), partitions.len()), (20, 20, 20));
}

/// Unsampled and malformed contexts leave no record, nor does any request with tracing disabled.
#[test]
fn nothing_is_recorded_that_was_not_asked_for() {
    let mut on = World::traced().with_topic(1);
    let link = on.login(0);
    for batch in [
        with_headers("traceparent", &traceparent(0)),
        with_headers("traceparent", "00-0-0-01"),
        with_headers("tracestate", &traceparent(1)),
    ] {
        assert_eq!(on.ask(link, &send(&batch, 0)).status, Status::OK);
    }
    assert_eq!(on.ask(link, &context(0)).status, Status::OK);
    on.send(link, 0, &[b"m"]);
    assert_eq!(records(&on), (vec![], vec![]));

    let mut off = World::new().with_topic(1);
    let link = off.login(0);
    assert_eq!(off.ask(link, &context(1)).status, Status::OK);
    let batch = with_headers("traceparent", &traceparent(1));
    assert_eq!(off.ask(link, &send(&batch, 0)).status, Status::OK);
    assert_eq!(off.ask(link, &context(1)).status, Status::OK);
    off.ask(link, &poll(0, PollingStrategy::First, 1));
    assert_eq!(records(&off), (vec![], vec![]));
}

/// Only authenticated clients can set a trace context.
#[test]
fn unauthenticated_clients_are_not_traced() {
    let mut world = World::traced();
    let link = world.connect(0);
    assert_eq!(world.ask(link, &context(1)).status, Status::UNAUTHENTICATED);
    world.ask(link, &Command::Ping);
    assert_eq!(records(&world), (vec![], vec![]));
}
