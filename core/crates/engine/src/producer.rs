//! A producer over a session of its own.

mod delivery;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headrace_sdk_core::{
    Failure, OwnedIdentifier, Place, Producer, ProducerConfig, PushRefused, Repeat, Request,
    SendFailure,
};
use headrace_wire::{Command, CommandCode, command::TopicPath, response::TopicDetails};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub use self::delivery::Delivery;
use self::delivery::Failures;
use crate::driver::{Driver, Event};
use crate::engine::{Engine, SessionSettings};
use crate::promise::Promise;
use crate::reports::{Report, Reports};

/// Interval at which a producer looks for partitions that were added to its topic.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

type Handle = Arc<Delivery>;

/// Counters of a producer.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProducerCounters {
    /// Messages that are not settled, in bytes.
    pub buffered_bytes: usize,
    /// Batches that were acknowledged.
    pub batches_delivered: u64,
    /// Batches that failed.
    pub batches_failed: u64,
    /// Batches that were sent, repetitions included.
    pub batches_sent: u64,
}

struct State {
    producer: Option<Producer<Handle>>,
    /// Reason of the end.
    ended: Option<Failure>,
    /// Waits for room in the buffer.
    room: Vec<Arc<Promise<()>>>,
    /// Waits until the batches up to a number are settled.
    flushes: Vec<(u64, Arc<Promise<()>>)>,
    counters: ProducerCounters,
    /// Queue for reports, and the number of this producer in them.
    reports: Option<(Arc<Reports>, u64)>,
    failures: Failures,
    is_closing: bool,
}

struct Shared {
    state: Mutex<State>,
    wake: Notify,
    began: Instant,
    engine: Engine,
    opened: Arc<Promise<Result<(), Failure>>>,
}

impl Shared {
    /// Time since the beginning, on any thread.
    fn now(&self) -> Duration {
        self.engine.now().saturating_duration_since(self.began)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A producer for one topic. Dropping it closes it: what is buffered is still sent.
pub struct ProducerHandle {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for ProducerHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ProducerHandle")
            .finish_non_exhaustive()
    }
}

/// A message to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Place where it is to be stored.
    pub place: Place<'a>,
    /// Id of the message; 0: the server draws one.
    pub id: u128,
    /// The payload.
    pub payload: &'a [u8],
    /// User headers, encoded.
    pub headers: &'a [u8],
}

impl ProducerHandle {
    /// Begin a producer; [`Self::opened`] says whether the topic exists.
    pub fn new(
        engine: &Engine,
        settings: &SessionSettings,
        config: ProducerConfig,
        stream: OwnedIdentifier,
        topic: OwnedIdentifier,
        reports: Option<(Arc<Reports>, u64)>,
    ) -> Self {
        let _clock = engine.clock();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                producer: None,
                ended: None,
                room: Vec::new(),
                flushes: Vec::new(),
                counters: ProducerCounters::default(),
                reports,
                failures: Failures::default(),
                is_closing: false,
            }),
            wake: Notify::new(),
            began: Instant::now(),
            engine: engine.clone(),
            opened: Arc::default(),
        });
        let task = Task {
            driver: Driver::new(settings.of_connected_client()),
            shared: Arc::clone(&shared),
            config,
            stream,
            topic,
            refresh_at: Instant::now(),
        };
        engine.spawn(task.run());
        Self { shared }
    }

    /// The result of opening: whether the topic exists.
    pub fn opened(&self) -> Arc<Promise<Result<(), Failure>>> {
        Arc::clone(&self.shared.opened)
    }

    /// Take messages, as many as there is room for, all at this moment.
    ///
    /// Returns the number that was taken, and the reason why the next one was not. `report` is called with each
    /// message's batch and its place in it.
    pub fn push<'a>(
        &self,
        messages: impl Iterator<Item = Outgoing<'a>>,
        mut report: impl FnMut(Handle, u32),
    ) -> (usize, Option<PushRefused>) {
        let shared = &*self.shared;
        let origin_timestamp = micros_since_epoch();
        let mut state = shared.lock();
        let is_closing = state.is_closing;
        let producer = state.producer.as_mut().filter(|_| !is_closing);
        let Some(producer) = producer else {
            return (0, Some(PushRefused::Closed));
        };
        let mut taken = 0;
        let mut refused = None;
        for message in messages {
            let pushed = producer.push(
                message.place,
                message.id,
                origin_timestamp,
                message.payload,
                message.headers,
                || shared.now(),
            );
            match pushed {
                Ok((handle, index)) => {
                    taken += 1;
                    report(handle, index);
                }
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let is_news = producer.take_news() || refused.is_some();
        drop(state);
        if is_news {
            shared.wake.notify_one();
        }
        (taken, refused)
    }

    /// A promise that is fulfilled when the buffer may have room again, or the producer has ended.
    pub fn room(&self) -> Arc<Promise<()>> {
        let promise = Arc::new(Promise::default());
        let mut state = self.shared.lock();
        let is_full = (state.producer.as_ref())
            .is_some_and(|producer| producer.is_full() && state.ended.is_none());
        if is_full {
            // Waits that were given up would add up while the server is away.
            state.room.retain(|wait| Arc::strong_count(wait) > 1);
            state.room.push(Arc::clone(&promise));
        } else {
            promise.fulfil(());
        }
        promise
    }

    /// Send everything at once; the promise is fulfilled when all that was taken before is settled.
    pub fn flush(&self) -> Arc<Promise<()>> {
        let promise = Arc::new(Promise::default());
        let mut state = self.shared.lock();
        (state.flushes).retain(|(_, wait)| Arc::strong_count(wait) > 1);
        match state.producer.as_mut() {
            Some(producer) if !producer.is_idle() => {
                let number = producer.flush();
                state.flushes.push((number, Arc::clone(&promise)));
            }
            _ => promise.fulfil(()),
        }
        drop(state);
        self.shared.wake.notify_one();
        promise
    }

    /// Accept no more messages, send what is buffered, and end. The promise is fulfilled then.
    pub fn close(&self) -> Arc<Promise<()>> {
        self.shared.lock().is_closing = true;
        self.flush()
    }

    /// Give up what is buffered, and end.
    pub fn abort(&self) {
        let mut state = self.shared.lock();
        state.is_closing = true;
        if let Some(producer) = state.producer.as_mut() {
            producer.fail_waiting(&Failure::Closed);
        }
        drop(state);
        self.shared.wake.notify_one();
    }

    /// Take the first failure since the last call of a message whose result was not asked for.
    pub fn take_failure(&self) -> Option<SendFailure> {
        self.shared.lock().failures.take()
    }

    /// Reason of the producer's end, if it has ended.
    pub fn ended(&self) -> Option<Failure> {
        self.shared.lock().ended.clone()
    }

    /// Number of partitions of the topic, as last seen.
    pub fn partitions_count(&self) -> u32 {
        let state = self.shared.lock();
        (state.producer.as_ref()).map_or(0, Producer::partitions_count)
    }

    /// Read the counters.
    pub fn counters(&self) -> ProducerCounters {
        let state = self.shared.lock();
        ProducerCounters {
            buffered_bytes: (state.producer.as_ref()).map_or(0, Producer::buffered_bytes),
            ..state.counters
        }
    }
}

impl Drop for ProducerHandle {
    fn drop(&mut self) {
        self.close();
    }
}

fn micros_since_epoch() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, Copy)]
enum Token {
    Topic,
    Batch(u64),
    Offsets,
}

struct Task {
    driver: Driver<Token>,
    shared: Arc<Shared>,
    config: ProducerConfig,
    stream: OwnedIdentifier,
    topic: OwnedIdentifier,
    refresh_at: Instant,
}

impl Task {
    async fn run(mut self) {
        let ended = loop {
            if self.advance() {
                break Failure::Closed;
            }
            let deadline = self.next_deadline();
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                event = self.driver.next() => {
                    if let Some(failure) = self.process(event) {
                        break failure;
                    }
                }
                () = shared.wake.notified() => {}
                () = sleep_until(deadline) => {}
            }
        };
        self.end(&ended);
    }

    fn next_deadline(&self) -> Instant {
        let state = self.shared.lock();
        let can_send = self.driver.session().is_open();
        let producer =
            (state.producer.as_ref()).and_then(|producer| producer.next_deadline(can_send));
        let own = producer.map(|deadline| self.shared.began + deadline);
        own.map_or(self.refresh_at, |own| own.min(self.refresh_at))
    }

    /// Send what is due, and fulfil what is settled. Returns true if the producer has ended.
    fn advance(&mut self) -> bool {
        let now = self.shared.began.elapsed();
        if self.refresh_at <= Instant::now() {
            self.ask_for_partitions();
        }
        let mut state = self.shared.lock();
        let state = &mut *state;
        let Some(producer) = state.producer.as_mut() else {
            return state.is_closing;
        };
        producer.tick(now);
        if self.driver.session().is_open() {
            let generation = self.driver.session().generation();
            while let Some(transmission) = producer.next_transmission(now) {
                state.counters.batches_sent += 1;
                let request = Request {
                    code: CommandCode::SendMessages.code(),
                    frame: transmission.frame,
                    repeat: Repeat::Bound(generation),
                    timeout: None,
                };
                self.driver
                    .submit(request, Token::Batch(transmission.batch));
            }
        }
        settle(state, now);
        let is_idle = state.producer.as_ref().is_none_or(Producer::is_idle);
        state.is_closing && is_idle
    }

    fn process(&mut self, event: Event<Token>) -> Option<Failure> {
        match event {
            Event::Opened(generation) => {
                self.driver_report_offsets(generation);
                if self.shared.lock().producer.is_none() {
                    self.ask_for_partitions();
                }
            }
            Event::Lost
            | Event::Notified(_)
            | Event::Answered {
                token: Token::Offsets,
                ..
            } => {}
            Event::Failed(failure) => return Some(failure),
            Event::Answered {
                token: Token::Topic,
                outcome,
            } => return self.found_topic(outcome),
            Event::Answered {
                token: Token::Batch(number),
                outcome,
            } => {
                let now = self.shared.began.elapsed();
                if let Some(producer) = self.shared.lock().producer.as_mut() {
                    producer.answered(number, outcome, now);
                }
            }
        }
        None
    }

    /// Ask the server to report offsets. It is the first request of the connection, so it precedes all batches.
    fn driver_report_offsets(&mut self, generation: u64) {
        if !self.driver.session().offers(CommandCode::ReportOffsets) {
            return;
        }
        if let Ok(request) = Request::new(&Command::ReportOffsets, Repeat::Bound(generation)) {
            self.driver.submit(request, Token::Offsets);
        }
    }

    fn ask_for_partitions(&mut self) {
        self.refresh_at = Instant::now() + REFRESH_INTERVAL;
        if !self.driver.session().is_open() {
            return;
        }
        let command = Command::GetTopic(TopicPath {
            stream: self.stream.as_identifier(),
            topic: self.topic.as_identifier(),
        });
        let repeat = Repeat::Bound(self.driver.session().generation());
        if let Ok(request) = Request::new(&command, repeat) {
            self.driver.submit(request, Token::Topic);
        }
    }

    fn found_topic(&mut self, outcome: headrace_sdk_core::Outcome) -> Option<Failure> {
        let mut state = self.shared.lock();
        let is_known = state.producer.is_some();
        let failure = match outcome {
            Ok(payload) if payload.is_empty() => Failure::missing_topic(&self.stream, &self.topic),
            Ok(payload) => match TopicDetails::decode(&payload) {
                Ok(found) if found.topic.partitions_count == 0 => Failure::Unrepresentable {
                    reason: format!("topic {:?} has no partitions", found.topic.name),
                },
                Ok(found) => {
                    let count = found.topic.partitions_count;
                    if let Some(producer) = state.producer.as_mut() {
                        producer.set_partitions_count(count);
                        return None;
                    }
                    state.producer = Some(Producer::new(
                        self.config.clone(),
                        self.stream.clone(),
                        self.topic.clone(),
                        count,
                        SessionSettings::backoff(),
                    ));
                    drop(state);
                    self.shared.opened.fulfil(Ok(()));
                    return None;
                }
                Err(error) => Failure::Malformed {
                    code: CommandCode::GetTopic.code(),
                    reason: error.to_string(),
                },
            },
            Err(failure) => failure,
        };
        // A topic that was seen before may be gone: its batches are refused with the reason. A broken connection is
        // made again, and the topic is asked for again then.
        let is_final = !matches!(
            failure,
            Failure::NotSent { .. } | Failure::Unanswered { .. } | Failure::Late { .. }
        );
        (!is_known && is_final).then_some(failure)
    }

    fn end(&mut self, failure: &Failure) {
        let mut state = self.shared.lock();
        if let Some(producer) = state.producer.as_mut() {
            producer.fail_all(failure);
        }
        settle(&mut state, self.shared.now());
        state.producer = None;
        state.ended = Some(failure.clone());
        let waits: Vec<_> = state.room.drain(..).collect();
        drop(state);
        for wait in waits {
            wait.fulfil(());
        }
        self.shared.opened.fulfil(Err(failure.clone()));
    }
}

/// Fulfil the promises of batches that are settled.
fn settle(state: &mut State, now: Duration) {
    let Some(producer) = state.producer.as_mut() else {
        return;
    };
    let settled = producer.take_settled();
    for batch in &settled {
        if let Some((reports, producer)) = &state.reports {
            reports.push(Report {
                producer: *producer,
                partition: (batch.result.as_ref().ok()).map(|stored| stored.partition),
                messages_count: batch.messages_count,
                bytes: batch.bytes,
                took: now.saturating_sub(batch.began_at),
                failure: (batch.result.as_ref().err()).map(ToString::to_string),
            });
        }
        if batch.result.is_ok() {
            state.counters.batches_delivered += 1;
            continue;
        }
        state.counters.batches_failed += 1;
        let failed = Arc::clone(&batch.handle);
        state.failures.add(failed, batch.messages_count);
    }
    if !settled.is_empty() && !producer.is_full() {
        state.room.drain(..).for_each(|wait| wait.fulfil(()));
    }
    for batch in settled {
        batch.handle.fulfil(batch.result);
    }
    let is_settled = |(number, _): &mut (u64, _)| producer.is_settled_up_to(*number);
    for (_, flush) in state.flushes.extract_if(.., is_settled) {
        flush.fulfil(());
    }
}
