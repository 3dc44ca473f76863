//! Purging, and directories left behind by an earlier partition.

use headrace_model::{Durability, Offset};
use headrace_partition::storage::{FileName, StorageErrorKind};
use headrace_partition::{ConsumerKey, PartitionConfig, PollingStrategy, Request, Response};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{got, offsets, sent};
use crate::support::world::{World, config};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);

fn filled(durability: Durability) -> World {
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 10_000,
        ..config(durability)
    });
    for number in 0..30 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.store(ALICE, 7).expect("stored");
    world
}

fn assert_empty(world: &mut World) {
    assert_eq!(world.poll(PollingStrategy::First, 10).messages_count, 0);
    assert_eq!(world.stored(ALICE), None);
    let statistics = &world.statistics;
    assert_eq!(
        (statistics.messages_count(), statistics.size_bytes()),
        (0, 0)
    );
    assert_eq!(
        (statistics.segments_count(), statistics.first_offset()),
        (1, 0)
    );
}

/// Protocol 6.2: all messages, including buffered ones, and all stored offsets are dropped; the next offset is 0.
#[test]
fn a_purge_leaves_nothing_and_starts_at_zero() {
    for durability in Durability::ALL {
        let mut world = filled(durability);
        let unanswered = world.submit_in_place(&[sent(30, 1000)]);
        world.end_of_turn();
        world.purge();
        assert!(world.take_answer(unanswered).expect("an answer").is_ok());
        assert_empty(&mut world);
        let answer = world.append(&[sent(100, 10)]);
        let expected = Response::Appended {
            base_offset: Offset(0),
            messages_count: 1,
        };
        assert_eq!(answer, Ok(expected));
        world.restart();
        let messages = got(&world.poll(PollingStrategy::First, 10));
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].payload, sent(100, 10).payload);
        assert_eq!(world.stored(ALICE), None);
    }
}

/// A purge is complete or not begun, wherever it is interrupted, and the catalog repeats it.
#[test]
fn a_purge_survives_a_crash_at_any_point() {
    for crash in [Crash::Kill, Crash::Power] {
        for steps in 0..40 {
            let mut world = filled(Durability::Fsync);
            world.is_shuffled = true;
            world.settle();
            world.purge();
            world.submit_in_place(&[sent(100, 10)]);
            world.end_of_turn();
            for _ in 0..steps {
                world.step();
            }
            world.crash(crash);
            let messages = got(&world.poll(PollingStrategy::First, 10));
            assert!(messages.len() <= 1, "{steps} steps: {messages:?}");
            assert!(
                messages
                    .iter()
                    .all(|message| message.payload == sent(100, 10).payload)
            );
            assert_eq!(world.stored(ALICE), None);
            world.append(&[sent(101, 10)]).expect("appended");
            world.crash(crash);
            assert_eq!(
                world.poll(PollingStrategy::First, 10).messages_count as usize,
                messages.len() + 1
            );
        }
    }
}

/// Repeating a completed purge has no effect.
#[test]
fn a_purge_is_idempotent() {
    let mut world = filled(Durability::Os);
    world.purge();
    world.append(&[sent(100, 10)]).expect("appended");
    world.store(ALICE, 0).expect("stored");
    world.config.purge_epoch -= 1;
    world.purge();
    assert_eq!(world.poll(PollingStrategy::First, 10).messages_count, 1);
    assert_eq!(world.stored(ALICE), Some(0));
    // The settings may be older than the files, which record the purge.
    world.config.purge_epoch -= 1;
    world.restart();
    assert_eq!(world.poll(PollingStrategy::First, 10).messages_count, 1);
}

/// Polls, stores and removals in flight are answered.
#[test]
fn requests_under_way_are_answered() {
    let mut world = filled(Durability::Os);
    world.restart();
    let request_ids = [
        world.submit(crate::support::world::poll(
            PollingStrategy::First,
            5,
            Some(ALICE),
            true,
        )),
        world.submit(Request::StoreOffset {
            by: None,
            consumer: ALICE,
            offset: Offset(3),
        }),
        world.submit(Request::DeleteSegments { count: 1 }),
        world.submit(Request::Flush { fsync: true }),
    ];
    world.end_of_turn();
    world.purge();
    for request_id in request_ids {
        assert!(world.wait_for(request_id).is_ok());
    }
    world.settle();
    assert_empty(&mut world);
}

/// Before anything was stored, a purge needs no files.
#[test]
fn an_untouched_partition_is_purged_without_a_trace() {
    let mut world = World::new(config(Durability::Os));
    world.settle();
    world.purge();
    world.settle();
    assert_eq!(world.disk.files(), []);
    world.append(&[sent(0, 10)]).expect("appended");
    world.restart();
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
}

/// LOG-13: numbers are reused. Contents left by an earlier partition in the directory are never served, and set aside.
#[test]
fn files_of_an_earlier_incarnation_are_set_aside() {
    for steps in 0..30 {
        let mut world = filled(Durability::Os);
        world.close();
        world.config.incarnation += 1;
        world.is_shuffled = true;
        world.reopen_without_settling();
        for _ in 0..steps {
            world.step();
        }
        world.crash(Crash::Power);
        assert_empty(&mut world);
        world.append(&[sent(100, 10)]).expect("appended");
        world.restart();
        assert_eq!(world.poll(PollingStrategy::First, 10).messages_count, 1);
        let log = FileName::Log(Offset(10));
        assert!(!world.disk.files().contains(&log));
        assert!(world.disk.files_set_aside().contains(&log), "{steps}");
    }
}

/// A purge also ends a failure.
#[test]
fn a_purge_ends_a_failure() {
    let mut world = filled(Durability::Os);
    world
        .disk
        .faults
        .push(Fault::Write(StorageErrorKind::NoSpace));
    assert!(world.append(&[sent(0, 10)]).is_err());
    assert!(world.partition.failure().is_some());
    world.purge();
    assert_eq!(world.partition.failure(), None);
    world.append(&[sent(0, 10)]).expect("appended");
    world.settle();
    world.close();
    world.disk.flip(FileName::Manifest, 30);
    world.disk.lose(FileName::ManifestCopy);
    world.crash(Crash::Kill);
    assert!(world.partition.failure().is_some());
    world.purge();
    world.settle();
    assert_empty(&mut world);
    world.append(&[sent(0, 10)]).expect("appended");
}

/// A purge leaves nothing of a log that was recovered before another file of its directory failed to open.
#[test]
fn a_purge_ends_a_failure_that_followed_recovery() {
    let mut world = filled(Durability::Os);
    world.close();
    world.reopen_with(|world| {
        // The second attempt to read comes after the recovery of the log.
        for kind in [StorageErrorKind::Exhausted, StorageErrorKind::Other] {
            world.disk.faults.push(Fault::Read(FileName::Offsets, kind));
        }
    });
    let failure = world.partition.failure().expect("a failure");
    assert!(!failure.readable, "{failure}");
    assert_eq!(world.partition.next_offset(), Offset(30), "recovered");
    world.purge();
    world.settle();
    assert_eq!(world.partition.failure(), None);
    assert_empty(&mut world);
    assert_eq!(world.disk.files(), [FileName::Manifest]);
    let expected = Response::Appended {
        base_offset: Offset(0),
        messages_count: 1,
    };
    assert_eq!(world.append(&[sent(100, 10)]), Ok(expected));
    world.restart();
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
}
