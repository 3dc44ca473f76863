//! Reading of the partitions of a consumer.

use std::time::Duration;

use bytes::Bytes;
use headrace_model::{Offset, cut_since};
use headrace_wire::command::{PollMessages, WaitMessages};
use headrace_wire::message::Messages;
use headrace_wire::response::{
    POLLED_HEADER_BYTES, PolledHeader, ReadAnswer, WatchedLog, WatchedPartition, decode_list,
};
use headrace_wire::{Command, CommandCode, Malformed, Status};

use super::effects::{Batch, ConsumerEffect, DataToken, Item, WatchToken};
use super::joining::malformed;
use super::partition::Watched;
use super::{Consumer, Phase};
use crate::{Failure, Outcome, Repeat, Request};

/// Reads in flight: while one answer is received, the server prepares the next.
const READS_MAX: usize = 2;

impl<C> Consumer<C> {
    /// Process an answer on the data session.
    pub fn data_answered(&mut self, token: DataToken<C>, outcome: Outcome, now: Duration) {
        match token {
            DataToken::Read { partition, epoch } => self.has_read(partition, epoch, outcome),
            DataToken::StoredOffset { partition, epoch } => {
                self.found_offset(partition, epoch, outcome);
            }
            DataToken::Commit(token) => self.committed(token, outcome),
            DataToken::Leave => self.effects.push_back(ConsumerEffect::Left),
            token => self.joined(token, outcome, now),
        }
    }

    /// Process an answer on the watch session.
    pub fn watch_answered(&mut self, token: WatchToken, outcome: Outcome) {
        // The session reports the loss of its connection itself, and partitions that are not watched are ignored.
        let Err(failure @ Failure::Refused { .. }) = outcome else {
            return;
        };
        match token {
            WatchToken::AddNamingOpenings if failure.status() == Some(Status::INVALID_COMMAND) => {
                self.names_openings = false;
                let missing = (self.partitions.iter()).filter(|(_, found)| !found.is_watched);
                let missing: Vec<u32> = missing.map(|(id, _)| *id).collect();
                self.watch_partitions(&missing);
            }
            WatchToken::Add | WatchToken::AddNamingOpenings => self.not_watched(failure),
            WatchToken::Remove => {}
        }
    }

    /// Partitions are not watched, because of a refusal. They are added again at the next heartbeat, unless it is final.
    fn not_watched(&mut self, failure: Failure) {
        if failure.is_temporary() {
            self.refusal = Some(failure);
            return;
        }
        if failure.status() == Some(Status::PARTITION_NOT_FOUND)
            && self.config.membership.can_change()
        {
            // Removed, or too new for the server of the watch session: the list of partitions decides.
            return self.beat();
        }
        self.fail(failure);
    }

    /// Process reports of the watch session.
    pub fn watch_notified(&mut self, payload: &[u8]) {
        if self.phase == Phase::Ended {
            return;
        }
        let reports = if self.names_openings {
            decode_list::<WatchedLog>(payload)
        } else {
            let states = decode_list::<WatchedPartition>(payload);
            states.map(|states| states.into_iter().map(WatchedLog::from).collect())
        };
        let reports = match reports {
            Ok(reports) => reports,
            Err(error) => return self.fail(malformed(CommandCode::WatchPartitions, error)),
        };
        for report in reports {
            self.reported(&report);
        }
        self.read_more();
    }

    fn reported(&mut self, log: &WatchedLog) {
        let report = &log.state;
        let id = report.partition_id;
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        if !report.status.is_ok() {
            partition.is_watched = false;
            return self.not_watched(Failure::Refused {
                code: CommandCode::WatchPartitions.code(),
                status: report.status,
                explanation: format!(
                    "topic {} in stream {}: {}",
                    self.topic,
                    self.stream,
                    report.status.description()
                ),
            });
        }
        let watched = Watched {
            incarnation: report.incarnation,
            purge_epoch: report.purge_epoch,
            first_offset: report.first_offset,
            next_offset: report.next_offset,
            epoch: log.openings.last().map_or(0, |present| present.epoch),
        };
        let was_reported = partition.watch(watched);
        match self.logs.insert(id, watched) {
            Some(before) if !before.is_same_log(&watched) => self.log_replaced(id, was_reported),
            Some(before) => {
                // It may have grown beyond its former end since.
                let known = Offset(before.next_offset);
                let cut = cut_since(&log.openings, before.epoch, known).map(|end| end.0);
                let is_shorter = watched.next_offset < before.next_offset;
                if let Some(end) = cut.or(is_shorter.then_some(watched.next_offset)) {
                    self.log_cut(id, before.next_offset, end);
                }
            }
            None => {}
        }
        self.settle_end(id);
    }

    /// Offsets of a partition mean other messages than before: it was purged, or is a new one under the same name. That
    /// may have happened while another member owned it.
    fn log_replaced(&mut self, id: u32, was_reported: bool) {
        self.note_processed(id, 0);
        let stores_offsets = self.config.membership.consumer().is_some();
        let epoch = self.next_epoch();
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        if stores_offsets && partition.is_untouched() {
            // The offset may have been found in the former log, and other members may have read this one.
            partition.forget_position(epoch);
            self.query_offset(id);
        } else if was_reported {
            partition.restart(epoch);
        } else {
            // The caller has just chosen the place.
            return;
        }
        self.item(Item::Reset { partition: id });
    }

    /// A log has lost its last messages, with the power of its node: new ones get their offsets. Reports arrive in the
    /// order in which they were made, so none that is merely late looks like this.
    fn log_cut(&mut self, id: u32, before: u64, end: u64) {
        let processed = self.processed.get(&id).copied().unwrap_or(0);
        if end < processed {
            self.processed.insert(id, end);
        }
        let epoch = self.next_epoch();
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.cut(before.max(processed), end, epoch);
        }
    }

    /// Read partitions that have messages, in turn, while there is room for their messages.
    pub(super) fn read_more(&mut self) {
        while self.phase == Phase::Reading
            && self.reads_in_flight < READS_MAX
            && self.prefetched_bytes < self.config.prefetch_bytes
        {
            let after = self.partitions.range(self.last_read.saturating_add(1)..);
            let before = self.partitions.range(..=self.last_read);
            let mut turns = after
                .chain(before)
                .filter(|(id, _)| !self.paused.contains(id));
            let found = turns
                .find_map(|(id, partition)| Some((*id, partition.epoch, partition.strategy()?)));
            let Some((id, epoch, strategy)) = found else {
                return;
            };
            let command = Command::ReadMessages(WaitMessages {
                poll: PollMessages {
                    consumer: self.reader(),
                    stream: self.stream.as_identifier(),
                    topic: self.topic.as_identifier(),
                    partition_id: Some(id),
                    strategy,
                    count: self.config.batch_messages,
                    auto_commit: false,
                },
                minimum_bytes: 0,
                maximum_wait_micros: 0,
            });
            let request = Request::new(&command, Repeat::Bound(self.generation));
            self.last_read = id;
            self.reads_in_flight += 1;
            if let Some(partition) = self.partitions.get_mut(&id) {
                partition.begin_read();
            }
            let token = DataToken::Read {
                partition: id,
                epoch,
            };
            self.submit(request, token);
        }
    }

    fn has_read(&mut self, id: u32, epoch: u32, outcome: Outcome) {
        self.reads_in_flight = self.reads_in_flight.saturating_sub(1);
        let is_current = (self.partitions.get(&id)).is_some_and(|found| found.epoch == epoch);
        match outcome {
            _ if self.phase == Phase::Ended => return,
            // The session has lost its connection, or has ended, and reports it itself.
            Err(failure) if failure.status().is_none() => {
                if let Some(partition) = self.partitions.get_mut(&id).filter(|_| is_current) {
                    partition.read_failed();
                }
                return;
            }
            _ if !is_current => {}
            Ok(payload) => self.take_messages(id, epoch, &payload),
            Err(failure) => self.read_failed(id, failure),
        }
        self.report_revoked();
        self.read_more();
    }

    fn take_messages(&mut self, id: u32, epoch: u32, payload: &Bytes) {
        let answer = match ReadAnswer::decode(payload) {
            Ok(answer) => answer,
            Err(error) => return self.fail(malformed(CommandCode::ReadMessages, error)),
        };
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        let gap = (answer.gap.from < answer.gap.to).then_some((answer.gap.from, answer.gap.to));
        if let Some((from, to)) = gap {
            partition.read_up_to(to);
            self.item(Item::Gap {
                partition: id,
                from,
                to,
            });
        }
        let messages = answer.polled.message_bytes;
        let ends = match ends(messages) {
            Ok(ends) => ends,
            Err(error) => return self.fail(malformed(CommandCode::ReadMessages, error)),
        };
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        let Some((first_offset, next_offset)) = ends else {
            if gap.is_none() {
                partition.found_nothing(answer.polled.header != PolledHeader::default());
            }
            return;
        };
        partition.read_up_to(next_offset);
        self.prefetched_bytes += messages.len();
        self.item(Item::Batch(Batch {
            partition: id,
            epoch,
            polled: payload.slice(payload.len() - messages.len() - POLLED_HEADER_BYTES..),
            messages: payload.slice_ref(messages),
            messages_count: answer.polled.header.messages_count,
            first_offset,
            next_offset,
            partition_end: answer.polled.header.current_offset + 1,
        }));
    }

    fn read_failed(&mut self, id: u32, failure: Failure) {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        match failure.status() {
            // Its node is away for the moment.
            _ if failure.is_temporary() => {
                partition.block();
                self.refusal = Some(failure);
            }
            // It has moved to another member, or is about to: the next heartbeat shows it.
            Some(Status::NOT_RESOLVED_CONSUMER) => partition.found_nothing(false),
            // The membership has ended, or the partition was removed: the list of partitions decides.
            Some(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND | Status::PARTITION_NOT_FOUND)
                if self.config.membership.can_change() =>
            {
                partition.block();
                self.beat();
            }
            _ => self.fail(failure),
        }
    }
}

/// Offset of the first message and the one after the last; `None` without messages.
fn ends(messages: &[u8]) -> Result<Option<(u64, u64)>, Malformed> {
    let mut ends = None;
    for message in Messages::new(messages) {
        let offset = message?.header().offset();
        let (first, _) = ends.unwrap_or((offset, offset));
        ends = Some((first, offset.saturating_add(1)));
    }
    Ok(ends)
}
