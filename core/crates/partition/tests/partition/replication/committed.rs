//! The committed end: what readers of a replicated log see.

use headrace_log::LogConfig;
use headrace_model::{Durability, Offset};

use crate::support::disk::Crash;
use crate::support::log_host::{LogHost, place, stamped};
use crate::support::messages::sent;
use crate::support::world::config;

fn replicated(durability: Durability) -> LogConfig {
    LogConfig {
        replicated: true,
        segment_size_bytes: 300,
        ..config(durability)
    }
}

/// LOG-15, CTL-3: a replicated log shows what is committed, and nothing else.
#[test]
fn only_committed_messages_are_visible() {
    for durability in Durability::ALL {
        let mut host = LogHost::new(replicated(durability));
        let run = stamped(&[sent(0, 100), sent(1, 100)], 0, 5);
        host.append_run(place(0, 0, 0), &run, 2).expect("appended");
        host.append(&[sent(2, 100)]);
        host.settle();
        assert_eq!(host.log.visible_end(), Offset(0));
        assert_eq!(host.read(0, 9).expect("a read").messages_count, 0);
        for (committed, visible) in [(1, 1), (0, 1), (9, 3), (2, 3)] {
            host.log.commit(Offset(committed));
            assert_eq!(host.log.visible_end(), Offset(visible));
            assert_eq!(
                u64::from(host.read(0, 9).expect("a read").messages_count),
                visible
            );
        }
        // A commit from before the message came does not count for it.
        host.append(&[sent(3, 100)]);
        host.settle();
        assert_eq!(host.log.visible_end(), Offset(3));
    }
}

/// CTL-3: the first message that a log has is committed, as far as the log can know after a start.
#[test]
fn a_commit_is_noted_again_after_a_start() {
    let mut host = LogHost::new(replicated(Durability::Fsync));
    for number in 0..8 {
        host.append(&[sent(number, 100)]);
    }
    host.settle();
    assert_eq!(host.log.segments_count(), 5);
    // Nothing is removed that is not committed.
    host.log.delete_segments(9, None);
    assert_eq!(host.log.first_offset(), Offset(0));
    host.log.commit(Offset(5));
    host.log.delete_segments(9, None);
    host.settle();
    assert_eq!(host.log.first_offset(), Offset(4));
    assert_eq!(host.crash(Crash::Power), []);
    assert_eq!(host.log.visible_end(), host.log.first_offset());
    host.log.commit(Offset(8));
    assert_eq!(host.log.committed_end(), Offset(8));
}

/// LOG-15: a log without replication does not depend on commits.
#[test]
fn a_log_without_replication_has_no_commits() {
    let mut host = LogHost::new(config(Durability::Os));
    host.append(&[sent(0, 100)]);
    host.settle();
    assert_eq!(
        (host.log.visible_end(), host.log.committed_end()),
        (Offset(1), Offset(0))
    );
}
