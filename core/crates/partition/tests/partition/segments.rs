//! Segments: sealing, removal, and reads from them.

use headrace_model::{Durability, Offset};
use headrace_partition::storage::{ALLOCATE_STEP_BYTES, FileName, StorageOperation};
use headrace_partition::{
    ConsumerKey, IndexCaching, PartitionConfig, PollingStrategy, Request, Response,
};

use crate::support::messages::{batch, offsets, sent};
use crate::support::world::{World, config};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);

fn small_segments(durability: Durability) -> PartitionConfig {
    PartitionConfig {
        segment_size_bytes: 10_000,
        ..config(durability)
    }
}

fn logs(world: &World) -> Vec<u64> {
    let logs = world
        .disk
        .files()
        .into_iter()
        .filter_map(|file| match file {
            FileName::Log(Offset(base)) => Some(base),
            _ => None,
        });
    logs.collect()
}

/// Segments of 10,000 bytes: three batches of four messages fill one.
fn filled(durability: Durability, batches: u64) -> World {
    let mut world = World::new(small_segments(durability));
    for batch in 0..batches {
        let messages: Vec<_> = (0..4).map(|index| sent(batch * 4 + index, 1000)).collect();
        world.append(&messages).expect("appended");
    }
    world.settle();
    world
}

/// LOG-2: a segment is sealed when it is full; the batch that fills it stays in it as a whole.
#[test]
fn a_full_segment_is_sealed_and_the_next_one_begins() {
    for durability in Durability::ALL {
        let mut world = filled(durability, 7);
        assert_eq!(
            world.ask(Request::Flush { fsync: true }),
            Ok(Response::Done)
        );
        world.settle();
        assert_eq!(logs(&world), [0, 12, 24]);
        assert_eq!(
            world.disk.content(FileName::Log(Offset(0))).len(),
            12 * 1064
        );
        assert!(world.disk.files().contains(&FileName::Index(Offset(12))));
        assert_eq!(world.statistics.segments_count(), 3);
        world.restart();
        assert_eq!(
            offsets(&world.poll(PollingStrategy::First, 100)),
            (0..28).collect::<Vec<_>>()
        );
        assert_eq!(world.statistics.segments_count(), 3);
    }
}

/// A new segment gets its first byte only when everything before it is on the device.
#[test]
fn a_new_segment_waits_for_the_sync_of_the_old_one() {
    let mut world = filled(Durability::Os, 2);
    let full = world.submit(Request::Append {
        batch: batch(&[sent(8, 3000)]),
    });
    let next = world.submit(Request::Append {
        batch: batch(&[sent(9, 10)]),
    });
    world.end_of_turn();
    let mut synced = false;
    while world.take_answer(next).is_none() {
        for operation in world.operations_under_way() {
            if let StorageOperation::Write {
                file: FileName::Log(Offset(9)),
                ..
            } = operation
            {
                assert!(synced, "written before the sync");
            }
        }
        let syncs_next = matches!(
            world.operations_under_way().next(),
            Some(StorageOperation::Sync {
                file: FileName::Log(Offset(0))
            })
        );
        assert!(world.step());
        synced |= syncs_next;
    }
    assert!(world.take_answer(full).is_some());
}

/// LOG-6, protocol 6.3: the oldest sealed segments are removed, the open one never is, and offsets are not renumbered.
#[test]
fn oldest_sealed_segments_are_removed() {
    let mut world = filled(Durability::Os, 10);
    assert_eq!(logs(&world), [0, 12, 24, 36]);
    assert_eq!(
        world.ask(Request::DeleteSegments { count: 2 }),
        Ok(Response::Done)
    );
    assert_eq!(logs(&world), [24, 36]);
    let polled = world.poll(PollingStrategy::First, 1);
    assert_eq!(
        (offsets(&polled), polled.current_offset),
        (vec![24], Offset(39))
    );
    assert_eq!(offsets(&world.poll(PollingStrategy::Offset(3), 1)), [24]);
    assert_eq!(
        world.ask(Request::DeleteSegments { count: 9 }),
        Ok(Response::Done)
    );
    assert_eq!(logs(&world), [36]);
    assert_eq!(
        world.ask(Request::DeleteSegments { count: 9 }),
        Ok(Response::Done)
    );
    assert_eq!(world.statistics.messages_count(), 4);
    assert_eq!(world.statistics.size_bytes(), 4 * 1064);
    world.restart();
    assert_eq!(
        offsets(&world.poll(PollingStrategy::First, 100)),
        [36, 37, 38, 39]
    );
    world.append(&[sent(0, 10)]).expect("appended");
    assert_eq!(offsets(&world.poll(PollingStrategy::Last, 1)), [40]);
}

/// A segment sealed just now, and not yet synced, is removed as soon as it is on the device.
#[test]
fn the_removal_of_a_segment_that_is_being_synced_waits() {
    let mut early = 0;
    for seed in 0..50 {
        let small = PartitionConfig {
            segment_size_bytes: 1000,
            ..config(Durability::Os)
        };
        let mut world = World::shuffled(small, seed);
        world.append(&[sent(0, 1000)]).expect("appended");
        world.append(&[sent(1, 10)]).expect("appended");
        early += u32::from(world.operations_under_way().next().is_some());
        let removal = world.submit(Request::DeleteSegments { count: 9 });
        world.end_of_turn();
        world.settle();
        assert_eq!(
            world.take_answer(removal),
            Some(Ok(Response::Done)),
            "{seed}"
        );
        assert_eq!(logs(&world), [1], "seed {seed}");
    }
    assert!(early > 0, "every removal came when nothing was under way");
}

/// Protocol 6.3: a segment is kept while a stored offset is smaller than its last offset.
#[test]
fn stored_offsets_keep_segments() {
    let mut world = filled(Durability::Os, 10);
    world.store(ALICE, 22).expect("stored");
    world.store(ConsumerKey::Group(1), 39).expect("stored");
    world
        .ask(Request::DeleteSegments { count: 9 })
        .expect("done");
    assert_eq!(logs(&world), [12, 24, 36]);
    world.store(ALICE, 23).expect("stored");
    world
        .ask(Request::DeleteSegments { count: 9 })
        .expect("done");
    assert_eq!(logs(&world), [24, 36]);
    world
        .ask(Request::DeleteOffset {
            consumer: ALICE,
            by: None,
        })
        .expect("done");
    world
        .ask(Request::DeleteSegments { count: 9 })
        .expect("done");
    assert_eq!(logs(&world), [36]);
}

/// LOG-15: a reader whose segment is removed continues with the first message retained.
#[test]
fn a_poll_survives_the_removal_of_its_segment() {
    let mut world = filled(Durability::Os, 10);
    world.restart();
    let request_id = world.submit(crate::support::world::poll(
        PollingStrategy::First,
        2,
        None,
        false,
    ));
    world
        .ask(Request::DeleteSegments { count: 1 })
        .expect("done");
    let answer = world.wait_for(request_id);
    let Ok(Response::Polled(polled)) = answer else {
        panic!("{answer:?}");
    };
    assert!(matches!(offsets(&polled)[..], [0, 1] | [12, 13]));
}

/// LOG-5: evicted indexes are loaded again, and the results of polls do not depend on it.
#[test]
fn polls_are_the_same_with_any_index_caching() {
    for index_caching in [
        IndexCaching::All,
        IndexCaching::OpenSegment,
        IndexCaching::None,
    ] {
        let mut world = World::new(PartitionConfig {
            index_caching,
            tail_cache_bytes: 0,
            segment_size_bytes: 300_000,
            ..config(Durability::Os)
        });
        for number in 0..1000 {
            world.append(&[sent(number, 2000)]).expect("appended");
            world.now.0 += 10;
        }
        world.restart();
        for offset in [999, 0, 500, 147, 600, 301, 0, 998] {
            assert_eq!(
                offsets(&world.poll(PollingStrategy::Offset(offset), 1)),
                [offset]
            );
            let timestamp = 1_000_000 + offset * 10;
            assert_eq!(
                offsets(&world.poll(PollingStrategy::Timestamp(timestamp), 1)),
                [offset]
            );
            world.append(&[sent(0, 10)]).expect("appended");
        }
    }
}

/// LOG-5, SHARD-12: if all readers are at the end, no index is loaded, and sealed segments still do not accumulate
/// memory for indexes.
#[test]
fn indexes_of_sealed_segments_are_bounded_without_a_load() {
    for (index_caching, is_bounded) in [
        (IndexCaching::OpenSegment, true),
        (IndexCaching::None, true),
        (IndexCaching::All, false),
    ] {
        let mut world = World::new(PartitionConfig {
            index_caching,
            segment_size_bytes: 300_000,
            ..config(Durability::Os)
        });
        let mut after_five = 0;
        for number in 0..3000 {
            world.append(&[sent(number, 2000)]).expect("appended");
            assert_eq!(offsets(&world.poll(PollingStrategy::Last, 1)), [number]);
            world.pass(2_000_000);
            world.settle();
            if number == 750 {
                after_five = world.partition.index_bytes();
            }
        }
        assert!(world.statistics.segments_count() > 18);
        let after_twenty = world.partition.index_bytes();
        assert_eq!(
            after_twenty <= after_five * 2,
            is_bounded,
            "{index_caching:?}: {after_five} bytes after five segments, {after_twenty} after twenty"
        );
        assert_eq!(offsets(&world.poll(PollingStrategy::Offset(10), 1)), [10]);
    }
}

/// Space is reserved ahead in steps, and released when the segment is sealed or closed.
#[test]
fn space_is_reserved_ahead_of_a_busy_writer_only() {
    let mut world = World::new(config(Durability::Os));
    let mut reserved = Vec::new();
    let mut trims = 0;
    for number in 0..50 {
        let request_id = world.submit(Request::Append {
            batch: batch(&[sent(number, 1_000_000)]),
        });
        world.end_of_turn();
        while world.take_answer(request_id).is_none() {
            world.step();
            for operation in world.operations_under_way() {
                if let StorageOperation::Allocate {
                    position, length, ..
                } = operation
                {
                    let step = (*position, *length);
                    if !reserved.contains(&step) {
                        reserved.push(step);
                    }
                }
            }
        }
        if number == 2 {
            assert!(reserved.is_empty(), "small segments get none");
        }
    }
    assert_eq!(reserved.len(), 2, "{reserved:?}");
    assert!(
        reserved
            .iter()
            .all(|(_, length)| *length == ALLOCATE_STEP_BYTES)
    );
    assert_eq!(reserved[0].0 + reserved[0].1, reserved[1].0);
    world.settle();
    let length = world.disk.content(FileName::Log(Offset(0))).len() as u64;
    world.close_in_steps(|operation| {
        if let StorageOperation::Truncate { length: cut, .. } = operation {
            assert_eq!(*cut, length);
            trims += 1;
        }
    });
    assert_eq!(trims, 1);
}
