//! State of a partition, and handling of requests.

mod companions;
mod opening;
mod requests;
mod retention;
mod settle;

use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_buffer::{BufferPool, MemoryAccount, Purpose};
use headrace_log::storage::StorageCompletion;
use headrace_log::{Batch, Failure, Generation, Log, LogConfig};
use headrace_model::{Namespace, Offset, Opening, PartitionStatistics, Timestamp};

use crate::api::{ConsumerKey, Outbox, PartitionError, Request, RequestId, Response, respond};
use crate::appends::Appends;
use crate::commits::Commits;
use crate::flushes::Flushes;
use crate::offsets::StoredOffsets;
use crate::polls::{PendingPoll, Polling};
use crate::queue::QueuedRequests;
use crate::removals::Removals;
use crate::stages::Stages;

/// One partition: a step function, driven by its host.
///
/// The host calls [`submit`](Self::submit) for requests, [`complete`](Self::complete) for storage operations that
/// ended, [`end_of_turn`](Self::end_of_turn) once for every partition to which requests were submitted in a turn of its
/// loop, and [`tick`](Self::tick) when [`next_deadline`](Self::next_deadline) has come. Each call may push storage
/// operations and responses into the [`Outbox`]. Every request id is answered exactly once.
#[derive(Debug)]
pub struct Partition {
    log: Log,
    offsets: StoredOffsets,
    offsets_held: MemoryAccount,
    stages: Stages,
    statistics: Arc<PartitionStatistics>,
    /// Requests submitted before the partition was open.
    waiting: Option<QueuedRequests>,
    closing: bool,
    appends: Appends,
    polls: Vec<PendingPoll>,
    commits: Commits,
    flushes: Flushes,
    removals: Removals,
}

impl Partition {
    /// Start to open the partition from its files. Requests may be submitted at once; they are queued up to a bound.
    ///
    /// `seed` is the seed of random message ids; `statistics` is updated from this call on.
    pub fn open(
        config: LogConfig,
        statistics: Arc<PartitionStatistics>,
        pool: BufferPool,
        seed: u64,
        now: Timestamp,
        out: &mut Outbox,
    ) -> Self {
        let mut partition = Self {
            stages: Stages::new(&config, seed),
            offsets_held: MemoryAccount::new(pool.clone(), Purpose::Offsets),
            offsets: StoredOffsets::new(config.consumers_max as usize),
            log: Log::open(config, pool, seed, &mut out.storage),
            statistics,
            waiting: Some(QueuedRequests::default()),
            closing: false,
            appends: Appends::default(),
            polls: Vec::new(),
            commits: Commits::default(),
            flushes: Flushes::default(),
            removals: Removals::default(),
        };
        partition.advance(now, out);
        partition
    }

    /// Handle a request. The response appears in `out.answers` of this or a later call.
    pub fn submit(
        &mut self,
        now: Timestamp,
        request_id: RequestId,
        request: Request,
        out: &mut Outbox,
    ) {
        if self.closing {
            return respond(out, request_id, Err(PartitionError::Closed));
        }
        if let Some(failure) = self.unreadable() {
            return respond(out, request_id, Err(PartitionError::Failed(failure)));
        }
        if let Some(waiting) = &mut self.waiting {
            if let Err(error) = waiting.push(request_id, request) {
                respond(out, request_id, Err(error));
            }
            return;
        }
        self.handle(now, request_id, request, out);
        self.update_statistics();
    }

    /// Append a small batch by copying its messages out of a buffer that stays in use.
    pub fn append_copied(
        &mut self,
        now: Timestamp,
        request_id: RequestId,
        messages: &mut [u8],
        messages_count: u32,
        out: &mut Outbox,
    ) {
        if self.closing
            || self.waiting.is_some()
            || self.log.failure().is_some()
            || self.withheld().is_some()
            || self.stages.publishing.holds_appends()
        {
            let batch = Batch::copied(messages, messages_count);
            return self.submit(now, request_id, Request::Append { batch }, out);
        }
        let appended = self.log.append_copied(now, messages, messages_count);
        let visible_end = self.log.visible_end();
        (self.appends).acknowledge(request_id, messages.len(), appended, visible_end, out);
        self.update_statistics();
    }

    /// Handle the completion of a storage operation.
    ///
    /// # Panics
    /// If the partition did not request the operation, or it was completed before.
    pub fn complete(&mut self, now: Timestamp, completion: StorageCompletion, out: &mut Outbox) {
        if StoredOffsets::owns(completion.id) {
            self.complete_offsets(now, completion, out);
        } else if Stages::owns(completion.id) {
            self.complete_stages(now, completion, out);
        } else {
            self.log.complete(now, completion, &mut out.storage);
        }
        self.advance(now, out);
    }

    /// End a turn: write everything queued in it as one group.
    pub fn end_of_turn(&mut self, now: Timestamp, out: &mut Outbox) {
        self.log.end_of_turn(now, &mut out.storage);
        self.advance(now, out);
    }

    /// Handle the deadline that `next_deadline` returned.
    pub fn tick(&mut self, now: Timestamp, out: &mut Outbox) {
        self.log.tick(now, &mut out.storage);
        self.advance(now, out);
    }

    /// Time of the next required call of `tick`; None for an idle partition.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = [
            self.log.next_deadline(),
            self.offsets.deadline(),
            self.stages.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Drop all messages and stored offsets; the next message gets offset 0.
    ///
    /// `epoch` comes from the catalog and grows with every purge. An epoch that was reached before has no effect, so
    /// repeating a purge after a crash is harmless. Requests accepted before count as fulfilled. `statistics` is
    /// updated from this call on, so that its readers never see values from before the purge.
    pub fn purge(
        &mut self,
        epoch: u64,
        statistics: Arc<PartitionStatistics>,
        now: Timestamp,
        out: &mut Outbox,
    ) {
        self.statistics = statistics;
        if epoch <= self.log.generation().purge_epoch || self.is_closed() {
            self.update_statistics();
            return;
        }
        let was_open = self.log.is_open();
        self.log.purge(epoch, &mut out.storage);
        if !was_open {
            self.stages.restart_loading();
        }
        self.stages.purge(&mut out.storage);
        self.offsets.reset(was_open && self.waiting.is_none());
        self.offsets.set_tag(self.offsets_tag());
        self.log.defer_wipe(!self.offsets.is_drained());
        if !was_open && self.waiting.is_none() {
            self.waiting = Some(QueuedRequests::default());
        }
        self.appends.fulfil(out);
        self.flushes.end(&Ok(Response::Done), out);
        self.log.end_of_turn(now, &mut out.storage);
        self.advance(now, out);
    }

    /// Write and sync everything, answer all requests, and refuse new ones. Continue to complete operations until
    /// [`is_closed`](Self::is_closed).
    pub fn close(&mut self, now: Timestamp, out: &mut Outbox) {
        self.closing = true;
        if let Some(waiting) = self.waiting.take() {
            waiting.refuse(&PartitionError::Closed, out);
            self.offsets.drop_waiting();
            self.stages.give_up_waiting();
        }
        self.offsets.close();
        self.log.close(now, &mut out.storage);
        self.advance(now, out);
    }

    /// Return whether closing is complete: no storage operation is under way and none will follow.
    pub fn is_closed(&self) -> bool {
        self.log.is_closed()
            && self.offsets.is_drained()
            && self.stages.is_drained()
            && (self.log.failure().is_some() || self.offsets.is_settled())
    }

    /// Return whether no operation is under way and no request waits.
    pub fn is_idle(&self) -> bool {
        self.log.is_idle()
            && self.offsets.is_drained()
            && self.stages.is_drained()
            && self.stages.publishing.is_idle()
            && self.waiting.is_none()
            && self.appends.is_empty()
            && self.polls.is_empty()
            && self.commits.is_empty()
    }

    /// Return the stored offset of a consumer.
    pub fn stored_offset(&self, consumer: ConsumerKey) -> Option<Offset> {
        self.offsets.get(consumer)
    }

    /// Delete the stored offsets of groups that do not exist any more. Returns true if changes have to be written with
    /// the next [`end_of_turn`](Self::end_of_turn).
    pub fn delete_offsets_of_missing_groups(&mut self, exists: impl Fn(u32) -> bool) -> bool {
        if !self.is_open() || self.closing || self.log.failure().is_some() {
            return false;
        }
        let gone: Vec<u32> = self.offsets.groups().filter(|key| !exists(*key)).collect();
        for key in &gone {
            self.offsets.change(ConsumerKey::Group(*key), None, None);
        }
        !gone.is_empty()
    }

    /// Reason why the partition is read-only or out of service, if it is.
    pub fn failure(&self) -> Option<&Failure> {
        self.log.failure().map(|failure| &**failure)
    }

    /// Return whether the directory is another partition's.
    pub fn is_foreign(&self) -> bool {
        self.log.is_foreign()
    }

    /// Return whether the partition is open: its files are loaded and requests are handled at once.
    pub fn is_open(&self) -> bool {
        self.waiting.is_none() && self.log.is_open()
    }

    /// Offset of the next message.
    pub fn next_offset(&self) -> Offset {
        self.log.next_offset()
    }

    /// End of the messages in the log file.
    pub fn written_end(&self) -> Offset {
        self.log.written_end()
    }

    /// End of the messages on the device.
    pub fn synced_end(&self) -> Offset {
        self.log.synced_end()
    }

    /// End of the messages visible to polls.
    pub fn visible_end(&self) -> Offset {
        self.log.visible_end()
    }

    /// Identity of the partition.
    pub fn namespace(&self) -> Namespace {
        self.log.config().namespace
    }

    /// Statistics of the partition.
    pub fn statistics(&self) -> &PartitionStatistics {
        &self.statistics
    }

    /// Generation of the partition's log.
    pub fn generation(&self) -> Generation {
        self.log.generation()
    }

    /// Openings of the partition's log, ascending, up to the present one. See [`headrace_model::cut_since`].
    pub fn openings(&self) -> &Arc<[Opening]> {
        self.log.openings()
    }

    /// First offset retained.
    pub fn first_offset(&self) -> Offset {
        self.log.first_offset()
    }

    /// Progress counter: the total size of all batches that became visible. Not the size of the partition.
    pub fn visible_bytes(&self) -> u64 {
        self.appends.visible_bytes()
    }

    /// Number of the last change of a stored offset.
    pub fn offsets_version(&self) -> u64 {
        self.offsets.version()
    }

    /// Return true if a batch of that many bytes would be accepted now, or refused for good. If false, the host keeps
    /// the batch and everything behind it until the partition is open and some queued messages were written. A refusal
    /// instead would make clients pay for a slow disk, and let a producer's next batch overtake the refused one.
    pub fn has_room_for(&self, length: usize) -> bool {
        self.closing
            || self.failure().is_some()
            || self.is_open() && self.withheld().is_some()
            || self.is_open()
                && !self.stages.publishing.holds_appends()
                && self.log.has_room_for(length)
    }

    /// Memory in bytes that holds messages.
    pub fn memory_bytes(&self) -> u64 {
        self.log.memory_bytes()
    }

    /// Memory of the segment indexes in bytes.
    pub fn index_bytes(&self) -> u64 {
        self.log.index_bytes()
    }

    /// Memory of the stored offsets in bytes.
    pub fn offsets_bytes(&self) -> u64 {
        self.offsets.memory_bytes()
    }

    /// Time at which the data that [`evict_oldest`](Self::evict_oldest) would evict was appended or read. None if
    /// nothing is cached.
    pub fn oldest_cached(&self) -> Option<Timestamp> {
        self.log.oldest_cached()
    }

    /// Evict the oldest messages that are in memory only to speed up polls. Returns the memory they occupied.
    pub fn evict_oldest(&mut self) -> u64 {
        self.log.evict_oldest()
    }

    /// Evict indexes that can be loaded again.
    pub fn unload_indexes(&mut self) {
        self.log.unload_indexes();
    }

    fn polling(&mut self) -> Polling<'_> {
        Polling {
            waiting: &mut self.polls,
            log: &mut self.log,
            offsets: &mut self.offsets,
            commits: &mut self.commits,
            visible_bytes: self.appends.visible_bytes(),
        }
    }

    fn unreadable(&self) -> Option<Arc<Failure>> {
        let failure = self.log.failure()?;
        (!failure.readable).then(|| failure.clone())
    }
}
