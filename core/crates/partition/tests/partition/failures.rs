//! Storage failures: the partition becomes read-only with a reason and never acknowledges lost data.

use headrace_buffer::BufferPool;
use headrace_model::{Durability, Offset, Timestamp};
use headrace_partition::storage::{FileName, StorageErrorKind, StorageOperation};
use headrace_partition::{
    ConsumerKey, PartitionConfig, PartitionError, PollingStrategy, Request, Response, Retention,
};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{batch, got, offsets, sent};
use crate::support::world::{World, config, poll};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);

fn is_failed<T>(answer: &Result<T, PartitionError>) -> bool {
    matches!(answer, Err(PartitionError::Failed(_)))
}

/// After a failed write the partition is read-only with a reason; acknowledged messages can be read.
#[test]
fn a_write_error_makes_the_partition_read_only() {
    for durability in [Durability::Os, Durability::Fsync] {
        let mut world = World::new(config(durability));
        world.append(&[sent(0, 10)]).expect("appended");
        world
            .disk
            .faults
            .push(Fault::Write(StorageErrorKind::NoSpace));
        assert!(is_failed(&world.append(&[sent(1, 10)])));
        let failure = world.partition.failure().expect("a failure").to_string();
        assert!(
            failure.contains("read-only") && failure.contains("no space is left"),
            "{failure}"
        );
        assert!(is_failed(&world.append(&[sent(2, 10)])));
        assert!(is_failed(&world.store(ALICE, 0)));
        assert!(is_failed(&world.ask(Request::Flush { fsync: true })));
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
        let committed = world.ask(poll(PollingStrategy::Next, 1, Some(ALICE), true));
        assert!(committed.is_ok(), "messages can still be fetched");
        world.close();
        world.crash(Crash::Kill);
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
        world.append(&[sent(1, 10)]).expect("appended");
    }
}

/// SHARD-12: after a permanent write error, polls with auto-commit continue, and their commits do not accumulate in
/// memory.
#[test]
fn auto_commit_after_a_write_error_takes_no_more_memory() {
    let mut world = World::new(config(Durability::Os));
    for number in 0..10 {
        world.append(&[sent(number, 10)]).expect("appended");
    }
    world
        .disk
        .faults
        .push(Fault::Write(StorageErrorKind::Other));
    assert!(is_failed(&world.append(&[sent(10, 10)])));
    world
        .ask(poll(PollingStrategy::Next, 1, Some(ALICE), true))
        .expect("messages can still be fetched");
    let before = world.partition.offsets_bytes();
    for round in 0..10_000 {
        let answer = world.ask(poll(
            PollingStrategy::Offset(round % 10),
            1,
            Some(ALICE),
            true,
        ));
        answer.expect("messages can still be fetched");
    }
    assert_eq!(world.stored(ALICE), Some(9));
    assert_eq!(world.partition.offsets_bytes(), before);
}

/// A failed sync is never retried: the kernel has dropped the pages that it could not write, so a second sync would
/// succeed.
#[test]
fn a_failed_sync_is_never_retried() {
    let mut world = World::new(config(Durability::Fsync));
    world.append(&[sent(0, 10)]).expect("appended");
    world.disk.faults.push(Fault::Sync);
    assert!(is_failed(&world.append(&[sent(1, 10)])));
    world.pass(100_000_000);
    world.end_of_turn();
    let is_sync = |operation: &StorageOperation| matches!(operation, StorageOperation::Sync { .. });
    assert!(!world.operations_under_way().any(is_sync));
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
    world.close();
}

/// A failed background sync has the same effect.
#[test]
fn a_failed_background_sync_makes_the_partition_read_only() {
    let mut world = World::new(config(Durability::Os));
    world.append(&[sent(0, 10)]).expect("appended");
    world.disk.faults.push(Fault::Sync);
    world.pass(1_000_000);
    world.settle();
    assert!(is_failed(&world.append(&[sent(1, 10)])));
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
    assert_eq!(world.partition.next_deadline(), None);
}

/// A failure to create the first files or those of a new segment has the same effect.
#[test]
fn files_that_cannot_be_created_make_the_partition_read_only() {
    for fault in [Fault::Create, Fault::Replace] {
        let mut world = World::new(config(Durability::Os));
        world.settle();
        world.disk.faults.push(fault);
        assert!(is_failed(&world.append(&[sent(0, 10)])));
    }
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 1000,
        ..config(Durability::Os)
    });
    world.append(&[sent(0, 10)]).expect("appended");
    world.disk.faults.push(Fault::Create);
    let _ = world.append(&[sent(1, 1000)]);
    assert!(is_failed(&world.append(&[sent(2, 10)])));
    world.settle();
    assert_eq!(world.poll(PollingStrategy::First, 10).messages_count, 2);
}

/// Acknowledged messages stay visible until the process ends with durability `memory`; new appends are refused.
#[test]
fn memory_keeps_what_it_cannot_write_visible() {
    let mut world = World::new(config(Durability::Memory));
    world.settle();
    world.append(&[sent(0, 10)]).expect("appended");
    world
        .disk
        .faults
        .push(Fault::Write(StorageErrorKind::Other));
    assert!(is_failed(&world.ask(Request::Flush { fsync: false })));
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
    assert!(is_failed(&world.append(&[sent(1, 10)])));
    assert!(is_failed(&world.ask(Request::DeleteSegments { count: 1 })));
    world.close();
}

/// LOG-11: the last sealed segment is kept until the next segment's file exists, which carries the next offset across a
/// crash.
#[test]
fn a_segment_without_a_follower_on_disk_is_not_removed() {
    let mut world = World::with_small_segments(1, 10);
    world.disk.faults.push(Fault::ExhaustedForChanges);
    world.append(&[sent(1, 1000)]).expect("appended");
    world.settle();
    assert_eq!(world.disk.faults.len(), 0, "the new file was delayed");
    world
        .ask(Request::DeleteSegments { count: 1 })
        .expect("done");
    world.crash(Crash::Kill);
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0, 1]);
}

/// Segments behind one that cannot be removed stay meanwhile, and the request fails. The manifest says that they are to go:
/// the next opening removes them.
#[test]
fn a_failed_removal_leaves_no_gap() {
    let mut world = World::with_small_segments(6, 1000);
    world.disk.faults.push(Fault::Remove);
    let answer = world.ask(Request::DeleteSegments { count: 3 });
    assert!(
        matches!(answer, Err(PartitionError::Remove { .. })),
        "{answer:?}"
    );
    for base in 0..3 {
        let file = FileName::Log(Offset(base));
        assert!(world.disk.files().contains(&file), "{file}");
    }
    world.restart();
    world.settle();
    assert_eq!(
        offsets(&world.poll(PollingStrategy::First, 10)),
        (3..6).collect::<Vec<_>>()
    );
}

/// Files that could not be removed are removed before those of later segments, or stay together with them.
#[test]
fn removals_after_a_failed_one_leave_no_gap() {
    for failures in 1..3 {
        let mut world = World::with_small_segments(6, 1000);
        for _ in 0..failures {
            world.disk.faults.push(Fault::Remove);
            let answer = world.ask(Request::DeleteSegments { count: 2 });
            assert!(
                matches!(answer, Err(PartitionError::Remove { .. })),
                "{answer:?}"
            );
        }
        let files = world.disk.files();
        for offset in 0..6 {
            assert!(files.contains(&FileName::Log(Offset(offset))), "{files:?}");
        }
        world
            .ask(Request::DeleteSegments { count: 1 })
            .expect("removed, with the ones before");
        world.restart();
        assert_eq!(
            offsets(&world.poll(PollingStrategy::First, 10)),
            (failures * 2 + 1..6).collect::<Vec<_>>()
        );
    }
}

/// Files that could not be removed are removed by the next request, also if no other segment goes with them.
#[test]
fn a_failed_removal_is_repeated_without_another_segment() {
    for is_asked in [true, false] {
        let mut world = World::with_small_segments(4, 1000);
        world.store(ALICE, 0).expect("stored");
        world.disk.faults.push(Fault::Remove);
        let answer = world.ask(Request::DeleteSegments { count: 2 });
        assert!(answer.is_err(), "{answer:?}");
        let first = FileName::Log(Offset(0));
        assert!(world.disk.files().contains(&first));
        if is_asked {
            world
                .ask(Request::DeleteSegments { count: 2 })
                .expect("removed");
        } else {
            let keep_all = Retention {
                expired_before: Timestamp(0),
                roll_before: Timestamp(0),
                roll_bytes: u64::MAX,
            };
            world.retain(keep_all, false);
            world.settle();
        }
        let files = world.disk.files();
        assert!(!files.contains(&first), "{files:?}");
        assert_eq!(
            offsets(&world.poll(PollingStrategy::First, 10)),
            [1, 2, 3],
            "what is not read by the consumer stays"
        );
    }
}

/// A purge removes files that could not be removed before.
#[test]
fn a_purge_follows_a_failed_removal() {
    let mut world = World::with_small_segments(4, 1000);
    world.disk.faults.push(Fault::Remove);
    let answer = world.ask(Request::DeleteSegments { count: 2 });
    assert!(answer.is_err(), "{answer:?}");
    world.purge();
    world.settle();
    assert_eq!(world.disk.files(), [FileName::Manifest]);
}

/// Requests submitted while the partition opens are queued in order, up to a bound. `has_room_for` returns false meanwhile,
/// so that a host keeps batches instead of having them refused.
#[test]
fn requests_wait_while_the_partition_opens() {
    let mut world = World::new(config(Durability::Os));
    let request_ids: Vec<_> = (0..300)
        .map(|number| world.submit_in_place(&[sent(number, 10)]))
        .collect();
    assert!(!world.partition.is_open());
    assert!(!world.partition.has_room_for(1));
    world.settle();
    assert!(world.partition.has_room_for(1));
    let answers: Vec<_> = request_ids
        .iter()
        .filter_map(|request_id| world.take_answer(*request_id))
        .collect();
    assert_eq!(answers.len(), 300);
    let taken = answers.iter().take_while(|answer| answer.is_ok()).count();
    assert_eq!(taken, 256);
    assert!(
        answers[taken..]
            .iter()
            .all(|answer| *answer == Err(PartitionError::Busy))
    );
    assert_eq!(
        offsets(&world.poll(PollingStrategy::First, 1000)),
        (0..256).collect::<Vec<_>>()
    );
}

/// SHARD-12: no batch is refused for lack of pool memory: the next one, which may get memory, would overtake it.
#[test]
fn batches_stay_in_order_where_the_pool_is_empty() {
    for durability in [Durability::Memory, Durability::Os] {
        let pool = BufferPool::new(1 << 20);
        let mut world = World::with_pool(config(durability), pool.clone());
        world.settle();
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.acquire(4096).ok()).collect();
        let mut request_ids = Vec::new();
        for number in 0..60 {
            // From time to time memory becomes free.
            if number % 7 == 0 {
                taken.pop();
            }
            let length = [10, 1000, 40_000][usize::try_from(number % 3).expect("small")];
            let message = [sent(number, length)];
            request_ids.push(if number % 2 == 0 {
                world.submit_in_place(&message)
            } else {
                let batch = batch(&message);
                world.submit(Request::Append { batch })
            });
            if number % 10 == 0 {
                world.settle();
            }
        }
        world.settle();
        for (offset, request_id) in (0..).zip(request_ids) {
            let answer = world.take_answer(request_id);
            let appended = Response::Appended {
                base_offset: Offset(offset),
                messages_count: 1,
            };
            assert_eq!(answer, Some(Ok(appended)));
        }
        drop(taken);
        world.restart();
        let found = got(&world.poll(PollingStrategy::First, 100));
        for (number, message) in (0..).zip(&found) {
            let length = [10, 1000, 40_000][usize::try_from(number % 3).expect("small")];
            assert_eq!(message.payload, sent(number, length).payload);
        }
        assert_eq!(found.len(), 60);
    }
}

/// SHARD-12: a publication that waits for memory of the pool continues once there is some, without any request.
#[test]
fn a_publication_waits_for_memory() {
    let pool = BufferPool::new(1 << 20);
    let mut world = World::with_pool(config(Durability::Os), pool.clone());
    let stage = world.stage(&[sent(0, 10), sent(1, 10)]);
    world.settle();
    let taken: Vec<_> = std::iter::from_fn(|| pool.acquire(4096).ok()).collect();
    assert!(!world.partition.publish(1, &[stage]));
    world.settle();
    for _ in 0..3 {
        world.pass(20_000);
        while world.step() {}
        assert_eq!(world.partition.applied(), 0);
    }
    drop(taken);
    world.pass(20_000);
    while world.step() {}
    assert_eq!(world.partition.applied(), 1);
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0, 1]);
}

/// SHARD-12: a host that is out of memory or handles delays a partition and never breaks it: every operation happens a
/// little later, whatever the partition's state.
#[test]
fn exhausted_resources_only_delay() {
    for durability in Durability::ALL {
        for failing in 0..30 {
            let mut world = World::new(PartitionConfig {
                segment_size_bytes: 5_000,
                ..config(durability)
            });
            let mut operations = 0;
            let mut starve = |world: &mut World| {
                operations += 1;
                if operations % 5 == failing % 5 {
                    world.disk.faults.push(Fault::Exhausted);
                }
            };
            for number in 0..10 {
                starve(&mut world);
                world
                    .append(&[sent(number, 1000)])
                    .expect("appended, if late");
            }
            starve(&mut world);
            world.disk.faults.extend([Fault::Exhausted; 3]);
            world.store(ALICE, 5).expect("stored, if late");
            world
                .ask(Request::Flush { fsync: true })
                .expect("flushed, if late");
            world.disk.faults.push(Fault::Exhausted);
            world.close();
            world.disk.faults.extend(vec![Fault::Exhausted; failing]);
            world.reopen_without_settling();
            world.settle_in_time(headrace_partition::Partition::is_open);
            assert_eq!(world.partition.failure(), None);
            world.disk.faults.clear();
            assert_eq!(
                offsets(&world.poll(PollingStrategy::First, 100)),
                (0..10).collect::<Vec<_>>()
            );
            assert_eq!(world.stored(ALICE), Some(5));
            world.disk.faults.extend([Fault::Exhausted; 4]);
            world.purge();
            world.append(&[sent(0, 10)]).expect("appended, if late");
            assert_eq!(offsets(&world.poll(PollingStrategy::First, 100)), [0]);
        }
    }
}
