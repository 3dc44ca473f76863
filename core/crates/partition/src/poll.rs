//! Polls: the five strategies, and auto-commit (LOG-9).

use headrace_log::{Messages, ReadError, ReadFrom, ReadId, Started};
use headrace_model::{Offset, Timestamp};
use headrace_wire::PollingStrategy;

use crate::api::{ConsumerKey, Outbox, Polled, Response, Ticket};
use crate::partition::{Partition, answer};

/// A poll that waits for the storage.
#[derive(Debug)]
pub(crate) struct PendingPoll {
    read: ReadId,
    ticket: Ticket,
    commit_for: Option<ConsumerKey>,
}

impl Partition {
    pub(crate) fn poll(
        &mut self,
        ticket: Ticket,
        strategy: PollingStrategy,
        count: u32,
        consumer: Option<ConsumerKey>,
        commit_for: Option<ConsumerKey>,
        out: &mut Outbox,
    ) {
        let first = self.log.first_offset();
        let from = match strategy {
            PollingStrategy::Offset(offset) => ReadFrom::Offset(Offset(offset)),
            PollingStrategy::Timestamp(timestamp) => ReadFrom::Timestamp(Timestamp(timestamp)),
            PollingStrategy::First => ReadFrom::Offset(first),
            PollingStrategy::Last => {
                let end = self.log.visible_end().0;
                ReadFrom::Offset(Offset(end.saturating_sub(u64::from(count))))
            }
            PollingStrategy::Next => {
                let stored = consumer.and_then(|consumer| self.offsets.get(consumer));
                ReadFrom::Offset(stored.map_or(first, |stored| stored.advanced_by(1)))
            }
        };
        match self.log.read(from, count, &mut out.storage) {
            Started::Done(result) => self.finish_poll(ticket, commit_for, result, out),
            Started::Pending(read) => self.polls.push(PendingPoll {
                read,
                ticket,
                commit_for,
            }),
        }
    }

    /// Answer polls the reads of which have ended.
    pub(crate) fn settle_polls(&mut self, out: &mut Outbox) {
        while let Some((read, result)) = self.log.take_finished_read() {
            let index = self.polls.iter().position(|poll| poll.read == read);
            let poll = self
                .polls
                .swap_remove(index.expect("every read is a poll's"));
            self.finish_poll(poll.ticket, poll.commit_for, result, out);
        }
        self.start_offsets(out);
    }

    fn finish_poll(
        &mut self,
        ticket: Ticket,
        commit_for: Option<ConsumerKey>,
        result: Result<Messages, ReadError>,
        out: &mut Outbox,
    ) {
        let messages = match result {
            Ok(messages) => messages,
            Err(error) => return answer(out, ticket, Err(error.into())),
        };
        let last_offset = messages.last_offset;
        let response = Response::Polled(Polled {
            current_offset: self.current_offset(),
            last_offset,
            messages_count: messages.messages_count,
            slices: messages.slices,
            size_bytes: messages.size_bytes,
        });
        let (Some(consumer), Some(last_offset)) = (commit_for, last_offset) else {
            return answer(out, ticket, Ok(response));
        };
        let change = self.offsets.change(consumer, Some(last_offset));
        // Not synced even with `fsync`: after a loss of power the messages are handed out again, which a consumer has
        // to expect anyway, while a sync would cost every poll what an append costs.
        self.answer_when_stored(ticket, change, false, response, out);
    }
}
