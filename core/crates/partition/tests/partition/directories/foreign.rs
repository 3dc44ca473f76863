//! Foreign logs in the directory are not part of the partition (LOG-13).

use headrace_model::{Durability, Offset};
use headrace_partition::storage::{FileName, StorageErrorKind};
use headrace_partition::{Notice, PartitionConfig, PollingStrategy};

use crate::support::disk::{Crash, Fault};
use crate::support::messages::{offsets, sent};
use crate::support::world::{World, config};

/// Segments of about nine messages.
fn filled(messages: u64) -> World {
    let mut world = World::new(PartitionConfig {
        segment_size_bytes: 10_000,
        tail_cache_bytes: 0,
        ..config(Durability::Os)
    });
    for number in 0..messages {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world
}

/// Log of the same segment of another partition; its messages are valid by themselves.
fn of_another(messages: u64) -> Vec<u8> {
    let mut world = filled(messages);
    world.close();
    let log = world
        .disk
        .files()
        .into_iter()
        .rfind(|file| matches!(file, FileName::Log(_)));
    world.disk.content(log.expect("it has logs")).to_vec()
}

fn all(world: &mut World) -> Vec<u64> {
    offsets(&world.poll(PollingStrategy::First, 1000))
}

#[test]
fn logs_that_are_not_listed_are_set_aside_and_reported() {
    let foreign = of_another(45);
    // Place the foreign log behind the end, between segments, and in the presence of an index with its name.
    for base in [5_000, 12, 7] {
        let mut world = filled(30);
        let (file, kept) = (
            FileName::Log(Offset(base)),
            FileName::Foreign(Offset(base), 1),
        );
        world.close();
        world.disk.set_content(file, foreign.clone());
        world
            .disk
            .set_content(FileName::Index(Offset(base)), vec![7; 320]);
        world.reopen_with(|_| {});
        let bytes = foreign.len() as u64;
        assert_eq!(world.notices, [Notice::Foreign { file, bytes, kept }]);
        let text = world.notices[0].to_string();
        assert!(
            text.contains(&file.to_string()) && text.contains(&kept.to_string()),
            "{text}"
        );
        assert_eq!(world.disk.content(kept), foreign);
        assert_eq!(all(&mut world), (0..30).collect::<Vec<_>>());
        world.append(&[sent(30, 1000)]).expect("appended");
        world.restart();
        assert_eq!(world.notices, [], "reported once");
        assert_eq!(all(&mut world), (0..=30).collect::<Vec<_>>());
        // A second foreign log of that name does not replace the first.
        world.close();
        world.disk.set_content(file, b"another".to_vec());
        world.reopen_with(|_| {});
        assert_eq!(
            world.disk.content(FileName::Foreign(Offset(base), 2)),
            b"another"
        );
        assert_eq!(world.disk.content(kept), foreign);
        world.purge();
        world.settle();
        let is_left = |file: &FileName| matches!(file, FileName::Foreign(..));
        assert!(
            !world.disk.files().iter().any(is_left),
            "a purge leaves nothing"
        );
    }
}

/// Directories of earlier servers, whose manifests have another format, are opened unchanged, and the manifest is replaced
/// at once.
#[test]
fn directories_of_earlier_servers_are_opened() {
    let mut world = filled(30);
    world.close();
    let old = b"{\"format\":1,\"incarnation\":77,\"purge_epoch\":0,\"contents\":\"kept\",\"checksum\":\"6213f61dce71ec50\"}\n";
    world.disk.set_content(FileName::Manifest, old.to_vec());
    world.reopen_with(|_| {});
    assert_eq!(world.notices, []);
    assert_eq!(all(&mut world), (0..30).collect::<Vec<_>>());
    world.settle();
    let text = String::from_utf8(world.disk.content(FileName::Manifest).to_vec()).expect("text");
    assert!(
        text.starts_with("{\"format\":4,") && text.contains("\"tags\":\"incarnation\""),
        "{text}"
    );
    assert!(text.contains("\"segments\":[[0,10640,null],"), "{text}");
}

/// Wherever a crash happens, a segment is listed before it has messages, and no segment is taken for a foreign log.
#[test]
fn segments_are_listed_before_they_have_messages() {
    for steps in 0..200 {
        for crash in [Crash::Kill, Crash::Power] {
            let mut world = filled(0);
            for number in 0..40 {
                let message = sent(number, 1000);
                world.submit_in_place(&[message]);
                world.end_of_turn();
            }
            for _ in 0..steps {
                world.step();
            }
            world.crash(crash);
            assert_eq!(world.partition.failure(), None);
            let is_foreign = |notice: &Notice| matches!(notice, Notice::Foreign { .. });
            assert!(!world.notices.iter().any(is_foreign), "{steps} {crash:?}");
        }
    }
}

/// Segments whose removal failed or was undone by a crash still belong to the partition.
#[test]
fn what_was_to_be_removed_is_still_ours() {
    use headrace_partition::Request;

    for steps in 0..30 {
        let mut world = filled(40);
        world.settle();
        if steps % 2 == 0 {
            world.disk.faults.push(Fault::Remove);
        }
        world.submit(Request::DeleteSegments { count: 3 });
        for number in 40..60 {
            world.submit_in_place(&[sent(number, 1000)]);
            world.end_of_turn();
        }
        for _ in 0..steps {
            world.step();
        }
        world.crash(Crash::Power);
        let is_foreign = |notice: &Notice| matches!(notice, Notice::Foreign { .. });
        assert!(!world.notices.iter().any(is_foreign), "after {steps} steps");
        let found = all(&mut world);
        assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
}

/// A foreign log that cannot be renamed prevents opening, because it would be read.
#[test]
fn a_log_that_cannot_be_set_aside_closes_the_partition() {
    let mut world = filled(30);
    world.close();
    world
        .disk
        .set_content(FileName::Log(Offset(5_000)), b"foreign".to_vec());
    world.reopen_with(|world| {
        world
            .disk
            .faults
            .push(Fault::Rename(StorageErrorKind::Other));
    });
    let failure = world.partition.failure().expect("it is out of service");
    assert!(
        !failure.readable && failure.reason.contains("5000.log"),
        "{failure}"
    );
}
