//! LOG-6: retention by age and by size removes whole sealed segments, oldest first, and nothing else.

use headrace_model::{Durability, Offset, Timestamp};
use headrace_partition::{
    ConsumerKey, PartitionConfig, PollingStrategy, Request, Response, Retention, RetentionRule,
};
use proptest::prelude::*;

use headrace_partition::storage::StorageErrorKind;

use crate::support::disk::Fault;
use crate::support::messages::{offsets, sent};
use crate::support::world::{World, config};

const SECOND: u64 = 1_000_000;

/// One message per second, four per segment, from second 2 on; the last segment has two.
fn one_a_second(durability: Durability) -> World {
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 4 * 1064,
        ..config(durability)
    });
    world.settle();
    for number in 0..14 {
        world.now = Timestamp((2 + number) * SECOND);
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    assert_eq!(
        world.ask(Request::Flush { fsync: true }),
        Ok(Response::Done)
    );
    world.settle();
    assert_eq!(world.statistics.segments_count(), 4);
    world
}

/// Remove messages older than this second; the open segment is sealed neither by age nor by size.
fn expire(world: &mut World, second: u64) {
    retain(world, second, 0, u64::MAX);
}

fn retain(world: &mut World, expired_before: u64, roll_before: u64, roll_bytes: u64) {
    let retention = Retention {
        expired_before: Timestamp(expired_before * SECOND),
        roll_before: Timestamp(roll_before * SECOND),
        roll_bytes,
    };
    world.retain(retention, false);
    world.settle();
}

fn first(world: &World) -> u64 {
    world.partition.first_offset().0
}

/// A segment is removed once its newest message has expired, and not before.
#[test]
fn segments_go_when_their_newest_message_is_too_old() {
    for durability in Durability::ALL {
        let mut world = one_a_second(durability);
        // Message 3, the newest of the first segment, was appended in second 5.
        expire(&mut world, 5);
        assert_eq!(first(&world), 0);
        expire(&mut world, 6);
        assert_eq!(first(&world), 4);
        assert_eq!(world.statistics.first_offset(), 4);
        assert_eq!(world.statistics.removed_segments(), 1);
        assert_eq!(world.statistics.removed_bytes(), 4 * 1064);
        // The open segment is kept, however old it is.
        expire(&mut world, 1_000);
        assert_eq!(first(&world), 12);
        world.restart();
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 100)), [12, 13]);
    }
}

/// After a restart the timestamps are read from the files, one segment after the other, in one request.
#[test]
fn what_was_sealed_before_the_start_expires_too() {
    let mut world = one_a_second(Durability::Os);
    world.restart();
    assert_eq!(world.statistics.oldest_segment_timestamp(), 0);
    expire(&mut world, 9);
    assert_eq!(first(&world), 4);
    assert_eq!(world.statistics.oldest_segment_timestamp(), 9 * SECOND);
    expire(&mut world, 14);
    assert_eq!(first(&world), 12);
}

/// A timestamp read that failed for lack of memory is tried again with the next request, and no segment is missed.
#[test]
fn an_index_that_cannot_be_read_now_is_read_later() {
    let mut world = one_a_second(Durability::Os);
    world.restart();
    world.disk.faults.push(Fault::Exhausted);
    expire(&mut world, 100);
    assert_eq!(first(&world), 0);
    expire(&mut world, 100);
    assert_eq!(first(&world), 12);
}

/// The open segment is sealed when its first message is old, also after a restart.
#[test]
fn the_open_segment_rolls_by_age_and_goes() {
    for restarted in [false, true] {
        let mut world = one_a_second(Durability::Os);
        if restarted {
            world.restart();
        }
        // Message 12, its first one, was appended in second 14.
        retain(&mut world, 0, 14, u64::MAX);
        assert_eq!(world.statistics.segments_count(), 4);
        retain(&mut world, 0, 15, u64::MAX);
        assert_eq!(world.statistics.segments_count(), 5);
        world.settle();
        expire(&mut world, 16);
        assert_eq!((first(&world), world.statistics.messages_count()), (14, 0));
        assert_eq!(world.statistics.size_bytes(), 0);
        // An empty segment is not sealed again, and the next offset is kept.
        retain(&mut world, 1_000, 1_000, 1);
        assert_eq!(world.statistics.segments_count(), 1);
        world.restart();
        world.append(&[sent(14, 10)]).expect("appended");
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 9)), [14]);
    }
}

/// A small size limit of a topic needs smaller segments than the server's setting.
#[test]
fn the_open_segment_rolls_by_size() {
    let mut world = one_a_second(Durability::Os);
    retain(&mut world, 0, 0, 2 * 1064 + 1);
    assert_eq!(world.statistics.segments_count(), 4);
    retain(&mut world, 0, 0, 2 * 1064);
    assert_eq!(world.statistics.segments_count(), 5);
}

/// Retention by size removes one segment at a time, and never the open one.
#[test]
fn the_oldest_segment_goes_for_its_size() {
    let mut world = one_a_second(Durability::Os);
    for expected in [4, 8, 12] {
        assert!(world.remove_oldest(false));
        assert_eq!(first(&world), expected);
    }
    assert!(!world.remove_oldest(false));
    assert_eq!(world.statistics.removed_segments(), 3);
    assert_eq!(world.statistics.size_bytes(), 2 * 1064);
}

/// Messages that a consumer has not read are kept if requested, and removed otherwise.
#[test]
fn unread_messages_stay_where_that_is_wanted() {
    let mut world = one_a_second(Durability::Os);
    let store = |world: &mut World, offset| {
        let stored = world.ask(Request::StoreOffset {
            by: None,
            consumer: ConsumerKey::Consumer(1),
            offset: Offset(offset),
        });
        assert_eq!(stored, Ok(Response::Done));
    };
    let retention = Retention {
        expired_before: Timestamp(1_000 * SECOND),
        roll_before: Timestamp(0),
        roll_bytes: u64::MAX,
    };
    store(&mut world, 6);
    world.retain(retention, true);
    world.settle();
    assert_eq!(first(&world), 4);
    assert!(!world.remove_oldest(true));
    store(&mut world, 7);
    assert!(world.remove_oldest(true));
    world.retain(retention, false);
    world.settle();
    assert_eq!(first(&world), 12);
}

/// Retention makes space on a full disk.
#[test]
fn a_full_disk_is_cleaned() {
    let mut world = one_a_second(Durability::Os);
    world
        .disk
        .faults
        .push(Fault::Write(StorageErrorKind::NoSpace));
    let refused = world.append(&[sent(14, 1000)]);
    assert!(refused.is_err() && world.partition.failure().is_some());
    expire(&mut world, 6);
    assert_eq!(first(&world), 4);
}

proptest! {
    /// A host applies retention only when it is due: before, it has nothing to do.
    #[test]
    fn retention_that_is_not_due_changes_nothing(
        steps in proptest::collection::vec((0..5_u8, 0..2000_u64), 1..30),
        expiry in 1..3000_u64,
        roll in 1..3000_u64,
        roll_bytes in prop_oneof![Just(u64::MAX), 1000..6000_u64],
    ) {
        let rule = RetentionRule {
            expiry_micros: expiry * SECOND,
            roll_micros: roll * SECOND,
            roll_bytes,
        };
        let mut world = World::new(PartitionConfig {
            segment_size_bytes: 4 * 1064,
            ..config(Durability::Os)
        });
        world.settle();
        for (number, (kind, seconds)) in (0..).zip(steps) {
            world.now.0 += seconds * SECOND;
            match kind {
                0 => world.restart(),
                1 => world.retain(rule.at(world.now), false),
                _ => drop(world.append(&[sent(number, 1000)]).expect("appended")),
            }
            world.settle();
            let due = world.partition.retention_due(&rule).unwrap_or(Timestamp(u64::MAX));
            let Some(before) = due.0.checked_sub(1) else {
                continue;
            };
            let state = (first(&world), world.statistics.segments_count());
            world.retain(rule.at(Timestamp(before)), false);
            prop_assert_eq!(world.operations_under_way().count(), 0);
            prop_assert_eq!((first(&world), world.statistics.segments_count()), state);
        }
    }
}
