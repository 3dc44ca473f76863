//! Reads of a consumer, and their moments.

use super::*;

#[test]
fn partitions_with_messages_take_turns_while_there_is_room() {
    let mut bench = Bench::alone(&[0, 1, 2], Start::First);
    bench.report(0, 100);
    bench.report(1, 100);
    bench.report(2, 0);
    assert_eq!(bench.asked(), ["read 0 First", "read 1 First"]);
    bench.answer("read 0 First", Ok(messages(0, 0..10)));
    bench.answer("read 1 First", Ok(messages(1, 0..10)));
    assert_eq!(bench.take_reported(), ["batch 0 0..10", "batch 1 0..10"]);
    // 1420 of 1000 bytes are waiting; the read in flight was begun before.
    bench.answer("read 0 from 10", Ok(messages(0, 10..20)));
    assert!(bench.asked.is_empty());
    bench.consumer.taken(710);
    bench.collect();
    assert!(bench.asked.is_empty());
    bench.consumer.taken(710);
    bench.collect();
    assert_eq!(bench.asked(), ["read 1 from 10", "read 0 from 20"]);
    assert_eq!(bench.consumer.position(0), Some((Some(20), 100)));
    assert_eq!(bench.consumer.position(9), None);
}

#[test]
fn paused_partitions_are_not_read() {
    let mut bench = Bench::alone(&[0, 1], Start::First);
    bench.consumer.pause(&[0, 7]);
    bench.report(0, 5);
    bench.report(1, 5);
    assert_eq!(bench.asked(), ["read 1 First"]);
    bench.consumer.resume(&[0]);
    bench.collect();
    assert_eq!(bench.asked(), ["read 1 First", "read 0 First"]);
}

#[test]
fn a_pause_outlasts_a_lost_connection() {
    let mut bench = Bench::member(&[0, 1]);
    bench.consumer.pause(&[0]);
    bench.lose();
    // The caller has not taken the loss yet.
    bench.consumer.pause(&[1]);
    bench.open(2);
    bench.answer("join", Ok(Bytes::new()));
    bench.assign(&[0, 1, 2], &[]);
    for partition in 0..3 {
        bench.answer(&format!("offset {partition}"), Ok(Bytes::new()));
        bench.report(partition, 5);
    }
    bench.answer("read 2 First", Ok(messages(2, 0..5)));
    assert!(bench.asked.is_empty());
    bench.consumer.resume(&[]);
    bench.collect();
    assert_eq!(bench.asked(), ["read 0 First", "read 1 First"]);
}

#[test]
fn a_pause_ends_when_another_member_gets_the_partition() {
    let mut bench = Bench::member(&[0, 1]);
    bench.consumer.pause(&[0, 1]);
    bench.lose();
    bench.open(2);
    bench.answer("join", Ok(Bytes::new()));
    // The server may not have noticed yet that the member of the first connection is gone.
    bench.assign(&[], &[]);
    bench.pass();
    bench.assign(&[1], &[]);
    bench.answer("offset 1", Ok(Bytes::new()));
    bench.pass();
    bench.assign(&[0, 1], &[]);
    bench.answer("offset 0", Ok(Bytes::new()));
    bench.report(0, 5);
    bench.report(1, 5);
    assert_eq!(bench.asked(), ["read 0 First"]);
}

#[test]
fn the_end_is_the_one_at_the_beginning() {
    let mut bench = Bench::alone(&[0], Start::End);
    assert!(!bench.consumer.is_positioned(), "its end is not known yet");
    bench.report(0, 7);
    assert!(bench.consumer.is_positioned());
    assert!(bench.asked.is_empty());
    bench.report(0, 9);
    bench.answer("read 0 from 7", Ok(messages(0, 7..9)));

    // A member that loses its connection before it has processed anything misses nothing.
    let mut bench = Bench::new(group(true), Start::End);
    for (generation, end) in [(1, 7), (2, 12)] {
        bench.open(generation);
        bench.answer("join", Ok(Bytes::new()));
        assert!(!bench.consumer.is_positioned());
        bench.assign(&[0], &[]);
        bench.answer("offset 0", Ok(Bytes::new()));
        bench.report(0, end);
        assert!(bench.consumer.is_positioned());
        if generation == 1 {
            assert!(bench.asked.is_empty());
            bench.lose();
        }
    }
    assert_eq!(bench.asked(), ["read 0 from 7"]);
}

#[test]
fn a_time_after_the_last_message_waits_for_new_ones() {
    let mut bench = Bench::alone(&[0], Start::Timestamp(50));
    bench.report(0, 3);
    let nothing = || Ok(read_answer(0, ReadGap::default(), 0..0, 2));
    bench.answer("read 0 Timestamp(50)", nothing());
    for _ in 0..3 {
        bench.pass();
        assert!(bench.asked.is_empty(), "nothing has changed");
    }
    bench.report(0, 5);
    // Messages that are appended during the read may be too new for it, and their report too early.
    bench.report(0, 6);
    bench.answer("read 0 Timestamp(50)", nothing());
    bench.answer("read 0 Timestamp(50)", Ok(messages(0, 5..6)));
    assert_eq!(bench.take_reported(), ["batch 0 5..6"]);
    bench.report(0, 8);
    assert_eq!(bench.asked(), ["read 0 from 6"]);
}

/// The node of a partition may learn later than the member that the member owns it.
#[test]
fn a_read_without_messages_is_repeated_at_the_next_heartbeat() {
    let mut bench = Bench::member(&[0]);
    bench.report(0, 3);
    let not_owned = || Ok(read_answer(0, ReadGap::default(), 0..0, 0));
    for outcome in [
        not_owned(),
        refused(Status::NOT_RESOLVED_CONSUMER),
        not_owned(),
    ] {
        bench.answer("read 0 First", outcome);
        assert!(bench.asked.is_empty(), "it is not asked without pauses");
        bench.pass();
        bench.assign(&[0], &[]);
    }
    bench.answer("read 0 First", Ok(messages(0, 0..3)));
    assert_eq!(bench.take_reported(), ["batch 0 0..3"]);
    // A report of new messages does not wait for the heartbeat.
    bench.report(0, 4);
    bench.answer("read 0 from 3", not_owned());
    bench.report(0, 5);
    assert_eq!(bench.asked(), ["read 0 from 3"]);
}

#[test]
fn a_gap_is_reported_and_passed() {
    let mut bench = Bench::alone(&[0], Start::Offset(2));
    bench.report(0, 9);
    let gap = ReadGap { from: 2, to: 6 };
    bench.answer("read 0 from 2", Ok(read_answer(0, gap, 6..8, 8)));
    assert_eq!(bench.take_reported(), ["gap 0 2..6", "batch 0 6..8"]);
    let gap = ReadGap { from: 8, to: 9 };
    bench.answer("read 0 from 8", Ok(read_answer(0, gap, 0..0, 8)));
    assert_eq!(bench.take_reported(), ["gap 0 8..9"]);
    assert!(bench.asked.is_empty());
}

#[test]
fn a_seek_makes_reads_in_flight_void() {
    let mut bench = Bench::alone(&[0], Start::First);
    bench.report(0, 50);
    let epoch = bench.consumer.seek(0, Start::Offset(20));
    bench.collect();
    assert_eq!(bench.asked(), ["read 0 First", "read 0 from 20"]);
    bench.answer("read 0 First", Ok(messages(0, 0..10)));
    bench.answer("read 0 from 20", Ok(messages(0, 20..30)));
    assert_eq!(bench.take_reported(), ["batch 0 20..30"]);
    assert!(bench.consumer.seek(0, Start::End) > epoch);
    bench.collect();
    bench.answer("read 0 from 30", Ok(messages(0, 30..40)));
    assert!(bench.asked.is_empty());
    assert_eq!(bench.consumer.position(0), Some((Some(50), 50)));
    assert_eq!(bench.consumer.seek(4, Start::First), None);

    // A seek precedes the answer to the query of the stored offset.
    let mut bench = Bench::new(group(true), Start::First);
    bench.open(1);
    bench.answer("join", Ok(Bytes::new()));
    bench.assign(&[0], &[]);
    bench.consumer.seek(0, Start::Offset(5));
    bench.answer("offset 0", Ok(stored(0, 30)));
    bench.report(0, 50);
    assert_eq!(bench.asked(), ["read 0 from 5"]);
}

#[test]
fn a_purged_partition_begins_again() {
    let mut bench = Bench::alone(&[0], Start::First);
    bench.report_purged(0, 1, 50);
    bench.answer("read 0 First", Ok(messages(0, 0..40)));
    bench.consumer.taken(10_000);
    bench.collect();
    bench.report_purged(0, 2, 3);
    bench.answer("read 0 from 40", Ok(messages(0, 40..50)));
    bench.answer("read 0 First", Ok(messages(0, 0..3)));
    assert_eq!(
        bench.take_reported(),
        ["batch 0 0..40", "reset 0", "batch 0 0..3"]
    );

    // Also if it happened while the connection was lost, and with a time to begin at.
    let mut bench = Bench::alone(&[0], Start::Timestamp(9));
    bench.report_purged(0, 1, 0);
    bench.consumer.watch_lost();
    bench.consumer.watch_opened(2);
    bench.report_purged(0, 2, 3);
    assert_eq!(bench.take_reported(), ["reset 0"]);
    assert_eq!(bench.asked(), ["read 0 Timestamp(9)"]);
}

/// The caller of a session that is lost hears of it after the answers: nothing is asked in between without end.
#[test]
fn a_lost_connection_is_not_asked_again() {
    let mut bench = Bench::alone(&[0], Start::First);
    bench.report(0, 5);
    let (_, token) = bench.asked.pop_front().expect("a read");
    let reason = "reset".to_owned();
    (bench.consumer).data_answered(token, Err(Failure::Unanswered { reason }), bench.now);
    bench.collect();
    assert!(bench.asked.is_empty());
    bench.lose();
    assert_eq!(bench.consumer.next_deadline(), None);
    bench.open(2);
    assert_eq!(bench.asked(), ["read 0 First"]);
    assert!(bench.take_reported().is_empty(), "it keeps its partitions");
}

#[test]
fn what_cannot_be_decoded_or_mended_ends_the_consumer() {
    for outcome in [
        Ok(Bytes::from_static(b"?")),
        refused(Status::TOPIC_ID_NOT_FOUND),
        refused(Status::PARTITION_NOT_FOUND),
    ] {
        let mut bench = Bench::alone(&[0], Start::First);
        bench.report(0, 5);
        bench.answer("read 0 First", outcome);
        let reported = bench.take_reported();
        assert!(
            reported.len() == 1 && reported[0].starts_with("failed: "),
            "{reported:?}"
        );
        bench.report(0, 9);
        assert!(bench.asked.is_empty() && bench.consumer.next_deadline().is_none());
    }
    let mut bench = Bench::alone(&[0], Start::First);
    bench.report_status(0, Status::PARTITION_NOT_FOUND);
    assert_eq!(
        bench.take_reported().len(),
        1,
        "the caller has named the partition"
    );
    let mut bench = Bench::alone(&[0], Start::First);
    bench.consumer.watch_notified(b"?");
    assert_eq!(bench.take_reported().len(), 1);
}

#[test]
fn numbers_of_positions_do_not_grow_with_reports() {
    let mut bench = Bench::alone(&[0], Start::First);
    let epochs = bench.consumer.epochs;
    for next_offset in 0..100 {
        bench.report(0, next_offset);
    }
    assert_eq!(bench.consumer.epochs, epochs);
}

/// LOG-21: nothing but the opening is a sign of a cut behind which the log has grown before the reader looked again.
#[test]
fn a_log_that_was_cut_and_has_grown_is_read_from_there() {
    for (end, expected) in [(5, "read 0 from 5"), (10, "read 0 from 10")] {
        let mut bench = Bench::alone(&[0], Start::First);
        bench.report_opened(10, &[(3, 0)]);
        bench.answer("read 0 First", Ok(messages(0, 0..10)));
        bench.consumer.watch_lost();
        bench.consumer.watch_opened(2);
        bench.report_opened(13, &[(3, 0), (7, end)]);
        assert_eq!(bench.asked(), [expected]);
    }
}

#[test]
fn a_server_that_does_not_know_openings_is_asked_without() {
    let mut bench = Bench::alone(&[0, 1], Start::First);
    bench.watch.clear();
    for _ in 0..2 {
        // The answers to two requests that were sent before the first of them.
        bench.consumer.watch_answered(
            WatchToken::AddNamingOpenings,
            refused(Status::INVALID_COMMAND),
        );
    }
    bench.collect();
    assert_eq!(bench.watch, ["+ without openings [0, 1]"; 2]);
    let mut payload = Vec::new();
    encode_list(&[watched(0, 0, 5)], &mut payload);
    bench.consumer.watch_notified(&payload);
    bench.collect();
    assert_eq!(bench.asked(), ["read 0 First"]);
    assert!(bench.take_reported().is_empty());
}
