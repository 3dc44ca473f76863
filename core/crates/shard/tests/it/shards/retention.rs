//! LOG-6: the cleaner enforces the retention of topics, across all partitions and shards.

use headrace_shard::ClockState;
use headrace_wire::{
    Command, Identifier, PartitionState, PollingStrategy, Status,
    command::{PollMessages, StoreConsumerOffset, TopicPath, WaitMessages},
    response::{PartitionDescription, ReadAnswer, ReadGap, decode_list},
};

use crate::world::{World, offset_path, polling};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const KILOBYTE: [u8; 936] = [7; 936];

/// Send this many kilobytes to a partition, and sync them to the device.
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

/// Advance some minutes in steps of seconds, as the host's clock would.
fn pass_minutes(world: &mut World, minutes: u64) {
    for _ in 0..minutes * 60 {
        world.pass(SECOND);
    }
}

/// Messages are deleted within a quarter of their age plus the cleaner's interval after expiry, in idle partitions,
/// too.
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

/// A clock that is days ahead for a moment deletes nothing, neither then nor while the shards' time is ahead of it.
#[test]
fn a_clock_that_is_ahead_makes_nothing_old() {
    const AHEAD: u64 = 8 * 24 * 60 * MINUTE;
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    world.bound_topic(20 * MINUTE, u64::MAX);
    fill(&mut world, link, 0, 3);
    world.set_clock(ClockState {
        doubted_micros: AHEAD,
        ..ClockState::default()
    });
    world.pass(AHEAD);
    pass_minutes(&mut world, 3);
    assert_eq!(first_offsets(&world), [0]);
    world.set_clock(ClockState {
        lead_micros: AHEAD,
        ..ClockState::default()
    });
    pass_minutes(&mut world, 3);
    assert_eq!(first_offsets(&world), [0]);
    world.set_clock(ClockState::default());
    pass_minutes(&mut world, 2);
    assert_eq!(first_offsets(&world), [3]);
}

fn read(
    world: &mut World,
    link: usize,
    strategy: PollingStrategy,
    wait_micros: u64,
) -> (ReadGap, Vec<u64>) {
    let request = WaitMessages {
        poll: PollMessages {
            auto_commit: false,
            ..polling(0, strategy, 10)
        },
        minimum_bytes: 1,
        maximum_wait_micros: wait_micros,
    };
    world.request(link, &Command::ReadMessages(request));
    world.pass(wait_micros);
    let reply = world.reply(link);
    assert_eq!(reply.status, Status::OK);
    let answer = ReadAnswer::decode(&reply.payload).expect("an answer");
    answer.polled.check().expect("whole messages");
    let offsets = (answer.polled.messages()).map(|view| view.expect("a message").header().offset());
    (answer.gap, offsets.collect())
}

/// A consumer whose position is below the first retained offset gets the missed range, whether or not any messages are
/// left, and whether or not it waits. A consumer that asks for the first message, or for the current end, has missed
/// nothing.
#[test]
fn a_consumer_that_has_fallen_behind_is_answered_with_the_gap() {
    let gap = |from, to| ReadGap { from, to };
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    world.bound_topic(20 * MINUTE, u64::MAX);
    fill(&mut world, link, 0, 5);
    world.ask(
        link,
        &Command::StoreConsumerOffset(StoreConsumerOffset {
            path: offset_path(0),
            offset: 1,
        }),
    );
    let (next, first) = (PollingStrategy::Next, PollingStrategy::First);
    let none = ReadGap::default();
    assert_eq!(read(&mut world, link, next, 0), (none, vec![2, 3, 4]));
    pass_minutes(&mut world, 26);
    assert_eq!(first_offsets(&world), [5]);
    assert_eq!(read(&mut world, link, next, 0), (gap(2, 5), vec![]));
    assert_eq!(read(&mut world, link, next, SECOND), (gap(2, 5), vec![]));
    assert_eq!(read(&mut world, link, first, 0), (none, vec![]));
    fill(&mut world, link, 0, 2);
    assert_eq!(read(&mut world, link, next, 0), (gap(2, 5), vec![5, 6]));
    assert_eq!(
        read(&mut world, link, next, SECOND),
        (gap(2, 5), vec![5, 6])
    );
    let offset = PollingStrategy::Offset;
    assert_eq!(
        read(&mut world, link, offset(4), 0),
        (gap(4, 5), vec![5, 6])
    );
    assert_eq!(read(&mut world, link, offset(5), 0), (none, vec![5, 6]));
    assert_eq!(read(&mut world, link, offset(9), 0), (none, vec![]));
    assert_eq!(read(&mut world, link, first, SECOND), (none, vec![5, 6]));
    assert_eq!(
        read(&mut world, link, PollingStrategy::Timestamp(1), 0),
        (none, vec![5, 6])
    );
}

/// Listings show the first retained offset, and the time after which more may be deleted.
#[test]
fn what_is_kept_and_until_when_shows() {
    let mut world = World::new().with_topic(2);
    let link = world.login(0);
    let describe = Command::DescribePartitions(TopicPath {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
    });
    let described = |world: &mut World| {
        let reply = world.ask(link, &describe);
        assert_eq!(reply.status, Status::OK);
        let list: Vec<PartitionDescription<'_>> = decode_list(&reply.payload).expect("a list");
        (list.iter())
            .map(|found| (found.state, found.first_offset, found.next_deletion_at))
            .collect::<Vec<_>>()
    };
    let serving = PartitionState::Serving;
    fill(&mut world, link, 0, 1);
    // Nothing expires.
    assert_eq!(described(&mut world), [(serving, 0, 0); 2]);
    world.bound_topic(20 * MINUTE, u64::MAX);
    let newest = world.statistics()[0].oldest_segment_timestamp();
    assert!(newest > 0);
    let due = newest + 20 * MINUTE;
    assert_eq!(described(&mut world), [(serving, 0, due), (serving, 0, 0)]);
    while world.now < due {
        assert_eq!(first_offsets(&world)[0], 0);
        world.pass(SECOND);
    }
    pass_minutes(&mut world, 2);
    assert_eq!(described(&mut world), [(serving, 1, 0), (serving, 0, 0)]);
}

/// A topic stays within its maximum size, however its messages are distributed over partitions and shards. The largest
/// partitions are trimmed, and no more is deleted than necessary.
#[test]
fn a_topic_is_kept_within_its_maximum() {
    let mut world = World::new().with_topic(4);
    let links = [world.login(0), world.login(1)];
    // Segments of 10 KB.
    world.bound_topic(u64::MAX, 160_000);
    let filled = [100, 10, 40, 70];
    // The cleaner runs after every ten kilobytes, so that segments are sealed.
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
    // Every remaining offset is readable.
    for (statistics, filled) in world.statistics().iter().zip([100, 10, 40, 70]) {
        assert_eq!(statistics.messages_count() * 1000, statistics.size_bytes());
        assert_eq!(
            statistics.first_offset() + statistics.messages_count(),
            filled
        );
    }
}

/// Topics without limits are not trimmed.
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
