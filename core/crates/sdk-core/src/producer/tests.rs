mod model;

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use headrace_wire::CommandCode;

use headrace_wire::response::Appended;

use super::*;

const MS: Duration = Duration::from_millis(1);

type Result = std::result::Result<Stored, SendFailure>;

/// A batch as its owner sees it.
#[derive(Debug, Clone, Default)]
struct Handle(Rc<RefCell<Option<Result>>>);

impl Handle {
    fn result(&self) -> Option<Result> {
        self.0.borrow().clone()
    }

    fn failure(&self) -> SendFailure {
        let result = self.result().expect("it is settled");
        result.expect_err("it has failed")
    }
}

fn config() -> ProducerConfig {
    ProducerConfig {
        linger: 5 * MS,
        delivery_timeout: 1000 * MS,
        ..ProducerConfig::default()
    }
}

fn producer(config: ProducerConfig, partitions_count: u32) -> Producer<Handle> {
    Producer::new(
        config,
        OwnedIdentifier::Numeric(1),
        OwnedIdentifier::Numeric(2),
        partitions_count,
        Backoff::new(10 * MS, 80 * MS, 3),
    )
}

fn push(producer: &mut Producer<Handle>, partition: u32, now: Duration) -> Handle {
    let place = Place::Partition(partition);
    let pushed = producer.push(place, 0, 0, b"payload", b"", || now);
    pushed.expect("there is room").0
}

/// Hand the results to their owners.
fn settle(producer: &mut Producer<Handle>) {
    for settled in producer.take_settled() {
        let before = settled.handle.0.replace(Some(settled.result));
        assert_eq!(before, None, "a batch is settled once");
    }
}

fn answer(producer: &mut Producer<Handle>, number: u64, outcome: Outcome, now: Duration) {
    producer.answered(number, outcome, now);
    settle(producer);
}

fn send(producer: &mut Producer<Handle>, now: Duration) -> Vec<u64> {
    std::iter::from_fn(|| producer.next_transmission(now))
        .map(|transmission| transmission.batch)
        .collect()
}

fn refusal(status: Status) -> Outcome {
    Err(Failure::Refused {
        code: CommandCode::SendMessages.code(),
        status,
        explanation: String::new(),
    })
}

fn unanswered() -> Outcome {
    Err(Failure::Unanswered {
        reason: "reset".to_owned(),
    })
}

fn not_sent() -> Outcome {
    Err(Failure::NotSent {
        reason: "reset".to_owned(),
    })
}

/// New memory for each batch costs more than the copy of its messages.
#[test]
fn the_memory_of_a_settled_batch_is_used_again_unless_it_is_still_being_written() {
    let mut producer = producer(config(), 1);
    let mut places = Vec::new();
    let mut written = Vec::new();
    for round in 0..3 {
        push(&mut producer, 0, MS);
        let Transmission { batch, frame } = producer.next_transmission(10 * MS).expect("it is due");
        places.push(frame[2].as_ptr());
        if round == 1 {
            written.push(frame);
        } else {
            drop(frame);
        }
        answer(&mut producer, batch, Ok(Bytes::new()), 10 * MS);
    }
    assert_eq!(places[0], places[1]);
    assert_ne!(places[1], places[2]);
    assert_eq!(written[0][2].len(), 64 + b"payload".len());
}

#[test]
fn a_batch_waits_for_more_messages_until_it_is_full_or_old() {
    let mut producer = producer(
        ProducerConfig {
            batch_messages: 2,
            ..config()
        },
        1,
    );
    push(&mut producer, 0, MS);
    assert!(producer.take_news());
    assert_eq!(producer.next_deadline(true), Some(6 * MS));
    assert_eq!(send(&mut producer, 5 * MS), []);
    assert_eq!(send(&mut producer, 6 * MS), [1]);
    // While a batch is in flight the next ones collect, however old they are.
    push(&mut producer, 0, 7 * MS);
    push(&mut producer, 0, 7 * MS);
    push(&mut producer, 0, 7 * MS);
    assert_eq!(send(&mut producer, 100 * MS), []);
    assert_eq!(producer.next_deadline(true), Some(1007 * MS));
    answer(&mut producer, 1, Ok(Bytes::new()), 100 * MS);
    assert_eq!(send(&mut producer, 100 * MS), [2]);
}

#[test]
fn a_frame_has_the_messages_and_the_partition() {
    let mut producer = producer(config(), 3);
    let (_, first) = (producer.push(Place::Partition(2), 7, 8, b"one", b"", || MS)).expect("room");
    let (_, second) = (producer.push(Place::Partition(2), 9, 8, b"two", b"", || MS)).expect("room");
    assert_eq!((first, second), (0, 1));
    let sent = producer.next_transmission(6 * MS).expect("it is due");
    let frame = sent.frame.concat();
    let decoded = headrace_wire::Command::decode(CommandCode::SendMessages.code(), &frame[8..]);
    let Ok(headrace_wire::Command::SendMessages(request)) = decoded else {
        panic!("{decoded:?}");
    };
    assert_eq!(request.partitioning, Partitioning::PartitionId(2));
    headrace_wire::batch::validate(request.indexes, request.messages, request.messages_count)
        .expect("it is valid");
    assert_eq!(
        u32::from_le_bytes(frame[..4].try_into().expect("four bytes")) as usize,
        frame.len() - 4
    );
}

#[test]
fn keys_select_partitions_as_servers_do() {
    let mut producer = producer(config(), 5);
    for key in [&b"a"[..], b"b", b"c", b"dd"] {
        producer
            .push(Place::Key(key), 0, 0, b"x", b"", || MS)
            .expect("room");
        let sent = producer.next_transmission(6 * MS).expect("it is due");
        answer(&mut producer, sent.batch, Ok(Bytes::new()), 6 * MS);
        let expected = Partitioning::partition_for_key(key, 5).expect("there are partitions");
        let frame = sent.frame.concat();
        let decoded = headrace_wire::Command::decode(CommandCode::SendMessages.code(), &frame[8..]);
        let Ok(headrace_wire::Command::SendMessages(request)) = decoded else {
            panic!("{decoded:?}");
        };
        assert_eq!(request.partitioning, Partitioning::PartitionId(expected));
    }
    let refused = producer.push(Place::Partition(5), 0, 0, b"x", b"", || MS);
    let no_partition = PushRefused::NoPartition {
        partition: 5,
        partitions_count: 5,
    };
    assert_eq!(refused.expect_err("there is none"), no_partition);
    producer.set_partitions_count(6);
    producer.set_partitions_count(2);
    assert_eq!(producer.partitions_count(), 6);
    push(&mut producer, 5, MS);
}

/// Batches take turns also if each ends because the next message would be too much.
#[test]
fn balanced_batches_take_turns() {
    let mut producer = producer(
        ProducerConfig {
            batch_bytes: 250,
            ..config()
        },
        3,
    );
    for _ in 0..6 {
        producer
            .push(Place::Balanced, 0, 0, &[0; 36], b"", || MS)
            .expect("room");
    }
    assert_eq!(producer.active.len(), 3);
    producer.flush();
    assert_eq!(send(&mut producer, MS).len(), 3);
    assert_eq!(producer.buffered_bytes(), 600);
}

#[test]
fn the_buffer_is_bounded_and_a_full_one_does_not_wait() {
    let mut producer = producer(
        ProducerConfig {
            buffer_bytes: 150,
            linger: 500_000 * MS,
            ..config()
        },
        1,
    );
    push(&mut producer, 0, MS);
    push(&mut producer, 0, MS);
    assert!(!producer.is_full());
    assert_eq!(send(&mut producer, 2 * MS), []);
    let refused = producer.push(Place::Partition(0), 0, 0, b"x", b"", || MS);
    assert_eq!(refused.expect_err("no room"), PushRefused::BufferFull);
    assert!(producer.is_full());
    assert_eq!(producer.next_deadline(true), Some(Duration::ZERO));
    assert_eq!(send(&mut producer, 2 * MS), [1]);
    answer(&mut producer, 1, Ok(Bytes::new()), 2 * MS);
    assert!(!producer.is_full());
    assert_eq!((producer.buffered_bytes(), producer.is_idle()), (0, true));
    // One message may exceed the buffer.
    let big = producer.push(Place::Partition(0), 0, 0, &[0; 1000], b"", || MS);
    assert!(big.is_ok());
    let limit = headrace_model::limits::PAYLOAD_SIZE_BYTES_MAX;
    let too_big = vec![0; usize::try_from(limit).expect("64 bits") + 1];
    let mut empty = self::producer(config(), 1);
    let refused = empty.push(Place::Partition(0), 0, 0, &too_big, b"", || MS);
    assert!(matches!(refused, Err(PushRefused::TooBig(_))));
    assert!(empty.is_idle());
}

/// A flush ends although messages keep coming.
#[test]
fn a_flush_concerns_what_was_taken_before() {
    let mut producer = producer(
        ProducerConfig {
            linger: 500_000 * MS,
            batch_messages: 2,
            ..config()
        },
        2,
    );
    let first = push(&mut producer, 0, MS);
    let number = producer.flush();
    push(&mut producer, 0, MS);
    push(&mut producer, 0, MS);
    push(&mut producer, 1, MS);
    assert_eq!(send(&mut producer, MS), [1]);
    assert!(!producer.is_settled_up_to(number));
    answer(&mut producer, 1, Ok(Bytes::new()), MS);
    assert!(producer.is_settled_up_to(number) && !producer.is_idle());
    assert!(first.result().is_some_and(|result| result.is_ok()));
    assert_eq!(send(&mut producer, MS), []);
}

#[test]
fn without_a_connection_no_wake_up_is_due() {
    let mut producer = producer(config(), 1);
    push(&mut producer, 0, MS);
    producer.flush();
    assert_eq!(producer.next_deadline(true), Some(Duration::ZERO));
    assert_eq!(producer.next_deadline(false), Some(1001 * MS));
}

#[test]
fn an_answer_has_the_place() {
    let mut producer = producer(config(), 2);
    let handle = push(&mut producer, 1, MS);
    send(&mut producer, 6 * MS);
    let mut payload = Vec::new();
    let appended = Appended {
        partition_id: 1,
        base_offset: 40,
    };
    appended.encode(&mut payload);
    answer(&mut producer, 1, Ok(payload.into()), 6 * MS);
    let stored = Stored {
        partition: 1,
        base_offset: Some(40),
    };
    assert_eq!(handle.result(), Some(Ok(stored)));
    // An answer to a batch that is settled belongs to none.
    answer(&mut producer, 1, unanswered(), 6 * MS);
}

#[test]
fn what_is_certainly_not_stored_is_sent_again_with_growing_pauses() {
    let mut producer = producer(config(), 1);
    let handle = push(&mut producer, 0, MS);
    let mut now = 6 * MS;
    let mut pauses = Vec::new();
    for outcome in [
        not_sent(),
        refusal(Status::PARTITION_UNAVAILABLE),
        refusal(Status::TASK_TIMEOUT),
    ] {
        assert_eq!(send(&mut producer, now), [1]);
        answer(&mut producer, 1, outcome, now);
        let next = producer.next_deadline(true).expect("it waits");
        assert_eq!(send(&mut producer, next.saturating_sub(MS / 10)), []);
        pauses.push(next.saturating_sub(now));
        now = next;
    }
    assert!(pauses.is_sorted() && pauses[2] >= 20 * MS, "{pauses:?}");
    assert_eq!(send(&mut producer, now), [1]);
    answer(&mut producer, 1, Ok(Bytes::new()), now);
    assert!(handle.result().is_some_and(|result| result.is_ok()));
}

/// A lost connection concerns all partitions, and counts once for each.
#[test]
fn partitions_have_pauses_of_their_own() {
    let mut producer = producer(config(), 40);
    for partition in 0..40 {
        push(&mut producer, partition, MS);
    }
    for number in send(&mut producer, 6 * MS) {
        answer(&mut producer, number, not_sent(), 6 * MS);
    }
    assert_eq!(send(&mut producer, 16 * MS).len(), 40);
}

#[test]
fn what_may_be_stored_is_sent_again_only_on_demand() {
    for repeat_uncertain in [false, true] {
        let mut producer = producer(
            ProducerConfig {
                repeat_uncertain,
                ..config()
            },
            1,
        );
        let handle = push(&mut producer, 0, MS);
        send(&mut producer, 6 * MS);
        answer(&mut producer, 1, unanswered(), 6 * MS);
        assert_eq!(handle.result().is_none(), repeat_uncertain);
        // An attempt that fails for certain does not change that an earlier one may have succeeded.
        producer.tick(1001 * MS);
        settle(&mut producer);
        let failure = handle.failure();
        assert!(
            matches!(failure, SendFailure::Request(Failure::Unanswered { .. })),
            "{failure:?}"
        );
        assert!(producer.is_idle());
    }
}

#[test]
fn a_final_refusal_is_reported_and_does_not_stop_the_others() {
    let mut producer = producer(
        ProducerConfig {
            window: 2,
            batch_messages: 1,
            ..config()
        },
        1,
    );
    let (first, second) = (push(&mut producer, 0, MS), push(&mut producer, 0, MS));
    assert_eq!(send(&mut producer, MS), [1, 2]);
    answer(&mut producer, 1, refusal(Status::TOPIC_ID_NOT_FOUND), MS);
    answer(&mut producer, 2, Ok(Bytes::new()), MS);
    let SendFailure::Request(failure) = first.failure() else {
        panic!("{:?}", first.failure());
    };
    assert_eq!(failure.status(), Some(Status::TOPIC_ID_NOT_FOUND));
    assert!(second.result().is_some_and(|result| result.is_ok()));
}

#[test]
fn refused_batches_are_sent_again_in_order_once_nothing_is_in_flight() {
    let mut producer = producer(
        ProducerConfig {
            window: 3,
            batch_messages: 1,
            ..config()
        },
        1,
    );
    for _ in 0..4 {
        push(&mut producer, 0, MS);
    }
    assert_eq!(send(&mut producer, MS), [1, 2, 3]);
    answer(&mut producer, 1, refusal(Status::PARTITION_ELSEWHERE), MS);
    answer(&mut producer, 2, refusal(Status::PARTITION_ELSEWHERE), MS);
    assert_eq!(send(&mut producer, 500 * MS), []);
    answer(&mut producer, 3, not_sent(), MS);
    assert_eq!(send(&mut producer, 500 * MS), [1, 2, 3]);
}

/// Sending a refused batch again would put it behind later ones that are stored, or may be.
#[test]
fn a_refused_batch_is_not_sent_behind_a_later_one() {
    for later in [Ok(Bytes::new()), unanswered()] {
        let mut producer = producer(
            ProducerConfig {
                window: 3,
                batch_messages: 1,
                ..config()
            },
            1,
        );
        let first = push(&mut producer, 0, MS);
        push(&mut producer, 0, MS);
        let third = push(&mut producer, 0, MS);
        send(&mut producer, MS);
        answer(&mut producer, 1, refusal(Status::PARTITION_UNAVAILABLE), MS);
        answer(&mut producer, 2, later, MS);
        assert!(matches!(first.failure(), SendFailure::Overtaken { .. }));
        assert!(first.failure().is_certainly_not_stored());
        answer(&mut producer, 3, refusal(Status::PARTITION_UNAVAILABLE), MS);
        assert_eq!(third.result(), None);
        assert_eq!(send(&mut producer, 500 * MS), [3]);
    }
}

#[test]
fn a_batch_is_given_up_after_its_time_with_the_last_problem() {
    let mut producer = producer(config(), 1);
    let first = push(&mut producer, 0, MS);
    send(&mut producer, 6 * MS);
    let second = push(&mut producer, 0, 10 * MS);
    // It is in flight: its answer decides.
    producer.tick(1001 * MS);
    settle(&mut producer);
    assert_eq!(first.result(), None);
    answer(
        &mut producer,
        1,
        refusal(Status::PARTITION_UNAVAILABLE),
        1002 * MS,
    );
    let text = first.failure().to_string();
    assert!(
        text.starts_with("not delivered within 1 s") && text.contains("20200"),
        "{text}"
    );
    assert_eq!(producer.next_deadline(false), Some(1010 * MS));
    producer.tick(1010 * MS);
    settle(&mut producer);
    assert!(matches!(second.failure(), SendFailure::Undelivered { .. }));
    assert_eq!(
        (producer.next_deadline(true), producer.buffered_bytes()),
        (None, 0)
    );
}

#[test]
fn what_is_given_up_is_not_sent_again() {
    let mut producer = producer(config(), 2);
    let sent = push(&mut producer, 0, MS);
    send(&mut producer, 6 * MS);
    let waiting = push(&mut producer, 1, 6 * MS);
    producer.fail_waiting(&Failure::Closed);
    settle(&mut producer);
    assert_eq!(waiting.failure(), SendFailure::Request(Failure::Closed));
    assert_eq!(sent.result(), None);
    answer(
        &mut producer,
        1,
        refusal(Status::PARTITION_UNAVAILABLE),
        7 * MS,
    );
    assert!(sent.failure().is_certainly_not_stored());
    assert!(producer.is_idle());

    let mut producer = self::producer(config(), 2);
    let handles = [push(&mut producer, 0, MS), push(&mut producer, 1, 3 * MS)];
    send(&mut producer, 6 * MS);
    producer.fail_all(&Failure::Closed);
    settle(&mut producer);
    for handle in handles {
        assert_eq!(handle.failure(), SendFailure::Request(Failure::Closed));
    }
    assert_eq!((producer.buffered_bytes(), producer.is_idle()), (0, true));
}
