//! Partitions that this shard owns.
//!
//! The catalog decides which partitions exist and where: [`lives`] applies it.

mod agenda;
mod caches;
mod cleaning;
pub(crate) mod damage;
mod deadlines;
mod groups;
mod isolation;
mod lives;
pub(crate) mod members;
mod origins;
mod outcomes;
mod publications;
mod publishing;
mod state;
mod steps;
mod traces;
mod waiters;
mod waiting;
mod watchers;
mod watching;

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_buffer::BufferPool;
use headrace_catalog::Catalog;
use headrace_link::Refusal;
use headrace_log::storage::{StorageCompletion, StorageOutcome};
use headrace_model::{Namespace, Timestamp};
use headrace_partition::{Batch, Partition, PartitionError, Request};

pub use self::steps::panic_message;
pub(crate) use self::{
    state::find,
    watchers::{NotificationTarget, Watcher},
};

pub use self::agenda::Troubles;
use self::{
    agenda::Agenda,
    deadlines::Cleaner,
    origins::RequestPurpose,
    publications::Publications,
    state::{HostedPartition, HostingState},
    steps::{Started, Steps},
    waiters::Waiters,
    watchers::Watchers,
};
use crate::{
    api::Effect,
    calls::{Origin, PartitionAnswer, PartitionCall},
    config::ShardConfig,
    hosting::{damage::DamageReports, members::Members},
    meter::Meter,
    owner::Owner,
};

/// Maximum number of requests that wait for a partition that is being removed and created anew.
const WAITING_MAX: usize = 1024;

/// A batch whose messages are in a receive buffer.
pub(crate) struct BorrowedBatch<'a> {
    pub(crate) messages: &'a mut [u8],
    pub(crate) messages_count: u32,
}

impl BorrowedBatch<'_> {
    /// Copy the messages into a buffer of their own.
    pub(crate) fn copy(&self, pool: &BufferPool) -> Batch {
        copy_batch(pool, self.messages, self.messages_count)
    }
}

/// Copy a batch out of a receive buffer.
pub(crate) fn copy_batch(pool: &BufferPool, messages: &[u8], messages_count: u32) -> Batch {
    match pool.acquire(messages.len()) {
        Ok(mut buffer) => {
            buffer.copy_from_slice(messages);
            Batch::new(buffer, 0..messages.len(), messages_count)
        }
        // Limited to the size of a receive buffer, and the batches of a connection are bounded.
        Err(_) => Batch::copied(messages, messages_count),
    }
}

/// All partitions of this shard.
pub(crate) struct Partitions {
    config: Arc<ShardConfig>,
    pool: BufferPool,
    seeds: fastrand::Rng,
    hosted: HashMap<Namespace, HostedPartition, FixedState>,
    dirty: Vec<Namespace>,
    agenda: Agenda,
    steps: Steps,
    answers: Vec<PartitionAnswer>,
    damage: DamageReports,
    members: Members,
    waiters: Waiters,
    watchers: Watchers,
    meter: Arc<Meter>,
    publications: Publications,
    cleaner: Cleaner,
    closing: bool,
}

impl Partitions {
    pub(crate) fn new(
        config: Arc<ShardConfig>,
        meter: Arc<Meter>,
        pool: BufferPool,
        seed: u64,
    ) -> Self {
        Self {
            steps: Steps::new(config.shard),
            config,
            pool,
            seeds: fastrand::Rng::with_seed(seed),
            hosted: HashMap::with_hasher(FixedState::default()),
            dirty: Vec::new(),
            agenda: Agenda::default(),
            answers: Vec::new(),
            damage: DamageReports::default(),
            members: Members::default(),
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            meter,
            publications: Publications::default(),
            cleaner: Cleaner::default(),
            closing: false,
        }
    }

    /// Return the owner of `namespace`.
    #[inline]
    pub(crate) fn owner(&self, catalog: &Catalog, namespace: Namespace) -> Owner {
        self.config.owner(catalog, namespace)
    }

    /// Take the answers since the last call.
    pub(crate) fn take_answers(&mut self) -> Vec<PartitionAnswer> {
        core::mem::take(&mut self.answers)
    }

    pub(crate) fn recycle_answers(&mut self, answers: Vec<PartitionAnswer>) {
        debug_assert!(answers.is_empty());
        if self.answers.is_empty() {
            self.answers = answers;
        }
    }

    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty() || self.waiters.has_wakeups() || self.watchers.has_seen()
    }

    /// Number of staged batches, and the bytes of their files.
    pub(crate) fn staged(&self) -> (usize, u64) {
        self.agenda.staged()
    }

    /// Count the partitions that need an operator.
    pub(crate) const fn troubles(&self) -> Troubles {
        self.agenda.troubles()
    }

    /// Number of partitions on this shard, and of those that still recover.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let (elsewhere, recovering) = self.agenda.progress();
        (self.hosted.len() - elsewhere, recovering)
    }

    /// Partitions that failed, with the reason.
    pub(crate) fn failures(&self) -> Vec<(Namespace, String)> {
        let hosted = |namespace| Some((namespace, self.hosted.get(namespace)?));
        (self.agenda.failing.iter().filter_map(hosted))
            .filter_map(|(namespace, hosted)| match &hosted.state {
                HostingState::Open(partition) => {
                    let failing = || {
                        let (file, error) = partition.failing_file()?;
                        Some(format!(
                            "{file} cannot be written or read: {error}; it is tried every second, and what depends on \
                             it is refused until then"
                        ))
                    };
                    let failure = partition.failure();
                    let reason = failure.map(|failure| failure.reason.clone());
                    Some((*namespace, reason.or_else(failing)?))
                }
                HostingState::Broken(broken) => Some((*namespace, broken.failure.reason.clone())),
                _ => None,
            })
            .collect()
    }

    /// Submit a call to a partition of this shard. The call owns its bytes.
    pub(crate) fn submit(
        &mut self,
        catalog: &Catalog,
        call: PartitionCall,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let PartitionCall {
            origin,
            namespace,
            ref request,
        } = call;
        if let Err(refusal) = self.ensure(namespace, catalog, now, effects) {
            return self.refuse(origin, namespace, refusal);
        }
        if let Some(membership) = origin.member
            && let Err(refusal) = {
                let is_poll = matches!(request, Request::Poll(_));
                (self.members).admit(catalog, namespace, membership, is_poll)
            }
        {
            return self.refuse(origin, namespace, refusal);
        }
        let hosted = self.hosted.get(&namespace).expect("ensured above");
        if hosted.is_bounded
            && matches!(request, Request::Append { .. } | Request::Stage { .. })
            && self.is_topic_full(catalog, namespace)
        {
            return self.refuse(origin, namespace, Refusal::TopicFull);
        }
        let hosted = self.hosted.get_mut(&namespace).expect("ensured above");
        let HostingState::Open(_) = &hosted.state else {
            if hosted.waiting.len() < WAITING_MAX || matches!(request, Request::Append { .. }) {
                hosted.waiting.push_back(call);
                self.agenda.waiting.insert(namespace);
            } else {
                self.refuse(origin, namespace, PartitionError::Busy.into());
            }
            return;
        };
        if let Some(membership) = origin.member {
            self.members.began(namespace, membership);
        }
        if let Request::Append { batch } = request
            && !hosted.can_append(batch.size_bytes())
        {
            // The request keeps its place in the queue. The queue is bounded by the in-flight limit of each
            // connection and by the buffer pool.
            hosted.waiting.push_back(call);
            self.agenda.waiting.insert(namespace);
            return;
        }
        self.steps.start(&mut hosted.state, call, now);
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
    }

    /// Append a batch that lies in a receive buffer. It is copied: into the partition, or into a buffer of its own if
    /// it has to wait.
    pub(crate) fn append(
        &mut self,
        catalog: &Catalog,
        call: PartitionCall<BorrowedBatch<'_>>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let PartitionCall {
            origin,
            namespace,
            request,
        } = call;
        debug_assert!(origin.member.is_none(), "members do not append");
        if let Err(refusal) = self.ensure(namespace, catalog, now, effects) {
            return self.refuse(origin, namespace, refusal);
        }
        let hosted = self.hosted.get(&namespace).expect("ensured above");
        if hosted.is_bounded && self.is_topic_full(catalog, namespace) {
            return self.refuse(origin, namespace, Refusal::TopicFull);
        }
        let hosted = self.hosted.get_mut(&namespace).expect("ensured above");
        if !hosted.can_append(request.messages.len()) {
            let batch = request.copy(&self.pool);
            hosted.waiting.push_back(PartitionCall {
                origin,
                namespace,
                request: Request::Append { batch },
            });
            self.agenda.waiting.insert(namespace);
            return;
        }
        let BorrowedBatch {
            messages,
            messages_count,
        } = request;
        let started = Started {
            namespace,
            purpose: RequestPurpose::Request(origin),
            is_append: true,
        };
        (self.steps).start_with(&mut hosted.state, started, now, |partition, id, outbox| {
            partition.append_copied(now, id, messages, messages_count, outbox);
        });
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
    }

    /// Refuse a request without submitting it.
    pub(crate) fn refuse(&mut self, origin: Origin, namespace: Namespace, refusal: Refusal) {
        self.answers.push(PartitionAnswer {
            origin,
            namespace,
            result: Err(refusal),
        });
    }

    /// Process a completed storage operation.
    pub(crate) fn complete(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        completion: StorageCompletion,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        hosted.operations = hosted.operations.saturating_sub(1);
        if let Ok(StorageOutcome::Read(bytes)) = &completion.result {
            self.meter.read_from_storage(bytes.len());
        }
        self.steps.take(&mut hosted.state, |partition, outbox| {
            partition.complete(now, completion, outbox);
        });
        (self.steps).trace_progress(namespace, &hosted.state, false, now);
        let is_open = matches!(hosted.state, HostingState::Open(_));
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
        if !is_open {
            self.after_closing(catalog, namespace, now, effects);
        }
    }

    fn mark_dirty(&mut self, namespace: Namespace) {
        if let Some(hosted) = self.hosted.get_mut(&namespace)
            && !hosted.dirty
        {
            hosted.dirty = true;
            self.dirty.push(namespace);
        }
    }

    /// Return whether something was queued since the last group commit.
    pub(crate) fn has_work(&self) -> bool {
        !self.dirty.is_empty() || self.steps.have_broken()
    }

    /// Group commit: issue everything queued in this turn, and wake consumers that wait for messages.
    pub(crate) fn end_of_turn(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if self.steps.have_broken() {
            self.settle_broken(effects);
        }
        let mut dirty = core::mem::take(&mut self.dirty);
        for namespace in dirty.drain(..) {
            if let Some(hosted) = self.hosted.get_mut(&namespace) {
                hosted.dirty = false;
                self.steps.take(&mut hosted.state, |partition, outbox| {
                    partition.end_of_turn(now, outbox);
                });
                (self.steps).trace_progress(namespace, &hosted.state, true, now);
            }
            self.drain(namespace, effects);
            if !self.waiters.is_empty() {
                self.wake(catalog, namespace, now, effects);
            }
            if !self.watchers.is_empty() {
                self.notify_watchers(namespace);
            }
            self.submit_waiting(namespace, now, effects);
            if let Some(hosted) = self.hosted.get_mut(&namespace) {
                self.agenda.follow(namespace, hosted);
            }
        }
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
        self.report_publications(effects);
    }

    /// Submit batches that found no memory earlier, as far as memory is available now.
    fn submit_waiting(&mut self, namespace: Namespace, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        let before = hosted.waiting.len();
        while let HostingState::Open(partition) = &hosted.state
            && let Some(PartitionCall {
                request: Request::Append { batch },
                ..
            }) = hosted.waiting.front()
            && partition.has_room_for(batch.size_bytes())
            && let Some(call) = hosted.waiting.pop_front()
        {
            self.steps.start(&mut hosted.state, call, now);
        }
        if hosted.waiting.len() < before {
            self.mark_dirty(namespace);
            self.drain(namespace, effects);
        }
    }

    /// Run work that is due by time.
    pub(crate) fn tick(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let due = self.take_due(now);
        for namespace in due {
            if let Some(hosted) = self.hosted.get_mut(&namespace) {
                self.steps.take(&mut hosted.state, |partition, outbox| {
                    partition.tick(now, outbox);
                });
            }
            self.mark_dirty(namespace);
            self.drain(namespace, effects);
        }
        self.publications.repeat_reports(now, effects);
        // Waiting requests may need memory, and no event reports that memory is available.
        for namespace in self.take_waiting() {
            self.mark_dirty(namespace);
        }
    }

    /// Take the partitions whose deadline has come. Each gets a new deadline at the end of the turn.
    fn take_due(&mut self, now: Timestamp) -> Vec<Namespace> {
        let mut due = Vec::new();
        while let Some(namespace) = self.agenda.deadlines.take_due(now) {
            let Some(hosted) = self.hosted.get_mut(&namespace) else {
                continue;
            };
            hosted.deadline = None;
            let deadline = hosted.state.partition().and_then(Partition::next_deadline);
            if deadline.is_some_and(|deadline| deadline <= now) {
                due.push(namespace);
            } else {
                // It has become later since it was noted.
                self.agenda.follow(namespace, hosted);
            }
        }
        due
    }

    /// Partitions with requests that wait for memory.
    fn take_waiting(&mut self) -> Vec<Namespace> {
        let hosted = &self.hosted;
        let waits = |namespace: &Namespace| {
            let hosted = hosted.get(namespace);
            hosted.is_some_and(|hosted| !hosted.waiting.is_empty())
        };
        self.agenda.waiting.retain(waits);
        self.agenda.waiting.iter().copied().collect()
    }
}
