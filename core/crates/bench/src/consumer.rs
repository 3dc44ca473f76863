//! One consuming connection.

use std::time::{Duration, Instant};

use headrace_model::Offset;
use headrace_wire::command::{ConsumerOffsetPath, PollMessages};
use headrace_wire::message::HEADER_BYTES;
use headrace_wire::{Consumer, ConsumerKind, Identifier, PollingStrategy, Status};

use crate::report::{ActorOutcome, Tally};
use crate::run::{Limits, Run};
use crate::{AtEnd, Cursor, Mode};
use headrace_client::{Client, ClientError, Polled, ResponseBuffer};

/// Connect, warm up, poll. `None` if the run was aborted before it began.
pub(crate) fn consume(run: &Run<'_>, index: u32) -> Result<Option<ActorOutcome>, ClientError> {
    let config = run.config;
    let mut client = run.connect()?;
    let partition_id = run.target.partition_of(index);
    let poll_bytes = u64::from(config.poll_messages_count())
        .saturating_mul(u64::from(config.message_size_bytes) + HEADER_BYTES as u64);
    // Large enough from the start, so that the buffer does not grow during the measurement; a poll of more than 64 MiB
    // may make it grow.
    let capacity = usize::try_from(poll_bytes.min(64 << 20)).unwrap_or(0) + 4096;
    let mut poller = Poller {
        run,
        client: &mut client,
        path: ConsumerOffsetPath {
            consumer: Consumer {
                kind: ConsumerKind::Consumer,
                id: Identifier::Numeric(index + 1),
            },
            stream: run.target.stream(),
            topic: run.target.topic(),
            partition_id: Some(partition_id),
        },
        buffer: ResponseBuffer::with_capacity(capacity),
        next: Offset(0),
        since_rewind: 0,
    };
    poller.go_to_start()?;

    if !run.gate.pass(Run::WARM_UP) {
        return Ok(None);
    }
    if let Some(limits) = run.warm_up_limits() {
        poller.poll_until(limits, &mut Tally::new(false), false)?;
    }
    if !run.gate.pass(Run::MEASURE) {
        return Ok(None);
    }

    let mut tally = Tally::new(false);
    let limits = run.limits(config.consumers());
    let start = Instant::now();
    let result = poller.poll_until(limits, &mut tally, true);
    run.finish_partially(result)?;
    Ok(Some(ActorOutcome {
        index,
        partition_id: Some(partition_id),
        start,
        end: Instant::now(),
        tally,
    }))
}

struct Poller<'p, 'r> {
    run: &'p Run<'r>,
    client: &'p mut Client,
    path: ConsumerOffsetPath<'static>,
    buffer: ResponseBuffer,
    /// First offset that has not been consumed.
    next: Offset,
    /// Number of messages since the last rewind.
    since_rewind: u64,
}

impl Poller<'_, '_> {
    /// Set the start position: with producers, after the existing messages; without, at the first message.
    fn go_to_start(&mut self) -> Result<(), ClientError> {
        self.rewind()?;
        if self.run.config.mode == Mode::Both {
            let request = self.request(PollingStrategy::Last, 1);
            let polled = self.client.poll(&request, &mut self.buffer)?;
            if polled.messages_count > 0 {
                let last = first_offset(&polled)?;
                self.next = last.advanced_by(1);
                if self.run.config.cursor == Cursor::Server {
                    self.client.store_offset(self.path, last)?;
                }
            }
        }
        Ok(())
    }

    fn rewind(&mut self) -> Result<(), ClientError> {
        self.next = Offset(0);
        self.since_rewind = 0;
        if self.run.config.cursor == Cursor::Server {
            match self.client.delete_offset(self.path) {
                Err(error) if error.status() != Some(Status::CONSUMER_OFFSET_NOT_FOUND) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn request(&self, strategy: PollingStrategy, count: u32) -> PollMessages<'static> {
        PollMessages {
            consumer: self.path.consumer,
            stream: self.path.stream,
            topic: self.path.topic,
            partition_id: self.path.partition_id,
            strategy,
            count,
            auto_commit: self.run.config.cursor == Cursor::Server
                && strategy == PollingStrategy::Next,
        }
    }

    fn poll_until(
        &mut self,
        limits: Limits,
        tally: &mut Tally,
        counted: bool,
    ) -> Result<(), ClientError> {
        let run = self.run;
        let mut now = Instant::now();
        while !run.is_stopped() && limits.allow(tally.messages, now) {
            // Read before the poll, so that all messages produced until now are in its answer.
            let producers_done = run.producers_are_done();
            let strategy = match run.config.cursor {
                Cursor::Client => PollingStrategy::Offset(self.next.0),
                Cursor::Server => PollingStrategy::Next,
            };
            let request = self.request(strategy, run.config.poll_messages_count());
            let start = Instant::now();
            let polled = self.client.poll(&request, &mut self.buffer)?;
            now = Instant::now();
            if polled.messages_count == 0 {
                tally.empty_polls += 1;
                if self.is_done_at_end(producers_done)? {
                    break;
                }
                continue;
            }

            if run.config.verify {
                let is_known = self.since_rewind > 0 || run.config.mode == Mode::Both;
                let expected = is_known.then_some(self.next);
                verify(&polled, expected)?;
            }
            let messages = u64::from(polled.messages_count);
            let message_bytes = polled.message_bytes.len() as u64;
            let payload_bytes = message_bytes.saturating_sub(messages * HEADER_BYTES as u64);
            self.next = first_offset(&polled)?.advanced_by(messages);
            self.since_rewind += messages;
            tally.requests += 1;
            tally.messages += messages;
            tally.message_bytes += message_bytes;
            tally.payload_bytes += payload_bytes;
            tally.record(now - start);
            if counted {
                run.progress.add_consumed(messages, payload_bytes);
            }
        }
        Ok(())
    }

    /// Handle a poll that returned nothing. Returns whether to stop.
    fn is_done_at_end(&mut self, producers_done: bool) -> Result<bool, ClientError> {
        if self.run.config.mode == Mode::Both {
            if !producers_done {
                let pause = Duration::from_micros(self.run.config.idle_poll_micros);
                self.run.sleep_until(Instant::now() + pause);
            }
            return Ok(producers_done);
        }
        match self.run.config.at_end {
            AtEnd::Stop => Ok(true),
            AtEnd::Rewind if self.since_rewind == 0 => Err(ClientError::InvalidSetting {
                setting: "topic",
                reason: format!(
                    "partition {} holds no messages to consume",
                    self.path.partition_id.unwrap_or(0)
                ),
            }),
            AtEnd::Rewind => self.rewind().map(|()| false),
        }
    }
}

/// Offset of the first message: given by the partition, because older messages may have been removed.
fn first_offset(polled: &Polled<'_>) -> Result<Offset, ClientError> {
    match polled.messages().next() {
        Some(Ok(message)) => Ok(Offset(message.header().offset())),
        _ => Err(damaged(
            polled,
            None,
            "the answer does not hold the messages that it announces",
        )),
    }
}

/// Verify that every message is complete, with a valid checksum and consecutive offsets, the first at `expected`.
fn verify(polled: &Polled<'_>, expected: Option<Offset>) -> Result<(), ClientError> {
    let mut expected = expected;
    let mut count = 0_u32;
    for message in polled.messages() {
        let Ok(message) = message else {
            return Err(damaged(polled, expected, "a message is cut off"));
        };
        let offset = Offset(message.header().offset());
        if expected.is_some_and(|expected| expected != offset) {
            return Err(damaged(polled, expected, "another offset was returned"));
        }
        if !message.checksum_matches() {
            return Err(damaged(polled, Some(offset), "the checksum does not match"));
        }
        expected = Some(offset.advanced_by(1));
        count += 1;
    }
    if count == polled.messages_count {
        Ok(())
    } else {
        Err(damaged(
            polled,
            expected,
            "the number of messages is not the one announced",
        ))
    }
}

fn damaged(polled: &Polled<'_>, offset: Option<Offset>, reason: &'static str) -> ClientError {
    ClientError::Damaged {
        partition_id: polled.partition_id,
        offset: offset.unwrap_or(polled.current_offset),
        reason,
    }
}
