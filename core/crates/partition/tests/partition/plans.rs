//! Splitting ranges for readers that share them.

use headrace_model::{Durability, Offset};
use headrace_partition::storage::{FileName, StorageOperation};
use headrace_partition::{
    IndexCaching, PartitionConfig, RangePlan, RangeToPlan, Request, Response,
};
use proptest::prelude::*;

use crate::support::messages::sent;
use crate::support::world::{World, config};

const HEADER_BYTES: u64 = 64;
/// Maximum distance of loaded boundaries, including a message that crosses each.
const GRANULARITY: u64 = 64 * 1024 + MESSAGE_BYTES_MAX;
const MESSAGE_BYTES_MAX: u64 = 20_000;
const FOREVER: u64 = u64::MAX;

fn request(start: u64, end: u64, target_bytes: u64) -> Request {
    Request::PlanRange(RangeToPlan {
        start: Offset(start),
        end: Offset(end),
        target_bytes,
    })
}

fn plan(world: &mut World, start: u64, end: u64, target_bytes: u64) -> RangePlan {
    match world.ask(request(start, end, target_bytes)) {
        Ok(Response::Planned(plan)) => plan,
        other => panic!("not a plan: {other:?}"),
    }
}

fn starts(plan: &RangePlan) -> Vec<u64> {
    plan.splits.iter().map(|split| split.offset.0).collect()
}

fn large_segments(index_caching: IndexCaching) -> PartitionConfig {
    PartitionConfig {
        segment_size_bytes: 1 << 20,
        index_caching,
        ..config(Durability::Os)
    }
}

/// Batches of ten messages of 1000 bytes.
fn filled(config: PartitionConfig, batches: u64) -> World {
    let mut world = World::new(config);
    for batch in 0..batches {
        let messages: Vec<_> = (0..10).map(|index| sent(batch + index, 936)).collect();
        world.append(&messages).expect("appended");
    }
    world.settle();
    world
}

#[test]
fn a_partition_without_messages_has_nothing_to_split() {
    let mut world = World::new(config(Durability::Os));
    let nothing = RangePlan::default();
    assert_eq!(plan(&mut world, 0, FOREVER, 1), nothing);
    assert_eq!(plan(&mut world, 7, 9, 0), nothing);
}

#[test]
fn ranges_that_hold_nothing_have_no_parts() {
    let mut world = filled(config(Durability::Os), 2);
    for (start, end) in [(0, 0), (7, 7), (9, 3), (20, 30), (20, FOREVER)] {
        let plan = plan(&mut world, start, end, 1);
        assert_eq!(
            (plan.first_offset, plan.next_offset),
            (Offset(0), Offset(20))
        );
        assert_eq!(plan.splits, []);
    }
}

#[test]
fn without_a_target_there_is_one_part() {
    let mut world = filled(large_segments(IndexCaching::None), 500);
    world.restart();
    let plan = plan(&mut world, 0, FOREVER, 0);
    assert_eq!(starts(&plan), [0]);
    assert_eq!(plan.splits[0].bytes, 5_000_000);
}

/// The ends of segments are known without loading indexes.
#[test]
fn indexes_are_read_only_where_they_are_needed() {
    let mut world = filled(large_segments(IndexCaching::None), 500);
    world.restart();
    let reads_of_indexes = |world: &World| {
        let operations = world.operations_under_way();
        let reads = operations.filter(|operation| {
            let StorageOperation::Read { file, .. } = operation else {
                return false;
            };
            matches!(file, FileName::Index(_))
        });
        reads.count()
    };
    let request_id = world.submit(request(0, FOREVER, 2_100_000));
    assert_eq!(reads_of_indexes(&world), 0);
    let answer = world.take_answer(request_id).expect("at once");
    let Ok(Response::Planned(plan)) = answer else {
        panic!("not a plan: {answer:?}");
    };
    assert_eq!(starts(&plan), [0, 2100, 4200]);
    let request_id = world.submit(request(0, FOREVER, 300_000));
    while reads_of_indexes(&world) == 0 {
        assert!(world.step(), "an index is read");
    }
    assert!(world.wait_for(request_id).is_ok());
}

#[test]
fn parts_are_about_as_large_as_wanted() {
    let mut world = filled(large_segments(IndexCaching::OpenSegment), 1000);
    world.restart();
    let plan = plan(&mut world, 500, 9_500, 500_000);
    let sizes: Vec<u64> = plan.splits.iter().map(|split| split.bytes).collect();
    let (last, others) = sizes.split_last().expect("several");
    assert!((15..=18).contains(&sizes.len()), "{sizes:?}");
    assert!(
        others.iter().all(|size| (500_000..600_000).contains(size)),
        "{sizes:?}"
    );
    assert!(*last <= 600_000);
    let total: u64 = sizes.iter().sum();
    assert!(total.abs_diff(9_000_000) < GRANULARITY, "{total}");
}

/// The number of splits is bounded, however small the target is.
#[test]
fn there_is_a_limit_to_the_parts() {
    let small = PartitionConfig {
        segment_size_bytes: 1024,
        ..config(Durability::Memory)
    };
    let mut world = filled(small, 4500);
    let plan = plan(&mut world, 0, FOREVER, 1);
    assert!(
        (2000..=4096).contains(&plan.splits.len()),
        "{}",
        plan.splits.len()
    );
}

#[test]
fn what_was_removed_is_not_planned() {
    let mut world = filled(large_segments(IndexCaching::All), 500);
    let removed = world.ask(Request::DeleteSegments { count: 2 });
    assert_eq!(removed, Ok(Response::Done));
    let plan = plan(&mut world, 100, FOREVER, 500_000);
    assert_eq!(plan.first_offset, Offset(2100));
    assert_eq!(plan.splits[0].offset, Offset(2100));
}

/// Removing or purging messages while an index is loaded ends a plan, not the partition.
#[test]
fn a_plan_outlives_its_messages() {
    for purges in [false, true] {
        let mut world = filled(large_segments(IndexCaching::None), 500);
        world.restart();
        let request_id = world.submit(request(100, FOREVER, 100_000));
        assert!(world.take_answer(request_id).is_none(), "an index is read");
        if purges {
            world.purge();
            let nothing = Response::Planned(RangePlan::default());
            assert_eq!(world.wait_for(request_id), Ok(nothing));
        } else {
            let removal = world.submit(Request::DeleteSegments { count: 3 });
            let Ok(Response::Planned(plan)) = world.wait_for(request_id) else {
                panic!("not a plan");
            };
            assert_eq!(plan.splits[0].offset, Offset(100));
            assert!(plan.splits[1..].iter().all(|split| split.offset.0 >= 3150));
            assert_eq!(world.wait_for(removal), Ok(Response::Done));
        }
        world.settle();
        assert!(world.partition.failure().is_none());
    }
}

#[derive(Debug, Clone)]
struct Case {
    durability: Durability,
    index_caching: IndexCaching,
    segment_size_bytes: u64,
    /// Sizes of the messages of each batch.
    batches: Vec<Vec<usize>>,
    removed: u32,
    restarts: bool,
    ranges: Vec<(u64, u64, u64)>,
}

fn case() -> impl Strategy<Value = Case> {
    let size = prop_oneof![8_usize..200, 500_usize..2000, 10_000_usize..20_000];
    let batches = prop::collection::vec(prop::collection::vec(size, 1..30), 1..60);
    let target = prop_oneof![
        Just(0_u64),
        1..1000_u64,
        1000..300_000_u64,
        300_000..3_000_000_u64
    ];
    let ranges = prop::collection::vec((0..2000_u64, 0..2000_u64, target), 1..6);
    (
        prop::sample::select(Durability::ALL.to_vec()),
        prop::sample::select(vec![
            IndexCaching::All,
            IndexCaching::OpenSegment,
            IndexCaching::None,
        ]),
        prop::sample::select(vec![20_000_u64, 200_000, 1_000_000]),
        batches,
        0..4_u32,
        any::<bool>(),
        ranges,
    )
        .prop_map(
            |(
                durability,
                index_caching,
                segment_size_bytes,
                batches,
                removed,
                restarts,
                ranges,
            )| Case {
                durability,
                index_caching,
                segment_size_bytes,
                batches,
                removed,
                restarts,
                ranges,
            },
        )
}

/// Check that the parts cover the retained range, one after the other, and that their estimated sizes are approximately
/// right.
fn check(plan: &RangePlan, positions: &[u64], (start, end, target): (u64, u64, u64)) {
    let (first, next) = (plan.first_offset.0, plan.next_offset.0);
    let (start, end) = (start.max(first), end.min(next));
    if start >= end {
        assert_eq!(plan.splits, []);
        return;
    }
    let mut bounds = starts(plan);
    assert_eq!(bounds[0], start);
    bounds.push(end);
    assert!(bounds.is_sorted_by(|one, other| one < other), "{bounds:?}");
    let position = |offset: u64| positions[usize::try_from(offset).expect("small")];
    let mut said = 0;
    for (bound, split) in bounds.windows(2).zip(&plan.splits) {
        let bytes = position(bound[1]) - position(bound[0]);
        assert!(
            bytes.abs_diff(split.bytes) <= 2 * GRANULARITY,
            "{split:?} has {bytes}"
        );
        said += split.bytes;
    }
    let bytes = position(end) - position(start);
    assert!(bytes.abs_diff(said) <= 2 * GRANULARITY, "{said} of {bytes}");
    let (_, others) = plan.splits.split_last().expect("one at least");
    assert!(others.iter().all(|split| split.bytes >= target));
    if target == 0 {
        assert_eq!(others, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parts_cover_what_is_there(case in case()) {
        let mut world = World::shuffled(
            PartitionConfig {
                segment_size_bytes: case.segment_size_bytes,
                index_caching: case.index_caching,
                ..config(case.durability)
            },
            7,
        );
        let mut positions = vec![0];
        for sizes in &case.batches {
            let mut messages = Vec::new();
            for size in sizes {
                let end = positions.last().unwrap() + HEADER_BYTES + *size as u64;
                messages.push(sent(positions.len() as u64, *size));
                positions.push(end);
            }
            world.append(&messages).expect("appended");
        }
        prop_assert_eq!(world.ask(Request::Flush { fsync: true }), Ok(Response::Done));
        world.settle();
        prop_assert_eq!(world.ask(Request::DeleteSegments { count: case.removed }), Ok(Response::Done));
        if case.restarts {
            world.restart();
        }
        // All plans are requested at once, so that they wait for each other's indexes.
        let request_ids: Vec<_> = (case.ranges.iter())
            .map(|(start, end, target)| world.submit(request(*start, *end, *target)))
            .collect();
        for (request_id, range) in request_ids.into_iter().zip(&case.ranges) {
            match world.wait_for(request_id) {
                Ok(Response::Planned(plan)) => check(&plan, &positions, *range),
                other => panic!("not a plan: {other:?}"),
            }
        }
    }
}
