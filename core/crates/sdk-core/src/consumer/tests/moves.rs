//! Partitions that a consumer gets, and loses.

use super::*;

#[test]
fn a_member_joins_a_group_and_creates_it_on_demand() {
    let mut bench = Bench::new(group(true), Start::First);
    bench.open(1);
    bench.answer("join", refused(Status::CONSUMER_GROUP_NAME_NOT_FOUND));
    // Another member was faster.
    bench.answer(
        "create group",
        refused(Status::CONSUMER_GROUP_NAME_ALREADY_EXISTS),
    );
    bench.answer("join", Ok(Bytes::new()));
    bench.assign(&[0, 2], &[]);
    assert_eq!(bench.take_reported(), ["assigned [0, 2]"]);
    assert_eq!(bench.watch, ["+[0, 2]"]);
    bench.answer("offset 0", Ok(stored(0, 9)));
    bench.answer("offset 2", Ok(Bytes::new()));
    bench.report(0, 12);
    bench.report(2, 12);
    assert_eq!(bench.asked(), ["read 0 from 10", "read 2 First"]);

    let mut bench = Bench::new(group(false), Start::First);
    bench.open(1);
    bench.answer("join", refused(Status::CONSUMER_GROUP_NAME_NOT_FOUND));
    assert_eq!(bench.take_reported().len(), 1);
    assert_eq!(bench.consumer.next_deadline(), None);
}

#[test]
fn refusals_for_the_moment_delay_and_do_not_end() {
    let mut bench = Bench::new(group(true), Start::First);
    bench.open(1);
    for _ in 0..3 {
        bench.answer("join", refused(Status::TASK_TIMEOUT));
        assert!(bench.asked.is_empty());
        bench.pass();
    }
    bench.answer("join", Ok(Bytes::new()));
    // A server that has forgotten the member at once is not asked without pauses.
    bench.answer(
        "membership",
        refused(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND),
    );
    assert!(bench.asked.is_empty());
    bench.pass();
    bench.answer("join", Ok(Bytes::new()));
    bench.assign(&[0], &[]);
    bench.answer("offset 0", refused(Status::PARTITION_UNAVAILABLE));
    bench.report(0, 5);
    assert!(bench.asked.is_empty());
    bench.pass();
    bench.answer("offset 0", Ok(Bytes::new()));
    bench.answer("membership", refused(Status::TASK_TIMEOUT));
    bench.answer("read 0 First", refused(Status::PARTITION_UNAVAILABLE));
    assert!(bench.asked.is_empty());
    bench.pass();
    assert_eq!(bench.asked(), ["membership", "read 0 First"]);
    assert_eq!(bench.take_reported(), ["assigned [0]"]);
}

#[test]
fn a_revoked_partition_is_reported_after_its_last_messages() {
    let mut bench = Bench::member(&[0, 1]);
    bench.report(1, 0);
    bench.report(0, 10);
    assert_eq!(bench.asked(), ["read 0 First"]);
    bench.pass();
    let read = bench.asked.pop_front().expect("a read");
    bench.assign(&[1], &[0]);
    assert!(bench.take_reported().is_empty(), "a read is in flight");
    bench.asked.push_front(read);
    bench.answer("read 0 First", Ok(messages(0, 0..5)));
    assert_eq!(bench.take_reported(), ["batch 0 0..5", "revoked [0]"]);
    bench.report(0, 20);
    assert!(bench.asked.is_empty(), "nothing of it follows");
    // Its offset can still be stored, and then it moves without another word.
    bench.consumer.commit(0, 4, 7);
    bench.collect();
    bench.answer("store 0 4", Ok(Bytes::new()));
    bench.watch.clear();
    bench.pass();
    bench.assign(&[1], &[]);
    assert_eq!(bench.take_reported(), ["commit 7 done"]);
    assert_eq!(bench.watch, ["-[0]"]);
    assert_eq!(bench.consumer.assigned(), [1]);
}

#[test]
fn a_revoked_partition_that_stays_is_assigned_again() {
    let mut bench = Bench::member(&[0]);
    bench.report(0, 10);
    bench.answer("read 0 First", Ok(messages(0, 0..10)));
    bench.pass();
    bench.assign(&[], &[0]);
    assert_eq!(bench.take_reported(), ["batch 0 0..10", "revoked [0]"]);
    bench.report(0, 12);
    bench.pass();
    bench.assign(&[0], &[]);
    assert_eq!(bench.take_reported(), ["assigned [0]"]);
    assert_eq!(bench.asked(), ["read 0 from 10"]);
}

#[test]
fn a_partition_that_moves_after_everything_was_stored_is_revoked() {
    for (offset, expected) in [(8, "lost [0]"), (9, "revoked [0]")] {
        let mut bench = Bench::member(&[0, 1]);
        bench.report(0, 10);
        bench.pass();
        bench.answer("read 0 First", Ok(messages(0, 0..10)));
        bench.take_reported();
        bench.consumer.commit(0, offset, 1);
        bench.assign(&[1], &[]);
        assert_eq!(bench.take_reported(), [expected]);
    }
}

#[test]
fn a_partition_that_is_taken_away_is_lost_and_answers_for_it_are_ignored() {
    let mut bench = Bench::member(&[0, 1]);
    bench.report(0, 10);
    bench.pass();
    let read = bench.asked.pop_front().expect("a read");
    bench.assign(&[1], &[]);
    assert_eq!(bench.take_reported(), ["lost [0]"]);
    bench.asked.push_front(read);
    bench.answer("read 0 First", Ok(messages(0, 0..10)));
    assert!(bench.take_reported().is_empty());
    // It comes back with a new epoch: the offset is queried, and the partition watched again.
    bench.watch.clear();
    bench.pass();
    bench.assign(&[0, 1], &[]);
    assert_eq!(bench.asked(), ["offset 0"]);
    assert!(
        bench.watch.contains(&"+[0]".to_owned()),
        "{:?}",
        bench.watch
    );
}

#[test]
fn a_lost_membership_is_joined_again() {
    let mut bench = Bench::member(&[0]);
    bench.pass();
    bench.answer(
        "membership",
        refused(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND),
    );
    assert_eq!(bench.take_reported(), ["lost [0]"]);
    bench.answer("join", Ok(Bytes::new()));
    bench.assign(&[0], &[]);
    bench.answer("offset 0", Ok(Bytes::new()));
    bench.report(0, 3);
    // A read may notice it first.
    bench.answer(
        "read 0 First",
        refused(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND),
    );
    bench.answer(
        "membership",
        refused(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND),
    );
    assert_eq!(bench.asked(), ["join"]);
    assert_eq!(bench.take_reported(), ["assigned [0]", "lost [0]"]);
}

#[test]
fn a_member_that_returns_continues_after_what_it_has_processed() {
    let mut bench = Bench::member(&[0]);
    bench.report(0, 10);
    bench.answer("read 0 First", Ok(messages(0, 0..10)));
    bench.consumer.note_processed(0, 6);
    bench.consumer.commit(0, 3, 1);
    bench.collect();
    bench.lose();
    assert_eq!(
        bench.take_reported(),
        ["batch 0 0..10", "commit 1 failed", "lost [0]"]
    );
    // A commit without a connection fails: the membership has ended.
    bench.consumer.commit(0, 5, 2);
    bench.collect();
    assert_eq!(bench.asked(), ["store 0 5"]);
    bench.asked.clear();
    bench.now += SECOND;
    for generation in [2, 3] {
        bench.open(generation);
        bench.answer("join", Ok(Bytes::new()));
        bench.assign(&[0], &[]);
        bench.answer("offset 0", Ok(stored(0, 3)));
        bench.report(0, 10);
        // Also after a second loss without any progress.
        assert_eq!(bench.asked(), ["read 0 from 6"]);
        bench.lose();
    }
    bench.open(4);
    bench.answer("join", Ok(Bytes::new()));
    bench.assign(&[0], &[]);
    // Another member was further.
    bench.answer("offset 0", Ok(stored(0, 7)));
    bench.report(0, 10);
    assert_eq!(bench.asked(), ["read 0 from 8"]);
}

/// A member whose partition was with another one, and has come back. It has processed the messages up to 10.
fn returned() -> Bench {
    let mut bench = Bench::member(&[0]);
    bench.report(0, 10);
    bench.answer("read 0 First", Ok(messages(0, 0..10)));
    bench.consumer.note_processed(0, 10);
    bench.pass();
    bench.assign(&[], &[]);
    bench.pass();
    bench.assign(&[0], &[]);
    let reported = bench.take_reported();
    assert_eq!(reported, ["batch 0 0..10", "lost [0]", "assigned [0]"]);
    bench
}

#[test]
fn a_purge_during_the_ownership_of_another_member_makes_what_was_processed_void() {
    for (found, expected) in [
        (stored(0, 2), "read 0 from 3"),
        (Bytes::new(), "read 0 from 0"),
    ] {
        let mut bench = returned();
        // It may have been found before the purge.
        bench.answer("offset 0", Ok(stored(0, 9)));
        bench.report_purged(0, 1, 5);
        assert_eq!(bench.take_reported(), ["reset 0"]);
        bench.answer("offset 0", Ok(found));
        assert_eq!(bench.asked(), [expected]);
    }
    // A place that the caller has chosen meanwhile stays.
    let mut bench = returned();
    bench.consumer.seek(0, Start::Offset(4));
    bench.answer("offset 0", Ok(stored(0, 9)));
    bench.report_purged(0, 1, 5);
    assert!(bench.take_reported().is_empty());
    assert_eq!(bench.asked(), ["read 0 from 4"]);
}

#[test]
fn a_log_that_has_lost_its_end_is_read_on_from_what_is_left() {
    let mut bench = Bench::member(&[0]);
    bench.report(0, 20);
    bench.answer("read 0 First", Ok(messages(0, 0..20)));
    bench.consumer.taken(10_000);
    bench.consumer.note_processed(0, 20);
    bench.lose();
    bench.open(2);
    bench.answer("join", Ok(Bytes::new()));
    bench.assign(&[0], &[]);
    bench.answer("offset 0", Ok(stored(0, 9)));
    bench.report(0, 10);
    bench.report(0, 15);
    assert_eq!(bench.asked(), ["read 0 from 10"]);

    let mut bench = Bench::alone(&[0], Start::First);
    bench.report(0, 12);
    bench.answer("read 0 First", Ok(messages(0, 0..20)));
    bench.consumer.taken(10_000);
    // This one was made before the messages were read.
    bench.report(0, 15);
    assert_eq!(bench.consumer.position(0), Some((Some(20), 15)));
    bench.lose();
    bench.consumer.watch_lost();
    bench.open(2);
    bench.report(0, 18);
    bench.report(0, 19);
    assert_eq!(bench.asked(), ["read 0 from 18"]);
    // A place behind the end for which the caller waits stays.
    bench.consumer.seek(0, Start::Offset(50));
    bench.report(0, 17);
    assert_eq!(bench.consumer.position(0), Some((Some(50), 17)));
}

#[test]
fn a_single_reader_keeps_its_partitions_and_asks_again_for_what_it_did_not_learn() {
    let mut bench = Bench::new(
        Membership::Alone {
            name: Some(OwnedIdentifier::Numeric(5)),
            partitions: Some(vec![0, 1]),
        },
        Start::First,
    );
    bench.open(1);
    bench.answer("offset 0", Ok(stored(0, 1)));
    bench.lose();
    bench.open(2);
    assert_eq!(bench.take_reported(), ["assigned [0, 1]"]);
    bench.answer("offset 1", Ok(Bytes::new()));
    bench.report(0, 5);
    bench.report(1, 5);
    assert_eq!(bench.asked(), ["read 0 from 2", "read 1 First"]);
}

#[test]
fn partitions_of_a_topic_that_grows_and_shrinks() {
    let membership = Membership::Alone {
        name: None,
        partitions: None,
    };
    let mut bench = Bench::new(membership, Start::First);
    bench.open(1);
    bench.answer("topic", Ok(topic(1)));
    bench.pass();
    bench.answer("topic", Ok(topic(3)));
    assert_eq!(bench.take_reported(), ["assigned [0]", "assigned [1, 2]"]);
    // The server of the watch session does not know them yet.
    bench.watch.clear();
    bench
        .consumer
        .watch_answered(WatchToken::Add, refused(Status::PARTITION_NOT_FOUND));
    bench.collect();
    bench.answer("topic", Ok(topic(3)));
    bench.pass();
    assert_eq!(bench.watch, ["+[0, 1, 2]"]);
    bench.answer("topic", Ok(topic(3)));
    bench.report(0, 1);
    bench.report_status(2, Status::PARTITION_NOT_FOUND);
    bench.answer("read 0 First", Ok(messages(0, 0..1)));
    bench.answer("topic", Ok(topic(2)));
    assert_eq!(bench.take_reported(), ["batch 0 0..1", "lost [2]"]);
    bench.pass();
    bench.answer("topic", Ok(Bytes::new()));
    let reported = bench.take_reported();
    assert!(reported[0].starts_with("failed: "), "{reported:?}");
}

#[test]
fn refusals_for_long_are_reported() {
    let mut bench = Bench::member(&[0]);
    bench.take_reported();
    let begun = bench.now;
    let mut times = Vec::new();
    while bench.now < begun + Duration::from_secs(100) {
        bench
            .consumer
            .watch_answered(WatchToken::Add, refused(Status::TOO_MANY_WAITS));
        bench.pass();
        for report in bench.take_reported() {
            assert!(report.starts_with("refused: "), "{report}");
            assert!(report.contains("TooManyWaits"), "{report}");
            times.push(bench.now.as_secs() - begun.as_secs());
        }
        bench.assign(&[0], &[]);
    }
    assert_eq!(times.len(), 3, "{times:?}");
    assert!(times[0] >= 30 && times[1] - times[0] >= 30, "{times:?}");
    // A heartbeat without a refusal ends it.
    bench.pass();
    for _ in 0..5 {
        bench
            .consumer
            .watch_answered(WatchToken::Add, refused(Status::TOO_MANY_WAITS));
        bench.pass();
    }
    assert_eq!(bench.take_reported(), Vec::<String>::new());
}

#[test]
fn a_watch_session_that_returns_watches_again() {
    let mut bench = Bench::member(&[0, 1]);
    bench.report(0, 4);
    bench.answer("read 0 First", Ok(messages(0, 0..4)));
    bench.consumer.watch_lost();
    bench.consumer.watch_opened(2);
    bench.collect();
    assert_eq!(bench.watch, ["+[0, 1]"]);
    // Too many partitions are watched at the moment, perhaps by the connection that has broken.
    bench
        .consumer
        .watch_answered(WatchToken::Add, refused(Status::TOO_MANY_WAITS));
    bench.pass();
    assert_eq!(bench.watch, ["+[0, 1]", "+[0, 1]"]);
    bench.report(0, 6);
    bench.assign(&[0, 1], &[]);
    assert_eq!(bench.asked(), ["read 0 from 4"]);
    bench
        .consumer
        .watch_answered(WatchToken::Add, refused(Status::UNAUTHORIZED));
    assert_eq!(bench.take_reported().len(), 2);
}

#[test]
fn a_message_of_before_does_not_move_the_group_back() {
    for (found, is_further) in [(Ok(stored(0, 3)), false), (Ok(stored(0, 9)), true)] {
        let mut bench = Bench::member(&[0]);
        bench.report(0, 10);
        bench.answer("read 0 First", Ok(messages(0, 0..5)));
        bench.lose();
        bench.open(2);
        bench.take_reported();
        // The server may have assigned the partition, and whether another member was further is not known yet.
        bench.consumer.commit(0, 4, 1);
        bench.answer("join", Ok(Bytes::new()));
        bench.assign(&[0], &[]);
        bench.consumer.commit(0, 4, 2);
        bench.answer("offset 0", found);
        let reported = bench.take_reported();
        assert_eq!(
            reported,
            ["commit 1 failed", "assigned [0]", "commit 2 failed"]
        );
        bench.consumer.commit(0, 4, 3);
        bench.collect();
        if is_further {
            assert_eq!(bench.take_reported(), ["commit 3 failed"]);
            assert!(bench.asked.is_empty(), "nothing is sent");
            // The caller may choose it.
            bench.consumer.seek(0, Start::Offset(4));
            bench.consumer.commit(0, 4, 4);
        }
        bench.collect();
        bench.answer("store 0 4", Ok(Bytes::new()));
    }
}

#[test]
fn leaving_waits_for_commits() {
    let mut bench = Bench::member(&[0]);
    bench.consumer.commit(0, 3, 1);
    bench.consumer.leave();
    bench.consumer.leave();
    bench.collect();
    bench.answer("store 0 3", Ok(Bytes::new()));
    bench.answer("leave", Ok(Bytes::new()));
    assert_eq!(bench.take_reported(), ["commit 1 done", "left"]);

    for is_lost in [false, true] {
        let mut bench = Bench::new(
            Membership::Alone {
                name: Some(OwnedIdentifier::Numeric(5)),
                partitions: Some(vec![0]),
            },
            Start::First,
        );
        bench.open(1);
        bench.answer("offset 0", Ok(Bytes::new()));
        bench.reported.clear();
        bench.consumer.commit(0, 3, 1);
        bench.consumer.leave();
        assert!(bench.take_reported().is_empty());
        if is_lost {
            bench.consumer.data_lost();
            assert_eq!(bench.take_reported(), ["left"]);
        } else {
            bench.answer("store 0 3", Ok(Bytes::new()));
            assert_eq!(bench.take_reported(), ["commit 1 done", "left"]);
        }
    }

    let mut bench = Bench::alone(&[0], Start::First);
    bench.consumer.commit(0, 3, 1);
    bench.consumer.leave();
    assert_eq!(bench.take_reported(), ["commit 1 failed", "left"]);
}
