//! Three replicas over loopback.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::support::{Group, PATIENCE, converge, numbered, primary_of, propose_anywhere};
use headrace_replica::Refusal;

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
        // Whatever was answered is there, at whoever answers now.
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
        // It may be another one after a moment without the processor.
        let primary = primary_of(&nodes);
        if nodes[primary].status().op >= before + 10_000 {
            break;
        }
        assert!(began.elapsed() < 4 * PATIENCE);
        // Small groups, so that they become many ops.
        for command in numbered(0..200) {
            let commands = vec![command];
            let slices = commands
                .into_iter()
                .map(headrace_buffer::Slice::from_vec)
                .collect();
            nodes[primary].replica.propose(slices).unwrap();
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
    std::fs::remove_dir_all(group.folder_of(wiped)).unwrap();
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
    // Now it counts: with it the group survives the loss of another one.
    let other = primary_of(&nodes);
    nodes.remove(other).kill();
    propose_anywhere(&nodes, b"last");
    assert!(converge(&nodes).commands > before.commands);
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
    damage(&group.folder_of(damaged), b"command 20");
    nodes.push(group.start(damaged));
    let back = nodes.last().unwrap();
    back.wait_for("repair", |seen| seen.machine == before);
    let status = back.status();
    assert!(status.counters.repaired > 0, "{status:?}");
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
    damage(&group.folder_of(0), b"command 20");
    for _ in 0..2 {
        let refusal = crate::support::Node::start(group.configs[0].clone())
            .err()
            .unwrap();
        assert_eq!(refusal.reason(), "damaged");
        assert!(refusal.to_string().contains("backup"), "{refusal}");
    }
}

/// Change one bit of the record that holds this command.
fn damage(folder: &std::path::Path, command: &[u8]) {
    for entry in std::fs::read_dir(folder).unwrap() {
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
