//! Recovery: crashes, torn tails, lost and damaged indexes, and the cost of opening.

use headrace_model::{Durability, Offset};
use headrace_partition::storage::FileName;
use headrace_partition::storage::StorageErrorKind;
use headrace_partition::{
    ConsumerKey, Notice, PartitionConfig, PartitionError, PollingStrategy, ReadError, Request,
};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{batch, offsets, sent};
use crate::support::world::{World, config};

const LOG: FileName = FileName::Log(Offset(0));
const INDEX: FileName = FileName::Index(Offset(0));
const ALICE: ConsumerKey = ConsumerKey::Consumer(1);

fn filled(config: PartitionConfig, messages: u64) -> World {
    let mut world = World::new(config);
    for number in 0..messages {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world
}

fn all(world: &mut World) -> Vec<u64> {
    offsets(&world.poll(PollingStrategy::First, 10_000))
}

/// LOG-11: wherever the last write was torn, whole messages before stay and the rest is cut off.
#[test]
fn a_torn_tail_is_cut_at_the_last_whole_message() {
    let mut world = filled(config(Durability::Os), 20);
    world.crash(Crash::Kill);
    let content = world.disk.content(LOG).to_vec();
    for length in (18 * 1064..20 * 1064).step_by(97) {
        world.disk.set_content(LOG, content[..length].to_vec());
        world.crash(Crash::Kill);
        let whole = length as u64 / 1064;
        assert_eq!(all(&mut world), (0..whole).collect::<Vec<_>>());
        assert_eq!(world.disk.content(LOG).len() as u64, whole * 1064);
        world.append(&[sent(0, 10)]).expect("appended");
        assert_eq!(all(&mut world).last(), Some(&whole));
        world.crash(Crash::Kill);
        assert_eq!(all(&mut world).last(), Some(&whole));
    }
}

/// LOG-11: garbage behind the last message, or a damaged last message, is cut off as well.
#[test]
fn a_damaged_tail_is_cut() {
    for length in [1, 63, 64, 5000] {
        let mut world = filled(config(Durability::Os), 20);
        world.crash(Crash::Kill);
        let mut content = world.disk.content(LOG).to_vec();
        content.resize(content.len() + length, 0xa5);
        world.disk.set_content(LOG, content);
        world.crash(Crash::Kill);
        assert_eq!(all(&mut world), (0..20).collect::<Vec<_>>());
        world.disk.flip(LOG, 19 * 1064 + 500);
        world.crash(Crash::Kill);
        assert_eq!(all(&mut world), (0..19).collect::<Vec<_>>());
    }
}

/// LOG-11, LOG-12: bytes followed by valid messages are damage, with or without an index, whichever byte of a message
/// is affected. The valid messages are kept, the damaged one is reported, and no offset is reused.
#[test]
fn damage_in_the_open_segment_costs_one_message() {
    for byte in [
        0, 9, 24, 31, 33, 39, 45, 49, 50, 53, 54, 55, 57, 64, 500, 1063,
    ] {
        let mut world = filled(config(Durability::Fsync), 200);
        world.close();
        let size = world.disk.content(LOG).len();
        world.disk.lose(INDEX);
        world.disk.flip(LOG, 20 * 1064 + byte);
        world.crash(Crash::Kill);
        let notice = Notice::Damaged {
            offset: Offset(20),
            messages_count: 1,
            file: LOG,
            position: 20 * 1064,
        };
        assert_eq!(world.notices, [notice], "byte {byte}");
        let text = notice.to_string();
        assert!(text.contains("offset 20") && text.contains("0.log at byte 21280"));
        assert_eq!(world.disk.content(LOG).len(), size);
        for _ in 0..2 {
            assert_eq!(world.partition.failure(), None);
            let found = world.try_poll(PollingStrategy::Offset(20), 1);
            let error = ReadError::Damaged {
                namespace: world.config.namespace,
                offset: Offset(20),
                file: LOG,
                position: 20 * 1064,
            };
            assert_eq!(found, Err(PartitionError::Read(error)), "byte {byte}");
            let behind = offsets(&world.poll(PollingStrategy::Offset(21), 1000));
            assert_eq!(behind[..179], (21..200).collect::<Vec<_>>());
            let end = world.partition.visible_end();
            world.append(&[sent(200, 10)]).expect("appended");
            assert_eq!(offsets(&world.poll(PollingStrategy::Last, 1)), [end.0]);
            assert!(end.0 >= 200, "an offset is given out anew");
            world.crash(Crash::Kill);
        }
    }
}

/// LOG-11: damage in messages behind the last index entry, with a torn write behind it, is handled.
#[test]
fn damage_is_distinguished_from_a_torn_tail() {
    let mut world = filled(config(Durability::Os), 100);
    world.crash(Crash::Kill);
    world.disk.flip(LOG, 97 * 1064 + 300);
    world.disk.truncate(LOG, 100 * 1064 - 10);
    let torn = world.disk.content(LOG)[99 * 1064..].to_vec();
    world.crash(Crash::Kill);
    let kept = FileName::Cut(Offset(0), 1);
    assert_eq!(world.disk.content(kept), torn);
    assert!(matches!(
        world.notices[..],
        [Notice::Cut { .. }, Notice::Damaged { .. }]
    ));
    assert_eq!(world.partition.visible_end(), Offset(99));
    assert!(world.try_poll(PollingStrategy::Offset(97), 1).is_err());
    assert_eq!(offsets(&world.poll(PollingStrategy::Offset(98), 9)), [98]);
}

/// LOG-11: a payload may consist of messages; those inside a torn message are not messages of this log.
#[test]
fn messages_in_the_payload_of_a_torn_one_stay_there() {
    let mut world = filled(config(Durability::Os), 30);
    world.crash(Crash::Kill);
    let payload = world.disk.content(LOG)[5 * 1064..].to_vec();
    world.disk.truncate(LOG, 5 * 1064);
    world.disk.lose(INDEX);
    world.crash(Crash::Kill);
    world.pass(1_000_000);
    let mut mirror = sent(0, 8);
    mirror.payload = payload;
    world.append(&[mirror]).expect("appended");
    world.crash(Crash::Kill);
    world.disk.lose(INDEX);
    let length = world.disk.content(LOG).len();
    world.disk.truncate(LOG, length - 1);
    world.crash(Crash::Kill);
    assert_eq!(all(&mut world), (0..5).collect::<Vec<_>>());
}

/// Bytes cut off are kept every time, until the messages before them are removed; if there is no space for them, this
/// is reported.
#[test]
fn what_is_cut_is_kept_beside_the_log() {
    let mut world = filled(config(Durability::Os), 20);
    world.crash(Crash::Kill);
    for number in 1..=3 {
        let content = world.disk.content(LOG).to_vec();
        world.disk.truncate(LOG, content.len() - 100);
        let torn = content[content.len() - 1064..content.len() - 100].to_vec();
        world.crash(Crash::Kill);
        let kept = FileName::Cut(Offset(0), number);
        assert_eq!(world.disk.content(kept), torn);
        let position = (20 - u64::from(number)) * 1064;
        let notice = Notice::Cut {
            file: LOG,
            position,
            bytes: 964,
            saved_as: kept,
        };
        assert_eq!(world.notices, [notice]);
    }
    world.purge();
    world.settle();
    assert!(
        !world
            .disk
            .files()
            .iter()
            .any(|file| matches!(file, FileName::Cut(..)))
    );

    let mut world = filled(config(Durability::Os), 20);
    world.settle();
    world.reopen_with(|world| {
        world.disk.truncate(LOG, 20 * 1064 - 1);
        world
            .disk
            .faults
            .push(Fault::SetAside(StorageErrorKind::NoSpace));
    });
    assert!(matches!(
        world.notices[..],
        [Notice::CutWithoutCopy { bytes: 1063, .. }]
    ));
    assert_eq!(all(&mut world), (0..19).collect::<Vec<_>>());
}

/// Durability `os`: a killed process loses no acknowledged message. Durability `fsync`: neither does a loss of power.
#[test]
fn what_was_acknowledged_survives_what_it_should() {
    for seed in 0..50 {
        for (durability, crash) in [
            (Durability::Os, Crash::Kill),
            (Durability::Fsync, Crash::Kill),
            (Durability::Fsync, Crash::Power),
        ] {
            let mut world = World::shuffled(config(durability), seed);
            for number in 0..5 {
                world.append(&[sent(number, 3000)]).expect("appended");
                world.store(ALICE, number).expect("stored");
            }
            world.submit_in_place(&[sent(5, 3000)]);
            world.end_of_turn();
            world.crash(crash);
            let messages = all(&mut world);
            assert!(matches!(messages.len(), 5 | 6), "seed {seed}: {messages:?}");
            assert_eq!(world.stored(ALICE), Some(4), "seed {seed}");
        }
    }
}

/// Durability `os`: messages covered by a background sync survive a loss of power, and the sync starts by itself.
#[test]
fn background_syncs_bound_what_power_can_take() {
    let mut world = filled(config(Durability::Os), 10);
    let deadline = world.partition.next_deadline().expect("a sync is due");
    assert_eq!(world.statistics.unsynced_bytes(), 10 * 1064);
    world.pass(deadline.0 - world.now.0);
    world.settle();
    assert_eq!(world.statistics.unsynced_bytes(), 0);
    let deadline = world.partition.next_deadline().expect("a record is due");
    world.pass(deadline.0 - world.now.0);
    world.settle();
    assert_eq!(world.partition.next_deadline(), None);
    assert!(world.partition.is_idle());
    world.append(&[sent(10, 1000)]).expect("appended");
    world.crash(Crash::Power);
    assert!(all(&mut world).len() >= 10);
    let mut world = filled(
        PartitionConfig {
            sync_bytes: 5000,
            sync_interval_micros: 0,
            ..config(Durability::Os)
        },
        10,
    );
    world.settle();
    assert!(world.statistics.unsynced_bytes() < 5000);
}

/// LOG-10: an offset stored by a poll is acknowledged before it is synced, and synced in the background soon after.
#[test]
fn background_syncs_bound_how_far_stored_offsets_go_back() {
    for durability in [Durability::Os, Durability::Fsync] {
        let mut world = filled(config(durability), 10);
        world.settle();
        while let Some(deadline) = world.partition.next_deadline() {
            world.pass(deadline.0 - world.now.0);
            world.settle();
        }
        assert_eq!(world.next(ALICE, 4).last_offset, Some(Offset(3)));
        world.settle();
        let deadline = world.partition.next_deadline().expect("a sync is due");
        assert_eq!(deadline.0 - world.now.0, world.config.sync_interval_micros);
        // Later changes do not delay the sync.
        world.pass(world.config.sync_interval_micros / 2);
        assert_eq!(world.next(ALICE, 4).last_offset, Some(Offset(7)));
        world.settle();
        assert_eq!(world.partition.next_deadline(), Some(deadline));
        world.pass(deadline.0 - world.now.0);
        world.settle();
        assert_eq!(world.partition.next_deadline(), None);
        assert!(world.partition.is_idle());
        world.crash(Crash::Power);
        assert_eq!(world.stored(ALICE), Some(7), "{durability:?}");
    }
}

/// LOG-15: stored offsets beyond the end left by a crash are lowered to that end.
#[test]
fn stored_offsets_never_pass_the_last_message() {
    let mut world = filled(config(Durability::Os), 20);
    world.store(ALICE, 19).expect("stored");
    world.crash(Crash::Kill);
    world.disk.truncate(LOG, 10 * 1064);
    world.crash(Crash::Kill);
    assert_eq!(world.stored(ALICE), Some(9));
    for number in 0..20 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.crash(Crash::Kill);
    assert_eq!(world.stored(ALICE), Some(9));
}

/// LOG-11: a missing, cut or damaged index does not prevent opening, in the open segment or in sealed ones.
#[test]
fn indexes_are_rebuilt_from_their_logs() {
    let harms: [fn(&mut World, FileName); 5] = [
        |world, index| world.disk.lose(index),
        |world, index| world.disk.truncate(index, 0),
        |world, index| world.disk.truncate(index, 33),
        |world, index| world.disk.flip(index, 70),
        |world, index| {
            let garbage = vec![0x3c; 5000];
            world.disk.set_content(index, garbage);
        },
    ];
    for harm in harms {
        let mut world = filled(
            PartitionConfig {
                segment_size_bytes: 200_000,
                tail_cache_bytes: 0,
                ..config(Durability::Os)
            },
            1000,
        );
        world.close();
        let indexes = world
            .disk
            .files()
            .into_iter()
            .filter(|file| matches!(file, FileName::Index(_)));
        for index in indexes.collect::<Vec<_>>() {
            harm(&mut world, index);
        }
        world.crash(Crash::Kill);
        for offset in [999, 10, 500, 180, 700] {
            let polled = world.poll(PollingStrategy::Offset(offset), 1);
            assert_eq!(offsets(&polled), [offset]);
            let polled = world.poll(PollingStrategy::Timestamp(1_000_000), 1);
            assert_eq!(offsets(&polled), [0]);
        }
        world.settle();
        let reads = world.disk.reads;
        world.restart();
        world.poll(PollingStrategy::Offset(100), 1);
        assert!(
            world.disk.reads - reads <= 8,
            "the index file is good again"
        );
    }
}

/// LOG-14: an index that contradicts its log is rejected.
#[test]
fn a_wrong_index_is_never_trusted_over_the_log() {
    let mut world = filled(config(Durability::Os), 100);
    world.close();
    let index = world.disk.content(INDEX).to_vec();
    let log = world.disk.content(LOG).to_vec();
    // An index of the same generation and base, with valid entries, but of another log with shorter messages.
    let mut other = World::new(config(Durability::Os));
    for number in 0..300 {
        other.append(&[sent(number, 300)]).expect("appended");
    }
    other.close();
    other.disk.set_content(INDEX, index);
    other.crash(Crash::Kill);
    assert_eq!(all(&mut other), (0..300).collect::<Vec<_>>());
    // An index that also reaches beyond the log.
    other.close();
    let beyond = other.disk.content(INDEX).to_vec();
    world.disk.set_content(INDEX, beyond);
    world.disk.set_content(LOG, log[..50 * 1064].to_vec());
    let longer = world.disk.content(INDEX).len();
    world.crash(Crash::Kill);
    assert_eq!(all(&mut world), (0..50).collect::<Vec<_>>());
    assert!(
        world.disk.content(INDEX).len() < longer,
        "entries of what is gone are cut off"
    );
}

/// LOG-11: opening takes a few operations, whatever the amount of data.
#[test]
fn opening_takes_few_operations() {
    let mut empty = World::new(config(Durability::Os));
    empty.settle();
    assert_eq!(
        empty.disk.executed, 1,
        "an untouched partition is listed and nothing else"
    );
    assert!(empty.partition.is_open() && empty.partition.is_idle());
    empty.restart();
    assert_eq!(empty.disk.executed, 2);
    assert_eq!(empty.disk.files(), []);

    let mut world = filled(
        PartitionConfig {
            segment_size_bytes: 100_000,
            ..config(Durability::Os)
        },
        2000,
    );
    world.store(ALICE, 5).expect("stored");
    world.close();
    let before = world.disk.executed;
    world.restart();
    let clean = world.disk.executed - before;
    assert!(
        clean <= 5,
        "listing, manifest, offsets, index, perhaps log: {clean}"
    );
    let before = world.disk.executed;
    world.crash(Crash::Kill);
    let killed = world.disk.executed - before;
    assert!(killed <= 6, "{killed} operations after a crash");
    assert_eq!(all(&mut world).len(), 2000);
}

/// LOG-11: the time to recover depends on the data appended since the last sync, not on the total.
#[test]
fn only_what_follows_the_last_entry_is_scanned() {
    let mut world = filled(config(Durability::Fsync), 1000);
    world.settle();
    // Damage far before the end is not detected when opening, but when reading.
    world.disk.flip(LOG, 10 * 1064 + 100);
    world.crash(Crash::Kill);
    assert_eq!(world.partition.failure(), None);
    assert_eq!(offsets(&world.poll(PollingStrategy::Last, 1)), [999]);
    assert!(world.try_poll(PollingStrategy::Offset(10), 1).is_err());
}

/// LOG-2, LOG-11: a new segment without bytes is continued; one with a wrong base is removed.
#[test]
fn an_empty_last_segment_is_taken_over() {
    let small = PartitionConfig {
        segment_size_bytes: 10_000,
        ..config(Durability::Os)
    };
    let mut world = filled(small, 10);
    world.settle();
    world.crash(Crash::Kill);
    let next = FileName::Log(Offset(10));
    assert!(world.disk.files().contains(&next));
    assert_eq!(world.disk.content(next).len(), 0);
    world.append(&[sent(10, 10)]).expect("appended");
    assert_eq!(all(&mut world), (0..11).collect::<Vec<_>>());
    assert!(!world.disk.content(next).is_empty());

    let mut world = filled(world.config, 10);
    world.settle();
    world.disk.lose(INDEX);
    world.disk.truncate(LOG, 9 * 1064 + 5);
    world.crash(Crash::Kill);
    assert_eq!(all(&mut world), (0..9).collect::<Vec<_>>());
    world.settle();
    assert!(!world.disk.files().contains(&next));
    world.append(&[sent(9, 10)]).expect("appended");
    assert_eq!(all(&mut world), (0..10).collect::<Vec<_>>());
}

/// LOG-2, LOG-11: a file left behind the end by a loss of power is removed before another takes its name.
#[test]
fn what_is_left_behind_the_end_is_removed_before_its_name_is_used() {
    let small = PartitionConfig {
        segment_size_bytes: 4 * 1064,
        ..config(Durability::Os)
    };
    for seed in 0..20 {
        let mut world = filled(small.clone(), 4);
        world.settle();
        let next = FileName::Log(Offset(4));
        assert!(world.disk.files().contains(&next));
        world.disk.lose(INDEX);
        world.disk.truncate(LOG, 3 * 1064);
        world.reopen_without_settling();
        world.random = fastrand::Rng::with_seed(seed);
        world.is_shuffled = true;
        let request_ids = [3, 4].map(|number| world.submit_in_place(&[sent(number, 1000)]));
        for request_id in request_ids {
            world.wait_for(request_id).expect("appended");
        }
        world.settle();
        world.crash(Crash::Kill);
        assert_eq!(all(&mut world), (0..5).collect::<Vec<_>>());
    }
}

/// LOG-11: an empty file amid the segments, left over when the log before it was cut, hides no messages.
#[test]
fn an_empty_file_amid_the_segments_hides_nothing() {
    let mut world = filled(
        PartitionConfig {
            segment_size_bytes: 10_000,
            ..config(Durability::Os)
        },
        10,
    );
    world.settle();
    let left = FileName::Log(Offset(10));
    world.disk.lose(INDEX);
    world.disk.truncate(LOG, 9 * 1064);
    world.reopen_with(|world| world.disk.faults.push(Fault::Remove));
    world.settle();
    assert!(world.disk.files().contains(&left) && world.disk.faults.is_empty());
    let three: Vec<_> = (9..12).map(|number| sent(number, 1000)).collect();
    world.append(&three).expect("appended");
    world.append(&[sent(12, 10)]).expect("appended");
    world.crash(Crash::Kill);
    assert_eq!(all(&mut world), (0..13).collect::<Vec<_>>());
    world.settle();
    assert!(!world.disk.files().contains(&left));
}

/// Closing writes, syncs and answers everything, and refuses new requests.
#[test]
fn closing_drains() {
    for durability in Durability::ALL {
        let mut world = World::new(config(durability));
        let request_ids: Vec<_> = (0..10)
            .map(|number| world.submit_in_place(&[sent(number, 5000)]))
            .collect();
        world.close();
        for request_id in request_ids {
            let answer = world.take_answer(request_id).expect("an answer");
            // Requests queued before the partition was open may also be refused.
            assert!(answer.is_ok() || answer == Err(PartitionError::Closed));
        }
        world.crash(Crash::Kill);
        let mut expected = 0;
        for number in 0..10 {
            let request_id = world.submit_in_place(&[sent(number, 5000)]);
            if durability == Durability::Memory {
                assert!(world.take_answer(request_id).expect("at once").is_ok());
            }
            expected += 1;
        }
        let last = world.submit(Request::StoreOffset {
            by: None,
            consumer: ALICE,
            offset: Offset(0),
        });
        world.close();
        let stored = world.take_answer(last).expect("an answer").is_ok();
        let late = world.submit_in_place(&[sent(0, 10)]);
        assert_eq!(world.take_answer(late), Some(Err(PartitionError::Closed)));
        world.crash(Crash::Power);
        assert_eq!(all(&mut world).len(), expected);
        assert_eq!(world.stored(ALICE).is_some(), stored);
    }
}

/// LOG-12: a segment that was listed and never begun is not missed, also if the log has no other.
#[test]
fn a_segment_that_was_never_begun_is_no_loss() {
    for seed in 0..8 {
        let mut world = World::new(PartitionConfig {
            segment_size_bytes: 600,
            ..config(Durability::Fsync)
        });
        world.settle();
        world.random.seed(seed);
        // The manifest lists the segment that is full and the next one, and then the process dies.
        let request = batch(&[sent(1, 600)]);
        world.submit(Request::Append { batch: request });
        world.end_of_turn();
        assert!(world.step());
        world.crash(Crash::Kill);
        for messages in [&[sent(1, 8), sent(2, 600)][..], &[sent(3, 8)]] {
            world.append(messages).expect("appended");
        }
        world.restart();
        assert_eq!(world.notices, [], "seed {seed}");
    }
}
