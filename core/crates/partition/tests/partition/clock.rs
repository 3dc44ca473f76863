//! Clocks that were ahead or are set back: timestamps, and searches by timestamp.

use fastrand::Rng;
use headrace_model::{Durability, Timestamp};
use headrace_partition::{CLOCK_SETBACK_MICROS_MAX, PartitionConfig, PollingStrategy};

use crate::support::disk::Crash;
use crate::support::messages::{got, offsets, sent};
use crate::support::world::{World, config};

/// A way to end a process and begin the next one.
type Restart = fn(&mut World);

const TODAY: u64 = 1_800_000_000_000_000;
const YEAR: u64 = 365 * 24 * 3600 * 1_000_000;

fn append(world: &mut World, now: u64) -> u64 {
    world.now = Timestamp(now);
    let number = world.partition.next_offset().0;
    world.append(&[sent(number, 100)]).expect("appended");
    let last = got(&world.poll(PollingStrategy::Last, 1));
    last[0].timestamp
}

fn since(world: &mut World, timestamp: u64) -> Vec<u64> {
    offsets(&world.poll(PollingStrategy::Timestamp(timestamp), 1000))
}

/// LOG-1: after a clock was ahead once, later messages get right timestamps, with or without restarts.
#[test]
fn a_clock_that_was_ahead_pins_nothing() {
    let restarts: [(Restart, bool); 4] = [
        (|_| {}, true),
        (World::restart, true),
        (|world| world.crash(Crash::Kill), true),
        // A loss of power may lose indexes, and with them the record of the setback: the wrong time then counts as right.
        (|world| world.crash(Crash::Power), false),
    ];
    for (restart, is_exact) in restarts {
        for tail_cache_bytes in [0, 4 << 20] {
            let mut world = World::new(PartitionConfig {
                tail_cache_bytes,
                ..config(Durability::Fsync)
            });
            assert_eq!(append(&mut world, TODAY), TODAY);
            assert_eq!(append(&mut world, TODAY + YEAR), TODAY + YEAR);
            restart(&mut world);
            for second in 1..=3 {
                let now = TODAY + second * 1_000_000;
                assert_eq!(append(&mut world, now), now);
            }
            world.settle();
            restart(&mut world);
            // All messages are retained and found by their time. The message with the wrong time is not found by it.
            assert_eq!(
                offsets(&world.poll(PollingStrategy::First, 10)),
                [0, 1, 2, 3, 4]
            );
            for (wanted, expected) in [
                (2_000_000, &[3, 4][..]),
                (2_000_001, &[4]),
                (3_000_001, &[]),
            ] {
                let found = since(&mut world, TODAY + wanted);
                assert!(
                    found == expected || !is_exact && found == [1, 2, 3, 4],
                    "{found:?} where {expected:?} are since {wanted}, {tail_cache_bytes}"
                );
            }
            assert_eq!(since(&mut world, TODAY), [0, 1, 2, 3, 4]);
        }
    }
}

/// LOG-1: after a small setback of the clock, timestamps stay constant until it has caught up, and no segment is begun.
#[test]
fn small_setbacks_are_waited_for() {
    let mut world = World::new(config(Durability::Os));
    append(&mut world, TODAY);
    let least = TODAY - CLOCK_SETBACK_MICROS_MAX;
    assert_eq!(append(&mut world, least), TODAY);
    assert_eq!(append(&mut world, TODAY + 5), TODAY + 5);
    world.settle();
    assert_eq!(world.statistics.segments_count(), 1);
    assert_eq!(
        append(&mut world, TODAY + 4 - CLOCK_SETBACK_MICROS_MAX),
        TODAY + 4 - CLOCK_SETBACK_MICROS_MAX
    );
    world.settle();
    assert_eq!(world.statistics.segments_count(), 2);
}

/// LOG-9: whatever the clocks did, a poll by time skips no message that is not older, unless an older one follows it.
#[test]
fn searches_by_time_pass_over_nothing() {
    for seed in 0..150 {
        let mut random = Rng::with_seed(seed);
        let mut world = World::new(PartitionConfig {
            tail_cache_bytes: [0, 2_000, 4 << 20][random.usize(..3)],
            segment_size_bytes: [500, 2_000, 1 << 20][random.usize(..3)],
            ..config(Durability::Os)
        });
        let (mut now, mut stamps) = (TODAY, Vec::new());
        for _ in 0..random.usize(1..60) {
            now = match random.u8(..10) {
                0 => now + random.u64(..YEAR),
                1 => now.saturating_sub(random.u64(..YEAR)).max(1),
                2 => now - random.u64(..CLOCK_SETBACK_MICROS_MAX),
                _ => now + random.u64(..30_000_000),
            };
            stamps.push(append(&mut world, now));
            match random.u8(..20) {
                0 => world.restart(),
                1 => world.settle(),
                2 => while world.partition.evict_oldest() > 0 {},
                _ => {}
            }
        }
        for _ in 0..30 {
            let wanted = stamps[random.usize(..stamps.len())] + random.u64(..2);
            let found = since(&mut world, wanted);
            let first = found.first().map_or(stamps.len(), |first| {
                usize::try_from(*first).expect("small")
            });
            assert_eq!(
                found.len(),
                stamps.len() - first,
                "seed {seed}: all that follow"
            );
            assert!(
                stamps.get(first).is_none_or(|stamp| *stamp >= wanted),
                "seed {seed}"
            );
            for passed in 0..first {
                let is_older = stamps[passed..].iter().any(|stamp| *stamp < wanted);
                assert!(
                    is_older,
                    "seed {seed}: {passed} is passed over, {wanted} was wanted of {stamps:?}"
                );
            }
        }
    }
}
