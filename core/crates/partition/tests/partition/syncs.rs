//! Failed syncs: messages and stages that the cache still has, and the device does not, are not taken for durable.

use fastrand::Rng;
use headrace_model::{Durability, Offset, StageId};
use headrace_partition::storage::{FileName, StorageOperation};
use headrace_partition::{PartitionError, PollingStrategy, Request, Response};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{Sent, got, offsets, sent};
use crate::support::world::{World, config};

const LOG: FileName = FileName::Log(Offset(0));
const INDEX: FileName = FileName::Index(Offset(0));

fn some(numbers: std::ops::Range<u64>, length: usize) -> Vec<Sent> {
    numbers.map(|number| sent(number, length)).collect()
}

/// A log with one message on the device, and those that a failed sync has lost behind it.
fn with_lost_messages(durability: Durability, seed: u64) -> World {
    let mut world = World::new(config(durability));
    world.random = Rng::with_seed(seed);
    world.append(&[sent(0, 100)]).expect("appended");
    let flush = || Request::Flush { fsync: true };
    world.ask(flush()).expect("flushed");
    world.disk.faults.push(Fault::Sync);
    let appended = world.append(&some(1..21, 1000));
    assert_eq!(appended.is_err(), durability == Durability::Fsync);
    let flushed = world.ask(flush());
    assert!(matches!(flushed, Err(PartitionError::Failed(_))));
    assert_eq!(world.disk.content(LOG).len(), 164 + 20 * 1064);
    world
}

/// LOG-11: messages behind those that a failed sync has lost survive a loss of power, because the lost ones are not
/// found again.
#[test]
fn messages_lost_by_a_failed_sync_are_not_found_again() {
    for durability in Durability::ALL {
        for seed in 0..20 {
            let mut world = with_lost_messages(durability, seed);
            if seed % 2 == 0 {
                world.crash(Crash::Kill);
            } else {
                world.restart();
            }
            assert_eq!(offsets(&world.poll(PollingStrategy::First, 100)), [0]);
            let last = sent(50, 300);
            let appended = world.append(std::slice::from_ref(&last));
            let Ok(Response::Appended { base_offset, .. }) = appended else {
                panic!("not appended: {appended:?}");
            };
            world.ask(Request::Flush { fsync: true }).expect("flushed");
            world.settle();
            if world.disk.files().contains(&INDEX) {
                world.disk.set_content(INDEX, Vec::new());
            }
            world.crash(Crash::Power);
            let polled = world.poll(PollingStrategy::Offset(base_offset.0), 1);
            let found = got(&polled);
            assert_eq!(found.len(), 1, "{durability:?}, seed {seed}");
            assert_eq!(found[0].offset, base_offset.0);
            assert_eq!(found[0].payload, last.payload);
        }
    }
}

/// LOG-12: a first message that was cut off does not identify the log, whose next first message is another one.
#[test]
fn a_lost_first_message_identifies_no_log() {
    let harms: [fn(&mut World); 3] = [
        |_| {},
        |world| world.disk.lose(FileName::Manifest),
        |world| {
            world.disk.truncate(LOG, 100);
            world.disk.lose(FileName::Manifest);
        },
    ];
    for harm in harms {
        let mut world = World::new(config(Durability::Fsync));
        world.disk.faults.push(Fault::Sync);
        assert!(world.append(&[sent(0, 100)]).is_err());
        harm(&mut world);
        world.crash(Crash::Kill);
        // A manifest that is rebuilt is written before the next message is.
        world.settle();
        world.append(&[sent(1, 100)]).expect("appended");
        world.crash(Crash::Power);
        let found = got(&world.poll(PollingStrategy::First, 10));
        let payloads: Vec<_> = found.into_iter().map(|it| it.payload).collect();
        assert_eq!(payloads, [sent(1, 100).payload], "{:?}", world.notices);
    }
}

/// LOG-14: a scan that begins again before the position that a wrong index gave does not find lost messages either.
#[test]
fn lost_messages_before_a_wrong_index_entry_are_not_found_again() {
    let mut other = World::new(config(Durability::Fsync));
    for number in 0..30 {
        other.append(&[sent(number, 500)]).expect("appended");
    }
    other.close();
    let index = other.disk.content(INDEX).to_vec();
    let mut world = with_lost_messages(Durability::Fsync, 1);
    world.disk.set_content(INDEX, index);
    world.crash(Crash::Kill);
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 100)), [0]);
}

/// LOG-11: a log that cannot be synced is not opened until a sync succeeds.
#[test]
fn a_failed_sync_while_opening_puts_the_partition_out_of_service() {
    for durability in Durability::ALL {
        let mut world = World::new(config(durability));
        world.append(&some(0..5, 100)).expect("appended");
        world.close();
        world.reopen_with(|world| world.disk.faults.push(Fault::Sync));
        let failure = world.partition.failure().expect("a failure");
        assert!(!failure.readable, "{failure}");
        world.restart();
        let polled = world.poll(PollingStrategy::First, 100);
        assert_eq!(offsets(&polled), [0, 1, 2, 3, 4]);
        world.append(&some(5..6, 100)).expect("appended");
    }
}

/// Stage messages until the last sync is under way.
fn stage_up_to_the_last_sync(world: &mut World) -> StageId {
    world.settle();
    world.submit_chunk(None, 0, true, &some(0..2, 100));
    world.end_of_turn();
    let is_sync = |operation: &StorageOperation| matches!(operation, StorageOperation::Sync { .. });
    for _ in 0..2 {
        world.step();
        while !world.operations_under_way().any(is_sync) {
            assert!(world.step());
        }
    }
    let stage = world.disk.files().into_iter().find_map(|file| match file {
        FileName::Stage(stage) => Some(stage),
        _ => None,
    });
    stage.expect("its file exists")
}

fn assert_never_staged(world: &mut World, stage: StageId) {
    for _ in 0..3 {
        let repeated = world.stage_chunk(Some(stage), 0, true, &some(0..2, 100));
        assert!(
            matches!(repeated, Err(PartitionError::Store { .. })),
            "{repeated:?}"
        );
    }
}

/// A stage that was found at the start is acknowledged once it is on the device, and survives a loss of power.
#[test]
fn a_stage_that_is_found_is_synced_before_it_is_acknowledged() {
    for seed in 0..10 {
        let mut world = World::new(config(Durability::Os));
        let stage = stage_up_to_the_last_sync(&mut world);
        world.random = Rng::with_seed(seed);
        world.crash(Crash::Kill);
        let repeated = world.stage_chunk(Some(stage), 0, true, &some(0..2, 100));
        assert!(
            matches!(repeated, Ok(Response::Staged { .. })),
            "{repeated:?}"
        );
        world.crash(Crash::Power);
        assert_eq!(world.publish(1, &[stage]).messages_count, 2);
    }
}

/// A stage whose sync failed is never acknowledged, but published if its transaction was committed.
#[test]
fn a_stage_that_is_found_and_cannot_be_synced_is_never_acknowledged() {
    for is_committed in [false, true] {
        let mut world = World::new(config(Durability::Os));
        let stage = stage_up_to_the_last_sync(&mut world);
        world.crash(Crash::Kill);
        world.disk.faults.push(Fault::Sync);
        assert_never_staged(&mut world, stage);
        if is_committed {
            assert_eq!(world.publish(1, &[stage]).messages_count, 2);
        }
        world.append(&some(5..6, 10)).expect("appended");
    }
}

/// The sync of the process before failed, and the process was killed before it removed the stage.
#[test]
fn a_stage_whose_sync_failed_earlier_is_never_acknowledged() {
    let mut found = 0;
    for seed in 0..20 {
        let mut world = World::new(config(Durability::Os));
        let stage = stage_up_to_the_last_sync(&mut world);
        world.disk.faults.push(Fault::Sync);
        world.step();
        world.random = Rng::with_seed(seed);
        world.crash(Crash::Kill);
        if world.partition.stages_count() == 0 {
            continue;
        }
        found += 1;
        if seed % 2 == 0 {
            assert_never_staged(&mut world, stage);
        } else {
            let repeated = world.submit_chunk(Some(stage), 0, true, &some(0..2, 100));
            world.partition.publish(1, &[stage]);
            world.settle_in_time(|partition| partition.applied() == 1);
            assert!(matches!(world.take_answer(repeated), Some(Err(_))));
            let polled = world.poll(PollingStrategy::First, 100);
            assert_eq!(offsets(&polled), [0, 1]);
        }
    }
    assert!(found > 5, "{found} of 20 stages were found again");
}
