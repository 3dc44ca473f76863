//! The partitions that this shard owns.
//!
//! The catalogue decides what exists. A partition opens when the catalogue first shows it (or when the first
//! request for it arrives), purges when its topic's epoch grew, and retires when it is gone from the
//! catalogue or came back as another incarnation. Nothing else opens or closes one.

mod groups;
mod outcomes;
mod tickets;
mod traces;
mod waiters;
mod watchers;

use std::{collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_buffer::BufferPool;
use headrace_catalog::{self as catalog, Catalog, Topic};
use headrace_log::storage::StorageCompletion;
use headrace_model::{Namespace, ShardId, Timestamp, owner_shard};
use headrace_partition::{Outbox, Partition, PartitionConfig, PartitionError, Request, Response};

use self::{
    tickets::{Asked, Origins},
    traces::Traces,
    waiters::Waiters,
    watchers::Watchers,
};
use crate::{
    api::{Effect, Origin, Refusal},
    config::ShardConfig,
    damage::DamageReports,
    members::Members,
    meter::Meter,
    tracer::Key,
};

/// Requests that wait for a partition that is being removed and created anew.
const WAITING_MAX: usize = 1024;

enum Life {
    Open(Box<Partition>),
    /// Closes before its folder goes.
    Retiring(Box<Partition>),
    /// Its folder is being removed.
    Removing,
}

struct Hosted {
    life: Life,
    incarnation: u64,
    purge_epoch: u64,
    dirty: bool,
    /// Batches that wait for room; or everything, while the life before is being removed.
    waiting: VecDeque<(Origin, Request)>,
}

/// An answer on its way to its connection.
pub(crate) struct Answer {
    pub(crate) origin: Origin,
    pub(crate) namespace: Namespace,
    pub(crate) result: Result<Response, Refusal>,
}

/// Messages that stand in a receive buffer.
pub(crate) struct SmallBatch<'a> {
    pub(crate) namespace: Namespace,
    pub(crate) messages: &'a mut [u8],
    pub(crate) messages_count: u32,
}

/// Owner of this shard's partitions.
pub(crate) struct Partitions {
    config: Arc<ShardConfig>,
    pool: BufferPool,
    seeds: fastrand::Rng,
    hosted: HashMap<Namespace, Hosted, FixedState>,
    dirty: Vec<Namespace>,
    origins: Origins,
    outbox: Outbox,
    answers: Vec<Answer>,
    damage: DamageReports,
    members: Members,
    waiters: Waiters,
    watchers: Watchers,
    meter: Arc<Meter>,
    traces: Traces,
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
            config,
            pool,
            seeds: fastrand::Rng::with_seed(seed),
            hosted: HashMap::with_hasher(FixedState::default()),
            dirty: Vec::new(),
            origins: Origins::default(),
            outbox: Outbox::default(),
            answers: Vec::new(),
            damage: DamageReports::default(),
            members: Members::default(),
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            meter,
            traces: Traces::default(),
            closing: false,
        }
    }

    /// The shard that owns `namespace`.
    pub(crate) fn owner(&self, namespace: Namespace) -> ShardId {
        owner_shard(namespace, self.config.shards)
    }

    /// Answers collected since the last call.
    pub(crate) fn take_answers(&mut self) -> Vec<Answer> {
        core::mem::take(&mut self.answers)
    }

    pub(crate) fn recycle_answers(&mut self, answers: Vec<Answer>) {
        debug_assert!(answers.is_empty());
        if self.answers.is_empty() {
            self.answers = answers;
        }
    }

    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty() || self.waiters.has_told() || self.watchers.has_seen()
    }

    /// Partitions open and owned, and how many of them still recover.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let recovering = self
            .hosted
            .values()
            .filter(
                |hosted| matches!(&hosted.life, Life::Open(partition) if !partition.is_open() && partition.failure().is_none()),
            )
            .count();
        (self.hosted.len(), recovering)
    }

    /// Partitions that failed, with the reason.
    pub(crate) fn failures(&self) -> Vec<(Namespace, String)> {
        self.hosted
            .iter()
            .filter_map(|(namespace, hosted)| match &hosted.life {
                Life::Open(partition) => Some((*namespace, partition.failure()?.reason.clone())),
                Life::Retiring(_) | Life::Removing => None,
            })
            .collect()
    }

    /// Make what is hosted agree with the catalogue.
    pub(crate) fn reconcile(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if self.closing {
            return;
        }
        let gone: Vec<Namespace> = self
            .hosted
            .iter()
            .filter(|(namespace, hosted)| {
                matches!(hosted.life, Life::Open(_))
                    && find(catalog, **namespace)
                        .is_none_or(|(_, partition)| partition.incarnation != hosted.incarnation)
            })
            .map(|(namespace, _)| *namespace)
            .collect();
        for namespace in gone {
            self.retire(namespace, now, effects);
        }
        for (_, partition) in catalog.partitions() {
            let namespace = partition.namespace;
            if self.owner(namespace) == self.config.shard {
                self.ensure(namespace, catalog, now, effects);
            }
        }
        self.follow_groups(catalog, effects);
    }

    /// Open `namespace` when it is not, purge it when its topic was purged. `false`: it does not exist.
    fn ensure(
        &mut self,
        namespace: Namespace,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some((topic, record)) = find(catalog, namespace) else {
            return false;
        };
        let wanted_incarnation = record.incarnation;
        match self.hosted.get_mut(&namespace) {
            Some(hosted) if hosted.incarnation == wanted_incarnation => {
                if hosted.purge_epoch < topic.purge_epoch {
                    hosted.purge_epoch = topic.purge_epoch;
                    self.members.forget(namespace);
                    if let Life::Open(partition) = &mut hosted.life {
                        partition.purge(topic.purge_epoch, now, &mut self.outbox);
                    }
                    self.waiters.look_again(namespace);
                    self.mark_dirty(namespace);
                    self.drain(namespace, effects);
                }
            }
            Some(hosted) => {
                if matches!(hosted.life, Life::Open(_)) {
                    self.retire(namespace, now, effects);
                }
            }
            None => {
                let config = PartitionConfig {
                    namespace,
                    incarnation: wanted_incarnation,
                    purge_epoch: topic.purge_epoch,
                    durability: topic.durability.unwrap_or(self.config.partition.durability),
                    ..self.config.partition.clone()
                };
                let partition = Partition::open(
                    config,
                    Arc::clone(&record.statistics),
                    self.pool.clone(),
                    self.seeds.u64(..),
                    now,
                    &mut self.outbox,
                );
                self.hosted.insert(
                    namespace,
                    Hosted {
                        life: Life::Open(Box::new(partition)),
                        incarnation: wanted_incarnation,
                        purge_epoch: topic.purge_epoch,
                        dirty: false,
                        waiting: VecDeque::new(),
                    },
                );
                self.mark_dirty(namespace);
                self.drain(namespace, effects);
            }
        }
        true
    }

    /// A request for a partition of this shard.
    pub(crate) fn submit(
        &mut self,
        catalog: &Catalog,
        origin: Origin,
        namespace: Namespace,
        request: Request,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if !self.ensure(namespace, catalog, now, effects) {
            self.answers.push(Answer {
                origin,
                namespace,
                result: Err(Refusal::NotFound),
            });
            return;
        }
        if let Some(membership) = origin.member
            && let Err(refusal) = {
                let is_poll = matches!(request, Request::Poll(_));
                (self.members).admit(catalog, namespace, membership, is_poll)
            }
        {
            self.answers.push(Answer {
                origin,
                namespace,
                result: Err(refusal),
            });
            return;
        }
        let hosted = self.hosted.get_mut(&namespace).expect("ensured above");
        match &mut hosted.life {
            Life::Open(partition) => {
                if let Some(membership) = origin.member {
                    self.members.began(namespace, membership);
                }
                if let Request::Append { batch } = &request
                    && (!hosted.waiting.is_empty() || !partition.has_room_for(batch.size_bytes()))
                {
                    // Bounded by what each connection may have in flight, and by the pool of the buffers.
                    hosted.waiting.push_back((origin, request));
                    return;
                }
                let ticket = self.origins.insert(Asked::Request(origin));
                let is_append = matches!(request, Request::Append { .. });
                partition.submit(now, ticket, request, &mut self.outbox);
                if let Some(key) = traced(&origin) {
                    let who = (key, self.config.shard, ticket);
                    self.traces.begin(who, namespace, partition, is_append, now);
                }
                self.mark_dirty(namespace);
                self.drain(namespace, effects);
            }
            Life::Retiring(_) | Life::Removing if hosted.waiting.len() < WAITING_MAX => {
                hosted.waiting.push_back((origin, request));
            }
            Life::Retiring(_) | Life::Removing => {
                self.answers.push(Answer {
                    origin,
                    namespace,
                    result: Err(Refusal::Partition(PartitionError::Busy)),
                });
            }
        }
    }

    /// A small batch, copied out of the receive buffer. Gives `false` back when the partition is not open
    /// right now: the caller then owns the bytes and submits them.
    pub(crate) fn append_in_place(
        &mut self,
        catalog: &Catalog,
        origin: Origin,
        batch: SmallBatch<'_>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let SmallBatch {
            namespace,
            messages,
            messages_count,
        } = batch;
        if !self.ensure(namespace, catalog, now, effects) {
            self.answers.push(Answer {
                origin,
                namespace,
                result: Err(Refusal::NotFound),
            });
            return true;
        }
        let hosted = self.hosted.get_mut(&namespace).expect("ensured above");
        let Life::Open(partition) = &mut hosted.life else {
            return false;
        };
        if !hosted.waiting.is_empty() || !partition.has_room_for(messages.len()) {
            return false;
        }
        let ticket = self.origins.insert(Asked::Request(origin));
        partition.append_in_place(now, ticket, messages, messages_count, &mut self.outbox);
        if let Some(key) = traced(&origin) {
            let who = (key, self.config.shard, ticket);
            self.traces.begin(who, namespace, partition, true, now);
        }
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
        true
    }

    /// A storage operation ended.
    pub(crate) fn complete(
        &mut self,
        namespace: Namespace,
        completion: StorageCompletion,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        match &mut hosted.life {
            Life::Open(partition) | Life::Retiring(partition) => {
                partition.complete(now, completion, &mut self.outbox);
                if !self.traces.is_empty() {
                    self.traces.look(namespace, partition, false, now);
                }
            }
            Life::Removing => return,
        }
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
        self.after_retirement(namespace, effects);
    }

    /// A deleted partition's folder is gone: open its successor when there is one.
    pub(crate) fn folder_removed(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(hosted) = self.hosted.remove(&namespace) else {
            return;
        };
        if self.closing {
            self.refuse_all(namespace, hosted.waiting);
            self.send_waiters_away(namespace);
            return;
        }
        if !self.ensure(namespace, catalog, now, effects) {
            self.send_waiters_away(namespace);
            self.watchers.forget(namespace);
        }
        for (origin, request) in hosted.waiting {
            self.submit(catalog, origin, namespace, request, now, effects);
        }
    }

    fn retire(&mut self, namespace: Namespace, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        let life = core::mem::replace(&mut hosted.life, Life::Removing);
        hosted.life = match life {
            Life::Open(mut partition) => {
                partition.close(now, &mut self.outbox);
                Life::Retiring(partition)
            }
            other => other,
        };
        self.drain(namespace, effects);
        self.send_waiters_away(namespace);
        self.after_retirement(namespace, effects);
    }

    fn after_retirement(&mut self, namespace: Namespace, effects: &mut Vec<Effect>) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        if matches!(&hosted.life, Life::Retiring(partition) if partition.is_closed()) {
            hosted.life = Life::Removing;
            effects.push(Effect::ReleaseFiles { namespace });
            effects.push(Effect::RemoveFolder { namespace });
        }
    }

    fn refuse_all(&mut self, namespace: Namespace, waiting: VecDeque<(Origin, Request)>) {
        for (origin, _) in waiting {
            self.answers.push(Answer {
                origin,
                namespace,
                result: Err(Refusal::NotFound),
            });
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

    /// Whether something was queued since the last group commit.
    pub(crate) fn has_work(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Group commit: everything that was queued in this turn goes out. Then who waits for messages is woken.
    pub(crate) fn end_of_turn(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let mut dirty = core::mem::take(&mut self.dirty);
        for namespace in dirty.drain(..) {
            if let Some(hosted) = self.hosted.get_mut(&namespace) {
                hosted.dirty = false;
                if let Life::Open(partition) | Life::Retiring(partition) = &mut hosted.life {
                    partition.end_of_turn(now, &mut self.outbox);
                    if !self.traces.is_empty() {
                        self.traces.look(namespace, partition, true, now);
                    }
                }
            }
            self.drain(namespace, effects);
            if !self.waiters.is_empty() {
                self.wake(catalog, namespace, now, effects);
            }
            if !self.watchers.is_empty() {
                self.tell_watchers(namespace);
            }
            self.submit_waiting(namespace, now, effects);
        }
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
    }

    /// Batches that found no room, as far as there is some now.
    fn submit_waiting(&mut self, namespace: Namespace, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        let Life::Open(partition) = &mut hosted.life else {
            return;
        };
        let before = hosted.waiting.len();
        while let Some((_, Request::Append { batch })) = hosted.waiting.front()
            && partition.has_room_for(batch.size_bytes())
            && let Some((origin, request)) = hosted.waiting.pop_front()
        {
            let ticket = self.origins.insert(Asked::Request(origin));
            partition.submit(now, ticket, request, &mut self.outbox);
            if let Some(key) = traced(&origin) {
                let who = (key, self.config.shard, ticket);
                self.traces.begin(who, namespace, partition, true, now);
            }
        }
        if hosted.waiting.len() < before {
            self.mark_dirty(namespace);
            self.drain(namespace, effects);
        }
    }

    /// Work that is due by time.
    pub(crate) fn tick(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let due: Vec<Namespace> = self
            .hosted
            .iter()
            .filter(|(_, hosted)| {
                matches!(&hosted.life, Life::Open(partition) | Life::Retiring(partition)
                    if partition.next_deadline().is_some_and(|deadline| deadline <= now))
            })
            .map(|(namespace, _)| *namespace)
            .collect();
        for namespace in due {
            if let Some(hosted) = self.hosted.get_mut(&namespace)
                && let Life::Open(partition) | Life::Retiring(partition) = &mut hosted.life
            {
                partition.tick(now, &mut self.outbox);
            }
            self.mark_dirty(namespace);
            self.drain(namespace, effects);
        }
    }

    /// Flush, sync and close everything.
    pub(crate) fn close_all(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.closing = true;
        let namespaces: Vec<Namespace> = self.hosted.keys().copied().collect();
        for namespace in namespaces {
            if let Some(hosted) = self.hosted.get_mut(&namespace)
                && let Life::Open(partition) = &mut hosted.life
            {
                partition.close(now, &mut self.outbox);
            }
            self.mark_dirty(namespace);
            self.drain(namespace, effects);
        }
    }

    /// Whether everything is closed.
    pub(crate) fn all_closed(&self) -> bool {
        self.hosted.values().all(|hosted| match &hosted.life {
            Life::Open(partition) | Life::Retiring(partition) => partition.is_closed(),
            Life::Removing => true,
        })
    }
}

/// The key of a request that is traced.
fn traced(origin: &Origin) -> Option<Key> {
    let shard = origin.shard;
    origin.trace.map(|request| Key { shard, request })
}

/// The partition's records in the catalogue.
fn find(catalog: &Catalog, namespace: Namespace) -> Option<(&Topic, &catalog::Partition)> {
    let topic = catalog
        .stream_by_id(namespace.stream())?
        .topic_by_id(namespace.topic())?;
    Some((topic, topic.partition(namespace.partition())?))
}
