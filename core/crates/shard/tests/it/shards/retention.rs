//! LOG-6: the cleaner removes what topics do not want to keep, over all partitions and shards.

use headrace_wire::Status;

use crate::shards::world::World;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const KILOBYTE: [u8; 936] = [7; 936];

/// Send so many kilobytes to a partition, and let them get to the device.
fn fill(world: &mut World, link: usize, partition: u32, kilobytes: usize) {
    for _ in 0..kilobytes {
        assert_eq!(world.send(link, partition, &[&KILOBYTE]), Status::OK);
    }
}

fn sizes(world: &World) -> Vec<u64> {
    let statistics = world.statistics();
    statistics.iter().map(|each| each.size_bytes()).collect()
}

fn first_offsets(world: &World) -> Vec<u64> {
    let statistics = world.statistics();
    statistics.iter().map(|each| each.first_offset()).collect()
}

/// Pass some minutes in steps of seconds, as the host's clock would.
fn pass_minutes(world: &mut World, minutes: u64) {
    for _ in 0..minutes * 60 {
        world.pass(SECOND);
    }
}

/// Messages go within a quarter of their age and the cleaner's interval after it has passed, in quiet partitions, too.
#[test]
fn old_messages_go() {
    let mut world = World::new().with_topic(4);
    let links = [world.login(0), world.login(1)];
    world.bound_topic(20 * MINUTE, u64::MAX);
    for partition in 0..4 {
        fill(&mut world, links[0], partition, 3);
    }
    pass_minutes(&mut world, 10);
    fill(&mut world, links[1], 2, 1);
    pass_minutes(&mut world, 9);
    assert_eq!(first_offsets(&world), [0; 4]);
    pass_minutes(&mut world, 3);
    assert_eq!(first_offsets(&world), [3; 4]);
    assert_eq!(sizes(&world), [0, 0, 1000, 0]);
    pass_minutes(&mut world, 12);
    assert_eq!(first_offsets(&world), [3, 3, 4, 3]);
    let removed = world.statistics();
    assert_eq!(removed[2].removed_bytes(), 4000);
    assert_eq!(removed[2].removed_segments(), 2);
}

/// A topic stays within its maximum, however its messages are spread over partitions and shards; the largest partitions
/// give, and no more goes than has to.
#[test]
fn a_topic_is_kept_within_its_maximum() {
    let mut world = World::new().with_topic(4);
    let links = [world.login(0), world.login(1)];
    // Segments of 10 KB.
    world.bound_topic(u64::MAX, 160_000);
    let filled = [100, 10, 40, 70];
    // The cleaner looks, so that segments are sealed, after every ten kilobytes.
    for round in 0..10 {
        for (partition, kilobytes) in (0..).zip(filled) {
            if round < kilobytes / 10 {
                fill(&mut world, links[round % 2], partition, 10);
            }
        }
        world.pass(MINUTE);
    }
    for _ in 0..20 {
        world.pass(SECOND);
    }
    let sizes = sizes(&world);
    let total: u64 = sizes.iter().sum();
    assert!((150_000..=160_000).contains(&total), "{sizes:?}");
    assert_eq!((sizes[1], sizes[2]), (10_000, 40_000));
    assert!(sizes[0].abs_diff(sizes[3]) <= 10_000, "{sizes:?}");
    // Every offset that is left is there.
    for (statistics, filled) in world.statistics().iter().zip([100, 10, 40, 70]) {
        assert_eq!(statistics.messages_count() * 1000, statistics.size_bytes());
        assert_eq!(
            statistics.first_offset() + statistics.messages_count(),
            filled
        );
    }
}

/// Topics without bounds are left alone.
#[test]
fn topics_without_bounds_keep_everything() {
    let mut world = World::new().with_topic(2);
    let link = world.login(0);
    fill(&mut world, link, 0, 50);
    pass_minutes(&mut world, 5);
    assert_eq!(
        (sizes(&world), first_offsets(&world)),
        (vec![50_000, 0], vec![0, 0])
    );
    assert_eq!(world.statistics()[0].segments_count(), 1);
}
