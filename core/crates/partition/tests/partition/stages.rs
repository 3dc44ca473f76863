//! Stages: staging, expiry, and publication to the log.

use headrace_model::{Durability, Offset, StageId, Timestamp};
use headrace_partition::storage::{FileName, StorageErrorKind, StorageOperation};
use headrace_partition::{PartitionConfig, PartitionError, PollingStrategy, Response, StageLimits};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{Sent, got, offsets, sent};
use crate::support::world::{LIFETIME_MICROS, World, config};

pub fn some(numbers: std::ops::Range<u64>, length: usize) -> Vec<Sent> {
    numbers.map(|number| sent(number, length)).collect()
}

/// Numbers of all messages, in order of offset.
pub fn numbers(world: &mut World) -> Vec<u64> {
    let polled = world.poll(PollingStrategy::First, 10_000);
    let number = |payload: &[u8]| u64::from_le_bytes(payload[..8].try_into().expect("eight bytes"));
    got(&polled)
        .iter()
        .map(|message| number(&message.payload))
        .collect()
}

fn stage_files(world: &World) -> usize {
    let files = world.disk.files();
    let is_stage = |file: &&FileName| matches!(file, FileName::Stage(_));
    files.iter().filter(is_stage).count()
}

fn staged(answer: Result<Response, PartitionError>) -> (StageId, u64, u64) {
    match answer {
        Ok(Response::Staged {
            stage,
            messages,
            bytes,
        }) => (stage, messages, bytes),
        other => panic!("not staged: {other:?}"),
    }
}

/// Staged messages are invisible, survive a loss of power whatever the partition's durability, and are published once.
#[test]
fn what_is_staged_is_seen_when_it_is_published() {
    for durability in Durability::ALL {
        let mut world = World::new(config(durability));
        world.append(&some(0..3, 100)).expect("appended");
        let answer = world.stage_chunk(None, 0, false, &some(10..15, 100));
        let (stage, messages, bytes) = staged(answer);
        assert_eq!((messages, bytes), (5, 5 * 164));
        assert_eq!(stage.expires_at(), Timestamp(world.now.0 + LIFETIME_MICROS));
        let answer = world.stage_chunk(Some(stage), 1, true, &some(15..20, 100));
        assert_eq!(staged(answer), (stage, 10, 10 * 164));
        world
            .ask(headrace_partition::Request::Flush { fsync: true })
            .expect("flushed");
        assert_eq!(numbers(&mut world), [0, 1, 2]);
        world.crash(Crash::Power);
        assert_eq!(numbers(&mut world), [0, 1, 2]);
        assert_eq!(world.partition.stages_count(), 1);
        let repeated = world.stage_chunk(Some(stage), 1, true, &some(15..20, 100));
        assert_eq!(staged(repeated), (stage, 10, 10 * 164));

        let published = world.publish(7, &[stage]);
        assert_eq!(
            (published.base_offset, published.messages_count),
            (Offset(3), 10)
        );
        assert_eq!(published.stages_missing, 0);
        let expected: Vec<u64> = (0..3).chain(10..20).collect();
        assert_eq!(numbers(&mut world), expected);
        assert!(world.partition.publish(7, &[stage]), "it is complete");
        world.settle();
        assert_eq!(stage_files(&world), 0);
        assert_eq!(
            (
                world.partition.stages_count(),
                world.partition.staged_bytes()
            ),
            (0, 0)
        );
        world.crash(Crash::Power);
        assert_eq!(numbers(&mut world), expected, "published is on the device");
        assert_eq!(world.partition.applied(), 7);
        assert!(world.partition.publish(7, &[stage]));
        world.append(&some(3..4, 100)).expect("appended");
        world.restart();
        assert_eq!(numbers(&mut world).len(), 14);
    }
}

/// A chunk whose response was lost can be sent again; a chunk that leaves a gap or follows the end is refused.
#[test]
fn chunks_come_in_order_and_may_be_repeated() {
    let mut world = World::new(config(Durability::Os));
    let (stage, ..) = staged(world.stage_chunk(None, 0, false, &some(0..2, 10)));
    let first = Some(stage);
    assert_eq!(
        world.stage_chunk(first, 2, false, &some(4..6, 10)),
        Err(PartitionError::StageOutOfOrder { expected: 1 })
    );
    assert_eq!(
        world.stage_chunk(None, 1, false, &some(4..6, 10)),
        Err(PartitionError::StageOutOfOrder { expected: 0 })
    );
    assert_eq!(
        world.stage_chunk(Some(StageId(stage.0 + 1)), 1, false, &[]),
        Err(PartitionError::StageNotFound)
    );
    let again = world.stage_chunk(first, 0, false, &some(0..2, 10));
    assert_eq!(staged(again).1, 2);
    // Two chunks in flight at once, and a last one without messages.
    let request_ids = [
        world.submit_chunk(first, 1, false, &some(2..4, 10)),
        world.submit_chunk(first, 2, true, &[]),
        world.submit_chunk(first, 2, true, &[]),
    ];
    for request_id in request_ids {
        assert_eq!(staged(world.wait_for(request_id)).1, 4);
    }
    assert_eq!(
        world.stage_chunk(first, 3, false, &some(4..6, 10)),
        Err(PartitionError::StageOutOfOrder { expected: 3 })
    );
    assert_eq!(
        world.stage_chunk(first, 1, true, &some(2..4, 10)),
        Err(PartitionError::StageOutOfOrder { expected: 3 }),
        "it was not the last"
    );
    let malformed = world.ask(headrace_partition::Request::Stage {
        stage: None,
        lifetime_micros: 1,
        chunk: 0,
        is_last: true,
        batch: headrace_partition::Batch::copied(&[0; 70], 1),
    });
    assert_eq!(malformed, Err(PartitionError::MalformedBatch));
    world.publish(1, &[stage]);
    assert_eq!(numbers(&mut world), [0, 1, 2, 3]);
}

/// An incomplete stage, never acknowledged as complete, is dropped.
#[test]
fn an_incomplete_stage_does_not_outlive_its_process() {
    for crash in [Crash::Kill, Crash::Power] {
        let mut world = World::new(config(Durability::Os));
        let (stage, ..) = staged(world.stage_chunk(None, 0, false, &some(0..2, 5000)));
        world.crash(crash);
        world.settle();
        assert_eq!(
            (stage_files(&world), world.partition.stages_count()),
            (0, 0)
        );
        assert_eq!(
            world.stage_chunk(Some(stage), 1, true, &[]),
            Err(PartitionError::StageNotFound)
        );
        let published = world.publish(3, &[stage]);
        assert_eq!((published.stages_missing, published.messages_count), (1, 0));
        assert_eq!(world.partition.applied(), 3);
    }
}

/// Too many stages, too large a stage, and too much in total are refused before anything is taken.
#[test]
fn stages_are_bounded() {
    let mut world = World::new(PartitionConfig {
        stages: StageLimits {
            count_max: 3,
            stage_bytes_max: 2000,
            bytes_max: 3000,
            lifetime_micros_max: 1000,
        },
        ..config(Durability::Os)
    });
    let stage = world.stage(&some(0..10, 100));
    assert_eq!(stage.expires_at(), Timestamp(world.now.0 + 1000));
    let (other, ..) = staged(world.stage_chunk(None, 0, false, &some(0..1, 10)));
    assert_eq!(
        world.stage_chunk(Some(other), 1, false, &some(0..20, 100)),
        Err(PartitionError::StageTooLarge)
    );
    assert_eq!(
        world.stage_chunk(Some(other), 1, false, &some(0..10, 100)),
        Err(PartitionError::StagesExhausted)
    );
    world.stage(&[]);
    assert_eq!(
        world.stage_chunk(None, 0, true, &[]),
        Err(PartitionError::StagesExhausted)
    );
    assert!(world.partition.staged_bytes() <= 3000);
    world.restart();
    assert_eq!(world.partition.stages_count(), 2);
    assert!(world.partition.drop_stages(&[stage]));
    world.settle();
    world.stage(&some(0..10, 100));
}

/// Expired stages that are not named, and aborted ones, are dropped; stages being published never are.
#[test]
fn stages_that_can_no_longer_be_committed_are_dropped() {
    let mut world = World::new(config(Durability::Os));
    let early = world.stage(&some(0..1, 10));
    let (open, ..) = staged(world.stage_chunk(None, 0, false, &some(0..1, 10)));
    world.pass(1000);
    let late = world.stage(&some(1..2, 10));
    let given_up = world.stage(&some(2..3, 10));
    let horizon = early.expires_at();
    assert!(
        !world
            .partition
            .drop_expired_stages(Timestamp(horizon.0 - 1), |_| false)
    );
    assert!(
        world
            .partition
            .drop_expired_stages(horizon, |id| id == early)
    );
    assert!(world.partition.drop_stages(&[given_up]));
    world.settle();
    assert_eq!(world.partition.stages_count(), 2);
    assert_eq!(
        world.stage_chunk(Some(open), 1, true, &[]),
        Err(PartitionError::StageNotFound)
    );
    assert!(!world.partition.publish(1, &[early, late]));
    assert!(!world.partition.drop_stages(&[early, late]));
    assert!(
        !world
            .partition
            .drop_expired_stages(late.expires_at(), |_| false)
    );
    world.settle();
    assert_eq!(numbers(&mut world), [0, 1]);
    assert_eq!(stage_files(&world), 0);
}

/// Wherever publishing is interrupted, with concurrent appends: each message is published once, in order, without gaps.
#[test]
fn publishing_is_complete_wherever_it_is_interrupted() {
    for durability in Durability::ALL {
        for crash in [Crash::Kill, Crash::Power] {
            for steps in 0..40 {
                let mut world = World::new(PartitionConfig {
                    segment_size_bytes: 1500,
                    ..config(durability)
                });
                world.append(&some(0..3, 100)).expect("appended");
                world
                    .ask(headrace_partition::Request::Flush { fsync: true })
                    .expect("flushed");
                let one = world.stage(&some(10..20, 100));
                let two = world.stage(&some(20..25, 100));
                world.is_shuffled = true;
                world.partition.publish(1, &[one]);
                world.partition.publish(2, &[two]);
                world.end_of_turn();
                for step in 0..steps {
                    world.step();
                    if step % 3 == 0 {
                        world.submit_in_place(&[sent(100 + step, 100)]);
                        world.end_of_turn();
                    }
                }
                world.crash(crash);
                let applied = world.partition.applied();
                for (number, stage) in [(1, one), (2, two)] {
                    if number > applied {
                        world.partition.publish(number, &[stage]);
                    }
                }
                world.settle_in_time(|partition| partition.applied() == 2);
                world.settle();
                let found = numbers(&mut world);
                for (first, end) in [(10, 20), (20, 25)] {
                    let at = found.iter().position(|number| *number == first);
                    let at = at.expect("it is published");
                    let expected: Vec<u64> = (first..end).collect();
                    assert_eq!(found[at..at + expected.len()], expected, "{steps} steps");
                    let copies = found.iter().filter(|number| (first..end).contains(number));
                    assert_eq!(copies.count(), expected.len(), "{steps} steps: {found:?}");
                }
                // A loss of power may undo a removal.
                (world.partition).drop_expired_stages(Timestamp(u64::MAX), |_| false);
                world.settle();
                assert_eq!(stage_files(&world), 0);
            }
        }
    }
}

/// A stage of many reads, with a message larger than one read, is published through a queue smaller than the stage.
#[test]
fn a_large_stage_takes_little_memory() {
    let mut world = World::new(PartitionConfig {
        queue_bytes_max: 4 << 20,
        tail_cache_bytes: 0,
        ..config(Durability::Fsync)
    });
    let mut stage = None;
    for chunk in 0..12 {
        let length = if chunk == 5 { 2_500_000 } else { 300_000 };
        let first = u64::from(chunk) * 4;
        let answer = world.stage_chunk(stage, chunk, chunk == 11, &some(first..first + 4, length));
        stage = Some(staged(answer).0);
    }
    let stage = stage.expect("staged");
    world.restart();
    world.partition.publish(1, &[stage]);
    world.end_of_turn();
    let mut largest = 0;
    while world.partition.applied() == 0 {
        for operation in world.operations_under_way() {
            if let StorageOperation::Read { length, .. } = operation {
                largest = largest.max(*length);
            }
        }
        assert!(!world.partition.has_room_for(1) || world.partition.next_offset() == Offset(48));
        assert!(world.partition.memory_bytes() <= 16 << 20);
        world.step();
    }
    assert!((2_500_000..2_600_000).contains(&largest), "{largest}");
    let mut found = Vec::new();
    while found.len() < 48 {
        let polled = world.poll(PollingStrategy::Offset(found.len() as u64), 4);
        found.extend(offsets(&polled));
    }
    assert_eq!(found, (0..48).collect::<Vec<_>>());
}

/// During a publication, other appends are held or refused, and continue afterwards.
#[test]
fn appends_of_others_wait_for_a_publication() {
    let mut world = World::new(config(Durability::Os));
    let stage = world.stage(&some(0..5, 10));
    assert!(world.partition.has_room_for(100));
    world.partition.publish(1, &[stage]);
    world.end_of_turn();
    assert!(!world.partition.has_room_for(100));
    for _ in 0..2 {
        let request_id = world.submit_in_place(&[sent(9, 10)]);
        assert_eq!(
            world.take_answer(request_id),
            Some(Err(PartitionError::Busy))
        );
    }
    world.settle();
    world.append(&[sent(9, 10)]).expect("appended");
    assert_eq!(numbers(&mut world), [0, 1, 2, 3, 4, 9]);
}

/// A purge drops publications committed before it, published or not; stages committed later survive it.
#[test]
fn a_purge_takes_what_was_committed_before() {
    for crash in [None, Some(Crash::Kill), Some(Crash::Power)] {
        for steps in 0..25 {
            let mut world = World::new(config(Durability::Os));
            world.append(&some(0..3, 100)).expect("appended");
            let before = world.stage(&some(10..20, 100));
            let waiting = world.stage(&some(20..30, 100));
            let after = world.stage(&some(30..40, 100));
            world.is_shuffled = true;
            world.partition.publish(1, &[before]);
            world.partition.publish(2, &[waiting]);
            world.end_of_turn();
            for _ in 0..steps {
                world.step();
            }
            world.purge();
            for _ in 0..steps / 2 {
                world.step();
            }
            if let Some(crash) = crash {
                world.crash(crash);
            }
            // The catalog has dropped the publications that preceded the purge.
            world.partition.publish(4, &[after]);
            world.settle_in_time(|partition| partition.applied() == 4);
            world.settle();
            assert_eq!(
                numbers(&mut world),
                (30..40).collect::<Vec<_>>(),
                "{steps} steps"
            );
            if crash.is_none() {
                let results: Vec<u64> = world
                    .published
                    .iter()
                    .map(|published| published.number)
                    .collect();
                assert_eq!(results, [1, 2, 4]);
                assert_eq!(stage_files(&world), 0);
            }
            world.restart();
            assert_eq!(numbers(&mut world), (30..40).collect::<Vec<_>>());
            assert_eq!(world.partition.applied(), 4);
        }
    }
}

/// A damaged stage is reported, and its intact part is published; the partition stays in service.
#[test]
fn damaged_stages_are_reported() {
    let mut world = World::new(config(Durability::Os));
    let mut stage = None;
    for chunk in 0..3 {
        let first = u64::from(chunk) * 2;
        let answer = world.stage_chunk(stage, chunk, chunk == 2, &some(first..first + 2, 1000));
        stage = Some(staged(answer).0);
    }
    let stage = stage.expect("staged");
    let whole = world.stage(&some(10..12, 100));
    let gone = world.stage(&some(20..22, 100));
    world.close();
    world
        .disk
        .flip(FileName::Stage(stage), 48 + 16 + 2 * 1064 + 500);
    world.disk.lose(FileName::Stage(gone));
    world.crash(Crash::Kill);
    let published = world.publish(1, &[stage, whole, gone]);
    assert_eq!(published.stages_missing, 2);
    assert_eq!(numbers(&mut world), [0, 1, 10, 11]);
    world.append(&[sent(30, 10)]).expect("appended");
    world.restart();
    assert_eq!(numbers(&mut world), [0, 1, 10, 11, 30]);
}

/// The record of publications is required for opening: without it some could be published twice.
#[test]
fn a_partition_that_does_not_know_what_is_published_is_closed() {
    let mut world = World::new(config(Durability::Os));
    let stage = world.stage(&some(0..2, 10));
    world.publish(1, &[stage]);
    world.settle();
    world.close();
    world.disk.flip(FileName::Transactions, 30);
    world.crash(Crash::Kill);
    let failure = world.partition.failure().expect("a failure");
    assert!(
        !failure.readable && failure.reason.contains("transactions is damaged"),
        "{failure}"
    );
    world.purge();
    world.settle();
    let stage = world.stage(&some(5..7, 10));
    world.publish(3, &[stage]);
    world.restart();
    assert_eq!(numbers(&mut world), [5, 6]);
}

/// A stage that lacks space is refused, with no other effect; a publication waits for space.
#[test]
fn a_full_disk_takes_stages_first() {
    let mut world = World::new(config(Durability::Os));
    world.append(&some(0..2, 10)).expect("appended");
    let stage = world.stage(&some(10..12, 10));
    world.disk.full = true;
    let refused = world.stage_chunk(None, 0, true, &some(5..6, 10));
    assert!(
        matches!(&refused, Err(PartitionError::Store { source, .. }) if source.kind == StorageErrorKind::NoSpace),
        "{refused:?}"
    );
    assert_eq!(world.partition.failure(), None);
    world.disk.full = false;
    world.append(&some(2..3, 10)).expect("appended");
    world.disk.full = true;
    world.partition.publish(1, &[stage]);
    world.settle();
    for _ in 0..3 {
        world.pass(1_000_000);
        world.settle();
        assert_eq!(world.partition.applied(), 0);
        assert!(world.append(&some(9..10, 10)).is_err());
    }
    world.disk.full = false;
    world.settle_in_time(|partition| partition.applied() == 1);
    world.settle_in_time(|partition| partition.failure().is_none());
    world.append(&some(3..4, 10)).expect("appended");
    let expected = [0, 1, 2, 10, 11, 3];
    assert_eq!(numbers(&mut world), expected);
    world.restart();
    assert_eq!(numbers(&mut world), expected);
    assert_eq!(stage_files(&world), 0);
}

/// A purge does not wait for a publication that lacks space.
#[test]
fn a_purge_ends_a_shortage() {
    let mut world = World::new(config(Durability::Os));
    world.append(&some(0..2, 10)).expect("appended");
    let stage = world.stage(&some(10..12, 10));
    world.disk.faults.push(Fault::NoRoom);
    world.partition.publish(1, &[stage]);
    world.end_of_turn();
    world.purge();
    world.step();
    assert!(world.partition.failure().is_some());
    world.settle_in_time(|partition| partition.failure().is_none());
    world.settle_in_time(|partition| partition.applied() == 1);
    world.append(&some(20..22, 10)).expect("appended");
    assert_eq!(numbers(&mut world), [20, 21]);
}

/// A lack of memory or handles delays stages and publications, and breaks nothing.
#[test]
fn exhausted_resources_only_delay_stages() {
    for failing in 0..20 {
        let mut world = World::new(config(Durability::Os));
        world.settle();
        world
            .disk
            .faults
            .extend(vec![Fault::Exhausted; failing % 5 + 1]);
        let stage = world.stage(&some(0..5, 10));
        world.disk.faults.extend(vec![Fault::Exhausted; failing]);
        world.partition.publish(1, &[stage]);
        world.settle_in_time(|partition| partition.applied() == 1);
        world.disk.faults.extend(vec![Fault::Exhausted; failing]);
        world.close();
        world.disk.faults.extend(vec![Fault::Exhausted; failing]);
        world.reopen_without_settling();
        world.settle_in_time(headrace_partition::Partition::is_open);
        world.disk.faults.clear();
        assert_eq!(numbers(&mut world), [0, 1, 2, 3, 4]);
        assert_eq!(world.partition.applied(), 1);
    }
}

/// A failed sync loses one stage and nothing else.
#[test]
fn a_stage_that_cannot_be_synced_is_refused() {
    let mut world = World::new(config(Durability::Os));
    world.settle();
    world.disk.faults.push(Fault::Sync);
    let refused = world.stage_chunk(None, 0, true, &some(0..2, 10));
    assert!(
        matches!(refused, Err(PartitionError::Store { .. })),
        "{refused:?}"
    );
    world.settle();
    assert_eq!(
        (stage_files(&world), world.partition.stages_count()),
        (0, 0)
    );
    world.append(&some(0..2, 10)).expect("appended");
}

/// Ids are reused: stages and publications of an earlier partition do not affect a later one.
#[test]
fn stages_of_another_incarnation_are_dropped() {
    let mut world = World::new(config(Durability::Os));
    let published = world.stage(&some(0..2, 10));
    world.publish(9, &[published]);
    let stage = world.stage(&some(10..12, 10));
    world.close();
    world.config.incarnation += 1;
    world.crash(Crash::Kill);
    world.settle();
    assert_eq!((stage_files(&world), world.partition.applied()), (0, 0));
    assert_eq!(world.publish(1, &[stage]).stages_missing, 1);
    let stage = world.stage(&some(20..22, 10));
    world.publish(2, &[stage]);
    world.restart();
    assert_eq!(numbers(&mut world), [20, 21]);
    assert_eq!(world.partition.applied(), 2);
}

/// A partition being closed answers all stage requests, and resumes a publication when it is opened again.
#[test]
fn closing_leaves_a_publication_for_later() {
    for steps in 0..12 {
        let mut world = World::new(config(Durability::Memory));
        let stage = world.stage(&some(0..5, 10));
        world.partition.publish(1, &[stage]);
        let request_id = world.submit_chunk(None, 0, true, &some(10..11, 10));
        world.end_of_turn();
        for _ in 0..steps {
            world.step();
        }
        world.close();
        assert!(world.take_answer(request_id).is_some());
        world.crash(Crash::Power);
        if world.partition.applied() == 0 {
            world.partition.publish(1, &[stage]);
        }
        world.settle_in_time(|partition| partition.applied() == 1);
        assert_eq!(numbers(&mut world), [0, 1, 2, 3, 4], "{steps} steps");
    }
}
