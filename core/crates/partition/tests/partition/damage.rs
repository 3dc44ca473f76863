//! Damage is detected, reported and contained.

use headrace_model::{Durability, Offset};
use headrace_partition::storage::{FileName, StorageErrorKind};
use headrace_partition::{
    ConsumerKey, PartitionConfig, PartitionError, PollingStrategy, ReadError,
};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{got, offsets, sent};
use crate::support::world::{World, config};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);

/// Segments of about 94 messages, reopened, with all messages in storage only.
fn cold(messages: u64) -> World {
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 100_000,
        tail_cache_bytes: 0,
        ..config(Durability::Os)
    });
    for number in 0..messages {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.restart();
    world
}

/// LOG-11: an index with valid entries in the wrong order is rejected and rebuilt from the log.
#[test]
fn entries_of_an_index_out_of_order_are_not_believed() {
    const ENTRY_BYTES: usize = 32;
    let file = FileName::Index(Offset(0));
    let mut world = cold(300);
    let good = world.disk.content(file).to_vec();
    let mut swapped = good.clone();
    let (first, second) = swapped.split_at_mut(2 * ENTRY_BYTES);
    first[ENTRY_BYTES..].swap_with_slice(&mut second[..ENTRY_BYTES]);
    assert_ne!(swapped, good);
    world.disk.set_content(file, swapped);
    assert_eq!(
        offsets(&world.poll(PollingStrategy::Offset(15), 20)),
        (15..35).collect::<Vec<_>>()
    );
    world.settle();
    assert_eq!(world.disk.content(file), good);
}

/// LOG-12: a flipped byte anywhere in a sealed segment is detected on read, reported, and never served.
#[test]
fn damage_in_a_sealed_segment_is_found_and_named() {
    let file = FileName::Log(Offset(0));
    for byte in [0, 9, 25, 33, 45, 49, 53, 57, 64, 500, 1063] {
        let mut world = cold(300);
        world.disk.flip(file, 20 * 1064 + byte);
        let error = world
            .try_poll(PollingStrategy::Offset(20), 1)
            .expect_err("damage");
        let expected = ReadError::Damaged {
            namespace: world.config.namespace,
            offset: Offset(20),
            file,
            position: 20 * 1064,
        };
        assert_eq!(error, PartitionError::Read(expected), "byte {byte}");
        let text = error.to_string();
        assert!(
            text.contains("1/2/3") && text.contains("message 20") && text.contains(".log"),
            "{text}"
        );
        // Messages before the damage and elsewhere are served, and new messages are accepted.
        assert_eq!(
            offsets(&world.poll(PollingStrategy::Offset(15), 50)),
            [15, 16, 17, 18, 19]
        );
        assert_eq!(offsets(&world.poll(PollingStrategy::Offset(150), 1)), [150]);
        assert_eq!(world.partition.failure(), None);
        world.append(&[sent(300, 10)]).expect("appended");
        assert_eq!(offsets(&world.poll(PollingStrategy::Last, 1)), [300]);
    }
}

/// LOG-12: messages are verified by the first read after a start, also by small reads.
#[test]
fn every_first_read_verifies() {
    let mut world = cold(200);
    world.disk.flip(FileName::Log(Offset(0)), 50 * 1064 + 500);
    let mut seen = Vec::new();
    let error = loop {
        let request = crate::support::world::poll(PollingStrategy::Next, 3, Some(ALICE), true);
        match world.ask(request) {
            Ok(headrace_partition::Response::Polled(polled)) => {
                seen.extend(got(&polled).iter().map(|message| message.offset));
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    assert!(matches!(
        error,
        PartitionError::Read(ReadError::Damaged {
            offset: Offset(50),
            ..
        })
    ));
}

/// LOG-12: damage that occurs after a read is detected once the verification has expired, and the message is not served
/// from then on. Until then readers share one verification.
#[test]
fn damage_that_comes_after_a_read_is_found() {
    let mut world = cold(300);
    let all = |world: &mut World| world.try_poll(PollingStrategy::Offset(0), 94);
    assert_eq!(offsets(&all(&mut world).expect("good")).len(), 94);
    world.disk.flip(FileName::Log(Offset(0)), 20 * 1064 + 500);
    world.pass(world.config.verified_micros);
    let before = all(&mut world).expect("what comes before it");
    assert_eq!(offsets(&before), (0..20).collect::<Vec<_>>());
    for _ in 0..2 {
        let error = world.try_poll(PollingStrategy::Offset(20), 1);
        assert!(
            matches!(
                error,
                Err(PartitionError::Read(ReadError::Damaged {
                    offset: Offset(20),
                    ..
                }))
            ),
            "{error:?}"
        );
    }
}

/// LOG-12: every read is verified if so configured.
#[test]
fn every_read_can_verify() {
    let mut world = cold(300);
    world.config.verified_micros = 0;
    world.restart();
    world.poll(PollingStrategy::Offset(0), 94);
    world.disk.flip(FileName::Log(Offset(0)), 20 * 1064 + 500);
    assert!(world.try_poll(PollingStrategy::Offset(20), 1).is_err());
}

/// LOG-12, LOG-14: messages behind damage are found even if the index is lost as well.
#[test]
fn damage_without_an_index_is_contained() {
    let mut world = cold(300);
    world.disk.flip(FileName::Log(Offset(0)), 20 * 1064 + 52);
    world.disk.lose(FileName::Index(Offset(0)));
    assert_eq!(offsets(&world.poll(PollingStrategy::Offset(80), 1)), [80]);
    assert!(world.try_poll(PollingStrategy::Offset(20), 1).is_err());
    assert_eq!(
        offsets(&world.poll(PollingStrategy::Offset(22), 2)),
        [22, 23]
    );
}

/// LOG-12: whichever bit of a header is flipped, the next message is found at once, even by the first poll.
#[test]
fn the_message_behind_a_damaged_header_is_found() {
    for byte in 0..64 {
        let mut world = cold(150);
        world.disk.flip(FileName::Log(Offset(0)), 20 * 1064 + byte);
        assert_eq!(
            offsets(&world.poll(PollingStrategy::Offset(21), 1)),
            [21],
            "byte {byte}"
        );
        assert!(world.try_poll(PollingStrategy::Offset(20), 1).is_err());
    }
}

/// LOG-12: the way around damage is found again after other indexes have replaced the rebuilt one in memory.
#[test]
fn ways_around_damage_are_not_forgotten() {
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 5_000,
        tail_cache_bytes: 0,
        ..config(Durability::Os)
    });
    for number in 0..50 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.restart();
    let damaged = [1, 6, 11, 16, 21, 26];
    for message in damaged {
        // The second of a segment's five messages gets a wrong length.
        let file = FileName::Log(Offset(message / 5 * 5));
        world.disk.flip(file, 1064 + 52);
    }
    for _ in 0..3 {
        for offset in 0..50 {
            let polled = world.try_poll(PollingStrategy::Offset(offset), 1);
            assert_eq!(
                polled.is_err(),
                damaged.contains(&offset),
                "message {offset}"
            );
        }
    }
}

/// LOG-12: a log file that became shorter is damage, not the end of the log.
#[test]
fn a_cut_sealed_segment_is_damage() {
    let mut world = cold(300);
    world.disk.truncate(FileName::Log(Offset(0)), 30_000);
    assert_eq!(
        offsets(&world.poll(PollingStrategy::First, 10)),
        (0..10).collect::<Vec<_>>()
    );
    assert!(world.try_poll(PollingStrategy::Offset(60), 1).is_err());
    assert!(world.try_poll(PollingStrategy::Offset(28), 1).is_err());
    world.disk.lose(FileName::Log(Offset(0)));
    assert!(world.try_poll(PollingStrategy::Offset(70), 1).is_err());
    assert_eq!(offsets(&world.poll(PollingStrategy::Offset(150), 1)), [150]);
}

/// LOG-14: a partition that cannot be opened reports the reason, answers all requests with it, and keeps all files.
#[test]
fn an_unreadable_partition_closes_with_its_reason() {
    let harms: [fn(&mut World); 4] = [
        |world| {
            world.disk.flip(FileName::Manifest, 20);
            world.disk.flip(FileName::ManifestCopy, 20);
        },
        |world| {
            world.disk.lose(FileName::Manifest);
            world.disk.lose(FileName::ManifestCopy);
        },
        |world| {
            for file in [FileName::Manifest, FileName::ManifestCopy] {
                let fault = Fault::Read(file, StorageErrorKind::Damaged);
                world.disk.faults.push(fault);
            }
        },
        |world| {
            let fault = Fault::Read(FileName::Offsets, StorageErrorKind::Damaged);
            world.disk.faults.push(fault);
        },
    ];
    for harm in harms {
        let mut world = cold(100);
        world.store(ALICE, 5).expect("stored");
        world.close();
        let files = world.disk.files();
        world.reopen_with(harm);
        let failure = world.partition.failure().expect("a failure").clone();
        assert!(!failure.readable);
        assert!(failure.to_string().contains("out of service"), "{failure}");
        assert!(world.statistics.failed());
        let error = world.append(&[sent(0, 10)]).expect_err("out of service");
        assert!(matches!(error, PartitionError::Failed(_)));
        assert!(world.try_poll(PollingStrategy::First, 1).is_err());
        world.close();
        let is_manifest =
            |file: &FileName| matches!(file, FileName::Manifest | FileName::ManifestCopy);
        let kept = files.iter().filter(|file| !is_manifest(file));
        for file in kept {
            assert!(world.disk.files().contains(file), "nothing is thrown away");
        }
    }
}

/// LOG-14: a partition that failed because of its storage opens once the storage works again.
#[test]
fn a_partition_that_could_not_be_opened_opens_later() {
    let mut world = cold(100);
    world.close();
    world.reopen_with(|world| {
        let file = FileName::Log(Offset(94));
        // The first message, and the scan.
        let harm = Fault::Read(file, StorageErrorKind::Damaged);
        world.disk.faults.extend([harm; 2]);
        world.disk.lose(FileName::Index(Offset(94)));
    });
    assert!(world.partition.failure().is_some());
    world.close();
    world.crash(Crash::Kill);
    assert_eq!(world.partition.failure(), None);
    assert_eq!(world.poll(PollingStrategy::First, 1000).messages_count, 100);
}

/// LOG-12: a search by timestamp skips a segment without any intact message, and nothing else.
#[test]
fn timestamps_are_found_on_both_sides_of_damage() {
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 5_000,
        tail_cache_bytes: 0,
        ..config(Durability::Os)
    });
    for number in 0..35 {
        world.append(&[sent(number, 1000)]).expect("appended");
        world.now.0 += 10;
    }
    world.restart();
    let length = world.disk.content(FileName::Log(Offset(15))).len();
    world
        .disk
        .set_content(FileName::Log(Offset(15)), vec![0; length]);
    for _ in 0..2 {
        for offset in (0..15).chain(20..35).rev() {
            let timestamp = PollingStrategy::Timestamp(1_000_000 + offset * 10);
            assert_eq!(offsets(&world.poll(timestamp, 1)), [offset]);
        }
        world.restart();
    }
}

/// SHARD-12: if the host lacks memory or a handle for a read, a smaller read is tried and then repeated. Neither damage
/// nor a refusal is reported.
#[test]
fn exhausted_resources_delay_reads() {
    let mut world = cold(100);
    world.poll(PollingStrategy::First, 1);
    let file = FileName::Log(Offset(0));
    let exhausted = Fault::Read(file, StorageErrorKind::Exhausted);
    let began = world.now;
    world.disk.faults.push(exhausted);
    let polled = offsets(&world.poll(PollingStrategy::Offset(40), 100));
    assert_eq!(polled, (40..100).collect::<Vec<_>>());
    assert_eq!(world.now, began, "less was to be had at once");
    world.disk.faults.extend([exhausted; 12]);
    assert_eq!(offsets(&world.poll(PollingStrategy::Offset(70), 1)), [70]);
    assert!(world.now > began, "at first nothing was to be had");
    assert!(world.disk.faults.is_empty());
}

/// LOG-11: a message counts as what follows damage only if the lost messages have room for at least their headers before
/// it. Otherwise it is from elsewhere, and the offsets between would be reserved for nothing.
#[test]
fn lost_messages_have_room_for_their_headers() {
    const MESSAGE_BYTES: usize = 64 + 20;
    let log = FileName::Log(Offset(0));
    for (missing, is_follower) in [(0, true), (1, false), (2, false)] {
        let mut world = World::new(config(Durability::Os));
        for number in 0..6 {
            world.append(&[sent(number, 20)]).expect("appended");
        }
        world.settle();
        // The second message is damaged, and so many behind it are not there.
        let mut content = world.disk.content(log).to_vec();
        assert_eq!(content.len(), 6 * MESSAGE_BYTES);
        content.drain(2 * MESSAGE_BYTES..(2 + missing) * MESSAGE_BYTES);
        content[MESSAGE_BYTES + 70] ^= 1;
        world.disk.set_content(log, content);
        world.disk.lose(FileName::Index(Offset(0)));
        world.crash(Crash::Kill);
        let end = if is_follower { 6 } else { 1 };
        assert_eq!(world.partition.next_offset(), Offset(end), "{missing}");
    }
}
