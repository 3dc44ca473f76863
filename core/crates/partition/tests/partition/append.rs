//! Appends and acknowledgements.

use headrace_model::{Durability, Offset};
use headrace_partition::storage::StorageOperation;
use headrace_partition::{PartitionConfig, PartitionError, PollingStrategy, Request, Response};

use crate::support::messages::{batch, got, offsets, sent};
use crate::support::world::{World, config};

/// LOG-1, LOG-3: offsets are dense from 0, timestamps never decrease, contents are unchanged.
#[test]
fn offsets_are_dense_and_start_at_zero() {
    for durability in Durability::ALL {
        let mut world = World::new(config(durability));
        for number in 0..5 {
            let answer = world.append(&[sent(number * 2, 20), sent(number * 2 + 1, 100)]);
            let expected = Response::Appended {
                base_offset: Offset(number * 2),
                messages_count: 2,
            };
            assert_eq!(answer, Ok(expected));
            world.now.0 -= 10;
        }
        let messages = got(&world.poll(PollingStrategy::First, 100));
        assert_eq!(messages.len(), 10);
        for (number, message) in (0..).zip(&messages) {
            assert_eq!(message.offset, number);
            assert_eq!(message.timestamp, 1_000_000);
            assert_eq!(
                message.payload,
                sent(number, if number % 2 == 0 { 20 } else { 100 }).payload
            );
            let id = sent(number, 0).id;
            assert!(message.id == id || id == 0 && message.id != 0);
        }
    }
}

/// LOG-4: `memory` acknowledges at once, `os` after the write, `fsync` after the sync. LOG-15: polls see only
/// acknowledged messages.
#[test]
fn acknowledgements_come_when_the_promise_holds() {
    for durability in Durability::ALL {
        let mut world = World::new(config(durability));
        world.settle();
        let request_id = world.submit(Request::Append {
            batch: batch(&[sent(0, 10)]),
        });
        world.end_of_turn();
        let mut last = None;
        let answer = loop {
            if let Some(answer) = world.take_answer(request_id) {
                break answer;
            }
            assert!(world.poll(PollingStrategy::First, 1).slices.is_empty());
            if let Some(answer) = world.take_answer(request_id) {
                break answer;
            }
            last = world
                .operations_under_way()
                .next()
                .map(|operation| match operation {
                    StorageOperation::Write { .. } => "write",
                    StorageOperation::Sync { .. } => "sync",
                    _ => "other",
                });
            assert!(world.step());
        };
        assert!(answer.is_ok());
        let expected = match durability {
            Durability::Memory => None,
            Durability::Os => Some("write"),
            Durability::Fsync => Some("sync"),
        };
        assert_eq!(last, expected, "{durability:?}");
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 1)), [0]);
    }
}

/// LOG-4: all appends during a write are combined in the next write.
#[test]
fn appends_during_a_write_share_the_next_one() {
    let mut world = World::new(config(Durability::Os));
    world.append(&[sent(0, 10)]).expect("appended");
    let mut request_ids = vec![world.submit_in_place(&[sent(1, 10)])];
    world.end_of_turn();
    assert_eq!(world.operations_under_way().count(), 1);
    for number in 2..20 {
        request_ids.push(world.submit_in_place(&[sent(number, 1000)]));
        world.end_of_turn();
    }
    assert_eq!(world.operations_under_way().count(), 1);
    let before = world.disk.executed;
    assert!(world.step());
    let Some(StorageOperation::Write { slices, .. }) = world.operations_under_way().next() else {
        panic!("the next write");
    };
    assert!(
        slices.len() <= 6,
        "{} slices for 18 small batches",
        slices.len()
    );
    world.settle();
    assert_eq!(world.disk.executed - before, 2);
    assert!(
        request_ids
            .iter()
            .all(|request_id| world.take_answer(*request_id).is_some())
    );
}

/// LOG-4: with `memory`, a write is started by 1024 messages, 1 MiB or the interval, and by nothing else.
#[test]
fn memory_is_flushed_at_its_thresholds() {
    let mut world = World::new(config(Durability::Memory));
    world.settle();
    let writes = |world: &mut World| {
        let before = world.disk.executed;
        world.settle();
        world.disk.executed - before
    };
    world.append(&[sent(0, 10)]).expect("appended");
    assert_eq!(writes(&mut world), 0);
    let deadline = world.partition.next_deadline().expect("the interval");
    assert_eq!(deadline.0 - world.now.0, 30_000_000);
    world.pass(29_999_999);
    assert_eq!(writes(&mut world), 0);
    world.pass(1);
    assert_eq!(writes(&mut world), 4, "manifest, its copy, log file, write");
    let many: Vec<_> = (0..1023).map(|number| sent(number, 10)).collect();
    world.append(&many).expect("appended");
    assert_eq!(writes(&mut world), 0);
    world.append(&[sent(0, 10)]).expect("appended");
    assert_eq!(writes(&mut world), 1);
    world.append(&[sent(0, 1_100_000)]).expect("appended");
    assert_eq!(writes(&mut world), 1);
    world.append(&[sent(0, 10)]).expect("appended");
    assert_eq!(
        world.ask(Request::Flush { fsync: false }),
        Ok(Response::Done)
    );
}

/// LOG-4: with `os`, the configured number of unsynced bytes starts a sync before the interval ends.
#[test]
fn written_messages_are_synced_at_a_number_of_bytes() {
    let mut world = World::new(PartitionConfig {
        sync_bytes: 10 * 1064,
        ..config(Durability::Os)
    });
    for number in 0..9 {
        world.append(&[sent(number, 1000)]).expect("appended");
        world.settle();
        assert_eq!(world.partition.synced_end(), Offset(0));
    }
    world.append(&[sent(9, 1000)]).expect("appended");
    world.settle();
    assert_eq!(world.partition.synced_end(), Offset(10));
}

/// LOG-4: a sync covers what was written before it; writes continue during it, and one sync is under way at a time.
#[test]
fn syncs_are_shared_and_do_not_stop_writes() {
    let mut world = World::new(config(Durability::Fsync));
    world.append(&[sent(0, 10)]).expect("appended");
    let first = world.submit_in_place(&[sent(1, 10)]);
    world.end_of_turn();
    world.step();
    let syncs = |world: &World| {
        let operations = world.operations_under_way();
        operations
            .filter(|operation| matches!(operation, StorageOperation::Sync { .. }))
            .count()
    };
    assert_eq!(syncs(&world), 1);
    let second = world.submit_in_place(&[sent(2, 10)]);
    world.end_of_turn();
    assert_eq!(
        (syncs(&world), world.operations_under_way().count()),
        (1, 2)
    );
    world.step();
    assert!(world.take_answer(first).is_some());
    assert!(world.take_answer(second).is_none());
    world.settle();
    assert!(world.take_answer(second).is_some());
}

/// LOG-4: writes never exceed 4 MiB or 1024 slices (checked by the disk), however large a batch is.
#[test]
fn large_batches_are_written_in_parts_and_acknowledged_as_a_whole() {
    for durability in Durability::ALL {
        let mut world = World::new(config(durability));
        let large: Vec<_> = (0..10).map(|number| sent(number, 1_000_000)).collect();
        assert!(world.append(&large).is_ok());
        assert!(world.append(&[sent(10, 9_000_000)]).is_ok());
        world.settle();
        let polled = world.poll(PollingStrategy::Offset(9), 5);
        assert_eq!(offsets(&polled), [9, 10]);
    }
}

/// Back-pressure: the queue is bounded, and nothing of a refused batch is kept.
#[test]
fn a_long_queue_refuses_appends_until_it_is_shorter() {
    let mut world = World::new(PartitionConfig {
        queue_bytes_max: 10_000,
        ..config(Durability::Os)
    });
    world.settle();
    let request_ids: Vec<_> = (0..20)
        .map(|number| world.submit_in_place(&[sent(number, 1000)]))
        .collect();
    let refused = |answer: &Option<_>| matches!(answer, Some(Err(PartitionError::Busy)));
    let answers: Vec<_> = request_ids
        .iter()
        .map(|request_id| world.take_answer(*request_id))
        .collect();
    assert_eq!(answers.iter().filter(|answer| refused(answer)).count(), 11);
    world.settle();
    assert!(world.append(&[sent(20, 1000)]).is_ok());
    assert_eq!(world.poll(PollingStrategy::First, 100).messages_count, 10);
}

/// A malformed batch has no effect.
#[test]
fn a_malformed_batch_is_refused_as_a_whole() {
    let mut world = World::new(config(Durability::Os));
    for length in [10, 50_000] {
        let mut bytes = crate::support::messages::packed(&[sent(0, length), sent(1, length)]);
        for count in [0, 1, 3] {
            let batch = headrace_partition::Batch::copied(&bytes, count);
            assert_eq!(
                world.ask(Request::Append { batch }),
                Err(PartitionError::MalformedBatch)
            );
        }
        bytes.pop();
        let batch = headrace_partition::Batch::copied(&bytes, 2);
        assert_eq!(
            world.ask(Request::Append { batch }),
            Err(PartitionError::MalformedBatch)
        );
    }
    assert!(world.append(&[sent(0, 10)]).is_ok());
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
    world.restart();
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
}
