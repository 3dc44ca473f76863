//! Comparison of the partition with a simple model: a list of messages and a map of offsets.
//!
//! A case is any sequence of requests, restarts and crashes, with operations taking effect and completing in any order.
//! After each step the partition must show exactly what the model allows. A failing case prints its steps and its seed.

use std::collections::BTreeMap;

use headrace_model::{Durability, Offset, Timestamp};
use headrace_partition::{
    ConsumerKey, PartitionConfig, PartitionError, Polled, PollingStrategy, Request, RequestId,
    Response,
};
use proptest::prelude::*;

use self::steps::{Start, Step, settings, steps};
use crate::support::disk::{Crash, Fault};
use crate::support::messages::{Sent, batch, got, sent};
use crate::support::world::{World, poll};

mod retention;
mod steps;

/// An accepted message.
#[derive(Debug, Clone)]
struct Known {
    sent: Sent,
    timestamp: u64,
    /// Stored id, once seen: random if none was sent.
    id: Option<u128>,
}

/// Severest crash that a message or a change survives for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Survives {
    Nothing,
    Kill,
    Power,
}

struct Model {
    world: World,
    messages: Vec<Known>,
    first: u64,
    last_timestamp: u64,
    /// Ends of the messages that survive for certain.
    survives_kill: u64,
    survives_power: u64,
    /// Appends in flight: request id and end.
    appends: Vec<(RequestId, u64)>,
    /// Values since the last one that survives every crash, oldest first.
    offsets: BTreeMap<ConsumerKey, Vec<(Option<u64>, Survives)>>,
    changes: Vec<(RequestId, ConsumerKey, usize, Survives)>,
    polls: Vec<RequestId>,
    number: u64,
    /// True while retention may be in progress.
    is_cleaning: bool,
    /// Bound of the retention in progress, and whether unread messages are kept.
    retention: (Timestamp, bool),
}

impl Model {
    fn new(settings: PartitionConfig, seed: u64) -> Self {
        Self {
            world: World::shuffled(settings, seed),
            messages: Vec::new(),
            first: 0,
            last_timestamp: 0,
            survives_kill: 0,
            survives_power: 0,
            appends: Vec::new(),
            offsets: BTreeMap::new(),
            changes: Vec::new(),
            polls: Vec::new(),
            number: 0,
            is_cleaning: false,
            retention: (Timestamp(0), false),
        }
    }

    fn durability(&self) -> Durability {
        self.world.config.durability
    }

    fn end(&self) -> u64 {
        self.messages.len() as u64
    }

    fn visible(&self) -> u64 {
        self.world.partition.visible_end().0
    }

    fn run(&mut self, step: &Step) {
        if core::mem::take(&mut self.is_cleaning) && !matches!(step, Step::Crash { .. }) {
            let (before, barrier) = (self.retention, self.barrier());
            self.world.settle();
            self.removed(before, barrier);
        }
        match *step {
            Step::Append {
                count,
                length,
                in_place,
                wait,
            } => self.append(count, length, in_place, wait),
            Step::Poll {
                strategy,
                count,
                consumer,
                auto_commit,
            } => {
                self.poll(strategy, count, key(consumer), auto_commit);
            }
            Step::PollLater { strategy, count } => {
                let strategy = self.strategy(strategy);
                let request_id = self.world.submit(poll(strategy, count, None, false));
                self.polls.push(request_id);
            }
            Step::Store {
                consumer,
                back,
                wait,
            } => self.store(key(consumer), back, wait),
            Step::Delete { consumer, wait } => self.delete(key(consumer), wait),
            Step::Flush { fsync } => {
                let end = self.end();
                assert_eq!(self.world.ask(Request::Flush { fsync }), Ok(Response::Done));
                self.survives_kill = self.survives_kill.max(end);
                if fsync {
                    self.survives_power = self.survives_power.max(end);
                }
            }
            Step::DeleteSegments { count } => self.delete_segments(count),
            Step::Purge => self.purge(),
            Step::Time { micros } => self.world.pass(micros),
            Step::ClockBack { micros } => {
                self.world.now.0 = self.world.now.0.saturating_sub(micros);
            }
            Step::Disk { steps } => {
                self.world.end_of_turn();
                for _ in 0..steps {
                    self.world.step();
                }
            }
            Step::TrimMemory => {
                while self.world.partition.evict_oldest() > 0 {}
                self.world.partition.unload_indexes();
            }
            Step::Exhaust { count } => {
                let faults = vec![Fault::ExhaustedForChanges; count];
                self.world.disk.faults.extend(faults);
            }
            Step::Retain {
                age,
                roll_bytes,
                remove_oldest,
                keeps_unread,
                steps,
            } => {
                self.retain((age, roll_bytes), remove_oldest, keeps_unread);
                for _ in 0..steps {
                    self.world.step();
                }
                self.removed(self.retention, self.barrier());
                self.is_cleaning = true;
            }
            Step::Restart => {
                self.world.close();
                self.collect_answers();
                self.survives_power = self.end();
                self.survives_kill = self.end();
                for values in self.offsets.values_mut() {
                    values.drain(..values.len() - 1);
                }
                self.world.restart();
                self.recovered(Survives::Kill);
            }
            Step::Crash { power } => {
                self.collect_answers();
                if power {
                    self.world.crash(Crash::Power);
                    self.recovered(Survives::Power);
                } else {
                    self.world.crash(Crash::Kill);
                    self.recovered(Survives::Kill);
                }
            }
        }
        self.collect_answers();
        self.check();
    }

    fn append(&mut self, count: u8, length: usize, in_place: bool, wait: bool) {
        let messages: Vec<Sent> = (0..count)
            .map(|_| {
                self.number += 1;
                sent(self.number, length)
            })
            .collect();
        let request_id = if in_place {
            self.world.submit_in_place(&messages)
        } else {
            self.world.submit(Request::Append {
                batch: batch(&messages),
            })
        };
        let timestamp = self.world.now.0.max(self.last_timestamp);
        self.last_timestamp = timestamp;
        let known = |sent| Known {
            sent,
            timestamp,
            id: None,
        };
        self.messages.extend(messages.into_iter().map(known));
        self.appends.push((request_id, self.end()));
        if wait {
            let answer = self.world.wait_for(request_id);
            self.appends.pop();
            self.appended(&answer, self.end());
        }
    }

    fn appended(&mut self, answer: &Result<Response, PartitionError>, end: u64) {
        let &Ok(Response::Appended {
            base_offset,
            messages_count,
        }) = answer
        else {
            panic!("an append failed: {answer:?}");
        };
        assert_eq!(base_offset.0 + u64::from(messages_count), end);
        match self.durability() {
            Durability::Memory => {}
            Durability::Os => self.survives_kill = self.survives_kill.max(end),
            Durability::Fsync => {
                self.survives_kill = self.survives_kill.max(end);
                self.survives_power = self.survives_power.max(end);
            }
        }
    }

    fn strategy(&self, start: Start) -> PollingStrategy {
        match start {
            Start::First => PollingStrategy::First,
            Start::Last => PollingStrategy::Last,
            Start::Next => PollingStrategy::Next,
            Start::Offset { back } => {
                PollingStrategy::Offset((self.end() + 3).saturating_sub(back))
            }
            Start::Timestamp { index, later } => {
                let index = usize::try_from(self.end().saturating_sub(index)).expect("small");
                let known = self.messages.get(index).or(self.messages.last());
                PollingStrategy::Timestamp(known.map_or(0, |known| known.timestamp) + later)
            }
        }
    }

    fn poll(&mut self, start: Start, count: u32, consumer: ConsumerKey, auto_commit: bool) {
        let strategy = self.strategy(start);
        let visible = self.visible();
        let stored = self.latest(consumer);
        let request_id = self
            .world
            .submit(poll(strategy, count, Some(consumer), auto_commit));
        let answer = self.world.wait_for(request_id);
        let Ok(Response::Polled(polled)) = answer else {
            panic!("a poll failed: {answer:?}");
        };
        // Messages may have become visible while the poll waited for the storage.
        let expected = |visible: u64| self.expected(strategy, count, stored, visible);
        let (least, most) = (expected(visible), expected(self.visible()));
        let polled_messages = got(&polled);
        let (from, until) = match (polled_messages.first(), polled_messages.last()) {
            (Some(first), Some(end)) => (first.offset, end.offset + 1),
            _ => (0, 0),
        };
        let is_expected = |range: &(u64, u64)| *range == (from, until);
        let is_empty = least.0 == least.1;
        let grew = if is_empty {
            from == most.0 && until <= most.1
        } else {
            from == least.0 && (least.1..=most.1).contains(&until)
        };
        assert!(
            is_expected(&least) || is_expected(&most) || grew,
            "{strategy:?} of {count} returned {from}..{until}, expected {least:?} to {most:?}"
        );
        self.check_content(&polled);
        if auto_commit && until > from {
            let survives = match self.durability() {
                Durability::Memory => Survives::Nothing,
                _ => Survives::Kill,
            };
            self.change(consumer, Some(until - 1), survives);
        }
    }

    /// Range of offsets that a poll returns if messages before `visible` are visible.
    fn expected(
        &self,
        strategy: PollingStrategy,
        count: u32,
        stored: Option<u64>,
        visible: u64,
    ) -> (u64, u64) {
        let count = u64::from(count);
        let from = match strategy {
            PollingStrategy::Offset(offset) => offset,
            PollingStrategy::First => self.first,
            PollingStrategy::Last => visible.saturating_sub(count),
            PollingStrategy::Next => stored.map_or(self.first, |stored| stored + 1),
            PollingStrategy::Timestamp(timestamp) => {
                let retained =
                    (self.first..visible).find(|offset| self.known(*offset).timestamp >= timestamp);
                retained.unwrap_or(visible)
            }
        };
        let from = from.max(self.first);
        let mut until = from;
        let mut bytes = 0;
        while until < visible.min(from + count) {
            bytes += 64 + self.known(until).sent.payload.len() as u64;
            if bytes > u64::from(self.world.config.poll_size_bytes_max) && until > from {
                break;
            }
            until += 1;
        }
        if until <= from { (0, 0) } else { (from, until) }
    }

    fn known(&self, offset: u64) -> &Known {
        &self.messages[usize::try_from(offset).expect("small")]
    }

    fn check_content(&mut self, polled: &Polled) {
        for message in got(polled) {
            let offset = usize::try_from(message.offset).expect("small");
            let known = &mut self.messages[offset];
            assert_eq!(message.payload, known.sent.payload, "message {offset}");
            assert_eq!(message.timestamp, known.timestamp, "message {offset}");
            let id = *known.id.get_or_insert(message.id);
            assert_eq!(message.id, id, "message {offset} never changes");
            assert!(known.sent.id == 0 && id != 0 || known.sent.id == id);
        }
    }

    fn latest(&self, consumer: ConsumerKey) -> Option<u64> {
        self.offsets
            .get(&consumer)
            .and_then(|values| values.last()?.0)
    }

    fn change(&mut self, consumer: ConsumerKey, value: Option<u64>, survives: Survives) -> usize {
        let values = self
            .offsets
            .entry(consumer)
            .or_insert_with(|| vec![(None, Survives::Power)]);
        values.push((value, survives));
        values.len() - 1
    }

    fn store(&mut self, consumer: ConsumerKey, back: u64, wait: bool) {
        let offset = (self.end() + 2).saturating_sub(back);
        let visible = self.visible();
        let request_id = self.world.submit(Request::StoreOffset {
            by: None,
            consumer,
            offset: Offset(offset),
        });
        if offset >= visible {
            let error = PartitionError::InvalidOffset {
                requested: Offset(offset),
            };
            assert_eq!(self.world.take_answer(request_id), Some(Err(error)));
            return;
        }
        self.changed(request_id, consumer, Some(offset), wait);
    }

    fn delete(&mut self, consumer: ConsumerKey, wait: bool) {
        let is_stored = self.latest(consumer).is_some();
        let request_id = self
            .world
            .submit(Request::DeleteOffset { consumer, by: None });
        if is_stored {
            self.changed(request_id, consumer, None, wait);
        } else {
            assert_eq!(
                self.world.take_answer(request_id),
                Some(Err(PartitionError::OffsetNotFound))
            );
        }
    }

    fn changed(
        &mut self,
        request_id: RequestId,
        consumer: ConsumerKey,
        value: Option<u64>,
        wait: bool,
    ) {
        let survives = match self.durability() {
            Durability::Memory => Survives::Nothing,
            Durability::Os => Survives::Kill,
            Durability::Fsync => Survives::Power,
        };
        let index = self.change(consumer, value, Survives::Nothing);
        self.changes.push((request_id, consumer, index, survives));
        if wait {
            let answer = self.world.wait_for(request_id);
            self.changes.pop();
            assert_eq!(answer, Ok(Response::Done));
            self.confirm(consumer, index, survives);
        }
    }

    fn confirm(&mut self, consumer: ConsumerKey, index: usize, survives: Survives) {
        if let Some(value) = self
            .offsets
            .get_mut(&consumer)
            .and_then(|values| values.get_mut(index))
        {
            value.1 = survives;
        }
    }

    fn purge(&mut self) {
        self.world.purge();
        for (request_id, _) in self.appends.drain(..) {
            assert!(
                self.world
                    .take_answer(request_id)
                    .expect("an answer")
                    .is_ok()
            );
        }
        for (request_id, ..) in self.changes.drain(..) {
            assert_eq!(self.world.take_answer(request_id), Some(Ok(Response::Done)));
        }
        for request_id in self.polls.drain(..) {
            assert!(
                self.world
                    .take_answer(request_id)
                    .expect("an answer")
                    .is_ok()
            );
        }
        self.messages.clear();
        self.offsets.clear();
        self.first = 0;
        self.last_timestamp = 0;
        self.survives_kill = 0;
        self.survives_power = 0;
        self.number += 1_000_000;
    }

    /// Check the responses to requests in flight.
    fn collect_answers(&mut self) {
        for (request_id, end) in std::mem::take(&mut self.appends) {
            match self.world.take_answer(request_id) {
                Some(answer) => self.appended(&answer, end),
                None => self.appends.push((request_id, end)),
            }
        }
        for (request_id, consumer, index, survives) in std::mem::take(&mut self.changes) {
            match self.world.take_answer(request_id) {
                Some(answer) => {
                    assert_eq!(answer, Ok(Response::Done));
                    self.confirm(consumer, index, survives);
                }
                None => self.changes.push((request_id, consumer, index, survives)),
            }
        }
        for request_id in std::mem::take(&mut self.polls) {
            match self.world.take_answer(request_id) {
                Some(Ok(Response::Polled(polled))) => self.check_content(&polled),
                Some(other) => panic!("a poll failed: {other:?}"),
                None => self.polls.push(request_id),
            }
        }
    }

    /// Check the state found after a restart against the allowed ones, and adopt it.
    fn recovered(&mut self, crash: Survives) {
        assert_eq!(self.world.partition.failure(), None);
        self.appends.clear();
        self.changes.clear();
        self.polls.clear();
        let end = self.visible();
        let certain = match crash {
            Survives::Power => self.survives_power,
            _ => self.survives_kill.max(self.survives_power),
        };
        assert!(
            end <= self.end(),
            "{end} messages, but only {} were sent",
            self.end()
        );
        assert!(
            end >= certain,
            "{certain} messages were promised, {end} are left"
        );
        self.messages.truncate(usize::try_from(end).expect("small"));
        // The messages are on disk, so the next kill cannot lose them; a loss of power can, unless they were certain
        // before.
        self.survives_kill = end;
        self.survives_power = self.survives_power.min(end);
        if self.durability() == Durability::Fsync {
            self.survives_power = end;
        }
        let first = self.world.partition.first_offset().0;
        if crash == Survives::Power {
            assert!(first <= self.first, "the removal of segments may be undone");
        } else {
            assert!(first <= self.first || first <= end);
        }
        self.first = first;
        self.last_timestamp = if first == end {
            0
        } else {
            self.known(end - 1).timestamp
        };
        for index in 0..3 {
            let consumer = key(index);
            let values = self
                .offsets
                .remove(&consumer)
                .unwrap_or_else(|| vec![(None, Survives::Power)]);
            let certain = values
                .iter()
                .rposition(|(_, survives)| *survives >= crash)
                .unwrap_or(0);
            let clamped =
                |value: Option<u64>| value.and_then(|value| Some(value.min(end.checked_sub(1)?)));
            let found = self.world.stored(consumer);
            assert!(
                values[certain..]
                    .iter()
                    .any(|(value, _)| clamped(*value) == found),
                "{consumer:?} has {found:?}, but {:?} were stored",
                &values[certain..]
            );
            let mut kept: Vec<_> = values
                .into_iter()
                .map(|(value, survives)| (clamped(value), survives))
                .collect();
            kept.push((found, Survives::Kill));
            self.offsets.insert(consumer, kept);
        }
    }

    /// Check the invariants.
    fn check(&mut self) {
        let visible = self.visible();
        assert!(visible <= self.end());
        assert_eq!(self.world.partition.first_offset().0, self.first);
        for consumer in [0, 1, 2].map(key) {
            let expected = self.latest(consumer);
            assert_eq!(self.world.stored(consumer), expected);
            assert!(expected.is_none_or(|stored| stored < visible), "LOG-15");
        }
    }
}

fn key(index: u8) -> ConsumerKey {
    match index {
        2 => ConsumerKey::Group(0),
        index => ConsumerKey::Consumer(u32::from(index)),
    }
}

fn cases() -> ProptestConfig {
    // Long run: `PROPTEST_CASES=100000 cargo test --release`.
    ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    /// LOG-1, LOG-2, LOG-4, LOG-9, LOG-10, LOG-11, LOG-15: the partition behaves like the model.
    #[test]
    fn the_partition_is_what_the_model_says(
        settings in settings(),
        steps in proptest::collection::vec(steps(), 1..80),
        seed: u64,
    ) {
        let mut model = Model::new(settings, seed);
        model.world.settle();
        model.world.now = Timestamp(5_000_000);
        for step in &steps {
            model.run(step);
        }
        model.world.close();
    }
}
