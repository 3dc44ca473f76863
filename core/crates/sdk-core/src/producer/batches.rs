//! Batches of one partition.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use headrace_wire::batch::BatchBuilder;
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader};
use headrace_wire::{Command, Partitioning, SendMessages};

use super::ProducerConfig;
use crate::{Backoff, Frame, OwnedIdentifier};

/// A batch of messages of one partition.
#[derive(Debug)]
pub(super) struct Batch<H> {
    pub(super) number: u64,
    pub(super) handle: H,
    /// The messages, until the first transmission.
    pub(super) messages: BatchBuilder,
    frame: Option<Frame>,
    bytes: usize,
    messages_count: u32,
    pub(super) began_at: Duration,
    /// An attempt to send it has no known outcome.
    pub(super) may_be_stored: bool,
    /// Last problem of sending it.
    pub(super) problem: String,
}

impl<H: Default> Batch<H> {
    pub(super) fn new(number: u64, messages: BatchBuilder, now: Duration) -> Self {
        Self {
            number,
            handle: H::default(),
            messages,
            frame: None,
            bytes: 0,
            messages_count: 0,
            began_at: now,
            may_be_stored: false,
            problem: "it could not be sent yet".to_owned(),
        }
    }
}

impl<H> Batch<H> {
    /// Bytes of the messages, headers included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.messages.messages_bytes()
    }

    /// Number of messages.
    pub(super) fn messages_count(&self) -> u32 {
        self.messages_count + self.messages.messages_count()
    }

    /// Bytes of the frame, which are encoded once.
    pub(super) fn frame(
        &mut self,
        stream: &OwnedIdentifier,
        topic: &OwnedIdentifier,
        partition: u32,
    ) -> Frame {
        if let Some(frame) = &self.frame {
            return frame.clone();
        }
        self.bytes = self.messages.messages_bytes();
        self.messages_count = self.messages.messages_count();
        let frame = batch_frame(stream, topic, partition, std::mem::take(&mut self.messages));
        self.frame = Some(frame.clone());
        frame
    }
}

/// Memory of batches that are settled. The pages of new memory cost more than the copy of the messages into them.
#[derive(Debug, Default)]
pub(super) struct Spares {
    builders: Vec<BatchBuilder>,
}

impl Spares {
    /// Number of batches whose memory is kept: about as many as a connection has in flight.
    const MAX: usize = 8;

    /// An empty batch, in memory that was used before if there is any.
    pub(super) fn take(&mut self) -> BatchBuilder {
        self.builders.pop().unwrap_or_default()
    }

    /// Keep the memory of a batch that will not be sent again, unless its frame is still being written.
    pub(super) fn keep<H>(&mut self, batch: Batch<H>, batch_bytes: usize) {
        let Some([_, indexes, messages]) = batch.frame else {
            return;
        };
        if self.builders.len() >= Self::MAX || messages.len() > 2 * batch_bytes {
            return;
        }
        if let (Ok(indexes), Ok(messages)) = (indexes.try_into_mut(), messages.try_into_mut()) {
            self.builders
                .push(BatchBuilder::from_parts(indexes.into(), messages.into()));
        }
    }
}

/// Frame of a batch for one partition; the messages are not copied.
pub(super) fn batch_frame(
    stream: &OwnedIdentifier,
    topic: &OwnedIdentifier,
    partition: u32,
    batch: BatchBuilder,
) -> Frame {
    framed(stream, topic, partition, batch, |batch| {
        Command::SendMessages(batch)
    })
}

/// Frame a batch as the end of a command that carries messages.
pub(super) fn framed(
    stream: &OwnedIdentifier,
    topic: &OwnedIdentifier,
    partition: u32,
    batch: BatchBuilder,
    command: impl for<'a> FnOnce(SendMessages<'a>) -> Command<'a>,
) -> Frame {
    let messages_count = batch.messages_count();
    let (indexes, messages) = batch.into_parts();
    let mut front = Vec::new();
    let command = command(SendMessages {
        stream: stream.as_identifier(),
        topic: topic.as_identifier(),
        partitioning: Partitioning::PartitionId(partition),
        messages_count,
        indexes: &[],
        messages: &[],
    });
    command
        .try_encode_frame(&mut front)
        .expect("the names were checked");
    let payload = front.len() - REQUEST_HEADER_BYTES + indexes.len() + messages.len();
    let header = RequestHeader::new(command.code().code(), payload).expect("a batch fits a frame");
    front[..REQUEST_HEADER_BYTES].copy_from_slice(&header.encode());
    [front.into(), Bytes::from(indexes), Bytes::from(messages)]
}

/// A batch in flight.
#[derive(Debug)]
pub(super) struct Flight<H> {
    pub(super) batch: Batch<H>,
    /// Set if the batch was refused for the moment.
    pub(super) refusal: Option<String>,
}

/// Everything that waits for one partition, oldest first: in flight, sealed, open.
#[derive(Debug)]
pub(super) struct Lane<H> {
    pub(super) open: Option<Batch<H>>,
    pub(super) sealed: VecDeque<Batch<H>>,
    pub(super) in_flight: VecDeque<Flight<H>>,
    /// Time before which nothing is sent, after a refusal.
    pub(super) not_before: Duration,
    pub(super) backoff: Backoff,
}

impl<H> Lane<H> {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self {
            open: None,
            sealed: VecDeque::new(),
            in_flight: VecDeque::new(),
            not_before: Duration::ZERO,
            backoff,
        }
    }

    /// Number of the oldest batch.
    pub(super) fn oldest(&self) -> Option<u64> {
        let in_flight = self.in_flight.front().map(|flight| &flight.batch);
        let oldest = in_flight.or(self.sealed.front()).or(self.open.as_ref())?;
        Some(oldest.number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.sealed.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn seal(&mut self) {
        self.sealed.extend(self.open.take());
    }

    /// Return whether the open batch is full, or would be with so many more bytes.
    pub(super) fn must_seal(&self, config: &ProducerConfig, added_bytes: usize) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let bytes = open.messages.messages_bytes();
            open.messages.messages_count() >= config.batch_messages
                || bytes >= config.batch_bytes
                || bytes + added_bytes > config.batch_bytes
        })
    }

    /// Time from which on the open batch does not wait for more messages.
    fn full_at(&self, config: &ProducerConfig, urgent: u64) -> Option<Duration> {
        let open = self.open.as_ref()?;
        Some(if open.number <= urgent {
            Duration::ZERO
        } else {
            open.began_at.saturating_add(config.linger)
        })
    }

    /// Return whether a batch is to be sent now. Batches up to number `urgent` do not wait for more messages.
    pub(super) fn is_due(&self, config: &ProducerConfig, urgent: u64, now: Duration) -> bool {
        let may_send = self.in_flight.len() < config.window.max(1)
            && self.not_before <= now
            && self.in_flight.iter().all(|flight| flight.refusal.is_none());
        let has_batch = !self.sealed.is_empty();
        let has_waited = self
            .full_at(config, urgent)
            .is_some_and(|full_at| full_at <= now);
        may_send && (has_batch || has_waited)
    }

    pub(super) fn position(&self, number: u64) -> Option<usize> {
        (self.in_flight.iter()).position(|flight| flight.batch.number == number)
    }

    pub(super) fn take_expired(&mut self, after: Duration, now: Duration) -> Option<Batch<H>> {
        let is_expired = |batch: &Batch<H>| batch.began_at.saturating_add(after) <= now;
        if self.sealed.front().is_some_and(is_expired) {
            return self.sealed.pop_front();
        }
        if self.sealed.is_empty() && self.open.as_ref().is_some_and(is_expired) {
            return self.open.take();
        }
        None
    }

    pub(super) fn next_deadline(
        &self,
        config: &ProducerConfig,
        urgent: u64,
        can_send: bool,
    ) -> Option<Duration> {
        let oldest = self.sealed.front().or(self.open.as_ref())?;
        let given_up = oldest.began_at.saturating_add(config.delivery_timeout);
        let is_blocked = !can_send
            || self.in_flight.len() >= config.window.max(1)
            || self.in_flight.iter().any(|flight| flight.refusal.is_some());
        if is_blocked {
            return Some(given_up);
        }
        let sent = if self.sealed.is_empty() {
            self.full_at(config, urgent)?
        } else {
            Duration::ZERO
        };
        Some(sent.max(self.not_before).min(given_up))
    }
}
