//! Full disk: the partition is read-only until there is space again, and nothing is lost (LOG-14).

use headrace_model::{Durability, Offset};
use headrace_partition::storage::FileName;
use headrace_partition::{
    ConsumerKey, PartitionConfig, PartitionError, PollingStrategy, Request, Response,
};

use crate::support::disk::Crash;
use crate::support::messages::{offsets, sent};
use crate::support::world::{World, config};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);
fn is_failed<T>(answer: &Result<T, PartitionError>) -> bool {
    matches!(answer, Err(PartitionError::Failed(_)))
}

/// Let seconds pass while the disk stays full.
fn stay_full(world: &mut World) {
    for _ in 0..3 {
        world.pass(1_000_000);
        world.settle();
        let failure = world.partition.failure().expect("a failure").to_string();
        assert!(
            failure.contains("read-only") && failure.contains("no space is left"),
            "{failure}"
        );
    }
}

fn get_room(world: &mut World) {
    world.disk.full = false;
    world.settle_in_time(|partition| partition.failure().is_none());
}

/// LOG-14: a full disk at the first message, in the middle of a segment, or at its end. Refused requests get an error,
/// and existing messages keep their offsets.
#[test]
fn messages_are_taken_again_when_there_is_room() {
    for durability in Durability::ALL {
        for before in 0..4 {
            let mut world = World::new(PartitionConfig {
                segment_size_bytes: 1000,
                ..config(durability)
            });
            for number in 0..before {
                world.append(&[sent(number, 400)]).expect("appended");
                world.ask(Request::Flush { fsync: false }).expect("written");
            }
            world.settle();
            world.disk.full = true;
            let appended = world.append(&[sent(before, 400)]);
            if durability == Durability::Memory {
                appended.expect("in memory");
                assert!(is_failed(&world.ask(Request::Flush { fsync: false })));
            } else {
                assert!(is_failed(&appended));
            }
            stay_full(&mut world);
            assert!(is_failed(&world.append(&[sent(99, 400)])));
            assert!(is_failed(&world.store(ALICE, 0)) || before == 0);
            get_room(&mut world);
            world.append(&[sent(before + 1, 400)]).expect("appended");
            let expected: Vec<u64> = (0..before + 2).collect();
            assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), expected);
            world.store(ALICE, before).expect("stored");
            world.ask(Request::Flush { fsync: true }).expect("written");
            world.crash(Crash::Kill);
            assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), expected);
        }
    }
}

/// Stored offsets that lacked space are written once there is space, even after a partial record.
#[test]
fn offsets_are_stored_again_when_there_is_room() {
    for (durability, before) in [
        (Durability::Os, 0),
        (Durability::Os, 2),
        (Durability::Fsync, 2),
    ] {
        let mut world = World::new(config(durability));
        for number in 0..4 {
            world.append(&[sent(number, 10)]).expect("appended");
        }
        for offset in 0..before {
            world.store(ALICE, offset).expect("stored");
        }
        world.settle();
        world.disk.full = true;
        assert!(is_failed(&world.store(ALICE, 2)));
        stay_full(&mut world);
        assert!(is_failed(&world.append(&[sent(99, 10)])));
        get_room(&mut world);
        world
            .store(ConsumerKey::Group(7), 3)
            .expect("stored with the other");
        world.crash(Crash::Kill);
        assert_eq!(world.stored(ALICE), Some(2));
        assert_eq!(world.stored(ConsumerKey::Group(7)), Some(3));
        assert_eq!(
            offsets(&world.poll(PollingStrategy::First, 10)),
            [0, 1, 2, 3]
        );
    }
}

/// LOG-15: a partition that is opened on a full disk, with a file of offsets to be corrected, serves what it has. The
/// file is corrected before new messages are taken.
#[test]
fn a_start_without_room_corrects_the_offsets_later() {
    for durability in [Durability::Os, Durability::Fsync] {
        let mut world = World::new(config(durability));
        for number in 0..4 {
            world.append(&[sent(number, 10)]).expect("appended");
        }
        for offset in 1..3 {
            world.store(ALICE, offset).expect("stored");
        }
        world.close();
        world.reopen_with(|world| {
            let length = world.disk.content(FileName::Offsets).len();
            world.disk.truncate(FileName::Offsets, length - 1);
            world.disk.full = true;
        });
        assert!(world.partition.is_open());
        assert_eq!(world.stored(ALICE), Some(1));
        assert_eq!(
            offsets(&world.poll(PollingStrategy::First, 10)),
            [0, 1, 2, 3]
        );
        assert!(is_failed(&world.append(&[sent(99, 10)])));
        stay_full(&mut world);
        assert!(is_failed(&world.append(&[sent(99, 10)])));
        get_room(&mut world);
        assert_eq!(world.disk.content(FileName::Offsets).len(), 24);
        world.append(&[sent(4, 10)]).expect("appended");
        world.crash(Crash::Kill);
        assert_eq!(world.notices, [], "corrected for good");
        assert_eq!(world.stored(ALICE), Some(1));
        assert_eq!(
            offsets(&world.poll(PollingStrategy::First, 10)),
            [0, 1, 2, 3, 4]
        );
    }
}

/// The oldest segments can be removed during a shortage, which frees space.
#[test]
fn segments_are_removed_to_make_room() {
    let mut world = World::with_small_segments(8, 400);
    world.disk.full = true;
    assert!(is_failed(&world.append(&[sent(8, 400)])));
    stay_full(&mut world);
    world
        .ask(Request::DeleteSegments { count: 1 })
        .expect("removed");
    let first = world.partition.first_offset().0;
    assert!(first > 0);
    world.disk.full = false;
    world.settle();
    assert_eq!(world.partition.failure(), None, "nothing was waited for");
    let expected: Vec<u64> = (first..9).collect();
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), expected);
}

/// A purge waits for space for the manifest, also across a kill. Meanwhile it removes index files, which frees some.
#[test]
fn a_purge_waits_for_room() {
    let index = FileName::Index(Offset(0));
    for is_killed in [false, true] {
        let mut world = World::with_small_segments(4, 400);
        world.store(ALICE, 2).expect("stored");
        world.settle();
        assert!(world.disk.files().contains(&index));
        world.disk.full = true;
        world.purge();
        world.settle();
        stay_full(&mut world);
        let files = world.disk.files();
        assert!(!files.contains(&index) && files.contains(&FileName::Log(Offset(0))));
        if is_killed {
            world.crash(Crash::Kill);
            stay_full(&mut world);
        }
        assert!(is_failed(&world.append(&[sent(99, 10)])));
        assert_eq!(world.poll(PollingStrategy::First, 10).messages_count, 0);
        get_room(&mut world);
        world.settle();
        assert_eq!(world.disk.files(), [FileName::Manifest]);
        assert_eq!(world.stored(ALICE), None);
        let expected = Response::Appended {
            base_offset: Offset(0),
            messages_count: 1,
        };
        assert_eq!(world.append(&[sent(100, 10)]), Ok(expected));
        world.crash(Crash::Kill);
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
    }
}

/// Only derived files are removed before the manifest states the purge: without the purge, all messages are found.
#[test]
fn a_purge_without_room_drops_only_what_is_derived() {
    let mut world = World::with_small_segments(8, 400);
    world.disk.full = true;
    world.purge();
    world.settle();
    stay_full(&mut world);
    world.config.purge_epoch -= 1;
    world.disk.full = false;
    world.crash(Crash::Kill);
    assert_eq!(
        offsets(&world.poll(PollingStrategy::First, 10)),
        (0..8).collect::<Vec<_>>()
    );
}

/// A running partition waits for space; a closing one does not.
#[test]
fn a_stop_does_not_wait_for_room() {
    for durability in Durability::ALL {
        let mut world = World::new(config(durability));
        world.append(&[sent(0, 10)]).expect("appended");
        world.ask(Request::Flush { fsync: true }).expect("written");
        world.disk.full = true;
        let _ = world.append(&[sent(1, 10)]);
        let _ = world.ask(Request::Flush { fsync: false });
        stay_full(&mut world);
        world.close();
        world.disk.full = false;
        world.crash(Crash::Kill);
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
    }
}

/// Messages in memory only are written when the partition closes, if there is space again.
#[test]
fn a_stop_takes_the_room_that_there_is() {
    let mut world = World::new(config(Durability::Memory));
    world.append(&[sent(0, 10)]).expect("appended");
    world.disk.full = true;
    assert!(is_failed(&world.ask(Request::Flush { fsync: false })));
    world.disk.full = false;
    world.close();
    world.crash(Crash::Kill);
    assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0]);
}
