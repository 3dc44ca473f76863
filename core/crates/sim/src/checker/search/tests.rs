use super::*;

fn command(action: Action, id: u64, expected: u64) -> Invocation {
    let command = Command {
        action,
        key: 0,
        id,
        expected,
    };
    Invocation::Execute { command }
}

/// Call answered with a status and a value, read or set; the version is ten times the value.
fn call(asked_ns: u64, at_ns: u64, question: Invocation, status: u32, value: u64) -> Call {
    let answer = Answer {
        status,
        version: value * 10,
        value,
    };
    // All calls have the same operation number, which the search ignores.
    let ending = CallResult::Answered {
        at_ns,
        op: 1,
        answer,
    };
    Call {
        invoked_ns: asked_ns,
        question,
        ending,
    }
}

fn put(asked_ns: u64, at_ns: u64, id: u64) -> Call {
    call(asked_ns, at_ns, command(Action::Put, id, 0), 0, id)
}

fn read(asked_ns: u64, at_ns: u64, value: u64) -> Call {
    let status = if value == 0 { NOT_FOUND } else { 0 };
    call(asked_ns, at_ns, Invocation::Read { key: 0 }, status, value)
}

fn unknown(asked_ns: u64, question: Invocation) -> Call {
    Call {
        invoked_ns: asked_ns,
        question,
        ending: CallResult::Unknown,
    }
}

fn is_accepted(calls: &[Call]) -> bool {
    match search(calls) {
        Ok(found) => {
            assert_eq!(found.undecided, 0);
            true
        }
        Err(violation) => {
            assert_eq!(violation.check, Check::Linearizability);
            false
        }
    }
}

#[test]
fn odd_but_legal_histories_are_accepted() {
    // Overlapping commands in either order.
    assert!(is_accepted(&[
        put(0, 100, 1),
        put(1, 50, 2),
        read(101, 110, 1)
    ]));
    assert!(is_accepted(&[
        put(0, 100, 1),
        put(1, 50, 2),
        read(101, 110, 2)
    ]));
    // A command with unknown result takes effect much later, between two reads, or never.
    let late = unknown(0, command(Action::Put, 7, 0));
    assert!(is_accepted(&[
        late,
        put(1, 2, 1),
        read(3, 4, 1),
        read(5, 6, 7)
    ]));
    assert!(is_accepted(&[late, put(1, 2, 1), read(3, 4, 1)]));
    // One of two deletes with unknown results explains the first absence of the name, and the other one the second.
    let (one, other) = (
        unknown(0, command(Action::Delete, 8, 0)),
        unknown(0, command(Action::Delete, 9, 0)),
    );
    let gone = [put(1, 2, 1), read(3, 4, 0), put(5, 6, 2), read(7, 8, 0)];
    assert!(is_accepted(&[&[one, other][..], &gone].concat()));
    // Swap of a value that was never read: the expected version may be that of the value.
    let hidden = unknown(0, command(Action::Put, 5, 0));
    assert!(is_accepted(&[
        hidden,
        call(1, 2, command(Action::Swap, 6, 33), 0, 6)
    ]));
    // A refused command has no effect.
    let mut refused = put(0, 1, 3);
    refused.ending = CallResult::Refused;
    assert!(is_accepted(&[refused, read(2, 3, 0)]));
}

#[test]
fn what_no_order_explains_is_rejected() {
    // A read misses a command that was answered before the read was invoked.
    assert!(!is_accepted(&[
        put(0, 10, 1),
        put(11, 20, 2),
        read(21, 30, 1)
    ]));
    // Two reads, the later one of an older state.
    assert!(!is_accepted(&[
        put(0, 5, 1),
        put(6, 100, 2),
        read(10, 20, 2),
        read(21, 30, 1)
    ]));
    // A command with unknown result takes effect twice.
    let twice = unknown(0, command(Action::Put, 7, 0));
    let seen = [read(1, 2, 7), put(3, 4, 1), read(5, 6, 1), read(7, 8, 7)];
    assert!(!is_accepted(&[&[twice][..], &seen].concat()));
    // Two swaps of one version both succeed.
    let swap = |asked_ns, id| {
        call(
            asked_ns,
            asked_ns + 50,
            command(Action::Swap, id, 10),
            0,
            id,
        )
    };
    assert!(!is_accepted(&[put(0, 5, 1), swap(10, 2), swap(11, 3)]));
    // A name that was set once is deleted twice.
    let delete = |asked_ns| call(asked_ns, asked_ns + 50, command(Action::Delete, 9, 0), 0, 1);
    assert!(!is_accepted(&[put(0, 5, 1), delete(10), delete(11)]));
    // The effect of a refused command is visible.
    let mut refused = put(0, 1, 3);
    refused.ending = CallResult::Refused;
    assert!(!is_accepted(&[refused, read(2, 3, 3)]));
    // One value with two versions.
    let mut again = read(20, 30, 1);
    if let CallResult::Answered { answer, .. } = &mut again.ending {
        answer.version += 1;
    }
    assert!(!is_accepted(&[put(0, 10, 1), again]));
}

#[test]
fn the_first_calls_of_many_are_searched() {
    let many = 2 * CALLS_MAX as u64;
    let mut calls: Vec<Call> = (1..many).map(|id| put(id * 10, id * 10 + 5, id)).collect();
    // Outside the searched calls, and among them.
    let behind = read(many * 10, many * 10 + 5, 1);
    let among = read(105, 107, 1);
    calls.push(behind);
    assert!(is_accepted(&calls));
    calls.push(among);
    assert!(!is_accepted(&calls));
    // An answer later than the first call outside the search may show the effect of that call.
    let shown = call(20, many * 10, command(Action::Get, many, 0), 0, many - 1);
    calls.pop();
    calls.push(shown);
    assert!(is_accepted(&calls));
}

/// A sequential history whose calls take longer than their effect is accepted; it is rejected when one read returns a
/// value that was overwritten before the read was invoked.
#[test]
fn histories_of_an_order_are_accepted_and_altered_ones_are_not() {
    use crate::machine::Names;
    use crate::random::{Domain, Fates};

    for seed in 0..200 {
        let mut draw = Fates::new(seed).draw(Domain::Workload, 0, 0, 0);
        let (mut names, mut calls) = (Names::default(), Vec::new());
        let mut versions = vec![0];
        for id in 1..=60 {
            let action = draw.pick(&[Action::Put, Action::Swap, Action::Delete, Action::Get]);
            let expected = draw.pick(&versions);
            let command = Command {
                action,
                key: 0,
                id,
                expected,
            };
            let answer = names.execute(&command);
            versions.push(answer.version);
            let at_ns = id * 100;
            let ending = if draw.chance(50_000) && action != Action::Get {
                CallResult::Unknown
            } else {
                CallResult::Answered {
                    at_ns: at_ns + draw.below(400),
                    op: id,
                    answer,
                }
            };
            calls.push(Call {
                invoked_ns: at_ns - draw.below(100),
                question: Invocation::Execute { command },
                ending,
            });
        }
        assert!(is_accepted(&calls), "seed {seed}");
        // A value that was set and then overwritten by a command that was answered before the read.
        calls.extend([
            put(20_000, 20_010, 100),
            put(20_020, 20_030, 101),
            read(20_040, 20_050, 100),
        ]);
        assert!(!is_accepted(&calls), "seed {seed}");
    }
}
