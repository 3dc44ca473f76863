//! Requests of sessions: executed once, whichever replica receives them.

use std::time::{Duration, Instant};

use crate::support::{Group, Node, TIMEOUT};
use headrace_buffer::Slice;
use headrace_replica::{Refusal, Release, RequestKind, SessionRequest};

const CLIENT: u128 = 0x1234_5678_9abc_def0_1234;

fn open(client: u128) -> SessionRequest {
    SessionRequest {
        client,
        session: 0,
        number: 0,
        kind: RequestKind::Open,
        min_release: Release::FIRST,
        command: Slice::default(),
    }
}

fn request(session: u64, number: u64, command: &[u8]) -> SessionRequest {
    SessionRequest {
        client: CLIENT,
        session,
        number,
        kind: RequestKind::Propose,
        min_release: Release::FIRST,
        command: Slice::from_vec(command.to_vec()),
    }
}

/// CTL-1.
#[test]
fn a_repeated_request_is_answered_and_not_executed() {
    let group = Group::new(1);
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    let session = node.request(open(CLIENT)).unwrap();
    assert_eq!(node.request(request(session, 1, b"a")), Ok(1));
    assert_eq!(node.request(request(session, 1, b"a")), Ok(1));
    assert_eq!(
        node.request(request(session, 1, b"b")),
        Err(Refusal::Reused)
    );
    assert_eq!(node.request(request(session, 5, b"b")), Ok(2));
    assert_eq!(node.request(request(session, 4, b"c")), Err(Refusal::Stale));
    let unknown = session + 1;
    assert_eq!(
        node.request(request(unknown, 6, b"d")),
        Err(Refusal::SessionEnded)
    );
    node.kill();

    // The client table is restored with the log.
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    node.wait_for("the state", |seen| seen.machine.commands == 2);
    assert_eq!(node.request(request(session, 5, b"b")), Ok(2));
    let newer = node.request(open(CLIENT)).unwrap();
    assert_eq!(
        node.request(request(session, 6, b"e")),
        Err(Refusal::SessionFenced)
    );
    let close = SessionRequest {
        kind: RequestKind::Close,
        min_release: Release::FIRST,
        ..request(newer, 1, b"")
    };
    assert!(node.request(close.clone()).is_ok());
    assert_eq!(node.request(close), Err(Refusal::SessionEnded));
    assert_eq!(node.seen().machine.commands, 2);
}

/// CTL-1.
#[test]
fn the_session_that_was_used_longest_ago_ends_for_others_and_its_request_is_refused() {
    const SESSIONS_MAX: u128 = 8192;
    let mut group = Group::new(1);
    group.configs[0].sync = false;
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    let session = node.request(open(CLIENT)).unwrap();
    assert_eq!(node.request(request(session, 1, b"a")), Ok(1));
    // Open as many other sessions as the table holds.
    for first in (1..=SESSIONS_MAX).step_by(64) {
        let requests: Vec<_> = (first..first + 64).map(open).collect();
        let tickets = node.replica.request(requests).unwrap();
        node.wait_for("sessions", |seen| {
            (tickets..tickets + 64).all(|ticket| matches!(seen.ended.get(&ticket), Some(Ok(_))))
        });
    }
    assert_eq!(
        node.request(request(session, 1, b"a")),
        Err(Refusal::SessionEnded),
        "a copy is not executed again"
    );
    assert_eq!(node.seen().machine.commands, 1);
}

/// CTL-1, CTL-5.
#[test]
fn a_request_survives_its_primary() {
    let group = Group::new(3);
    let mut nodes: Vec<Option<Node>> = (0..3).map(|index| Some(group.start(index))).collect();
    let session = until(&nodes, &open(CLIENT));
    for number in 1..=20 {
        until(&nodes, &request(session, number, &number.to_le_bytes()));
    }
    let primary = (0..3)
        .find(|index| nodes[*index].as_ref().unwrap().is_primary())
        .unwrap();
    let killed = nodes[primary].take().unwrap();
    // The request is in flight when its primary is killed.
    killed
        .replica
        .request(vec![request(session, 21, &21_u64.to_le_bytes())])
        .unwrap();
    killed.kill();
    assert_eq!(
        until(&nodes, &request(session, 21, &21_u64.to_le_bytes())),
        21
    );
    assert_eq!(
        until(&nodes, &request(session, 21, &21_u64.to_le_bytes())),
        21
    );
    assert_eq!(until(&nodes, &request(session, 22, b"last")), 22);
    for node in nodes.iter().flatten() {
        node.wait_for("all commands", |seen| seen.machine.commands == 22);
    }
}

/// Send the same request to one replica after another until one has executed it.
fn until(nodes: &[Option<Node>], request: &SessionRequest) -> u64 {
    let began = Instant::now();
    loop {
        for node in nodes.iter().flatten() {
            match node.request(request.clone()) {
                Ok(answer) => return answer,
                Err(Refusal::NotPrimary(_) | Refusal::Busy | Refusal::Unknown) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(began.elapsed() < TIMEOUT, "{request:?} is not executed");
        std::thread::sleep(Duration::from_millis(5));
    }
}
