//! Damaged stages of transactions that are, or may be, committed: nothing of them is removed unseen.

use headrace_model::{Durability, StageId, Timestamp};
use headrace_partition::storage::FileName;
use headrace_partition::{Notice, PartitionError, Response};

use crate::stages::{numbers, some};
use crate::support::disk::Crash;
use crate::support::messages::sent;
use crate::support::world::{LIFETIME_MICROS, World, config};

const FOOTER_BYTES: usize = 48;

/// A partition with a complete stage whose footer is damaged at this byte, closed.
fn with_damaged_footer(at: usize) -> (World, StageId) {
    let mut world = World::new(config(Durability::Os));
    world.append(&[sent(0, 10)]).expect("appended");
    let stage = world.stage(&some(10..15, 100));
    world.close();
    let file = FileName::Stage(stage);
    let length = world.disk.content(file).len();
    world.disk.flip(file, length - FOOTER_BYTES + at);
    (world, stage)
}

/// The file is there under its other name, with all of its contents, and was reported.
fn assert_kept(world: &World, stage: StageId, content: &[u8]) {
    let kept = FileName::DamagedStage(stage);
    let files = world.disk.files();
    assert!(files.contains(&kept), "{files:?}");
    assert!(!files.contains(&FileName::Stage(stage)), "{files:?}");
    assert_eq!(world.disk.content(kept), content);
    let is_it = |notice: &Notice| matches!(notice, Notice::DamagedStage { kept: file, .. } if *file == kept);
    assert_eq!(world.notices.iter().filter(|it| is_it(it)).count(), 1);
}

/// A stage with a damaged footer is kept, whether its publication is known before the file is read or comes later.
#[test]
fn a_committed_stage_with_a_damaged_footer_is_kept() {
    for at in 0..FOOTER_BYTES {
        for is_known in [true, false] {
            let (mut world, stage) = with_damaged_footer(at);
            let content = world.disk.content(FileName::Stage(stage)).to_vec();
            world.reopen_without_settling();
            if is_known {
                assert!(!world.partition.publish(1, &[stage]));
            }
            world.settle();
            assert!(!world.partition.publish(1, &[stage]) || is_known);
            world.settle_in_time(|partition| partition.applied() == 1);
            world.settle();
            assert_eq!(world.published[0].stages_missing, 1);
            assert_kept(&world, stage, &content);
            world.append(&[sent(1, 10)]).expect("appended");
            world.restart();
            assert_eq!(numbers(&mut world), [0, 1]);
            assert!(world.disk.files().contains(&FileName::DamagedStage(stage)));
            world.purge();
            world.settle();
            let is_left = |file: &FileName| matches!(file, FileName::DamagedStage(_));
            assert!(!world.disk.files().iter().any(is_left));
        }
    }
}

/// A file that ends anywhere, or whose footer is wiped out, is kept if the catalog names it.
#[test]
fn a_committed_stage_without_a_footer_is_kept() {
    for length in [0, 20, 70, 300] {
        let (mut world, stage) = with_damaged_footer(0);
        world.disk.truncate(FileName::Stage(stage), length);
        let content = world.disk.content(FileName::Stage(stage)).to_vec();
        world.reopen_without_settling();
        assert!(!world.partition.publish(1, &[stage]));
        world.settle_in_time(|partition| partition.applied() == 1);
        world.settle();
        assert_kept(&world, stage, &content);
    }
}

/// A stage whose footer is damaged after its publication has begun is kept too.
#[test]
fn a_stage_that_an_intent_names_is_kept() {
    let mut world = World::new(config(Durability::Os));
    let stage = world.stage(&some(10..15, 100));
    world.partition.publish(1, &[stage]);
    world.end_of_turn();
    let has_intent = |world: &World| {
        let files = world.disk.files();
        files.contains(&FileName::Transactions)
    };
    while !has_intent(&world) {
        world.step();
    }
    let file = FileName::Stage(stage);
    let length = world.disk.content(file).len();
    world.disk.flip(file, length - 1);
    let content = world.disk.content(file).to_vec();
    world.crash(Crash::Kill);
    world.settle_in_time(|partition| partition.applied() == 1);
    world.settle();
    assert_kept(&world, stage, &content);
    world.append(&[sent(0, 10)]).expect("appended");
}

/// A damaged stage that no publication names is removed once none can name it any more.
#[test]
fn a_damaged_stage_that_is_not_committed_is_removed() {
    for is_aborted in [true, false] {
        let (mut world, stage) = with_damaged_footer(40);
        world.reopen_without_settling();
        world.settle();
        assert_eq!(world.partition.stages_count(), 1);
        assert_eq!(
            world.stage_chunk(Some(stage), 1, true, &[]),
            Err(PartitionError::StageNotFound)
        );
        if is_aborted {
            world.partition.drop_stages(&[stage]);
        } else {
            let horizon = Timestamp(world.now.0 + 2 * LIFETIME_MICROS);
            world.partition.drop_expired_stages(horizon, |_| false);
        }
        world.settle();
        assert_eq!(world.partition.stages_count(), 0);
        assert!(!world.disk.files().contains(&FileName::Stage(stage)));
    }
}

/// A stage with damaged messages is kept after what could be read of it was published.
#[test]
fn a_stage_with_damaged_messages_is_kept() {
    let mut world = World::new(config(Durability::Os));
    let stage = world.stage(&some(10..15, 100));
    let file = FileName::Stage(stage);
    world.close();
    world.disk.flip(file, 100);
    let content = world.disk.content(file).to_vec();
    world.crash(Crash::Kill);
    assert_eq!(world.publish(1, &[stage]).stages_missing, 1);
    world.settle();
    assert_kept(&world, stage, &content);
}

/// Stage of `chunks` parts with two messages each, numbered from `first`.
fn stage_of(world: &mut World, first: u64, chunks: u32) -> StageId {
    let mut stage = None;
    for chunk in 0..chunks {
        let number = first + 2 * u64::from(chunk);
        let messages = some(number..number + 2, 1000);
        let answer = world.stage_chunk(stage, chunk, chunk + 1 == chunks, &messages);
        match answer {
            Ok(Response::Staged { stage: id, .. }) => stage = Some(id),
            other => panic!("{other:?}"),
        }
    }
    stage.expect("chunks")
}

/// Wherever a publication is interrupted, and whatever happens to its first stage before and after that: the messages
/// that can be read are published once, and all of the next stage.
#[test]
fn a_publication_goes_on_exactly_whatever_is_damaged() {
    type Harm = fn(&mut World, FileName);
    let nothing: Harm = |_, _| {};
    let block: Harm = |world, file| world.disk.flip(file, 48 + 16 + 2 * 1064 + 500);
    let footer: Harm = |world, file| {
        let length = world.disk.content(file).len();
        world.disk.flip(file, length - 20);
    };
    let lost: Harm = |world, file| world.disk.lose(file);
    let harms = [
        (nothing, nothing),
        (block, nothing),
        (block, footer),
        (nothing, block),
        (nothing, footer),
        (nothing, lost),
        (block, lost),
    ];
    for (case, (before, after)) in harms.into_iter().enumerate() {
        for steps in 0.. {
            let mut world = World::new(config(Durability::Os));
            let first = stage_of(&mut world, 10, 3);
            let second = stage_of(&mut world, 20, 2);
            let file = FileName::Stage(first);
            world.close();
            world.reopen_with(|_| {});
            before(&mut world, file);
            assert!(!world.partition.publish(1, &[first, second]));
            world.end_of_turn();
            let is_over = (0..steps).any(|_| !world.step());
            let appended = world.partition.written_end().0;
            if world.disk.files().contains(&file) {
                after(&mut world, file);
            }
            world.crash(Crash::Kill);
            world.partition.publish(1, &[first, second]);
            world.settle_in_time(|partition| partition.applied() == 1);
            world.settle();
            let published = numbers(&mut world);
            let whole: Vec<u64> = (10..16).collect();
            let kept = published.len().checked_sub(4).expect("the second stage");
            let expected: Vec<u64> = whole[..kept].iter().copied().chain(20..24).collect();
            assert_eq!(published, expected, "case {case}, {steps} steps");
            assert!(kept as u64 >= appended.min(6) || case == 1 || case == 2 || case == 6);
            if case == 0 {
                assert_eq!(kept, 6);
            }
            world.restart();
            assert_eq!(numbers(&mut world), expected);
            if is_over {
                break;
            }
        }
    }
}
