//! Truncation while the log is in use, and crashes at each of its storage operations.

use headrace_log::{LogConfig, TruncateError};
use headrace_model::{Durability, Offset};
use headrace_partition::storage::{FileName, StorageErrorKind};

use crate::support::disk::{Crash, Fault};
use crate::support::log_host::{LogHost, place, stamped};
use crate::support::messages::sent;
use crate::support::world::config;

const MESSAGE_BYTES: usize = 64 + 1000;

/// Twelve messages, four to a segment; the open segment is empty, or has two more.
fn log(with_open_messages: bool) -> LogHost {
    let mut host = LogHost::new(LogConfig {
        segment_size_bytes: 4_000,
        tail_cache_bytes: 0,
        ..config(Durability::Fsync)
    });
    for number in 0..if with_open_messages { 14 } else { 12 } {
        host.append(&[sent(3 * number + 1, 1000)]);
        host.settle();
    }
    host
}

/// Truncate, or start at the offset.
#[derive(Debug, Clone, Copy)]
enum Change {
    Truncate(u64),
    StartAt(u64),
}

impl Change {
    const ALL: [Self; 11] = [
        Self::Truncate(0),
        Self::Truncate(1),
        Self::Truncate(4),
        Self::Truncate(6),
        Self::Truncate(8),
        Self::Truncate(11),
        Self::Truncate(12),
        Self::StartAt(0),
        Self::StartAt(6),
        Self::StartAt(12),
        Self::StartAt(500),
    ];

    fn begin(self, host: &mut LogHost) {
        match self {
            Self::Truncate(end) => host.log.truncate(Offset(end)).expect("begun"),
            Self::StartAt(first) => host.log.start_at(Offset(first)).expect("begun"),
        }
        host.end_of_turn();
    }

    /// First and next offset afterwards, and the contents of what they were.
    fn result(self, before: &[u8]) -> (u64, u64, Vec<u8>) {
        match self {
            Self::Truncate(end) => {
                let bytes = usize::try_from(end).expect("small") * MESSAGE_BYTES;
                (0, end, before[..bytes].to_vec())
            }
            Self::StartAt(first) => (first, first, Vec::new()),
        }
    }
}

fn state(host: &mut LogHost) -> (u64, u64, Vec<u8>) {
    let (first, next) = (host.log.first_offset().0, host.log.next_offset().0);
    assert_eq!(host.log.visible_end().0, next);
    (first, next, host.contents())
}

/// Check that a log goes on, and that nothing dropped comes back: the new messages have the sizes of those.
fn goes_on(host: &mut LogHost, case: &str) {
    let (first, next, mut contents) = state(host);
    for number in 0..6 {
        host.append(&[sent(1000 + 3 * number + 1, 1000)]);
    }
    host.settle();
    let new = host.read(next, 10).expect("intact");
    contents.extend(new.slices.iter().flat_map(|slice| slice.to_vec()));
    assert_eq!(state(host), (first, next + 6, contents.clone()), "{case}");
    assert_eq!(host.crash(Crash::Power), [], "{case}");
    assert_eq!(state(host), (first, next + 6, contents.clone()), "{case}");
    assert_eq!(host.restart(), [], "{case}");
    assert_eq!(state(host), (first, next + 6, contents), "{case}");
    let foreign = |file: &FileName| matches!(file, FileName::Foreign(..) | FileName::Cut(..));
    assert!(!host.disk.files().iter().any(foreign), "{case}");
}

/// CTL-3: a truncated log is the beginning of what it was, in its files, too.
#[test]
fn a_truncated_log_is_its_beginning() {
    for with_open_messages in [false, true] {
        for change in Change::ALL {
            let case = format!("{change:?}, {with_open_messages}");
            let mut host = log(with_open_messages);
            let before = host.contents();
            let files = host.segments();
            change.begin(&mut host);
            assert!(!host.log.is_open(), "{case}");
            host.settle();
            assert!(host.log.is_open(), "{case}");
            assert_eq!(host.log.take_notices(), [], "{case}");
            let result = change.result(&before);
            assert_eq!(state(&mut host), result, "{case}");
            for (name, bytes) in host.segments() {
                let (_, earlier) = files
                    .iter()
                    .find(|(other, _)| *other == name)
                    .expect("it was there");
                assert!(earlier.starts_with(&bytes), "{case}");
            }
            let openings = host.log.openings().last().copied().expect("this one");
            assert_eq!(openings.end, host.log.next_offset(), "{case}");
            goes_on(&mut host, &case);
        }
    }
}

/// CTL-3: a crash at any operation of a truncation leaves the log as it was, or as it is to be.
#[test]
fn a_crash_in_a_truncation_leaves_all_of_it_or_none() {
    let mut outcomes = [0, 0];
    for change in Change::ALL {
        for crash in [Crash::Kill, Crash::Power] {
            for seed in 0..6 {
                for steps in 0.. {
                    let case = format!("{change:?}, {crash:?} after {steps} steps, seed {seed}");
                    let mut host = log(seed % 2 == 0);
                    host.random.seed(seed);
                    host.is_shuffled = true;
                    let was = state(&mut host);
                    let result = change.result(&was.2);
                    change.begin(&mut host);
                    let mut left = steps;
                    while left > 0 && !host.log.is_open() && host.step() {
                        left -= 1;
                    }
                    let is_done = host.log.is_open();
                    assert_eq!(host.crash(crash), [], "{case}");
                    let is = state(&mut host);
                    assert!(
                        is == result || !is_done && is == was,
                        "{case}: {}..{}",
                        is.0,
                        is.1
                    );
                    outcomes[usize::from(is == result)] += 1;
                    goes_on(&mut host, &case);
                    if is_done {
                        break;
                    }
                }
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 10), "{outcomes:?}");
}

/// CTL-3: the segment that ends the log is open again: a leader may have gone on in it.
#[test]
fn a_sealed_segment_is_opened_again() {
    let mut host = log(false);
    assert_eq!(host.log.end_place(), place(12, 0, 12));
    let run = stamped(&[sent(1, 1000)], 12, 5_000_000);
    let at_end = place(8, 4 * MESSAGE_BYTES as u64, 12);
    host.append_run(at_end, &run, 1)
        .expect_err("the log has begun a segment");
    Change::Truncate(12).begin(&mut host);
    host.settle();
    assert_eq!(host.log.end_place(), at_end);
    host.append_run(at_end, &run, 1)
        .expect("it continues the segment");
    host.settle();
    assert_eq!(host.segments().len(), 3);
    goes_on(&mut host, "a segment opened again");
}

/// CTL-3: messages that are not written yet are written first, so that those before the end are not lost.
#[test]
fn queued_messages_before_the_end_are_kept() {
    for durability in Durability::ALL {
        let mut host = LogHost::new(config(durability));
        for number in 0..5 {
            host.append(&[sent(number, 100)]);
        }
        Change::Truncate(3).begin(&mut host);
        host.settle();
        assert!(host.log.is_open());
        assert_eq!(
            (host.log.next_offset(), host.log.written_end()),
            (Offset(3), Offset(3))
        );
        assert_eq!(host.crash(Crash::Power), []);
        assert_eq!(state(&mut host).1, 3);
    }
}

/// CTL-3: what cannot be dropped is refused, and changes nothing.
#[test]
fn truncations_that_would_lose_more_are_refused() {
    let mut host = LogHost::new(LogConfig {
        replicated: true,
        ..config(Durability::Os)
    });
    for number in 0..5 {
        host.append(&[sent(number, 100)]);
    }
    host.settle();
    host.log.commit(Offset(3));
    let (first, next, committed) = (Offset(0), Offset(5), Offset(3));
    let end = Offset(6);
    assert_eq!(
        host.log.truncate(end),
        Err(TruncateError::OutOfRange { end, first, next })
    );
    assert_eq!(
        host.log.truncate(Offset(2)),
        Err(TruncateError::Committed { committed })
    );
    assert!(host.log.is_open());
    assert_eq!(host.log.truncate(committed), Ok(()));
    assert_eq!(host.log.truncate(committed), Err(TruncateError::Busy));
    host.settle();
    // The commit is still known, and what comes next is not committed.
    assert_eq!(
        (host.log.visible_end(), host.log.next_offset()),
        (committed, committed)
    );
    host.append(&[sent(9, 100)]);
    host.settle();
    assert_eq!(host.log.visible_end(), committed);
    host.log.start_at(Offset(100)).expect("begun");
    host.settle();
    assert_eq!(
        (host.log.visible_end(), host.log.next_offset()),
        (Offset(100), Offset(100))
    );
    host.close();
    assert_eq!(host.log.start_at(Offset(0)), Err(TruncateError::Busy));
}

/// LOG-14: a disk that is full delays a truncation, and one that fails prevents it.
#[test]
fn a_truncation_needs_its_statement() {
    let mut host = log(true);
    host.disk.faults.push(Fault::NoRoom);
    Change::Truncate(6).begin(&mut host);
    host.settle();
    assert!(host.log.is_out_of_space() && !host.log.is_open());
    host.pass(1_000_000);
    assert!(host.log.is_open() && host.log.failure().is_none());
    assert_eq!(state(&mut host).1, 6);
    goes_on(&mut host, "after a shortage");

    let mut host = log(true);
    let was = state(&mut host);
    host.disk.faults.push(Fault::Replace);
    Change::Truncate(6).begin(&mut host);
    host.settle();
    assert!(host.log.is_open() && host.log.failure().is_some());
    assert_eq!(state(&mut host), was);
    assert_eq!(host.crash(Crash::Kill), []);
    assert_eq!(state(&mut host), was);

    // A file that cannot be removed takes the log out of service; the next start carries the truncation out.
    let mut host = log(true);
    host.disk.faults.push(Fault::Remove);
    Change::Truncate(6).begin(&mut host);
    host.settle();
    assert!(!host.log.is_open() && host.log.failure().is_some());
    assert_eq!(host.crash(Crash::Kill), []);
    assert_eq!(state(&mut host).1, 6);
    goes_on(&mut host, "after a failure");
}

/// A log that is closed or purged in the middle of a truncation is closed, or empty.
#[test]
fn a_truncation_may_be_overtaken() {
    for steps in 0..12 {
        let mut host = log(true);
        let was = state(&mut host);
        let result = Change::Truncate(6).result(&was.2);
        Change::Truncate(6).begin(&mut host);
        for _ in 0..steps {
            host.step();
        }
        host.restart();
        let is = state(&mut host);
        assert!(is == was || is == result, "closed after {steps} steps");
        goes_on(&mut host, "closed");

        let mut host = log(true);
        Change::Truncate(6).begin(&mut host);
        for _ in 0..steps {
            host.step();
        }
        host.purge();
        host.settle();
        assert!(host.log.is_open() && !host.log.is_wiping());
        assert_eq!(
            state(&mut host),
            (0, 0, Vec::new()),
            "purged after {steps} steps"
        );
        goes_on(&mut host, "purged");
    }
}

/// LOG-12: damage before the end does not extend the log, and is found as at a start.
#[test]
fn damage_before_the_end_stays_damage() {
    let mut host = log(true);
    let (_, _, contents) = state(&mut host);
    let damaged = FileName::Log(Offset(4));
    host.disk.flip(damaged, MESSAGE_BYTES + 200);
    host.disk
        .faults
        .push(Fault::Read(damaged, StorageErrorKind::Exhausted));
    Change::Truncate(7).begin(&mut host);
    host.settle();
    host.pass(1_000_000);
    assert!(host.log.is_open());
    assert_eq!(
        (host.log.next_offset(), host.log.take_notices().len()),
        (Offset(7), 1)
    );
    let last = host.read(6, 5).expect("intact").slices;
    let last: Vec<u8> = last.iter().flat_map(|slice| slice.to_vec()).collect();
    assert_eq!(last, contents[6 * MESSAGE_BYTES..7 * MESSAGE_BYTES]);
    host.read(5, 1).expect_err("damaged");

    // With the message before the end damaged, no message behind the end takes its place.
    let mut host = log(true);
    for message in 1..3 {
        host.disk.flip(damaged, message * MESSAGE_BYTES + 200);
    }
    Change::Truncate(6).begin(&mut host);
    host.settle();
    assert_eq!(host.log.next_offset(), Offset(5));
}

/// CTL-3: a log of which nothing is left goes on where it began, also if the manifest knows an earlier beginning.
#[test]
fn a_log_without_its_first_segment_can_be_emptied() {
    let mut host = log(true);
    host.close();
    host.disk.lose(FileName::Log(Offset(0)));
    assert_eq!(host.crash(Crash::Kill).len(), 1);
    assert_eq!(host.log.first_offset(), Offset(4));
    Change::Truncate(4).begin(&mut host);
    host.settle();
    host.log.take_notices();
    assert_eq!(state(&mut host), (4, 4, Vec::new()));
    goes_on(&mut host, "a log without its first segment");
}
