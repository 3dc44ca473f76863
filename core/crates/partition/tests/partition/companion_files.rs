//! Files beside the log that cannot be written or read: only what depends on them waits, and only as long as the cause
//! lasts (LOG-14).

use headrace_model::{Durability, Offset};
use headrace_partition::storage::{FileName, StorageErrorKind, StorageOperation};
use headrace_partition::{ConsumerKey, Partition, PartitionError, PollingStrategy, Request};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{offsets, sent};
use crate::support::world::{World, config};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);
const BOB: ConsumerKey = ConsumerKey::Consumer(2);

/// Return whether this changes the file of stored offsets.
fn changes_offsets(operation: &StorageOperation) -> bool {
    use StorageOperation::{Create, Replace, Sync, Write};
    matches!(
        operation,
        Create { file } | Write { file, .. } | Replace { file, .. } | Sync { file }
            if *file == FileName::Offsets
    )
}

fn waits_for<T>(answer: &Result<T, PartitionError>, wanted: FileName) -> bool {
    matches!(answer, Err(PartitionError::Store { file, .. }) if *file == wanted)
}

fn is_unstored<T>(answer: &Result<T, PartitionError>) -> bool {
    waits_for(answer, FileName::Offsets)
}

/// Producers go on, polls are answered, and changes of offsets are refused, until the file can be written; then all
/// offsets are stored, those of answered polls too.
#[test]
fn only_offsets_wait_for_their_file() {
    for durability in Durability::ALL {
        for is_first in [true, false] {
            let mut world = World::new(config(durability));
            for number in 0..10 {
                world.append(&[sent(number, 10)]).expect("appended");
            }
            if !is_first {
                world.store(BOB, 1).expect("stored");
                world.settle();
            }
            world.disk.refused = Some(changes_offsets);
            let first = world.store(ALICE, 3);
            world.settle();
            if durability == Durability::Memory {
                first.expect("in memory");
            } else {
                assert!(is_unstored(&first), "{first:?}");
            }
            for number in 10..15 {
                world.append(&[sent(number, 10)]).expect("appended");
                assert!(is_unstored(&world.store(BOB, number)));
                assert_eq!(offsets(&world.next(ALICE, 1)), [number - 6]);
                world.pass(700_000);
                world.settle();
            }
            assert!(world.partition.failure().is_none());
            assert!(world.statistics.failed());
            world.disk.refused = None;
            world.settle_in_time(|partition| partition.failing_file().is_none());
            assert!(!world.statistics.failed());
            world.store(BOB, 12).expect("stored");
            if durability == Durability::Memory {
                world.ask(Request::Flush { fsync: false }).expect("flushed");
            }
            world.settle();
            world.crash(Crash::Kill);
            assert_eq!(
                (world.stored(ALICE), world.stored(BOB)),
                (Some(8), Some(12))
            );
        }
    }
}

/// A failed sync is not repeated, because it would succeed for pages that the kernel has dropped: the file is replaced.
#[test]
fn a_failed_sync_of_offsets_is_followed_by_a_new_file() {
    let mut world = World::new(config(Durability::Fsync));
    for number in 0..10 {
        world.append(&[sent(number, 10)]).expect("appended");
    }
    world.store(ALICE, 1).expect("stored");
    world.disk.refused = Some(
        |operation| matches!(operation, StorageOperation::Sync { file } if *file == FileName::Offsets),
    );
    assert!(is_unstored(&world.store(ALICE, 2)));
    world.append(&[sent(10, 10)]).expect("appended");
    world.settle_in_time(|partition| partition.failing_file().is_none());
    world.disk.refused = None;
    world.crash(Crash::Power);
    assert_eq!(world.stored(ALICE), Some(2));
}

/// Closing tries once more and does not wait for a file that cannot be written.
#[test]
fn closing_does_not_wait_for_offsets_that_cannot_be_stored() {
    for mends in [true, false] {
        for was_noticed in [true, false] {
            let mut world = World::new(config(Durability::Os));
            for number in 0..10 {
                world.append(&[sent(number, 10)]).expect("appended");
            }
            world.store(ALICE, 1).expect("stored");
            world.disk.refused = Some(changes_offsets);
            let request_id = world.submit(Request::StoreOffset {
                by: None,
                consumer: ALICE,
                offset: Offset(5),
            });
            if was_noticed {
                assert!(is_unstored(&world.wait_for(request_id)));
            }
            if mends {
                world.disk.refused = None;
            }
            let before = world.now;
            world.close();
            assert_eq!(world.now, before, "no waiting");
            world.reopen_with(|world| world.disk.refused = None);
            let expected = if mends { 5 } else { 1 };
            assert_eq!(world.stored(ALICE), Some(expected));
        }
    }
}

/// LOG-15: a file that names offsets beyond the last message is corrected before new messages are appended. If it
/// cannot be, messages are refused, and appended again once it is.
#[test]
fn messages_wait_for_a_correction_of_offsets() {
    let mut world = World::new(config(Durability::Os));
    for number in 0..10 {
        world.append(&[sent(number, 10)]).expect("appended");
    }
    world.store(ALICE, 9).expect("stored");
    // Nothing is recorded as synced, so that what is cut off here was never on the device.
    world.settle();
    let log = FileName::Log(Offset(0));
    let half = world.disk.content(log).len() / 2;
    world.disk.truncate(log, half);
    world.disk.lose(FileName::Index(Offset(0)));
    world.disk.refused = Some(changes_offsets);
    world.reopen_without_settling();
    world.settle_in_time(Partition::is_open);
    assert_eq!(
        offsets(&world.poll(PollingStrategy::First, 10)),
        [0, 1, 2, 3, 4]
    );
    for _ in 0..3 {
        assert!(is_unstored(&world.append(&[sent(5, 10)])));
        let request_id = world.submit_in_place(&[sent(5, 10)]);
        assert!(is_unstored(&world.wait_for(request_id)));
        world.pass(700_000);
        world.settle();
    }
    world.disk.refused = None;
    world.settle_in_time(|partition| partition.failing_file().is_none());
    world.append(&[sent(5, 10)]).expect("appended");
    world.crash(Crash::Kill);
    assert_eq!(world.stored(ALICE), Some(4));
}

/// A file that lacked space and cannot be written for another reason later does not keep producers out.
#[test]
fn a_shortage_that_becomes_a_failure_lets_producers_go_on() {
    let mut world = World::new(config(Durability::Os));
    for number in 0..10 {
        world.append(&[sent(number, 10)]).expect("appended");
    }
    world.disk.full = true;
    assert!(world.store(ALICE, 3).is_err());
    assert!(world.append(&[sent(10, 10)]).is_err());
    world.disk.full = false;
    world.disk.refused = Some(changes_offsets);
    world.settle_in_time(|partition| partition.failure().is_none());
    world.append(&[sent(10, 10)]).expect("appended");
    assert!(is_unstored(&world.store(ALICE, 4)));
    // And the other way round.
    world.disk.refused = None;
    world.disk.full = true;
    world.settle_in_time(|partition| partition.failure().is_some());
    world.disk.full = false;
    world.settle_in_time(|partition| partition.failure().is_none());
    world.store(ALICE, 5).expect("stored");
}

/// A purge ends the failure: there is nothing to be stored any more.
#[test]
fn a_purge_ends_a_failure_of_the_offsets() {
    let mut world = World::new(config(Durability::Os));
    world.append(&[sent(0, 10)]).expect("appended");
    world.disk.refused = Some(changes_offsets);
    assert!(is_unstored(&world.store(ALICE, 0)));
    world.purge();
    world.settle();
    assert_eq!(world.partition.failing_file(), None);
    world.append(&[sent(0, 10)]).expect("appended");
    assert!(is_unstored(&world.store(ALICE, 0)));
    world.disk.refused = None;
    world.settle_in_time(|partition| partition.failing_file().is_none());
    world.store(ALICE, 0).expect("stored");
}

/// A publication whose record cannot be stored goes on once it can be. Messages are refused while their place depends on
/// the record, and appended while only the mark of completion is missing.
#[test]
fn a_publication_waits_for_its_record() {
    let mut world = World::new(config(Durability::Os));
    world.append(&[sent(0, 10)]).expect("appended");
    let stage = world.stage(&[sent(1, 10), sent(2, 10)]);
    world.disk.refused = Some(
        |operation| matches!(operation, StorageOperation::Replace { file, .. } if *file == FileName::Transactions),
    );
    assert!(!world.partition.publish(1, &[stage]));
    world.settle();
    for _ in 0..3 {
        let refused = world.append(&[sent(3, 10)]);
        assert!(waits_for(&refused, FileName::Transactions), "{refused:?}");
        assert!(world.partition.has_room_for(10), "a host would wait");
        world.pass(700_000);
        world.settle();
    }
    let failing = world.partition.failing_file().expect("a failure");
    assert_eq!(failing.0, FileName::Transactions);
    world.disk.refused = Some(|operation| match operation {
        // The record of an intent names a stage; the mark does not.
        StorageOperation::Replace { file, contents } => {
            *file == FileName::Transactions && contents.len() < 48
        }
        _ => false,
    });
    world.settle_in_time(|partition| partition.next_offset() == Offset(3));
    world.settle();
    world.append(&[sent(3, 10)]).expect("appended");
    assert_eq!(world.partition.applied(), 0);
    world.disk.refused = None;
    world.settle_in_time(|partition| partition.applied() == 1);
    assert_eq!(world.partition.failing_file(), None);
    world.crash(Crash::Kill);
    assert_eq!(
        offsets(&world.poll(PollingStrategy::First, 10)),
        [0, 1, 2, 3]
    );
}

/// A stage that cannot be read for a while is appended once it can be.
#[test]
fn a_publication_waits_for_its_stage() {
    let mut world = World::new(config(Durability::Os));
    let stage = world.stage(&[sent(0, 10), sent(1, 10)]);
    let fault = Fault::Read(FileName::Stage(stage), StorageErrorKind::Other);
    world.disk.faults.extend([fault; 3]);
    assert!(!world.partition.publish(1, &[stage]));
    world.settle();
    assert!(waits_for(
        &world.append(&[sent(2, 10)]),
        FileName::Stage(stage)
    ));
    world.settle_in_time(|partition| partition.applied() == 1);
    assert_eq!(world.disk.faults.len(), 0);
    world.append(&[sent(2, 10)]).expect("appended");
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0, 1, 2]);
}
