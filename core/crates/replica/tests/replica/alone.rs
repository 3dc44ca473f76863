//! Tests of a single replica: a quorum of one.

use crate::support::{Group, Node, numbered};
use headrace_replica::{Refusal, Replica};

/// CTL-1, CTL-5.
#[test]
fn what_was_answered_is_there_after_a_restart() {
    let group = Group::new(1);
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    let answers = node.propose(&numbered(0..3000));
    assert!(answers.iter().all(Result::is_ok));
    let before = node.seen().machine;
    assert_eq!(before.commands, 3000);
    node.kill();

    for _ in 0..3 {
        let node = group.start(0);
        node.wait_for("the state", |seen| seen.machine == before);
        assert!(node.read().is_ok());
        node.kill();
    }
}

/// CTL-5.
#[test]
fn a_checkpoint_shortens_the_journal() {
    let mut group = Group::new(1);
    group.configs[0].checkpoint_ops = 50;
    group.configs[0].log_keep_ops = 50;
    group.configs[0].journal_file_bytes = 1024 * 1024;
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    for round in 0..1000 {
        assert!(node.propose(&[vec![7; 10_000]])[0].is_ok(), "{round}");
    }
    node.wait_for("a checkpoint", |_| node.status().checkpoint_op > 900);
    node.wait_for("short journal", |_| {
        node.status().storage.journal_files <= 4
    });
    let before = node.seen().machine;
    node.kill();
    let node = group.start(0);
    node.wait_for("the state", |seen| {
        seen.machine == before && seen.restores == 1
    });
}

#[test]
fn one_directory_serves_one_replica() {
    let group = Group::new(1);
    let node = group.start(0);
    let refusal = Node::start(group.configs[0].clone()).err().unwrap();
    assert_eq!(refusal.reason(), "directory_in_use");
    node.kill();
    group.start(0);
}

#[test]
fn what_is_too_large_is_refused_and_the_rest_goes_on() {
    let group = Group::new(1);
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    let commands = [
        vec![1; headrace_replica::COMMAND_BYTES_MAX + 1],
        vec![2; 300_000],
        vec![3],
    ];
    let answers = node.propose(&commands);
    assert_eq!(answers, [Err(Refusal::Oversize), Ok(1), Ok(2)]);
}

#[test]
fn a_replica_that_does_not_run_says_so() {
    let group = Group::new(1);
    let replica = Replica::new(group.configs[0].clone()).unwrap();
    assert!(
        replica
            .propose(Vec::new())
            .unwrap_err()
            .to_string()
            .contains("not started")
    );
    replica.start().unwrap();
    assert!(replica.stop(crate::support::TIMEOUT));
    assert!(
        replica
            .read_index()
            .unwrap_err()
            .to_string()
            .contains("it was closed")
    );
    assert_eq!(replica.status().role, "stopped");
}
