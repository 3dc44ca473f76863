//! Reading of a topic: as a member of a group, or alone.
//!
//! Two sessions serve a consumer. The *data* session joins the group, reads and stores offsets; nothing on it ever
//! waits. The *watch* session reports which partitions have messages, so that a consumer without messages costs
//! nothing.

mod effects;
mod joining;
mod partition;
mod reading;
mod settings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use headrace_wire::command::GroupPath;
use headrace_wire::{
    Command, CommandCode, Consumer as WireConsumer, ConsumerKind, Identifier, Status,
};

pub use self::effects::{Batch, ConsumerEffect, DataToken, Item, WatchToken};
use self::partition::{Partition, Watched};
pub use self::settings::{ConsumerConfig, Membership, Start};
use crate::{Failure, Outcome, OwnedIdentifier, Repeat, Request};

/// Time of refusals in each heartbeat until they are reported.
const REFUSED_MAX: Duration = Duration::from_secs(30);

/// Progress towards reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The data session is not open.
    Disconnected,
    /// Requests that lead to the partitions are in flight.
    Joining,
    /// The partitions are known.
    Reading,
    /// The consumer has left, or has failed.
    Ended,
}

/// A consumer of one topic. `C` is a token of the caller for its commits.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a conversation"
)]
pub struct Consumer<C> {
    config: ConsumerConfig,
    stream: OwnedIdentifier,
    topic: OwnedIdentifier,
    phase: Phase,
    /// Number of the data session's present connection.
    generation: u64,
    /// Number of the watch session's present connection; `None` while there is none.
    watch: Option<u64>,
    /// The server names the openings of logs, by which a cut is noticed. One of an earlier release refuses that.
    names_openings: bool,
    partitions: BTreeMap<u32, Partition>,
    /// Partitions that the caller has paused. A pause outlasts a lost connection, and ends when another member has the
    /// partition after the first answer of the next one.
    paused: BTreeSet<u32>,
    /// Offset after the last processed message, by partition, of partitions that were owned. It outlives the ownership
    /// until another position is known.
    processed: BTreeMap<u32, u64>,
    /// Last report by partition, of partitions that were owned: it shows whether `processed` means the same log still.
    logs: BTreeMap<u32, Watched>,
    /// Number that the next partition or position gets: answers to earlier ones are ignored.
    epochs: u32,
    /// Partition after which the next one is read.
    last_read: u32,
    reads_in_flight: usize,
    /// Bytes that were handed out and are not taken yet.
    prefetched_bytes: usize,
    heartbeat_at: Duration,
    /// Refusal for the moment since the last heartbeat, and the time since which there was one in each.
    refusal: Option<Failure>,
    refused_since: Option<Duration>,
    is_heartbeat_in_flight: bool,
    /// Joining begins again at the next heartbeat.
    is_join_delayed: bool,
    commits_in_flight: usize,
    /// The caller waits until it has left.
    is_leaving: bool,
    effects: VecDeque<ConsumerEffect<C>>,
}

impl<C> Consumer<C> {
    /// Create a consumer; it begins with [`Self::data_opened`] and [`Self::watch_opened`].
    pub fn new(config: ConsumerConfig, stream: OwnedIdentifier, topic: OwnedIdentifier) -> Self {
        Self {
            config,
            stream,
            topic,
            phase: Phase::Disconnected,
            generation: 0,
            watch: None,
            names_openings: true,
            partitions: BTreeMap::new(),
            paused: BTreeSet::new(),
            processed: BTreeMap::new(),
            logs: BTreeMap::new(),
            epochs: 0,
            last_read: u32::MAX,
            reads_in_flight: 0,
            prefetched_bytes: 0,
            heartbeat_at: Duration::ZERO,
            refusal: None,
            refused_since: None,
            is_heartbeat_in_flight: false,
            is_join_delayed: false,
            commits_in_flight: 0,
            is_leaving: false,
            effects: VecDeque::new(),
        }
    }

    /// Take the next effect.
    pub fn next_effect(&mut self) -> Option<ConsumerEffect<C>> {
        self.effects.pop_front()
    }

    /// Ids of the partitions that this consumer reads, ascending.
    pub fn assigned(&self) -> Vec<u32> {
        self.partitions.keys().copied().collect()
    }

    /// Offsets of a partition: the next one to be read, if known, and the one after the last readable message.
    pub fn position(&self, partition: u32) -> Option<(Option<u64>, u64)> {
        let found = self.partitions.get(&partition)?;
        Some((found.next_offset(), found.end()))
    }

    /// Return whether the partitions are known, and where each of them is read: a place at the end is fixed.
    pub fn is_positioned(&self) -> bool {
        self.phase == Phase::Reading && self.partitions.values().all(Partition::is_settled_at)
    }

    /// The data session is open.
    pub fn data_opened(&mut self, generation: u64, now: Duration) {
        if self.phase == Phase::Ended {
            return;
        }
        self.generation = generation;
        self.reads_in_flight = 0;
        self.is_heartbeat_in_flight = false;
        self.phase = Phase::Joining;
        self.heartbeat_at = now + self.config.heartbeat;
        self.join();
    }

    /// The data session has lost its connection. A member loses its partitions with it.
    pub fn data_lost(&mut self) {
        if self.phase == Phase::Ended {
            return self.leave_alone();
        }
        self.phase = Phase::Disconnected;
        self.reads_in_flight = 0;
        self.is_heartbeat_in_flight = false;
        if self.config.membership.is_group() {
            let lost: Vec<_> = self.partitions.keys().copied().collect();
            self.drop_partitions(&lost);
        } else {
            for partition in self.partitions.values_mut() {
                partition.read_failed();
                partition.is_querying = false;
            }
        }
    }

    /// The watch session is open.
    pub fn watch_opened(&mut self, generation: u64) {
        self.watch = Some(generation);
        // Reports on this connection are newer than everything that was read before.
        for (id, log) in &mut self.logs {
            let processed = self.processed.get(id).copied();
            let read = self.partitions.get(id).and_then(Partition::read_end);
            let ends = processed.into_iter().chain(read);
            log.next_offset = ends.fold(log.next_offset, u64::max);
        }
        let owned = self.assigned();
        self.watch_partitions(&owned);
    }

    /// The watch session has lost its connection.
    pub fn watch_lost(&mut self) {
        self.watch = None;
        for partition in self.partitions.values_mut() {
            partition.is_watched = false;
        }
    }

    /// Let time pass.
    pub fn tick(&mut self, now: Duration) {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        self.heartbeat_at = now + self.config.heartbeat;
        self.report_refusals(now);
        if self.phase == Phase::Joining {
            return self.join();
        }
        for partition in self.partitions.values_mut() {
            partition.unblock();
        }
        let unwatched = self
            .partitions
            .iter()
            .filter(|(_, found)| !found.is_watched);
        let unwatched: Vec<_> = unwatched.map(|(id, _)| *id).collect();
        self.watch_partitions(&unwatched);
        self.query_offsets();
        self.beat();
        self.read_more();
    }

    /// Report that the server refuses requests of this consumer for long, although each of them may be repeated.
    fn report_refusals(&mut self, now: Duration) {
        let Some(failure) = self.refusal.take() else {
            self.refused_since = None;
            return;
        };
        let since = *self.refused_since.get_or_insert(now);
        if now.saturating_sub(since) >= REFUSED_MAX {
            self.refused_since = Some(now);
            self.item(Item::Refused(failure));
        }
    }

    /// Time at which [`Self::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        let waits = match self.phase {
            Phase::Reading => true,
            Phase::Joining => self.is_join_delayed,
            Phase::Disconnected | Phase::Ended => false,
        };
        waits.then_some(self.heartbeat_at)
    }

    /// Stop to read partitions; batches that were handed out stay. Partitions of others are ignored, unless the consumer
    /// is about to get its partitions again.
    pub fn pause(&mut self, partitions: &[u32]) {
        for id in partitions {
            if self.phase != Phase::Reading || self.partitions.contains_key(id) {
                self.paused.insert(*id);
            }
        }
    }

    /// Continue to read partitions; without any, all of them.
    pub fn resume(&mut self, partitions: &[u32]) {
        if partitions.is_empty() {
            self.paused.clear();
        }
        for id in partitions {
            self.paused.remove(id);
        }
        self.read_more();
    }

    /// Continue at another place. Batches of the partition that were handed out before have an older epoch. Returns the
    /// new epoch; `None` if the consumer does not own the partition.
    pub fn seek(&mut self, partition: u32, start: Start) -> Option<u32> {
        let epoch = self.next_epoch();
        self.processed.remove(&partition);
        let found = self.partitions.get_mut(&partition)?;
        found.choose(start, epoch);
        self.settle_end(partition);
        self.read_more();
        Some(epoch)
    }

    /// Batches of this size were taken, or dropped: there is room for others.
    pub fn taken(&mut self, bytes: usize) {
        self.prefetched_bytes = self.prefetched_bytes.saturating_sub(bytes);
        self.read_more();
    }

    /// Note the offset after the last processed message of a partition. A consumer that gets the partition again after
    /// a lost connection continues there if the stored offset is not beyond it. With 0 it reads everything that the log
    /// has, except what is older than the time at which it begins.
    pub fn note_processed(&mut self, partition: u32, next_offset: u64) {
        if next_offset == 0 && matches!(self.config.start, Start::Timestamp(_)) {
            self.processed.remove(&partition);
        } else {
            self.processed.insert(partition, next_offset);
        }
    }

    /// Store the offset of the last processed message. A member that got the partition again is refused if the message is
    /// of before, and another member has been further.
    pub fn commit(&mut self, partition: u32, offset: u64, token: C) {
        let Some(consumer) = self.config.membership.consumer() else {
            let failure = Failure::Unrepresentable {
                reason: "a consumer without a name or group stores no offsets".to_owned(),
            };
            return self.effects.push_back(ConsumerEffect::Committed {
                token,
                outcome: Err(failure),
            });
        };
        if self.is_outdated(partition, offset) {
            let failure = Failure::Refused {
                code: CommandCode::StoreConsumerOffset.code(),
                status: Status::NOT_RESOLVED_CONSUMER,
                explanation: format!(
                    "partition {partition} was taken away after offset {offset} was read"
                ),
            };
            return self.effects.push_back(ConsumerEffect::Committed {
                token,
                outcome: Err(failure),
            });
        }
        let command = Command::StoreConsumerOffset(headrace_wire::command::StoreConsumerOffset {
            path: headrace_wire::command::ConsumerOffsetPath {
                consumer,
                stream: self.stream.as_identifier(),
                topic: self.topic.as_identifier(),
                partition_id: Some(partition),
            },
            offset,
        });
        if let Some(found) = self.partitions.get_mut(&partition) {
            found.stored = found.stored.max(offset.saturating_add(1));
        }
        // A membership ends with its connection, and with it the right to store.
        let repeat = if self.config.membership.is_group() {
            Repeat::Bound(self.generation)
        } else {
            Repeat::Always
        };
        match Request::new(&command, repeat) {
            Ok(request) => {
                let token = DataToken::Commit(token);
                self.commits_in_flight += 1;
                self.effects
                    .push_back(ConsumerEffect::Data { request, token });
            }
            Err(failure) => self.effects.push_back(ConsumerEffect::Committed {
                token,
                outcome: Err(failure),
            }),
        }
    }

    /// Return whether an offset of a member is of an earlier assignment. The server knows only the present owner, and the
    /// caller may not have taken [`Item::Lost`] yet.
    fn is_outdated(&self, partition: u32, offset: u64) -> bool {
        let is_connected = self.phase != Phase::Disconnected;
        let next_offset = offset.saturating_add(1);
        let found = self.partitions.get(&partition);
        self.is_member()
            && is_connected
            && !found.is_some_and(|found| found.may_continue_at(next_offset))
    }

    /// End the membership; [`ConsumerEffect::Left`] follows, after the commits in flight.
    pub fn leave(&mut self) {
        if self.is_leaving {
            return;
        }
        let was_open = matches!(self.phase, Phase::Reading | Phase::Joining);
        self.phase = Phase::Ended;
        self.is_leaving = true;
        if was_open && let Some(group) = self.config.membership.group() {
            let command = Command::LeaveConsumerGroup(self.group_path(group));
            let request = Request::new(&command, Repeat::Bound(self.generation));
            self.submit(request, DataToken::Leave);
        } else if !was_open || self.commits_in_flight == 0 {
            self.effects.push_back(ConsumerEffect::Left);
        }
    }

    /// A consumer without a group has left when its commits are answered, or would have to wait for a connection.
    fn leave_alone(&mut self) {
        if self.is_leaving && !self.config.membership.is_group() {
            self.effects.push_back(ConsumerEffect::Left);
        }
    }

    fn committed(&mut self, token: C, outcome: Outcome) {
        self.commits_in_flight = self.commits_in_flight.saturating_sub(1);
        self.effects.push_back(ConsumerEffect::Committed {
            token,
            outcome: outcome.map(|_| ()),
        });
        if self.commits_in_flight == 0 {
            self.leave_alone();
        }
    }

    /// Return whether it is a member of a group.
    pub fn is_member(&self) -> bool {
        self.config.membership.is_group()
    }

    /// End it with a failure, which is handed out.
    pub fn end(&mut self, failure: Failure) {
        self.fail(failure);
    }

    /// Note the end of a partition whose reading begins there, as soon as it is known. After a lost connection reading
    /// continues there, and not at the end of that time.
    fn settle_end(&mut self, id: u32) {
        let found = self.partitions.get_mut(&id);
        if let Some(end) = found.and_then(Partition::settle_end) {
            self.processed.insert(id, end);
        }
    }

    fn next_epoch(&mut self) -> u32 {
        self.epochs += 1;
        self.epochs
    }

    fn fail(&mut self, failure: Failure) {
        if self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            self.item(Item::Failed(failure));
        }
    }

    fn item(&mut self, item: Item) {
        self.effects.push_back(ConsumerEffect::Item(item));
    }

    fn submit(&mut self, request: Result<Request, Failure>, token: DataToken<C>) {
        match request {
            Ok(request) => self
                .effects
                .push_back(ConsumerEffect::Data { request, token }),
            Err(failure) => self.fail(failure),
        }
    }

    fn group_path<'a>(&'a self, group: Identifier<'a>) -> GroupPath<'a> {
        GroupPath {
            stream: self.stream.as_identifier(),
            topic: self.topic.as_identifier(),
            group,
        }
    }

    /// Consumer in requests to read: any, if none is named.
    fn reader(&self) -> WireConsumer<'_> {
        self.config.membership.consumer().unwrap_or(WireConsumer {
            kind: ConsumerKind::Consumer,
            id: Identifier::Numeric(0),
        })
    }
}

#[cfg(test)]
mod tests;
