//! Tests of three replicas over loopback.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::support::{Group, Node, TIMEOUT, converge, numbered, primary_of, propose_anywhere};
use headrace_buffer::Slice;
use headrace_replica::{Refusal, Release};

/// CTL-1.
#[test]
fn three_replicas_apply_the_same() {
    let group = Group::new(3);
    let nodes = group.start_all();
    let primary = primary_of(&nodes);
    let answers = nodes[primary].propose(&numbered(0..2000));
    assert_eq!(answers, (1..=2000).map(Ok).collect::<Vec<_>>());
    assert_eq!(converge(&nodes).commands, 2000);
    assert!(nodes[primary].read().is_ok());

    let backup = (primary + 1) % 3;
    let elsewhere = Refusal::NotPrimary(Some(u8::try_from(primary).unwrap()));
    assert_eq!(nodes[backup].propose(&numbered(0..1)), [Err(elsewhere)]);
    assert_eq!(nodes[backup].read(), Err(elsewhere));
}

/// A group reads its clocks by pings, and reports whether they agree.
#[test]
fn replicas_of_one_machine_agree_about_the_time() {
    let group = Group::new(3);
    let nodes = group.start_all();
    let primary = primary_of(&nodes);
    assert!(nodes[primary].propose(&numbered(0..1))[0].is_ok());
    for node in &nodes {
        node.wait_for("the clocks of the others", |_| {
            let clock = node.status().clock;
            clock.state == "agreed"
                && !clock.unsynchronised
                && clock.log_ahead_ns.abs() < 1_000_000_000
        });
    }
}

/// Rolling upgrade. Commands of the new release are accepted once all replicas run it. A downgrade is possible until
/// then, and impossible afterwards.
#[test]
fn what_a_release_brings_is_taken_when_all_replicas_run_it() {
    let (old, new) = (Some("0.1.7".to_owned()), Some("0.2.0".to_owned()));
    let since = Release::new(0, 2, 0);
    let mut group = Group::new(3);
    for config in &mut group.configs {
        config.release = old.clone();
    }
    let mut nodes = group.start_all();
    propose_anywhere(&nodes, b"before");
    for index in [0, 1, 0, 1] {
        // The second round downgrades both, which succeeds.
        let next = if group.configs[index].release == old {
            new.clone()
        } else {
            old.clone()
        };
        group.configs[index].release = next;
        restart(&group, &mut nodes, index);
        wait_for_refusal(&nodes, since);
    }
    for index in 0..3 {
        group.configs[index].release = new.clone();
        restart(&group, &mut nodes, index);
    }
    let until = Instant::now() + TIMEOUT;
    loop {
        let primary = primary_of(&nodes);
        let answer = nodes[primary].propose_since(since, &numbered(0..1));
        if answer[0].is_ok() {
            break;
        }
        assert!(Instant::now() < until, "{answer:?}");
        thread::sleep(Duration::from_millis(10));
    }
    converge(&nodes);
    for node in &nodes {
        node.wait_for("the release", |_| node.status().release_in_force == "0.2.0");
    }
    nodes.swap_remove(0).kill();
    let gone = (0..3)
        .find(|index| nodes.iter().all(|node| node.status().replica != *index))
        .unwrap();
    let mut config = group.configs[usize::from(gone)].clone();
    config.release = old;
    let refused = Node::start(config).err().unwrap();
    assert_eq!(refused.reason(), "newer_release");
    assert!(
        refused.to_string().contains("needs release 0.2.0"),
        "{refused}"
    );
}

/// Wait until a command is refused because of its release. Other refusals occur while a primary is elected.
fn wait_for_refusal(nodes: &[Node], since: Release) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let answer = nodes[primary_of(nodes)].propose_since(since, &numbered(0..1));
        match answer[0] {
            Err(Refusal::Release) => return,
            Ok(op) => panic!("a command of {since} was taken by operation {op}"),
            Err(refusal) => assert!(Instant::now() < until, "{refusal:?}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Stop a replica and start it with its current configuration.
fn restart(group: &Group, nodes: &mut Vec<Node>, index: usize) {
    let at = nodes
        .iter()
        .position(|node| usize::from(node.status().replica) == index)
        .unwrap();
    nodes.remove(at).kill();
    nodes.push(group.start(index));
    propose_anywhere(nodes, b"started");
}

/// CTL-1.
#[test]
fn the_others_go_on_when_the_primary_dies() {
    let group = Group::new(3);
    let mut nodes = group.start_all();
    propose_anywhere(&nodes, b"first");
    for node in &nodes {
        node.wait_for("the end of the proof", |_| !node.status().rejoining);
    }
    let mut died = Vec::new();
    for round in 0..3_u64 {
        let primary = propose_anywhere(&nodes, format!("round {round}").as_bytes());
        let before = nodes[primary].seen().machine;
        nodes.remove(primary).kill();
        let at = Instant::now();
        primary_of(&nodes);
        died.push(at.elapsed());
        // Every acknowledged command is present on the new primary.
        let next = propose_anywhere(&nodes, b"after it");
        assert!(nodes[next].seen().machine.commands > before.commands);
        let missing = (0..3)
            .find(|index| nodes.iter().all(|node| node.status().replica != *index))
            .unwrap();
        nodes.push(group.start(usize::from(missing)));
        converge(&nodes);
    }
    assert!(
        died.iter().all(|took| *took < Duration::from_secs(10)),
        "{died:?}"
    );
}

/// CTL-1.
#[test]
fn five_replicas_go_on_without_two() {
    let group = Group::new(5);
    let mut nodes = group.start_all();
    propose_anywhere(&nodes, b"first");
    for node in &nodes {
        node.wait_for("the end of the proof", |_| !node.status().rejoining);
    }
    for round in 0..2_u8 {
        let primary = propose_anywhere(&nodes, &[round]);
        nodes.remove(primary).kill();
    }
    let primary = propose_anywhere(&nodes, b"three of five");
    assert!(
        nodes[primary]
            .propose(&numbered(0..500))
            .iter()
            .all(Result::is_ok)
    );
    assert!(converge(&nodes).commands >= 503);
}

/// CTL-1.
#[test]
fn a_primary_gives_up_its_view_when_asked() {
    let group = Group::new(3);
    let nodes = group.start_all();
    let primary = propose_anywhere(&nodes, b"first");
    let view = nodes[primary].status().view;
    nodes[primary].replica.abdicate();
    nodes[primary].wait_for("another view", |_| nodes[primary].status().view > view);
    let next = propose_anywhere(&nodes, b"second");
    assert_ne!(next, primary);
    converge(&nodes);
}

/// CTL-1, CTL-5.
#[test]
fn a_whole_group_comes_back() {
    let group = Group::new(3);
    let nodes = group.start_all();
    let primary = propose_anywhere(&nodes, b"first");
    assert!(
        nodes[primary]
            .propose(&numbered(0..500))
            .iter()
            .all(Result::is_ok)
    );
    let before = converge(&nodes);
    for node in nodes {
        node.kill();
    }
    let nodes = group.start_all();
    propose_anywhere(&nodes, b"again");
    let after = converge(&nodes);
    assert!(after.commands > before.commands);
}

/// CTL-5.
#[test]
fn who_lags_by_ten_thousand_operations_catches_up() {
    let group = Group::new(3);
    let mut nodes = group.start_all();
    propose_anywhere(&nodes, b"first");
    converge(&nodes);
    let lagging = (primary_of(&nodes) + 1) % 3;
    nodes.remove(lagging).kill();
    let before = nodes[primary_of(&nodes)].status().op;
    let began = Instant::now();
    loop {
        // The primary may have changed if a replica was not scheduled for a moment.
        let primary = primary_of(&nodes);
        if nodes[primary].status().op >= before + 10_000 {
            break;
        }
        assert!(began.elapsed() < 4 * TIMEOUT);
        // Small batches, so that they become many ops.
        for command in numbered(0..200) {
            let command = (Release::FIRST, Slice::from_vec(command));
            nodes[primary].replica.propose(vec![command]).unwrap();
            thread::sleep(Duration::from_micros(50));
        }
    }
    let back = group.start(lagging);
    nodes.push(back);
    let machine = converge(&nodes);
    assert!(machine.commands >= 10_000);
    let back = nodes.last().unwrap();
    assert!(back.seen().restores >= 1, "by a transfer of the state");
}

/// CTL-5.
#[test]
fn a_wiped_disk_is_filled_again_and_votes_only_then() {
    let group = Group::new(3);
    let mut nodes = group.start_all();
    let primary = propose_anywhere(&nodes, b"first");
    assert!(
        nodes[primary]
            .propose(&numbered(0..3000))
            .iter()
            .all(Result::is_ok)
    );
    let before = converge(&nodes);
    let wiped = (primary + 1) % 3;
    nodes.remove(wiped).kill();
    std::fs::remove_dir_all(group.directory_of(wiped)).unwrap();
    nodes.push(group.start(wiped));
    let back = nodes.last().unwrap();
    back.wait_for("all of the state", |seen| {
        seen.machine.commands >= before.commands
    });
    back.wait_for("the end of the proof", |_| !back.status().rejoining);
    back.wait_for("a word about it", |seen| {
        seen.log
            .iter()
            .any(|line| line.contains("votes from now on"))
    });
    // The replica's votes count now: with them the group survives the loss of another replica.
    let other = primary_of(&nodes);
    nodes.remove(other).kill();
    propose_anywhere(&nodes, b"last");
    assert!(converge(&nodes).commands > before.commands);
}

/// CTL-5. Two replicas with empty data directories are a quorum, and the third may have the history.
#[test]
fn a_group_begins_when_all_of_it_has_met() {
    let group = Group::new(3);
    let mut nodes = vec![group.start(0), group.start(1)];
    for node in &nodes {
        node.wait_for("the other one", |_| {
            node.status().peers.iter().any(|peer| peer.connected)
        });
    }
    for (replica, node) in nodes.iter().enumerate() {
        assert!(
            group.directory_of(replica).join("unproven").exists(),
            "{:?}",
            node.seen().log
        );
    }
    nodes.push(group.start(2));
    propose_anywhere(&nodes, b"first");
    converge(&nodes);
}

/// CTL-5. One machine is lost for good, and another one has a new disk.
#[test]
fn what_is_left_of_a_group_goes_on_when_the_dead_one_is_given_up() {
    let mut group = Group::new(3);
    let mut nodes = group.start_all();
    let primary = propose_anywhere(&nodes, b"first");
    assert!(
        nodes[primary]
            .propose(&numbered(0..300))
            .iter()
            .all(Result::is_ok)
    );
    let before = converge(&nodes);
    for node in nodes.drain(..) {
        node.kill();
    }
    std::fs::remove_dir_all(group.directory_of(1)).unwrap();
    for replica in [0, 1] {
        group.configs[replica].given_up = vec![2];
    }
    let nodes = vec![group.start(0), group.start(1)];
    propose_anywhere(&nodes, b"last");
    assert!(converge(&nodes).commands > before.commands);
}

/// CTL-5. A copy of a data directory is consistent, but has lost what was acknowledged since it was made.
#[test]
fn an_older_copy_of_a_directory_is_stopped_by_who_remembers() {
    let group = Group::new(3);
    let mut nodes = group.start_all();
    let primary = propose_anywhere(&nodes, b"first");
    converge(&nodes);
    for node in &nodes {
        node.wait_for("the end of the proof", |_| !node.status().rejoining);
    }
    let restored = (primary + 1) % 3;
    let (directory, copy) = (
        group.directory_of(restored),
        group.directory.path().join("copy"),
    );
    nodes.remove(restored).kill();
    copy_directory(&directory, &copy);
    nodes.push(group.start(restored));
    propose_anywhere(&nodes, b"second");
    let before = converge(&nodes);
    nodes.pop().unwrap().kill();
    std::fs::remove_dir_all(&directory).unwrap();
    copy_directory(&copy, &directory);

    let back = group.start(restored);
    back.wait_for("its end", |seen| seen.stopped.is_some());
    let why = back.seen().stopped.clone().unwrap();
    assert!(
        why.contains("its directory is an older copy") && why.contains("start with an empty one"),
        "{why}"
    );
    back.kill();
    std::fs::remove_dir_all(&directory).unwrap();
    nodes.push(group.start(restored));
    let back = nodes.last().unwrap();
    back.wait_for("the state", |seen| seen.machine.commands >= before.commands);
    back.wait_for("the end of the proof", |_| !back.status().rejoining);
}

fn copy_directory(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// CTL-5.
#[test]
fn a_damaged_journal_entry_is_fetched_from_a_peer() {
    let group = Group::new(3);
    let mut nodes = group.start_all();
    let primary = propose_anywhere(&nodes, b"first");
    for command in numbered(0..50) {
        assert!(nodes[primary].propose(&[command])[0].is_ok());
    }
    let before = converge(&nodes);
    let damaged = (primary + 1) % 3;
    nodes.remove(damaged).kill();
    damage(&group.directory_of(damaged), b"command 20");
    let superblock = group.directory_of(damaged).join("superblock");
    let mut copies = std::fs::read(&superblock).unwrap();
    copies[40] ^= 1;
    std::fs::write(&superblock, copies).unwrap();
    nodes.push(group.start(damaged));
    let back = nodes.last().unwrap();
    back.wait_for("repair", |seen| seen.machine == before);
    let status = back.status();
    assert!(status.counters.repaired > 0, "{status:?}");
    // Damage found at a start is counted as well.
    assert_eq!(status.counters.faulty, 1, "{status:?}");
    assert!(status.counters.mended_copies > 0, "{status:?}");
}

/// CTL-5.
#[test]
fn a_damaged_journal_of_a_lone_replica_is_refused_and_left_alone() {
    let group = Group::new(1);
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    for command in numbered(0..50) {
        assert!(node.propose(&[command])[0].is_ok());
    }
    node.kill();
    damage(&group.directory_of(0), b"command 20");
    for _ in 0..2 {
        let refusal = Node::start(group.configs[0].clone()).err().unwrap();
        assert_eq!(refusal.reason(), "damaged");
        assert!(refusal.to_string().contains("backup"), "{refusal}");
    }
}

/// Flip one bit of the record that holds this command.
fn damage(directory: &std::path::Path, command: &[u8]) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(command.len())
            .position(|window| window == command);
        if let Some(at) = found {
            bytes[at + 3] ^= 0x20;
            std::fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("no such command");
}
