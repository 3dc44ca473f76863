//! One producing connection.

use std::time::Instant;

use headrace_wire::{CommandCode, Partitioning};

use crate::Placement;
use crate::pace::Pace;
use crate::report::{ActorOutcome, Tally};
use crate::run::{Limits, Run};
use headrace_client::{Client, ClientError, Pipeline, PreparedBatch};

/// A batch in flight.
#[derive(Clone, Copy)]
struct Sent {
    at: Instant,
    due: Option<Instant>,
}

/// Amounts that one batch counts for.
#[derive(Clone, Copy)]
struct BatchSize {
    messages: u64,
    payload_bytes: u64,
    message_bytes: u64,
}

/// Connect, warm up, send. `None` if the run was aborted before it began.
pub(crate) fn produce(run: &Run<'_>, index: u32) -> Result<Option<ActorOutcome>, ClientError> {
    let config = run.config;
    let mut client = run.connect()?;
    let partition_id = match config.placement {
        Placement::Pinned => Some(run.target.partition_of(index)),
        Placement::Balanced => None,
    };
    let batch = PreparedBatch::new(
        run.target.stream(),
        run.target.topic(),
        partition_id.map_or(Partitioning::Balanced, Partitioning::PartitionId),
        run.messages.clone(),
    )?;
    let mut producer = Producer {
        run,
        client: &mut client,
        batch: &batch,
        size: BatchSize {
            messages: u64::from(config.messages_per_batch),
            payload_bytes: config.batch_payload_bytes(),
            message_bytes: run.batch_message_bytes(),
        },
    };

    if !run.gate.pass(Run::WARM_UP) {
        return Ok(None);
    }
    if let Some(limits) = run.warm_up_limits() {
        producer.send_until(limits, &mut Tally::new(false), false)?;
    }
    if !run.gate.pass(Run::MEASURE) {
        return Ok(None);
    }

    let mut tally = Tally::new(config.rate_limit_bytes_per_second.is_some());
    let limits = run.limits(config.producers());
    let start = Instant::now();
    let result = producer.send_until(limits, &mut tally, true);
    run.finish_partially(result)?;
    Ok(Some(ActorOutcome {
        index,
        partition_id,
        start,
        end: Instant::now(),
        tally,
    }))
}

struct Producer<'p, 'r> {
    run: &'p Run<'r>,
    client: &'p mut Client,
    batch: &'p PreparedBatch,
    size: BatchSize,
}

impl Producer<'_, '_> {
    fn send_until(
        &mut self,
        limits: Limits,
        tally: &mut Tally,
        counted: bool,
    ) -> Result<(), ClientError> {
        let config = self.run.config;
        let mut now = Instant::now();
        let mut pace = Pace::new(
            now,
            config.rate_limit_bytes_per_second,
            config.producers(),
            self.size.payload_bytes,
        );
        let mut batches = 0;
        let (run, batch, size) = (self.run, self.batch, self.size);
        let mut pipeline = Pipeline::new(self.client, config.window());
        let mut settle = |pipeline: &mut Pipeline<'_, Sent>| -> Result<Instant, ClientError> {
            let answer = pipeline.receive()?;
            let now = Instant::now();
            let Some(answer) = answer else {
                return Ok(now);
            };
            answer.outcome.map_err(|status| ClientError::Refused {
                command: CommandCode::SendMessages,
                status,
                explanation: None,
            })?;
            tally.requests += 1;
            tally.messages += size.messages;
            tally.payload_bytes += size.payload_bytes;
            tally.message_bytes += size.message_bytes;
            tally.record(now - answer.tag.at);
            if let Some(due) = answer.tag.due {
                tally.record_from_due(now.saturating_duration_since(due));
            }
            if counted {
                run.progress.add_produced(size.messages, size.payload_bytes);
            }
            Ok(now)
        };

        while !run.is_stopped() && limits.allow(batches * size.messages, now) {
            let due = pace.as_mut().map(Pace::next_due);
            if let Some(due) = due
                && due > now
            {
                // Receive outstanding answers before sleeping: otherwise the sleep would count as latency.
                while pipeline.in_flight() > 0 {
                    settle(&mut pipeline)?;
                }
                run.sleep_until(limits.end_before(due));
                now = Instant::now();
                if now < due {
                    break;
                }
            }
            if pipeline.is_full() {
                settle(&mut pipeline)?;
            }
            let at = Instant::now();
            pipeline.send(batch, Sent { at, due })?;
            batches += 1;
            now = if pipeline.is_full() && config.window == 1 {
                settle(&mut pipeline)?
            } else {
                at
            };
        }
        while pipeline.in_flight() > 0 {
            settle(&mut pipeline)?;
        }
        Ok(())
    }
}
