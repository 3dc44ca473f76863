//! Intents of publications that a start finds, from before and after purges.

use headrace_model::Durability;
use headrace_partition::storage::FileName;
use headrace_wire::hash::xxh3_64;

use crate::stages::{numbers, some};
use crate::support::disk::Crash;
use crate::support::world::{World, config};

/// Replace the purge epoch of the intent in the file of publications.
fn with_epoch(content: &[u8], epoch: u64) -> Vec<u8> {
    let mut fields = content[..content.len() - 8].to_vec();
    fields[56..64].copy_from_slice(&epoch.to_le_bytes());
    let checksum = xxh3_64(&fields);
    fields.extend_from_slice(&checksum.to_le_bytes());
    fields
}

/// An intent from before the last purge is void, whether or not the catalog still names its publication. One from after a
/// purge that is not in the manifest has not begun, and its publication is still to come.
#[test]
fn an_intent_of_another_purge_is_void_only_if_the_purge_followed_it() {
    for (epoch, is_void) in [(0, true), (2, false)] {
        let mut world = World::new(config(Durability::Os));
        world.append(&some(0..3, 100)).expect("appended");
        world.purge();
        world.settle();
        assert_eq!(world.config.purge_epoch, 1);
        let stage = world.stage(&some(10..15, 100));
        world.partition.publish(1, &[stage]);
        world.end_of_turn();
        let has_intent = |world: &World| {
            let files = world.disk.files();
            files.contains(&FileName::Transactions)
                && world.disk.content(FileName::Transactions).get(12) == Some(&1)
        };
        while !has_intent(&world) {
            world.step();
        }
        let content = with_epoch(world.disk.content(FileName::Transactions), epoch);
        world.disk.set_content(FileName::Transactions, content);
        world.crash(Crash::Kill);
        world.settle();
        assert_eq!(world.partition.applied(), u64::from(is_void));
        assert_eq!(world.partition.publish(1, &[stage]), is_void);
        world.settle_in_time(|partition| partition.applied() == 1);
        world.settle();
        let expected: Vec<u64> = if is_void { vec![] } else { (10..15).collect() };
        assert_eq!(numbers(&mut world), expected);
    }
}

/// Rewrite the record with an intent as earlier releases wrote it: the ids of the stages, without their messages.
fn in_first_version(content: &[u8]) -> Vec<u8> {
    const FIXED_BYTES: usize = 32 + 36;
    const PART_BYTES: usize = 28;
    let mut fields = content[..FIXED_BYTES].to_vec();
    fields[8..12].copy_from_slice(&1_u32.to_le_bytes());
    for part in content[FIXED_BYTES..content.len() - 8].chunks(PART_BYTES) {
        fields.extend_from_slice(&part[..16]);
    }
    let checksum = xxh3_64(&fields);
    fields.extend_from_slice(&checksum.to_le_bytes());
    fields
}

/// A publication that an earlier release has begun goes on wherever that was killed, also if one stage is lost since.
#[test]
fn an_intent_of_an_earlier_release_goes_on() {
    for is_lost in [false, true] {
        for steps in 0..12 {
            let mut world = World::new(config(Durability::Os));
            world.append(&some(0..3, 100)).expect("appended");
            let stages = [
                world.stage(&some(10..15, 100)),
                world.stage(&some(20..23, 100)),
            ];
            world.partition.publish(1, &stages);
            world.end_of_turn();
            let has_intent = |world: &World| {
                let files = world.disk.files();
                files.contains(&FileName::Transactions)
                    && world.disk.content(FileName::Transactions)[12] == 1
            };
            while !has_intent(&world) {
                world.step();
            }
            for _ in 0..steps {
                world.step();
            }
            if !has_intent(&world) {
                break;
            }
            let content = in_first_version(world.disk.content(FileName::Transactions));
            world.disk.set_content(FileName::Transactions, content);
            let appended = world.partition.written_end().0 - 3;
            if is_lost {
                world.disk.lose(FileName::Stage(stages[0]));
            }
            world.crash(Crash::Kill);
            world.settle_in_time(|partition| partition.applied() == 1);
            let kept = if is_lost { appended.min(5) } else { 5 };
            let published = numbers(&mut world);
            let first = published.len() - 3 - 3;
            assert!(first as u64 >= kept && (is_lost || first == 5));
            let expected = (0..3).chain((10..15).take(first)).chain(20..23);
            assert_eq!(published, expected.collect::<Vec<_>>(), "{steps} steps");
        }
    }
}
