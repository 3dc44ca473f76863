//! Batches of messages by partition: collected, sent, settled.

mod batches;
mod direct;
mod results;
mod settings;

use std::collections::BTreeSet;
use std::time::Duration;

use headrace_wire::{Partitioning, Status};

use self::batches::{Batch, Flight, Lane, Spares};
pub use self::direct::{DirectBatch, DirectGroup};
pub use self::results::{PushRefused, SendFailure, Settled, Stored};
pub use self::settings::ProducerConfig;
use crate::{Backoff, Failure, Frame, Outcome, OwnedIdentifier};

/// Place where a message is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// This partition.
    Partition(u32),
    /// The partition that the key selects, as servers select it.
    Key(&'a [u8]),
    /// Any partition: batches take turns.
    Balanced,
}

/// A batch that is to be sent.
#[derive(Debug)]
pub struct Transmission {
    /// Number of the batch, for [`Producer::answered`].
    pub batch: u64,
    /// Bytes of its frame.
    pub frame: Frame,
}

/// A producer for one topic. `H` is a handle by which the caller knows a batch.
#[derive(Debug)]
pub struct Producer<H> {
    config: ProducerConfig,
    stream: OwnedIdentifier,
    topic: OwnedIdentifier,
    lanes: Vec<Lane<H>>,
    /// Lanes that have messages.
    active: BTreeSet<usize>,
    /// Lane that balanced messages are collected in.
    turn: usize,
    buffered_bytes: usize,
    batches: u64,
    /// Back-off of lanes that are new.
    backoff: Backoff,
    settled: Vec<Settled<H>>,
    spares: Spares,
    /// Batches up to this number are sent without waiting for more messages.
    flushed: u64,
    /// Set if nothing is sent again.
    given_up: Option<Failure>,
    /// A message was refused for lack of room, and nothing was settled since.
    is_full: bool,
    /// True if there is something new to send, or to wait for.
    has_news: bool,
}

impl<H: Clone + Default> Producer<H> {
    /// Create a producer for a topic with this number of partitions, at least one.
    pub fn new(
        config: ProducerConfig,
        stream: OwnedIdentifier,
        topic: OwnedIdentifier,
        partitions_count: u32,
        backoff: Backoff,
    ) -> Self {
        let mut producer = Self {
            config,
            stream,
            topic,
            lanes: Vec::new(),
            active: BTreeSet::new(),
            turn: 0,
            buffered_bytes: 0,
            batches: 0,
            backoff,
            settled: Vec::new(),
            spares: Spares::default(),
            flushed: 0,
            given_up: None,
            is_full: false,
            has_news: false,
        };
        producer.set_partitions_count(partitions_count);
        producer
    }

    /// Number of partitions of the topic.
    pub fn partitions_count(&self) -> u32 {
        u32::try_from(self.lanes.len()).unwrap_or(u32::MAX)
    }

    /// Use partitions that were added to the topic. The number never shrinks: what is sent to removed partitions is
    /// refused by the server.
    pub fn set_partitions_count(&mut self, partitions_count: u32) {
        let wanted = usize::try_from(partitions_count).unwrap_or(usize::MAX);
        while self.lanes.len() < wanted {
            self.lanes.push(Lane::new(self.backoff.clone()));
        }
    }

    /// Bytes of all messages that are not settled, headers included.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Return whether every message is settled.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// Take a message. Returns the handle of its batch and its place within it.
    ///
    /// `id` 0 leaves the id to the server, `origin_timestamp` is in microseconds since the Unix epoch, `headers` are
    /// encoded. `now` is asked for the time if the message begins a batch: a clock costs as much as the rest of this.
    pub fn push(
        &mut self,
        place: Place<'_>,
        id: u128,
        origin_timestamp: u64,
        payload: &[u8],
        headers: &[u8],
        now: impl FnOnce() -> Duration,
    ) -> Result<(H, u32), PushRefused> {
        let message_bytes = headrace_wire::message::HEADER_BYTES + payload.len() + headers.len();
        if self.buffered_bytes > 0 && self.buffered_bytes + message_bytes > self.config.buffer_bytes
        {
            self.is_full = true;
            return Err(PushRefused::BufferFull);
        }
        let mut index = self.lane_of(place)?;
        let is_balanced = place == Place::Balanced;
        if self.lanes[index].must_seal(&self.config, message_bytes) {
            self.lanes[index].seal();
            self.has_news = true;
            if is_balanced {
                self.pass_turn();
                index = self.turn;
                if self.lanes[index].must_seal(&self.config, message_bytes) {
                    self.lanes[index].seal();
                }
            }
        }
        let lane = &mut self.lanes[index];
        if lane.open.is_none() {
            self.batches += 1;
            lane.open = Some(Batch::new(self.batches, self.spares.take(), now()));
            self.has_news = true;
        }
        let open = lane.open.as_mut().expect("a batch was opened");
        let pushed = (open.messages).push(id, origin_timestamp, payload, headers);
        if let Err(error) = pushed {
            if open.messages.is_empty() {
                lane.open = None;
            }
            return Err(PushRefused::TooBig(error));
        }
        let taken = (open.handle.clone(), open.messages.messages_count() - 1);
        self.buffered_bytes += message_bytes;
        if taken.1 == 0 {
            self.active.insert(index);
        }
        if lane.must_seal(&self.config, 0) {
            lane.seal();
            self.has_news = true;
            if is_balanced {
                self.pass_turn();
            }
        }
        Ok(taken)
    }

    fn lane_of(&self, place: Place<'_>) -> Result<usize, PushRefused> {
        let partitions_count = self.partitions_count();
        let partition = match place {
            Place::Balanced => return Ok(self.turn),
            Place::Partition(partition) => partition,
            Place::Key(key) => {
                Partitioning::partition_for_key(key, partitions_count).unwrap_or(u32::MAX)
            }
        };
        let index = usize::try_from(partition).unwrap_or(usize::MAX);
        if index < self.lanes.len() {
            return Ok(index);
        }
        Err(PushRefused::NoPartition {
            partition,
            partitions_count,
        })
    }

    /// Return whether a message was refused for lack of room, and nothing was settled since.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Return whether there was something new to send, or to wait for, since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Send everything that was taken so far without waiting for full batches. Returns the number of the last batch, for
    /// [`Self::is_settled_up_to`].
    pub fn flush(&mut self) -> u64 {
        self.flushed = self.batches;
        self.flushed
    }

    /// Return whether the batches up to this number are settled.
    pub fn is_settled_up_to(&self, number: u64) -> bool {
        let lanes = self.active.iter().map(|index| &self.lanes[*index]);
        let mut oldest = lanes.filter_map(Lane::oldest);
        oldest.all(|oldest| oldest > number)
    }

    /// Number up to which batches do not wait for more messages: all, while messages wait for room.
    fn urgent(&self) -> u64 {
        if self.is_full { u64::MAX } else { self.flushed }
    }

    fn pass_turn(&mut self) {
        self.turn = (self.turn + 1) % self.lanes.len();
    }

    /// Take the next batch that is to be sent now.
    pub fn next_transmission(&mut self, now: Duration) -> Option<Transmission> {
        let urgent = self.urgent();
        let mut active = self.active.iter().copied();
        let index = active.find(|index| self.lanes[*index].is_due(&self.config, urgent, now))?;
        let lane = &mut self.lanes[index];
        if lane.sealed.is_empty() {
            lane.seal();
            if index == self.turn {
                self.pass_turn();
            }
        }
        let lane = &mut self.lanes[index];
        let mut batch = lane.sealed.pop_front()?;
        let frame = batch.frame(
            &self.stream,
            &self.topic,
            u32::try_from(index).unwrap_or(u32::MAX),
        );
        let transmission = Transmission {
            batch: batch.number,
            frame,
        };
        lane.in_flight.push_back(Flight {
            batch,
            refusal: None,
        });
        Some(transmission)
    }

    /// Process the answer to a transmission.
    pub fn answered(&mut self, number: u64, outcome: Outcome, now: Duration) {
        let found = self.active.iter().find_map(|index| {
            let position = self.lanes[*index].position(number)?;
            Some((*index, position))
        });
        let Some((index, position)) = found else {
            return;
        };
        match outcome {
            Ok(payload) => {
                self.lanes[index].backoff.reset();
                let lane = u32::try_from(index).unwrap_or(u32::MAX);
                let stored = Stored::from_answer(&payload, lane);
                self.settle_in_flight(index, position, Ok(stored));
                // What was refused before it can no longer be sent without changing the order.
                self.settle_overtaken(index, position);
            }
            Err(failure) if self.is_to_repeat(&failure) => {
                let flight = &mut self.lanes[index].in_flight[position];
                flight.batch.may_be_stored |= !failure.is_certainly_not_executed();
                flight.refusal = Some(failure.to_string());
            }
            Err(failure) => {
                let may_be_stored = !failure.is_certainly_not_executed();
                self.settle_in_flight(index, position, Err(SendFailure::Request(failure)));
                if may_be_stored {
                    self.settle_overtaken(index, position);
                }
            }
        }
        self.repeat_refused(index, now);
        self.note_idle(index);
    }

    /// Return whether a batch is to be sent again: it is certainly not stored, and may be accepted later.
    fn is_to_repeat(&self, failure: &Failure) -> bool {
        match failure {
            _ if self.given_up.is_some() => false,
            Failure::NotSent { .. } => true,
            Failure::Unanswered { .. } => self.config.repeat_uncertain,
            Failure::Refused { status, .. } => matches!(
                *status,
                Status::PARTITION_UNAVAILABLE
                    | Status::PARTITION_ELSEWHERE
                    | Status::TASK_TIMEOUT
                    | Status::DISCONNECTED
                    | Status::STALE_CLIENT
                    | Status::UNAUTHENTICATED
            ),
            _ => false,
        }
    }

    fn settle_overtaken(&mut self, index: usize, position: usize) {
        let mut earlier = 0;
        for _ in 0..position {
            let refusal = self.lanes[index].in_flight[earlier].refusal.take();
            if let Some(problem) = refusal {
                let failure = SendFailure::Overtaken { problem };
                self.settle_in_flight(index, earlier, Err(failure));
            } else {
                earlier += 1;
            }
        }
    }

    /// Put refused batches back into the queue of their lane once nothing of the lane is in flight.
    fn repeat_refused(&mut self, index: usize, now: Duration) {
        let lane = &mut self.lanes[index];
        let is_waiting = (lane.in_flight.iter()).any(|flight| flight.refusal.is_none());
        if lane.in_flight.is_empty() || is_waiting {
            return;
        }
        while let Some(flight) = lane.in_flight.pop_back() {
            let mut batch = flight.batch;
            batch.problem = flight.refusal.unwrap_or_default();
            lane.sealed.push_front(batch);
        }
        lane.not_before = now + lane.backoff.next_delay();
        match self.given_up.clone() {
            Some(failure) => self.fail_queued(index, &failure),
            None => self.expire(index, now),
        }
    }

    /// Give up batches that have had their time, and are not in flight.
    fn expire(&mut self, index: usize, now: Duration) {
        let after = self.config.delivery_timeout;
        while let Some(batch) = self.lanes[index].take_expired(after, now) {
            let problem = batch.problem.clone();
            let failure = SendFailure::Undelivered { after, problem };
            self.settle(&batch, Err(failure));
        }
        self.note_idle(index);
    }

    /// Let time pass.
    pub fn tick(&mut self, now: Duration) {
        let active: Vec<_> = self.active.iter().copied().collect();
        for index in active {
            self.expire(index, now);
        }
    }

    /// Time at which a batch is to be sent or given up, if nothing else happens. Without a connection (`can_send` false)
    /// batches are given up only.
    pub fn next_deadline(&self, can_send: bool) -> Option<Duration> {
        let lanes = self.active.iter().map(|index| &self.lanes[*index]);
        lanes
            .filter_map(|lane| lane.next_deadline(&self.config, self.urgent(), can_send))
            .min()
    }

    /// Fail everything that is not in flight, and send nothing again.
    pub fn fail_waiting(&mut self, failure: &Failure) {
        self.given_up = Some(failure.clone());
        let active: Vec<_> = self.active.iter().copied().collect();
        for index in active {
            self.fail_queued(index, failure);
        }
    }

    fn fail_queued(&mut self, index: usize, failure: &Failure) {
        let lane = &mut self.lanes[index];
        let mut batches: Vec<_> = std::mem::take(&mut lane.sealed).into();
        batches.extend(lane.open.take());
        for batch in batches {
            self.settle(&batch, Err(SendFailure::Request(failure.clone())));
        }
        self.note_idle(index);
    }

    /// Fail everything that is not settled: not in flight, or in flight without an answer to come.
    pub fn fail_all(&mut self, failure: &Failure) {
        for index in std::mem::take(&mut self.active) {
            let lane = &mut self.lanes[index];
            let flights = std::mem::take(&mut lane.in_flight).into_iter();
            let mut batches: Vec<_> = flights.map(|flight| flight.batch).collect();
            batches.extend(std::mem::take(&mut lane.sealed));
            batches.extend(lane.open.take());
            for batch in batches {
                self.settle(&batch, Err(SendFailure::Request(failure.clone())));
            }
        }
    }

    /// Take the batches that were settled since the last call.
    pub fn take_settled(&mut self) -> Vec<Settled<H>> {
        std::mem::take(&mut self.settled)
    }

    fn settle_in_flight(
        &mut self,
        index: usize,
        position: usize,
        result: Result<Stored, SendFailure>,
    ) {
        if let Some(flight) = self.lanes[index].in_flight.remove(position) {
            self.settle(&flight.batch, result);
            self.spares.keep(flight.batch, self.config.batch_bytes);
        }
    }

    fn settle(&mut self, batch: &Batch<H>, mut result: Result<Stored, SendFailure>) {
        if let Err(failure) = &result
            && failure.is_certainly_not_stored()
            && batch.may_be_stored
        {
            // This attempt has failed for certain, but an earlier one may have succeeded.
            let reason = failure.to_string();
            result = Err(SendFailure::Request(Failure::Unanswered { reason }));
        }
        self.buffered_bytes -= batch.bytes();
        self.is_full = false;
        self.settled.push(Settled {
            handle: batch.handle.clone(),
            messages_count: batch.messages_count(),
            bytes: batch.bytes(),
            began_at: batch.began_at,
            result,
        });
    }

    fn note_idle(&mut self, index: usize) {
        if self.lanes[index].is_empty() {
            self.active.remove(&index);
        }
    }
}

#[cfg(test)]
mod tests;
