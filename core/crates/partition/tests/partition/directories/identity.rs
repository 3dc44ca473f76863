//! Identity and completeness of a directory. Its parts are bound to each other: what does not fit is
//! neither served nor removed, and the offsets of lost messages are not used again.

use headrace_log::check::rebuilt_manifest;
use headrace_model::{Durability, Namespace, Offset, PartitionId, StreamId, TopicId};
use headrace_partition::storage::FileName;
use headrace_partition::{
    ConsumerKey, Notice, PartitionConfig, PollingStrategy, Request, Response,
};

use crate::support::disk::Crash;
use crate::support::messages::{got, offsets, sent};
use crate::support::world::{World, config};

const ALICE: ConsumerKey = ConsumerKey::Consumer(1);
const MANIFESTS: [FileName; 2] = [FileName::Manifest, FileName::ManifestCopy];

/// Segments of ten messages, the last one open with five, closed.
fn closed(config: &PartitionConfig) -> World {
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 10 * 1064,
        tail_cache_bytes: 0,
        ..config.clone()
    });
    for number in 0..35 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.store(ALICE, 7).expect("stored");
    world.close();
    world
}

/// The partition beside it in the same topic: the same incarnation, messages of the same size, other contents.
fn neighbour() -> World {
    let namespace = Namespace::new(StreamId(1), TopicId(2), PartitionId(4)).expect("small numbers");
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 10 * 1064,
        namespace,
        ..config(Durability::Fsync)
    });
    world.now.0 += 5;
    for number in 0..35 {
        world
            .append(&[sent(1000 + number, 1000)])
            .expect("appended");
    }
    world.store(ALICE, 30).expect("stored");
    world.close();
    world
}

fn take(world: &mut World, other: &World, files: &[FileName]) {
    for file in files {
        let content = other.disk.content(*file).to_vec();
        world.disk.set_content(*file, content);
    }
}

fn all(world: &mut World) -> Vec<u64> {
    offsets(&world.poll(PollingStrategy::First, 10_000))
}

fn next_offset(world: &mut World) -> u64 {
    match world.append(&[sent(99, 10)]) {
        Ok(Response::Appended { base_offset, .. }) => base_offset.0,
        other => panic!("not appended: {other:?}"),
    }
}

type Harm<'a> = &'a dyn Fn(&mut World, FileName);

/// LOG-14: a manifest that is lost, damaged or another partition's is rebuilt from its copy, whichever of the two it is.
#[test]
fn a_manifest_is_rebuilt_from_its_copy() {
    let other = neighbour();
    let harms: [Harm<'_>; 4] = [
        &|world, file| world.disk.lose(file),
        &|world, file| world.disk.flip(file, 30),
        &|world, file| world.disk.truncate(file, 0),
        &|world, file| {
            let content = other.disk.content(file).to_vec();
            world.disk.set_content(file, content);
        },
    ];
    for harm in harms {
        for file in MANIFESTS {
            let mut world = closed(&config(Durability::Fsync));
            let good = world.disk.content(FileName::Manifest).to_vec();
            harm(&mut world, file);
            world.crash(Crash::Kill);
            assert_eq!(world.partition.failure(), None);
            assert_eq!(all(&mut world), (0..35).collect::<Vec<_>>());
            let was_noticed = world.notices.contains(&Notice::Rebuilt { file });
            assert_eq!(
                was_noticed,
                file == FileName::Manifest,
                "{:?}",
                world.notices
            );
            if file == FileName::Manifest {
                world.settle();
                assert_ne!(world.disk.content(file), []);
                // It has one opening more.
                assert!(good.len() <= world.disk.content(file).len());
            }
            assert_eq!(next_offset(&mut world), 35);
            assert_eq!(world.stored(ALICE), Some(7));
        }
    }
}

/// LOG-13: a directory that belongs to another partition, another catalog or a later incarnation is neither served nor
/// changed, and the reason names the owner. A purge moves it away.
#[test]
fn another_partitions_directory_is_left_as_it_is() {
    let own = || PartitionConfig {
        catalog: 0xa,
        ..config(Durability::Fsync)
    };
    let namespace = Namespace::new(StreamId(1), TopicId(2), PartitionId(4)).expect("small numbers");
    let cases: [(PartitionConfig, &str); 3] = [
        (PartitionConfig { namespace, ..own() }, "partition 1/2/3"),
        (
            PartitionConfig {
                catalog: 0xb,
                ..own()
            },
            "another catalog",
        ),
        (
            PartitionConfig {
                incarnation: 76,
                ..own()
            },
            "a later partition",
        ),
    ];
    for (config, reason) in cases {
        let mut world = closed(&own());
        let files = world.disk.files();
        world.config = PartitionConfig {
            segment_size_bytes: 10 * 1064,
            ..config
        };
        world.crash(Crash::Kill);
        let failure = world
            .partition
            .failure()
            .expect("it is out of service")
            .clone();
        assert!(
            !failure.readable && failure.reason.contains(reason),
            "{failure}"
        );
        assert!(world.append(&[sent(0, 10)]).is_err());
        world.close();
        assert_eq!(world.disk.files(), files);
        world.crash(Crash::Kill);
        world.purge();
        world.settle();
        assert_eq!(world.partition.failure(), None);
        assert_eq!(
            world.disk.files_set_aside(),
            files,
            "a purge removes nothing of others"
        );
        assert_eq!(next_offset(&mut world), 0);
    }
}

/// LOG-12: a log of the neighbour in the place of one of ours is never served, although its messages are intact.
#[test]
fn an_exchanged_log_is_not_served() {
    let other = neighbour();
    for base in [0, 10, 20, 30] {
        for keeps_index in [true, false] {
            let mut world = closed(&config(Durability::Fsync));
            let file = FileName::Log(Offset(base));
            take(&mut world, &other, &[file]);
            if !keeps_index {
                world.disk.lose(FileName::Index(Offset(base)));
            }
            world.crash(Crash::Kill);
            assert_eq!(world.partition.failure(), None);
            let mut seen = Vec::new();
            for offset in 0..35 {
                if let Ok(polled) = world.try_poll(PollingStrategy::Offset(offset), 1) {
                    seen.extend(
                        got(&polled)
                            .into_iter()
                            .map(|message| (message.offset, message.id)),
                    );
                }
            }
            let foreign = (base..base + 10).collect::<Vec<_>>();
            let expected: Vec<u64> = (0..35).filter(|offset| !foreign.contains(offset)).collect();
            let got: Vec<u64> = seen.iter().map(|(offset, _)| *offset).collect();
            assert_eq!(got, expected, "{file}");
            assert_eq!(next_offset(&mut world), 35, "{file}");
            let is_reported = |notice: &Notice| matches!(notice, Notice::Exchanged { file: of } | Notice::Foreign { file: of, .. } if *of == file);
            assert!(world.notices.iter().any(is_reported), "{:?}", world.notices);
        }
    }
}

/// Damage of the first message: in its checksum, in its payload, in all of its header, and of all of it.
fn harm_first_message(world: &mut World, file: FileName, how: usize) {
    match how {
        0 => world.disk.flip(file, 3),
        1 => world.disk.flip(file, 100),
        _ => {
            let mut content = world.disk.content(file).to_vec();
            let end = if how == 2 { 64 } else { 1064 };
            content[..end].fill(0);
            world.disk.set_content(file, content);
        }
    }
}

fn read_each(world: &mut World) -> Vec<u64> {
    let mut seen = Vec::new();
    for offset in 0..35 {
        if let Ok(polled) = world.try_poll(PollingStrategy::Offset(offset), 1) {
            seen.extend(offsets(&polled));
        }
    }
    seen
}

/// LOG-12: where the first message is damaged, the last one of a sealed log says whose it is.
#[test]
fn an_exchanged_log_is_not_served_if_its_first_message_is_damaged_as_well() {
    let other = neighbour();
    for base in [0, 10, 20] {
        for how in 0..4 {
            let mut world = closed(&config(Durability::Fsync));
            let file = FileName::Log(Offset(base));
            take(&mut world, &other, &[file]);
            harm_first_message(&mut world, file, how);
            for _ in 0..2 {
                world.crash(Crash::Kill);
                let expected: Vec<u64> = (0..35)
                    .filter(|offset| !(base..base + 10).contains(offset))
                    .collect();
                assert_eq!(read_each(&mut world), expected, "{file} {how}");
            }
        }
    }
}

/// LOG-12: damage of the first message costs that message alone.
#[test]
fn an_own_log_is_served_behind_a_damaged_first_message() {
    for base in [0, 10, 20, 30] {
        for how in 0..4 {
            let mut world = closed(&config(Durability::Fsync));
            let file = FileName::Log(Offset(base));
            harm_first_message(&mut world, file, how);
            for _ in 0..2 {
                world.crash(Crash::Kill);
                let expected: Vec<u64> = (0..35).filter(|offset| *offset != base).collect();
                assert_eq!(read_each(&mut world), expected, "{file} {how}");
            }
        }
    }
}

/// LOG-12: stored offsets and indexes of the neighbour are not taken for ours.
#[test]
fn derived_files_of_the_neighbour_are_refused() {
    let other = neighbour();
    let mut world = closed(&config(Durability::Fsync));
    let indexes = [0, 10, 20].map(|base| FileName::Index(Offset(base)));
    take(&mut world, &other, &indexes);
    take(&mut world, &other, &[FileName::Offsets]);
    world.crash(Crash::Kill);
    assert_eq!(all(&mut world), (0..35).collect::<Vec<_>>());
    assert_eq!(world.stored(ALICE), None);
    let is_dropped = |notice: &Notice| matches!(notice, Notice::Dropped { .. });
    assert!(world.notices.iter().any(is_dropped), "{:?}", world.notices);
}

/// LOG-14: a segment that was listed and never begun is not a loss once the one before it has gone on.
#[test]
fn a_segment_that_was_never_begun_is_not_reported_as_lost() {
    let settings = PartitionConfig {
        segment_size_bytes: 10 * 1064,
        ..config(Durability::Os)
    };
    let (namespace, catalog) = (settings.namespace, settings.catalog);
    let mut world = World::new(settings);
    for number in 0..9 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.close();
    // A kill comes after the manifest, and before the file; the end of the segment before it was cut.
    let manifest = rebuilt_manifest(namespace, catalog, &[0, 10].map(Offset));
    for file in MANIFESTS {
        world.disk.set_content(file, manifest.clone());
    }
    world.crash(Crash::Kill);
    let batch = [sent(9, 1000), sent(10, 1000)];
    world.append(&batch).expect("appended");
    world.append(&[sent(11, 1000)]).expect("appended");
    for _ in 0..2 {
        world.crash(Crash::Kill);
        let is_lost = |notice: &Notice| matches!(notice, Notice::Lost { .. });
        assert!(!world.notices.iter().any(is_lost), "{:?}", world.notices);
        assert_eq!(all(&mut world), (0..12).collect::<Vec<_>>());
    }
}

/// LOG-12, LOG-14: a missing or shortened log is reported, wherever it is, and no offset is used again.
#[test]
fn offsets_of_lost_messages_are_not_used_again() {
    let whole = closed(&config(Durability::Fsync));
    for lost in [
        &[0][..],
        &[10],
        &[20],
        &[30],
        &[20, 30],
        &[10, 20, 30],
        &[0, 10, 20, 30],
    ] {
        let mut world = closed(&config(Durability::Fsync));
        for base in lost {
            world.disk.lose(FileName::Log(Offset(*base)));
        }
        world.crash(Crash::Kill);
        for base in lost {
            let notice = Notice::Lost {
                offset: Offset(*base),
                messages_count: if *base == 30 { 5 } else { 10 },
                file: FileName::Log(Offset(*base)),
            };
            assert!(
                world.notices.contains(&notice),
                "{lost:?}: {:?}",
                world.notices
            );
        }
        assert_eq!(next_offset(&mut world), 35, "{lost:?}");
        for offset in (0..35).filter(|offset| !lost.contains(&(offset / 10 * 10))) {
            assert_eq!(
                offsets(&world.poll(PollingStrategy::Offset(offset), 1)),
                [offset]
            );
        }
        assert_eq!(offsets(&world.poll(PollingStrategy::Last, 1)), [35]);
        world.restart();
        assert_eq!(next_offset(&mut world), 36);
        world.close();
        for base in lost {
            let file = FileName::Log(Offset(*base));
            world
                .disk
                .set_content(file, whole.disk.content(file).to_vec());
        }
        world.crash(Crash::Kill);
        assert_eq!(world.notices, [], "what is put back is served again");
        assert_eq!(all(&mut world), (0..37).collect::<Vec<_>>(), "{lost:?}");
    }
    for (base, size, left) in [
        (30, 4 * 1064, 34),
        (30, 64, 30),
        (30, 0, 30),
        (20, 9 * 1064, 29),
    ] {
        let mut world = closed(&config(Durability::Fsync));
        world.disk.truncate(FileName::Log(Offset(base)), size);
        if base == 20 {
            world.disk.lose(FileName::Log(Offset(30)));
        }
        world.crash(Crash::Kill);
        assert!(!world.notices.is_empty());
        assert_eq!(next_offset(&mut world), 35, "{base} {size}");
        assert_eq!(
            offsets(&world.poll(PollingStrategy::First, left)),
            (0..u64::from(left)).collect::<Vec<_>>()
        );
    }
}

/// LOG-12, LOG-14: the file of the next segment, which is empty, is not begun twice when what came before it is gone.
///
/// Regression: the second write after such a loss ended the process.
#[test]
fn an_empty_segment_behind_a_lost_one_is_written_to() {
    for lost in [&[30][..], &[20, 30], &[0, 10, 20, 30]] {
        let mut world = closed(&config(Durability::Fsync));
        world.restart();
        let batch: Vec<_> = (35..40).map(|number| sent(number, 1000)).collect();
        world.append(&batch).expect("appended");
        world.close();
        assert_eq!(world.disk.content(FileName::Log(Offset(40))), []);
        for base in lost {
            world.disk.lose(FileName::Log(Offset(*base)));
        }
        world.crash(Crash::Kill);
        assert_eq!(next_offset(&mut world), 40);
        for number in 41..65 {
            world.append(&[sent(number, 1000)]).expect("appended");
        }
        for _ in 0..2 {
            assert_eq!(
                offsets(&world.poll(PollingStrategy::Offset(40), 100)),
                (40..65).collect::<Vec<_>>(),
                "{lost:?}"
            );
            world.crash(Crash::Kill);
        }
    }
}

/// LOG-11: below the recorded end nothing is a torn tail, although the payload has zeros like a hole that a loss of power
/// leaves, and the index is gone.
#[test]
fn damage_below_the_recorded_end_costs_one_message() {
    for message in [200, 1_999] {
        let mut world = World::new(config(Durability::Fsync));
        let batch: Vec<_> = (0..100).map(|number| sent(number, 0)).collect();
        let mut zeros = batch.clone();
        for message in &mut zeros {
            message.payload = vec![0; 1000];
        }
        for _ in 0..20 {
            world.append(&zeros).expect("appended");
        }
        world.close();
        world.disk.lose(FileName::Index(Offset(0)));
        world
            .disk
            .flip(FileName::Log(Offset(0)), message * 1064 + 500);
        world.crash(Crash::Kill);
        let notice = Notice::Damaged {
            offset: Offset(message as u64),
            messages_count: 1,
            file: FileName::Log(Offset(0)),
            position: message as u64 * 1064,
        };
        assert_eq!(world.notices, [notice]);
        assert_eq!(next_offset(&mut world), 2_000);
        for offset in [0, message as u64 - 1, 1_998] {
            assert_eq!(
                offsets(&world.poll(PollingStrategy::Offset(offset), 1)),
                [offset]
            );
        }
        assert!(
            world
                .try_poll(PollingStrategy::Offset(message as u64), 1)
                .is_err()
        );
    }
}

/// LOG-15: what a killed process had synced a while ago is recorded as well.
#[test]
fn what_is_synced_is_recorded_after_a_while() {
    let mut world = World::new(config(Durability::Fsync));
    for number in 0..5 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.pass(1_000_000);
    world.settle();
    world.disk.lose(FileName::Index(Offset(0)));
    world.disk.flip(FileName::Log(Offset(0)), 4 * 1064 + 500);
    world.crash(Crash::Kill);
    assert_eq!(next_offset(&mut world), 5);
}

/// Wherever a crash happens, also amid the removal of segments, nothing is reported as lost or exchanged.
#[test]
fn crashes_are_not_losses() {
    for steps in 0..150 {
        for crash in [Crash::Kill, Crash::Power] {
            let mut world = World::shuffled(
                PartitionConfig {
                    segment_size_bytes: 3 * 1064,
                    ..config(Durability::Os)
                },
                steps,
            );
            for number in 0..20 {
                world.submit_in_place(&[sent(number, 1000)]);
                world.end_of_turn();
                if number == 12 {
                    world.submit(Request::DeleteSegments { count: 2 });
                }
            }
            for _ in 0..steps {
                world.step();
            }
            world.pass(1_000_000);
            for _ in 0..steps / 10 {
                world.step();
            }
            for _ in 0..2 {
                world.crash(crash);
                let only_cuts = |notice: &Notice| matches!(notice, Notice::Cut { .. });
                assert!(
                    world.notices.iter().all(only_cuts),
                    "{steps} {crash:?}: {:?}",
                    world.notices
                );
                assert_eq!(world.partition.failure(), None);
                let found = all(&mut world);
                assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                world.append(&[sent(50, 10)]).expect("appended");
            }
        }
    }
}

/// Each opening that writes has a number of its own, which grows.
#[test]
fn openings_that_write_are_counted() {
    let epoch = |world: &World| {
        let text =
            String::from_utf8(world.disk.content(FileName::Manifest).to_vec()).expect("text");
        let (_, rest) = text.split_once("\"epoch\":").expect("an epoch");
        rest.split_once(',')
            .expect("more")
            .0
            .parse::<u64>()
            .expect("a number")
    };
    let mut world = closed(&config(Durability::Os));
    let first = epoch(&world);
    world.crash(Crash::Kill);
    world.append(&[sent(0, 10)]).expect("appended");
    assert_eq!(epoch(&world), first + 1);
    world.crash(Crash::Kill);
    world.append(&[sent(0, 10)]).expect("appended");
    assert_eq!(epoch(&world), first + 2);
}
