//! Appends of messages that a leader has stamped.

use headrace_log::{LogConfig, MessageFault, RunError};
use headrace_model::{Durability, Offset, Timestamp};
use headrace_partition::storage::FileName;
use headrace_partition::{CLOCK_SETBACK_MICROS_MAX, COPIED_BYTES_MAX};
use headrace_wire::message::Messages;
use proptest::prelude::*;

use crate::support::disk::Crash;
use crate::support::log_host::{LogHost, place, stamped};
use crate::support::messages::sent;
use crate::support::world::config;

/// Settings of logs that never begin a segment for its size.
fn unlimited() -> LogConfig {
    config(Durability::Fsync)
}

/// Append everything that the leader has behind the follower's end, in runs of at most `count` messages.
fn follow(leader: &LogHost, follower: &mut LogHost, count: usize) {
    for (name, bytes) in leader.segments() {
        let FileName::Log(segment) = name else {
            continue;
        };
        let messages = Messages::new(&bytes).map(|message| message.expect("whole"));
        let (mut position, mut left) = (0, Vec::new());
        for message in messages {
            if message.header().offset() < follower.log.next_offset().0 {
                position += message.bytes().len() as u64;
            } else {
                left.push(message);
            }
        }
        for run in left.chunks(count) {
            let base = run[0].header().offset();
            let bytes: Vec<u8> = run
                .iter()
                .flat_map(|message| message.bytes().to_vec())
                .collect();
            let taken = u32::try_from(run.len()).expect("few");
            let appended = follower.append_run(place(segment.0, position, base), &bytes, taken);
            let end = appended.expect("it continues the log").end_offset;
            assert_eq!(end, Offset(base + u64::from(taken)));
            follower.end_of_turn();
            position += bytes.len() as u64;
        }
    }
    follower.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// CTL-3: the files of a follower are those of its leader, byte for byte, whatever its own segment size is.
    #[test]
    fn a_follower_has_the_bytes_of_its_leader(
        batches in prop::collection::vec((1_u64..6, 0_usize..6_000, 0_u64..3_000_000, 0_u8..12), 1..30),
        segment_size_bytes in prop_oneof![Just(600_u64), Just(20_000), Just(1 << 20)],
        own_segment_size_bytes in prop_oneof![Just(600_u64), Just(1 << 20)],
        count in 1_usize..9,
        crash_after in prop::option::of(0_usize..30),
    ) {
        let mut leader = LogHost::new(LogConfig { segment_size_bytes, ..unlimited() });
        let mut follower = LogHost::new(LogConfig { segment_size_bytes: own_segment_size_bytes, ..unlimited() });
        leader.now = Timestamp(100 * CLOCK_SETBACK_MICROS_MAX);
        let mut number = 0;
        for (index, (messages, length, micros, event)) in batches.iter().enumerate() {
            match event {
                // The clock is set back, or a segment is begun before it is full.
                0 => leader.now.0 -= CLOCK_SETBACK_MICROS_MAX + 1 + micros,
                1 => leader.log.roll(),
                _ => leader.now.0 += micros,
            }
            let batch: Vec<_> = (0..*messages).map(|message| sent(number + message, *length)).collect();
            number += messages;
            leader.append(&batch);
            leader.settle();
            if Some(index) == crash_after {
                follow(&leader, &mut follower, count);
                prop_assert_eq!(follower.crash(Crash::Power), []);
            }
        }
        follow(&leader, &mut follower, count);
        let written = |segments: Vec<(FileName, Vec<u8>)>| -> Vec<_> {
            segments.into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect()
        };
        prop_assert_eq!(written(leader.segments()), written(follower.segments()));
        prop_assert_eq!(leader.contents(), follower.contents());
        follower.restart();
        prop_assert_eq!(leader.contents(), follower.contents());
    }
}

/// CTL-3: a run is refused as a whole, with the reason and the place, and leaves the log as it was.
#[test]
fn a_run_that_a_leader_cannot_have_written_is_refused() {
    let mut host = LogHost::new(unlimited());
    let first = stamped(&[sent(0, 100), sent(1, 100)], 0, 500);
    host.append_run(place(0, 0, 0), &first, 2)
        .expect("appended");
    host.settle();
    let position = first.len() as u64;
    let run = [
        stamped(&[sent(2, 100)], 2, 500),
        stamped(&[sent(3, 9_000)], 3, 501),
    ]
    .concat();
    let length = run.len();
    let second = 64 + 100;
    let message = |offset, at, fault| {
        let offset = Offset(offset);
        RunError::Message { offset, at, fault }
    };
    let mut changed = run.clone();
    changed[second + 64] ^= 1;
    let mut reserved = run.clone();
    reserved[second + 56] = 1;
    let gap = [&run[..second], &stamped(&[sent(3, 10)], 4, 501)[..]].concat();
    let early = [&run[..second], &stamped(&[sent(3, 10)], 3, 499)[..]].concat();
    let before = Timestamp(500);
    let found = Timestamp(499);
    let at_end = place(0, position, 2);
    let first_is_early = stamped(&[sent(2, 10)], 2, 499);
    for (bytes, count, error) in [
        (
            &run[..],
            1,
            RunError::Count {
                stated: 1,
                found: 2,
            },
        ),
        (
            &run,
            3,
            RunError::Count {
                stated: 3,
                found: 2,
            },
        ),
        (
            &[],
            0,
            RunError::Count {
                stated: 0,
                found: 0,
            },
        ),
        (
            &run[..length - 1],
            2,
            message(3, second, MessageFault::Incomplete),
        ),
        (
            &run[..second + 63],
            2,
            message(3, second, MessageFault::Incomplete),
        ),
        (&changed, 2, message(3, second, MessageFault::Checksum)),
        (&reserved, 2, message(3, second, MessageFault::Fields)),
        (
            &gap,
            2,
            message(3, second, MessageFault::Offset { found: Offset(4) }),
        ),
        (
            &early,
            2,
            message(3, second, MessageFault::Timestamp { found, before }),
        ),
        (
            &first_is_early,
            1,
            message(2, 0, MessageFault::Timestamp { found, before }),
        ),
    ] {
        assert_eq!(host.append_run(at_end, bytes, count), Err(error));
        assert_eq!(
            (host.log.next_offset(), host.log.end_place()),
            (Offset(2), at_end)
        );
    }
    // Nor does a segment begin with such a message.
    host.append_run(place(2, 0, 2), &changed, 2)
        .expect_err("a wrong checksum");
    assert_eq!(host.log.segments_count(), 1);
    host.append_run(place(2, 0, 2), &first_is_early, 1)
        .expect("a clock was set back");
    assert_eq!(host.log.segments_count(), 2);
    host.settle();
    // The segment before ended at that time.
    let ended = host.log.oldest_segment_timestamp();
    assert_eq!(ended, Some(found));
    assert_eq!(host.contents(), [first, first_is_early].concat());
}

/// CTL-3: a run that is not at the end of the log is refused.
#[test]
fn a_run_has_one_place() {
    let mut host = LogHost::new(unlimited());
    let first = stamped(&[sent(0, 100), sent(1, 100)], 0, 500);
    host.append_run(place(0, 0, 0), &first, 2)
        .expect("appended");
    let position = first.len() as u64;
    let (end, run) = (place(0, position, 2), stamped(&[sent(2, 100)], 2, 500));
    let places = [
        place(0, position, 3),
        place(0, position + 1, 2),
        place(0, 0, 2),
        place(1, position, 2),
        place(2, 1, 2),
    ];
    for place in places {
        assert_eq!(
            host.append_run(place, &run, 1),
            Err(RunError::Place { place, end })
        );
    }
    host.append_run(end, &run, 1).expect("it is the end");
}

/// A large run stays in the buffer in which it was received.
#[test]
fn a_run_is_as_large_as_a_leader_makes_it() {
    let mut host = LogHost::new(LogConfig {
        segment_size_bytes: 1000,
        ..unlimited()
    });
    let messages: Vec<_> = (0..40).map(|number| sent(number, 1000)).collect();
    let run = stamped(&messages, 0, 7);
    assert!(run.len() > COPIED_BYTES_MAX);
    host.append_run(place(0, 0, 0), &run, 40).expect("appended");
    host.settle();
    assert_eq!(host.segments(), [(FileName::Log(Offset(0)), run.clone())]);
    // The log that leads next begins a segment of its own behind it.
    host.append(&[sent(40, 10)]);
    host.append(&[sent(41, 10)]);
    host.settle();
    let bases: Vec<_> = host.segments().into_iter().map(|(name, _)| name).collect();
    assert_eq!(bases, [0, 41].map(|base| FileName::Log(Offset(base))));
}

/// LOG-2: the index of a follower is that of its leader.
#[test]
fn a_run_is_indexed_as_by_its_leader() {
    let (mut leader, mut follower) = (LogHost::new(unlimited()), LogHost::new(unlimited()));
    let messages: Vec<_> = (0..60).map(|number| sent(number, 1000)).collect();
    for batch in messages.chunks(7) {
        leader.append(batch);
        leader.now.0 += 1;
    }
    leader.log.roll();
    leader.append(&[sent(60, 10)]);
    leader.settle();
    follow(&leader, &mut follower, 5);
    let index = FileName::Index(Offset(0));
    assert!(leader.disk.content(index).len() > 7 * 32);
    assert_eq!(leader.disk.content(index), follower.disk.content(index));
}
