//! Polls: strategies, limits, memory and storage.

use headrace_model::{Durability, Offset, UserId};
use headrace_partition::storage::{FileName, StorageOperation};
use headrace_partition::{
    Committer, ConsumerKey, PartitionConfig, PartitionError, Poll, PollingStrategy, ReadError,
    Request, Response, StoredOffset,
};

use crate::support::messages::{batch, got, offsets, sent};
use crate::support::world::{World, config, poll};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);
const GROUP: ConsumerKey = ConsumerKey::Group(1);

/// Twenty messages in batches of four, one batch per second.
fn filled(config: PartitionConfig) -> World {
    let mut world = World::new(config);
    for batch in 0..5 {
        let messages: Vec<_> = (0..4).map(|index| sent(batch * 4 + index, 1000)).collect();
        world.append(&messages).expect("appended");
        world.now.0 += 1_000_000;
    }
    world
}

/// Worlds with the messages in memory, in storage after a restart, and in storage without any tail.
fn everywhere() -> Vec<World> {
    let in_memory = filled(config(Durability::Os));
    let mut restarted = filled(config(Durability::Os));
    restarted.restart();
    let without_tail = filled(PartitionConfig {
        tail_cache_bytes: 0,
        segment_size_bytes: 5_000,
        ..config(Durability::Fsync)
    });
    vec![in_memory, restarted, without_tail]
}

/// LOG-9: the first message of each strategy.
#[test]
fn strategies_start_where_they_should() {
    for mut world in everywhere() {
        let mut check = |strategy, count, expected: std::ops::Range<u64>| {
            let polled = world.poll(strategy, count);
            assert_eq!(
                offsets(&polled),
                expected.collect::<Vec<_>>(),
                "{strategy:?}"
            );
            assert_eq!(polled.current_offset, Offset(19));
        };
        check(PollingStrategy::First, 3, 0..3);
        check(PollingStrategy::First, 100, 0..20);
        check(PollingStrategy::Last, 3, 17..20);
        check(PollingStrategy::Last, 100, 0..20);
        check(PollingStrategy::Next, 5, 0..5);
        check(PollingStrategy::Offset(7), 6, 7..13);
        check(PollingStrategy::Offset(19), 6, 19..20);
        check(PollingStrategy::Offset(20), 6, 0..0);
        check(PollingStrategy::Offset(u64::MAX), 6, 0..0);
        check(PollingStrategy::Offset(7), 0, 0..0);
        check(PollingStrategy::Timestamp(0), 2, 0..2);
        check(PollingStrategy::Timestamp(1_000_000), 2, 0..2);
        check(PollingStrategy::Timestamp(1_000_001), 2, 4..6);
        check(PollingStrategy::Timestamp(3_000_000), 100, 8..20);
        check(PollingStrategy::Timestamp(5_000_000), 100, 16..20);
        check(PollingStrategy::Timestamp(5_000_001), 100, 0..0);
    }
}

/// LOG-9: `next` advances only with stored offsets; auto-commit stores for any strategy, also backwards.
#[test]
fn next_follows_the_stored_offset() {
    for mut world in everywhere() {
        let next = |world: &mut World| {
            let answer = world.ask(poll(PollingStrategy::Next, 3, Some(ALICE), false));
            let Ok(Response::Polled(polled)) = answer else {
                panic!("{answer:?}");
            };
            offsets(&polled)
        };
        assert_eq!(next(&mut world), [0, 1, 2]);
        assert_eq!(next(&mut world), [0, 1, 2]);
        assert_eq!(offsets(&world.next(ALICE, 3)), [0, 1, 2]);
        assert_eq!(offsets(&world.next(ALICE, 3)), [3, 4, 5]);
        assert_eq!(offsets(&world.next(GROUP, 3)), [0, 1, 2]);
        world.store(ALICE, 9).expect("stored");
        assert_eq!(next(&mut world), [10, 11, 12]);
        let backwards = poll(PollingStrategy::Offset(4), 2, Some(ALICE), true);
        world.ask(backwards).expect("polled");
        assert_eq!(world.stored(ALICE), Some(5));
        let nothing = poll(PollingStrategy::Offset(50), 2, Some(ALICE), true);
        world.ask(nothing).expect("polled");
        assert_eq!(world.stored(ALICE), Some(5));
        world.store(ALICE, 19).expect("stored");
        assert!(next(&mut world).is_empty());
    }
}

/// LOG-10: offsets are stored, read and deleted, and refused beyond the last message.
#[test]
fn offsets_are_stored_read_and_deleted() {
    use headrace_partition::PartitionError::{InvalidOffset, OffsetNotFound};
    let mut world = World::new(config(Durability::Os));
    let refused = |requested| {
        Err(InvalidOffset {
            requested: Offset(requested),
        })
    };
    assert_eq!(
        world.store(ALICE, 0),
        refused(0),
        "there never was a message"
    );
    world.append(&[sent(0, 10), sent(1, 10)]).expect("appended");
    assert_eq!(world.store(ALICE, 2), refused(2));
    assert_eq!(
        world.ask(Request::GetOffset { consumer: ALICE }),
        Ok(Response::Offset(None))
    );
    assert_eq!(world.store(ALICE, 1), Ok(Response::Done));
    assert_eq!(world.store(ALICE, 0), Ok(Response::Done));
    assert_eq!(world.store(GROUP, 1), Ok(Response::Done));
    let stored = StoredOffset {
        current: Offset(1),
        stored: Offset(0),
    };
    let answer = world.ask(Request::GetOffset { consumer: ALICE });
    assert_eq!(answer, Ok(Response::Offset(Some(stored))));
    assert_eq!(
        world.ask(Request::DeleteOffset {
            consumer: ALICE,
            by: None
        }),
        Ok(Response::Done)
    );
    assert_eq!(
        world.ask(Request::DeleteOffset {
            consumer: ALICE,
            by: None
        }),
        Err(OffsetNotFound)
    );
    world.restart();
    assert_eq!((world.stored(ALICE), world.stored(GROUP)), (None, Some(1)));
}

/// A poll is bounded in bytes, but returns at least one message.
#[test]
fn the_size_of_a_poll_is_bounded_and_at_least_one_message() {
    for tail_cache_bytes in [0, 1 << 20] {
        for poll_size_bytes_max in [1, 1064, 2127, 2128, 5000] {
            let mut world = filled(PartitionConfig {
                tail_cache_bytes,
                poll_size_bytes_max,
                ..config(Durability::Os)
            });
            let expected = u64::from(poll_size_bytes_max / 1064).max(1);
            for start in [0, 3, 17] {
                let polled = world.poll(PollingStrategy::Offset(start), 100);
                let end = (start + expected).min(20);
                assert_eq!(offsets(&polled), (start..end).collect::<Vec<_>>());
            }
        }
    }
}

/// LOG-9: one poll may begin in a sealed segment, continue in the open one, and end in memory.
#[test]
fn a_poll_spans_segments_and_memory() {
    let mut world = World::new(PartitionConfig {
        tail_cache_bytes: 8_192,
        segment_size_bytes: 9_000,
        ..config(Durability::Os)
    });
    for number in 0..40 {
        world.append(&[sent(number, 500)]).expect("appended");
    }
    world.settle();
    let reads = world.disk.reads;
    let polled = world.poll(PollingStrategy::First, 1000);
    assert_eq!(offsets(&polled), (0..40).collect::<Vec<_>>());
    assert!(world.disk.reads > reads + 1, "several segments were read");
    let reads = world.disk.reads;
    world.poll(PollingStrategy::Offset(38), 1000);
    assert_eq!(world.disk.reads, reads, "the tail needs no storage");
}

/// Polls from memory share the log's own bytes, small batches in one piece.
#[test]
fn small_batches_are_polled_in_one_piece() {
    let mut world = World::new(config(Durability::Os));
    for number in 0..50 {
        world.submit_in_place(&[sent(number, 100)]);
        world.settle();
    }
    // When a block is full, the next one is twice as large.
    let polled = world.poll(PollingStrategy::First, 50);
    assert_eq!(polled.messages_count, 50);
    assert!(polled.slices.len() <= 2, "{} slices", polled.slices.len());
    drop(polled);
    let large = vec![sent(50, 100_000)];
    world.append(&large).expect("appended");
    let first = world.poll(PollingStrategy::Offset(50), 1);
    let second = world.poll(PollingStrategy::Offset(50), 1);
    assert_eq!(
        first.slices[0].as_ptr(),
        second.slices[0].as_ptr(),
        "shared, not copied"
    );
}

/// Small polls of old messages do not each cause a storage read.
#[test]
fn sequential_polls_of_cold_messages_read_ahead() {
    let mut world = World::new(PartitionConfig {
        tail_cache_bytes: 0,
        ..config(Durability::Os)
    });
    for number in 0..200 {
        let messages: Vec<_> = (0..50)
            .map(|index| sent(number * 50 + index, 100))
            .collect();
        world.append(&messages).expect("appended");
    }
    world.restart();
    let before = world.disk.reads;
    let mut expected = 0;
    loop {
        let polled = world.next(ALICE, 10);
        if polled.messages_count == 0 {
            break;
        }
        for message in got(&polled) {
            assert_eq!(message.offset, expected);
            expected += 1;
        }
    }
    assert_eq!(expected, 10_000);
    let reads = world.disk.reads - before;
    assert!(reads < 20, "1000 polls of 1.7 MB took {reads} reads");
}

/// LOG-15: while an append waits for its write, polls neither return nor count its messages.
#[test]
fn a_poll_never_returns_what_is_not_durable_yet() {
    for durability in [Durability::Os, Durability::Fsync] {
        let mut world = World::new(config(durability));
        world.append(&[sent(0, 10)]).expect("appended");
        let request_id = world.submit(Request::Append {
            batch: batch(&[sent(1, 10), sent(2, 10)]),
        });
        world.end_of_turn();
        while world.take_answer(request_id).is_none() {
            for strategy in [
                PollingStrategy::First,
                PollingStrategy::Last,
                PollingStrategy::Timestamp(0),
            ] {
                let polled = world.poll(strategy, 10);
                assert_eq!(
                    (offsets(&polled), polled.current_offset),
                    (vec![0], Offset(0))
                );
            }
            assert!(world.store(ALICE, 1).is_err());
            if world.take_answer(request_id).is_some() {
                break;
            }
            world.step();
        }
        assert_eq!(offsets(&world.poll(PollingStrategy::First, 10)), [0, 1, 2]);
    }
}

/// The response of an auto-commit poll waits for the write of the offset, not for a sync.
#[test]
fn auto_commit_is_written_before_the_answer() {
    let mut world = World::new(config(Durability::Fsync));
    world.append(&[sent(0, 10)]).expect("appended");
    world.settle();
    let request_id = world.submit(poll(PollingStrategy::Next, 1, Some(ALICE), true));
    assert!(world.take_answer(request_id).is_none());
    world.end_of_turn();
    let mut operations = Vec::new();
    while world.take_answer(request_id).is_none() {
        let kind = world
            .operations_under_way()
            .next()
            .map(|operation| match operation {
                StorageOperation::Create {
                    file: FileName::Offsets,
                } => "create",
                StorageOperation::Write {
                    file: FileName::Offsets,
                    ..
                } => "write",
                _ => "other",
            });
        operations.extend(kind);
        if !world.step() {
            break;
        }
        if operations.last() == Some(&"write") {
            break;
        }
    }
    assert_eq!(operations, ["create", "write"]);
    assert!(world.take_answer(request_id).is_some());
}

/// Accessors for consumer groups: the last offset returned and the offset currently stored.
#[test]
fn the_host_sees_how_far_a_group_is() {
    for mut world in everywhere() {
        assert_eq!(world.poll(PollingStrategy::Offset(20), 5).last_offset, None);
        assert_eq!(
            world.poll(PollingStrategy::First, 5).last_offset,
            Some(Offset(4))
        );
        assert_eq!(world.partition.stored_offset(GROUP), None);
        assert_eq!(world.next(GROUP, 7).last_offset, Some(Offset(6)));
        assert_eq!(world.partition.stored_offset(GROUP), Some(Offset(6)));
    }
}

/// LOG-10: offsets of deleted groups are deleted durably; those of other groups and of consumers are kept.
#[test]
fn offsets_of_deleted_groups_are_forgotten() {
    let mut world = filled(config(Durability::Os));
    let other = ConsumerKey::Group(2);
    for (consumer, offset) in [(ALICE, 3), (GROUP, 4), (other, 5)] {
        world.store(consumer, offset).expect("stored");
    }
    assert!(!world.partition.delete_offsets_of_missing_groups(|_| true));
    assert!(
        world
            .partition
            .delete_offsets_of_missing_groups(|key| key == 2)
    );
    world.end_of_turn();
    world.settle();
    for _ in 0..2 {
        assert_eq!(world.stored(GROUP), None);
        assert_eq!(world.stored(other), Some(5));
        assert_eq!(world.stored(ALICE), Some(3));
        world.restart();
    }
}

fn at_least(strategy: PollingStrategy, count: u32, minimum_bytes: u32) -> Request {
    Request::Poll(Poll {
        strategy,
        count,
        consumer: Some(ALICE),
        auto_commit: true,
        by: None,
        minimum_bytes,
        bytes_max: Poll::UNLIMITED,
    })
}

/// GW-7: a poll below its minimum returns and stores nothing, and reports exactly when a repetition is worthwhile.
#[test]
fn a_poll_with_a_minimum_waits_for_bytes_or_for_messages() {
    for mut world in everywhere() {
        let level = |answer| match answer {
            Ok(Response::BelowMinimum(level)) => level,
            other => panic!("{other:?}"),
        };
        let start = PollingStrategy::Offset(18);
        let (end, bytes) = (20, world.partition.visible_bytes());
        // Two messages are available; each takes 1064 bytes.
        let missing = level(world.ask(at_least(start, 10, 5 * 1064)));
        assert_eq!((missing.end.0, missing.bytes), (end + 8, bytes + 3 * 1064));
        let missing = level(world.ask(at_least(start, 10, 5 * 1064 - 1)));
        assert_eq!(missing.bytes, bytes + 3 * 1064 - 1);
        assert_eq!(world.stored(ALICE), None);

        for number in 20..22 {
            world.append(&[sent(number, 1000)]).expect("appended");
        }
        assert!(world.partition.visible_bytes() < missing.bytes);
        level(world.ask(at_least(start, 10, 5 * 1064)));
        world.append(&[sent(22, 1000)]).expect("appended");
        assert!(world.partition.visible_bytes() >= missing.bytes);
        let Ok(Response::Polled(polled)) = world.ask(at_least(start, 10, 5 * 1064)) else {
            panic!("there is enough");
        };
        assert_eq!(offsets(&polled), (18..23).collect::<Vec<_>>());
        assert_eq!(world.stored(ALICE), Some(22));

        // The maximum number of messages is sufficient, however small they are.
        let answer = world.ask(at_least(start, 3, u32::MAX));
        assert!(matches!(answer, Ok(Response::Polled(polled)) if polled.messages_count == 3));
        // A response of at most no messages cannot grow.
        let answer = world.ask(at_least(start, 0, 1));
        assert!(matches!(answer, Ok(Response::Polled(polled)) if polled.messages_count == 0));
    }
}

/// A poll may be limited to less than one message: it then names what that message needs.
#[test]
fn a_limited_poll_names_the_size_of_a_message_that_is_larger() {
    for mut world in everywhere() {
        let limited = |bytes_max| {
            Request::Poll(Poll {
                bytes_max,
                auto_commit: true,
                by: None,
                consumer: Some(ALICE),
                strategy: PollingStrategy::Offset(5),
                count: 10,
                minimum_bytes: 0,
            })
        };
        let refused = world.ask(limited(1063));
        let bytes = 1064;
        let expected = PartitionError::Read(ReadError::TooLarge { bytes });
        assert_eq!(refused, Err(expected));
        assert_eq!(world.stored(ALICE), None);
        let Ok(Response::Polled(polled)) = world.ask(limited(2 * 1064 + 1000)) else {
            panic!("there is room for two");
        };
        assert_eq!(
            (offsets(&polled), world.stored(ALICE)),
            (vec![5, 6], Some(6))
        );
    }
}

/// GW-7: if no message is found, the level is that of the first one that could be.
#[test]
fn a_poll_with_a_minimum_beyond_the_end_waits_for_its_offset() {
    for mut world in everywhere() {
        let bytes = world.partition.visible_bytes();
        let mut level = |strategy| match world.ask(at_least(strategy, 4, 1)) {
            Ok(Response::BelowMinimum(level)) => (level.end.0, level.bytes),
            other => panic!("{other:?}"),
        };
        assert_eq!(level(PollingStrategy::Offset(20)), (24, bytes + 1));
        assert_eq!(level(PollingStrategy::Offset(31)), (32, u64::MAX));
        assert_eq!(
            level(PollingStrategy::Offset(u64::MAX)),
            (u64::MAX, u64::MAX)
        );
        assert_eq!(level(PollingStrategy::Timestamp(u64::MAX)), (21, u64::MAX));
        world.store(ALICE, 19).expect("stored");
        let answer = world.ask(at_least(PollingStrategy::Next, 4, 1));
        assert!(matches!(answer, Ok(Response::BelowMinimum(level)) if level.end.0 == 24));
    }
}

/// GW-7: a response of the maximum size is sufficient, whatever minimum was requested.
#[test]
fn a_minimum_above_the_size_of_a_poll_does_not_hold_it_back() {
    let mut world = filled(PartitionConfig {
        poll_size_bytes_max: 5000,
        ..config(Durability::Os)
    });
    let answer = world.ask(at_least(PollingStrategy::First, 100, u32::MAX));
    assert!(matches!(answer, Ok(Response::Polled(polled)) if polled.messages_count == 4));
}

/// CTL-9: neither a store, nor a deletion, nor a poll of another user changes a stored offset; who manages the topic
/// changes it, and leaves it to its owner.
#[test]
fn a_stored_offset_is_changed_by_its_user() {
    let mut world = World::new(config(Durability::Os));
    for number in 0..5 {
        world.append(&[sent(number, 10)]).expect("appended");
    }
    let by = |user, manages| {
        Some(Committer {
            user: UserId(user),
            manages,
        })
    };
    let (consumer, offset) = (ALICE, Offset(1));
    let store = |by| Request::StoreOffset {
        consumer,
        offset,
        by,
    };
    let commit = |by| {
        let mut request = poll(PollingStrategy::First, 1, Some(ALICE), true);
        if let Request::Poll(poll) = &mut request {
            poll.by = by;
        }
        request
    };
    let (owner, other, manager) = (by(7, false), by(8, false), by(9, true));
    world.ask(store(owner)).expect("it is new");
    for is_restarted in [false, true] {
        if is_restarted {
            world.restart();
        }
        let refused = Err(PartitionError::OffsetOfAnotherUser);
        assert_eq!(world.ask(store(other)), refused);
        assert_eq!(world.ask(commit(other)), refused);
        let delete = Request::DeleteOffset {
            consumer,
            by: other,
        };
        assert_eq!(world.ask(delete), refused);
        assert_eq!(world.stored(ALICE), Some(1));
        let reading = poll(PollingStrategy::Next, 1, Some(ALICE), false);
        assert!(matches!(world.ask(reading), Ok(Response::Polled(_))));
        world.ask(store(manager)).expect("he manages the topic");
    }
    world.ask(commit(owner)).expect("it is still his");
    let delete = Request::DeleteOffset {
        consumer,
        by: manager,
    };
    world.ask(delete).expect("he manages the topic");
    world.ask(commit(other)).expect("it has no owner");
    assert!(world.ask(store(owner)).is_err());
}

/// LOG-10: the number of consumers with a stored offset is bounded. An additional one is refused, whichever way it
/// stores an offset; it can still read, and other consumers and groups continue.
#[test]
fn consumers_are_bounded() {
    let mut world = World::new(PartitionConfig {
        consumers_max: 2,
        ..config(Durability::Os)
    });
    for number in 0..5 {
        world.append(&[sent(number, 10)]).expect("appended");
    }
    let [first, second, third] = [1, 2, 3].map(ConsumerKey::Consumer);
    world.store(first, 1).expect("stored");
    world.next(second, 2);
    let refused = Err(PartitionError::TooManyConsumers);
    assert_eq!(world.store(third, 1), refused);
    let committing = poll(PollingStrategy::Next, 2, Some(third), true);
    assert_eq!(world.ask(committing), refused);
    assert_eq!(world.stored(third), None);
    let reading = poll(PollingStrategy::Next, 2, Some(third), false);
    assert!(matches!(world.ask(reading), Ok(Response::Polled(_))));
    world
        .store(ConsumerKey::Group(1), 1)
        .expect("groups do not count");
    world.store(first, 2).expect("it is there already");
    world.restart();
    assert_eq!(world.store(third, 1), refused);
    let consumer = second;
    world
        .ask(Request::DeleteOffset { consumer, by: None })
        .expect("deleted");
    world.store(third, 1).expect("one has gone");
}
