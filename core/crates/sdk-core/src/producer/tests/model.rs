//! A producer against a server that stores, refuses, loses answers and cuts connections at random.

use std::collections::{BTreeMap, VecDeque};

use headrace_wire::batch::validate;
use headrace_wire::message::Messages;
use proptest::prelude::*;

use headrace_wire::response::Appended;

use super::*;

/// Reaction of the server to a request.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    Store,
    RefuseForNow,
    Refuse,
}

#[derive(Debug, Clone)]
enum Step {
    Push {
        partition: Option<u32>,
        key: u8,
        bytes: usize,
    },
    Send,
    Answer(Verdict),
    /// The connection breaks: the server executes so many of the requests in flight, and so many were written.
    Cut {
        executed: usize,
        written: usize,
        verdict: Verdict,
    },
    Connect,
    Pass(u64),
    Flush,
    Grow,
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        4 => Just(Verdict::Store),
        2 => Just(Verdict::RefuseForNow),
        1 => Just(Verdict::Refuse),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let push = (
        prop::option::weighted(0.7, 0..3_u32),
        any::<u8>(),
        0..200_usize,
    );
    prop_oneof![
        8 => push.prop_map(|(partition, key, bytes)| Step::Push { partition, key, bytes }),
        6 => Just(Step::Send),
        6 => verdict().prop_map(Step::Answer),
        2 => (0..6_usize, 0..6_usize, verdict()).prop_map(|(executed, unexecuted, verdict)| Step::Cut {
            executed,
            written: executed + unexecuted,
            verdict,
        }),
        3 => Just(Step::Connect),
        3 => (0..60_u64).prop_map(Step::Pass),
        1 => Just(Step::Flush),
        1 => Just(Step::Grow),
    ]
}

struct Flight {
    batch: u64,
    partition: u32,
    ids: Vec<u128>,
}

struct World {
    producer: Producer<Handle>,
    repeat_uncertain: bool,
    now: Duration,
    is_connected: bool,
    in_flight: VecDeque<Flight>,
    log: BTreeMap<u32, Vec<u128>>,
    /// Messages by id, with their batch and their place in it.
    messages: BTreeMap<u128, (Handle, u32)>,
    executed: u32,
}

impl World {
    fn new(config: ProducerConfig) -> Self {
        Self {
            repeat_uncertain: config.repeat_uncertain,
            producer: producer(config, 3),
            now: MS,
            is_connected: true,
            in_flight: VecDeque::new(),
            log: BTreeMap::new(),
            messages: BTreeMap::new(),
            executed: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Push {
                partition,
                key,
                bytes,
            } => {
                let key = [key];
                let place = match partition {
                    Some(partition) => Place::Partition(partition),
                    None if key[0] < 128 => Place::Key(&key),
                    None => Place::Balanced,
                };
                let id = self.messages.len() as u128 + 1;
                let pushed = self
                    .producer
                    .push(place, id, 0, &vec![0; bytes], b"", || self.now);
                match pushed {
                    Ok((handle, index)) => {
                        assert_eq!(handle.result(), None);
                        self.messages.insert(id, (handle, index));
                    }
                    Err(refused) => assert_eq!(refused, PushRefused::BufferFull),
                }
            }
            Step::Send => self.send(),
            Step::Answer(verdict) => self.answer(verdict),
            Step::Cut {
                executed,
                written,
                verdict,
            } => self.cut(executed, written, verdict),
            Step::Connect => self.is_connected = true,
            Step::Pass(millis) => {
                self.now += Duration::from_millis(millis);
                self.producer.tick(self.now);
            }
            Step::Flush => {
                self.producer.flush();
            }
            Step::Grow => {
                let partitions_count = self.producer.partitions_count() + 1;
                self.producer.set_partitions_count(partitions_count.min(5));
            }
        }
        settle(&mut self.producer);
        let buffered = self.producer.buffered_bytes();
        assert!(buffered <= self.producer.config.buffer_bytes);
    }

    fn send(&mut self) {
        while self.is_connected
            && let Some(sent) = self.producer.next_transmission(self.now)
        {
            let frame = sent.frame.concat();
            let code = CommandCode::SendMessages.code();
            let decoded = headrace_wire::Command::decode(code, &frame[8..]);
            let Ok(headrace_wire::Command::SendMessages(request)) = decoded else {
                panic!("{decoded:?}");
            };
            validate(request.indexes, request.messages, request.messages_count).expect("valid");
            let Partitioning::PartitionId(partition) = request.partitioning else {
                panic!("{:?}", request.partitioning);
            };
            let messages = Messages::new(request.messages);
            let ids = messages.map(|message| message.expect("whole").header().id());
            self.in_flight.push_back(Flight {
                batch: sent.batch,
                partition,
                ids: ids.collect(),
            });
            let window = self.producer.config.window;
            let lane = (self.in_flight.iter()).filter(|flight| flight.partition == partition);
            assert!(lane.count() <= window);
        }
    }

    fn execute(&mut self, flight: &Flight, verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Store => {
                let log = self.log.entry(flight.partition).or_default();
                let appended = Appended {
                    partition_id: flight.partition,
                    base_offset: log.len() as u64,
                };
                log.extend(&flight.ids);
                let mut payload = Vec::new();
                appended.encode(&mut payload);
                Ok(payload.into())
            }
            Verdict::RefuseForNow => refusal(Status::PARTITION_UNAVAILABLE),
            Verdict::Refuse => refusal(Status::TOPIC_ID_NOT_FOUND),
        }
    }

    fn answer(&mut self, verdict: Verdict) {
        if let Some(flight) = self.in_flight.pop_front() {
            let outcome = self.execute(&flight, verdict);
            self.producer.answered(flight.batch, outcome, self.now);
        }
    }

    fn cut(&mut self, executed: usize, written: usize, verdict: Verdict) {
        self.is_connected = false;
        for (index, flight) in std::mem::take(&mut self.in_flight).iter().enumerate() {
            if index < executed {
                // Verdicts alternate, so that a stored batch may follow a refused one.
                self.executed += 1;
                let is_other = self.executed.is_multiple_of(2);
                let _lost = self.execute(flight, if is_other { verdict } else { Verdict::Store });
            }
            let outcome = if index < written {
                unanswered()
            } else {
                not_sent()
            };
            self.producer.answered(flight.batch, outcome, self.now);
        }
    }

    /// Let a server without faults settle everything.
    fn finish(&mut self) {
        self.is_connected = true;
        for _ in 0..10_000 {
            self.send();
            while !self.in_flight.is_empty() {
                self.answer(Verdict::Store);
            }
            settle(&mut self.producer);
            let Some(next) = self.producer.next_deadline(true) else {
                break;
            };
            assert!(
                next > self.now || !self.in_flight.is_empty() || self.is_due(),
                "no wake-up is in vain"
            );
            self.now = self.now.max(next);
            self.producer.tick(self.now);
        }
        settle(&mut self.producer);
        assert!(self.producer.is_idle(), "it makes progress");
        assert_eq!(self.producer.buffered_bytes(), 0);
    }

    fn is_due(&self) -> bool {
        let urgent = self.producer.urgent();
        (self.producer.lanes.iter())
            .any(|lane| lane.is_due(&self.producer.config, urgent, self.now))
    }

    fn check(&self) {
        let mut last = BTreeMap::new();
        for (id, (handle, index)) in &self.messages {
            let stored = self
                .log
                .values()
                .flatten()
                .filter(|stored| *stored == id)
                .count();
            match handle.result().expect("every message is settled") {
                Ok(place) => {
                    let offset =
                        place.base_offset.expect("the server reports it") + u64::from(*index);
                    let position = usize::try_from(offset).expect("small");
                    assert_eq!(
                        self.log[&place.partition][position], *id,
                        "it is where it is reported"
                    );
                    let before = last.insert(place.partition, offset);
                    assert!(
                        before.is_none_or(|before| before < offset),
                        "offsets follow the order"
                    );
                }
                Err(failure) if failure.is_certainly_not_stored() => {
                    assert_eq!(stored, 0, "{failure}");
                }
                Err(_) => {}
            }
            assert!(
                stored <= 1 || self.repeat_uncertain,
                "{id} is stored {stored} times"
            );
        }
        if !self.repeat_uncertain {
            for log in self.log.values() {
                assert!(
                    log.is_sorted(),
                    "messages of a partition keep their order: {log:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_settled_once_and_in_order(
        window in 1..=5_usize,
        batch_messages in 1..4_u32,
        repeat_uncertain: bool,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(ProducerConfig {
            batch_messages,
            batch_bytes: 600,
            linger: 3 * MS,
            window,
            buffer_bytes: 3000,
            delivery_timeout: 400 * MS,
            repeat_uncertain,
        });
        for step in &steps {
            world.run(step);
        }
        world.finish();
        world.check();
    }
}
