//! Polls: the five strategies, the minimum size, and auto-commit (LOG-9).

use alloc::vec::Vec;

use headrace_log::{Log, Messages, ReadError, ReadFrom, ReadId, Started};
use headrace_model::{Offset, Timestamp};
use headrace_wire::PollingStrategy;
use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::api::{Gap, Level, Outbox, PartitionError, Poll, Polled, RequestId, Response, respond};
use crate::commits::Commits;
use crate::offsets::StoredOffsets;

/// A poll that waits for the storage.
#[derive(Debug)]
pub(crate) struct PendingPoll {
    read: ReadId,
    request_id: RequestId,
    poll: Poll,
}

/// Polls of a partition, with the parts that they reach.
pub(crate) struct Polling<'a> {
    pub(crate) waiting: &'a mut Vec<PendingPoll>,
    pub(crate) log: &'a mut Log,
    pub(crate) offsets: &'a mut StoredOffsets,
    pub(crate) commits: &'a mut Commits,
    /// Total size of the messages that became visible since the partition was opened.
    pub(crate) visible_bytes: u64,
}

impl Polling<'_> {
    pub(crate) fn begin(&mut self, request_id: RequestId, poll: Poll, out: &mut Outbox) {
        if let Err(error) = self.check_commit(&poll) {
            return respond(out, request_id, Err(error));
        }
        let from = match poll.strategy {
            PollingStrategy::Timestamp(timestamp) => ReadFrom::Timestamp(Timestamp(timestamp)),
            _ => ReadFrom::Offset(self.start_of(&poll).unwrap_or_default()),
        };
        let bytes_max = match poll.bytes_max {
            Poll::UNLIMITED => u64::MAX,
            limited => u64::from(limited),
        };
        match (self.log).read_within(from, poll.count, bytes_max, &mut out.storage) {
            Started::Done(result) => self.finish_poll(request_id, &poll, result, out),
            Started::Pending(read) => self.waiting.push(PendingPoll {
                read,
                request_id,
                poll,
            }),
        }
    }

    /// Offset at which a poll starts; `None` if the poll starts at a timestamp.
    fn start_of(&self, poll: &Poll) -> Option<Offset> {
        let first = self.log.first_offset();
        match poll.strategy {
            PollingStrategy::Offset(offset) => Some(Offset(offset)),
            PollingStrategy::Timestamp(_) => None,
            PollingStrategy::First => Some(first),
            PollingStrategy::Last => {
                let end = self.log.visible_end().0;
                Some(Offset(end.saturating_sub(u64::from(poll.count))))
            }
            PollingStrategy::Next => {
                let stored = poll
                    .consumer
                    .and_then(|consumer| self.offsets.get(consumer));
                Some(stored.map_or(first, |stored| stored.advanced_by(1)))
            }
        }
    }

    /// Answer polls whose reads have ended.
    pub(crate) fn settle(&mut self, out: &mut Outbox) {
        while let Some((read, result)) = self.log.take_finished_read() {
            let index = self.waiting.iter().position(|poll| poll.read == read);
            let pending = self
                .waiting
                .swap_remove(index.expect("every read is a poll's"));
            self.finish_poll(pending.request_id, &pending.poll, result, out);
        }
    }

    fn finish_poll(
        &mut self,
        request_id: RequestId,
        poll: &Poll,
        result: Result<Messages, ReadError>,
        out: &mut Outbox,
    ) {
        let messages = match result {
            Ok(messages) => messages,
            Err(error) => return respond(out, request_id, Err(error.into())),
        };
        if let Some(level) = self.level_for_minimum(poll, &messages) {
            return respond(out, request_id, Ok(Response::BelowMinimum(level)));
        }
        let last_offset = messages.last_offset;
        let gap = self.gap(poll, &messages);
        let response = Response::Polled(Polled {
            current_offset: last_visible(self.log),
            last_offset,
            messages_count: messages.messages_count,
            slices: messages.slices,
            size_bytes: messages.size_bytes,
            gap,
        });
        let commit_for = poll.consumer.filter(|_| poll.auto_commit);
        let (Some(consumer), Some(last_offset)) = (commit_for, last_offset) else {
            return respond(out, request_id, Ok(response));
        };
        if let Err(error) = self.check_commit(poll) {
            // Another user took the name during the read, or others took the remaining room.
            return respond(out, request_id, Err(error));
        }
        let change = self.offsets.change(consumer, Some(last_offset), poll.by);
        // The change is not synced before the response, even with `fsync`. After a loss of power the messages are
        // delivered again, which consumers have to expect anyway, whereas a sync would make every poll as expensive as
        // an append. The background sync bounds the number of repeated messages.
        let durability = self.log.config().durability;
        (self.commits).answer(
            self.offsets,
            durability,
            (request_id, response),
            change,
            false,
            out,
        );
    }

    /// Range of removed messages between the start of a poll by offset and the first message found.
    fn gap(&self, poll: &Poll, found: &Messages) -> Option<Gap> {
        if !matches!(
            poll.strategy,
            PollingStrategy::Offset(_) | PollingStrategy::Next
        ) {
            return None;
        }
        let from = self.start_of(poll)?;
        let to = first_offset_of(found).unwrap_or_else(|| self.log.first_offset());
        (from < to).then_some(Gap { from, to })
    }

    /// Check that the poll needs no auto-commit, or the offset can be stored.
    fn check_commit(&self, poll: &Poll) -> Result<(), PartitionError> {
        let consumer = poll.consumer.filter(|_| poll.auto_commit);
        consumer.map_or(Ok(()), |consumer| {
            self.offsets.check_store(consumer, poll.by)
        })
    }

    /// Level at which the poll is worth repeating, if it found less than its minimum.
    fn level_for_minimum(&self, poll: &Poll, found: &Messages) -> Option<Level> {
        if found.size_bytes >= u64::from(poll.minimum_bytes) || found.messages_count >= poll.count {
            return None;
        }
        let end = self.log.visible_end();
        let rest_count = u64::from(poll.count - found.messages_count);
        let rest_bytes = u64::from(poll.minimum_bytes) - found.size_bytes;
        let next = Level {
            end: Offset(end.0.saturating_add(1)),
            bytes: u64::MAX,
        };
        let rest = Level {
            end: Offset(end.0.saturating_add(rest_count)),
            bytes: self.visible_bytes + rest_bytes,
        };
        match (found.last_offset, self.start_of(poll)) {
            // The read stopped before the end: a response cannot hold more.
            (Some(last), _) if last.advanced_by(1) < end => None,
            (Some(_), _) => Some(rest),
            (None, Some(start)) if start == end => Some(rest),
            (None, Some(start)) if start > end => Some(Level {
                end: Offset(start.0.saturating_add(1)),
                bytes: u64::MAX,
            }),
            // The number of matching messages is only known once the next message has arrived.
            (None, _) => Some(next),
        }
    }
}

/// Offset of the first message, taken from its header.
fn first_offset_of(found: &Messages) -> Option<Offset> {
    let header = found.slices.first()?.first_chunk::<HEADER_BYTES>()?;
    Some(Offset(HeaderView(header).offset()))
}

/// Offset of the last visible message; 0 if there is none.
pub(crate) fn last_visible(log: &Log) -> Offset {
    Offset(log.visible_end().0.saturating_sub(1))
}
