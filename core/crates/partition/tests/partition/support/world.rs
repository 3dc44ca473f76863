//! One partition with its disk, and the order of events.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use headrace_buffer::BufferPool;
use headrace_model::{
    Durability, Namespace, Offset, PartitionId, PartitionStatistics, StageId, StreamId, Timestamp,
    TopicId,
};
use headrace_partition::storage::StorageOperation;
use headrace_partition::{
    ConsumerKey, Notice, Outbox, Partition, PartitionConfig, PartitionError, Poll, Polled,
    PollingStrategy, Published, Request, RequestId, Response, Retention,
};

use super::disk::{Crash, Disk};
use super::in_flight::{Event, InFlight};
use super::messages::{Sent, batch, sent};

pub type Answer = Result<Response, PartitionError>;

#[derive(Debug)]
pub struct World {
    pub config: PartitionConfig,
    pub disk: Disk,
    pub partition: Partition,
    pub statistics: Arc<PartitionStatistics>,
    pub now: Timestamp,
    pub random: Rng,
    /// True if effects and completions happen in any order, false if in that of the requests.
    pub is_shuffled: bool,
    /// Publications reported as complete since the partition was opened.
    pub published: Vec<Published>,
    /// Notices since the partition was opened.
    pub notices: Vec<Notice>,
    out: Outbox,
    under_way: InFlight,
    answers: BTreeMap<RequestId, Answer>,
    next_request_id: u64,
}

/// Lifetime of stages.
pub const LIFETIME_MICROS: u64 = 60_000_000;

pub fn config(durability: Durability) -> PartitionConfig {
    let namespace = Namespace::new(StreamId(1), TopicId(2), PartitionId(3)).expect("small numbers");
    PartitionConfig {
        durability,
        ..PartitionConfig::new(namespace, 77)
    }
}

impl World {
    pub fn new(config: PartitionConfig) -> Self {
        Self::with_disk(config, Disk::default(), 1)
    }

    /// Segments of 1,000 bytes with durability `os`; `messages_count` messages of `size` bytes each are on disk.
    pub fn with_small_segments(messages_count: u64, size: usize) -> Self {
        let mut world = Self::new(PartitionConfig {
            segment_size_bytes: 1000,
            ..config(Durability::Os)
        });
        for number in 0..messages_count {
            world.append(&[sent(number, size)]).expect("appended");
        }
        world.settle();
        world
    }

    pub fn shuffled(config: PartitionConfig, seed: u64) -> Self {
        let mut world = Self::with_disk(config, Disk::default(), seed);
        world.is_shuffled = true;
        world
    }

    pub fn with_pool(config: PartitionConfig, pool: BufferPool) -> Self {
        Self::open(config, Disk::default(), 1, pool)
    }

    fn with_disk(config: PartitionConfig, disk: Disk, seed: u64) -> Self {
        Self::open(config, disk, seed, BufferPool::new(1 << 30))
    }

    fn open(config: PartitionConfig, disk: Disk, seed: u64, pool: BufferPool) -> Self {
        let mut out = Outbox::default();
        let statistics = Arc::new(PartitionStatistics::default());
        let now = Timestamp(1_000_000);
        let partition = Partition::open(
            config.clone(),
            Arc::clone(&statistics),
            pool,
            seed,
            now,
            &mut out,
        );
        Self {
            config,
            disk,
            partition,
            statistics,
            now,
            random: Rng::with_seed(seed),
            is_shuffled: false,
            published: Vec::new(),
            notices: Vec::new(),
            out,
            under_way: InFlight::default(),
            answers: BTreeMap::new(),
            next_request_id: 0,
        }
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        let request_id = RequestId(self.next_request_id);
        self.next_request_id += 1;
        self.partition
            .submit(self.now, request_id, request, &mut self.out);
        self.collect();
        request_id
    }

    /// Submit a small batch with `append_in_place`.
    pub fn submit_in_place(&mut self, messages: &[Sent]) -> RequestId {
        let request_id = RequestId(self.next_request_id);
        self.next_request_id += 1;
        let bytes = super::messages::packed(messages);
        let count = u32::try_from(messages.len()).expect("few");
        self.append_bytes(request_id, &bytes, count);
        request_id
    }

    pub fn append_bytes(&mut self, request_id: RequestId, messages: &[u8], count: u32) {
        let mut messages = messages.to_vec();
        self.partition
            .append_copied(self.now, request_id, &mut messages, count, &mut self.out);
        self.collect();
    }

    pub fn end_of_turn(&mut self) {
        self.partition.end_of_turn(self.now, &mut self.out);
        self.collect();
    }

    /// Let time pass, with the ticks that are due.
    pub fn pass(&mut self, micros: u64) {
        self.now.0 += micros;
        if self
            .partition
            .next_deadline()
            .is_some_and(|deadline| deadline <= self.now)
        {
            self.partition.tick(self.now, &mut self.out);
        }
        self.collect();
    }

    /// Execute one event on the disk: an operation takes effect, or its completion arrives. Returns false if nothing is
    /// in flight.
    pub fn step(&mut self) -> bool {
        self.collect();
        let order = self.is_shuffled.then_some(&mut self.random);
        let completion = match self.under_way.step(&mut self.disk, order) {
            None => return false,
            Some(Event::Effect) => return true,
            Some(Event::Completion(completion)) => completion,
        };
        self.partition.complete(self.now, completion, &mut self.out);
        self.collect();
        true
    }

    /// Execute events until nothing is in flight.
    pub fn settle(&mut self) {
        self.end_of_turn();
        while self.step() {}
    }

    /// Execute events, and let time pass for repeated operations, until `is_settled` returns true.
    pub fn settle_in_time(&mut self, is_settled: impl Fn(&Partition) -> bool) {
        self.settle();
        while !is_settled(&self.partition) {
            let deadline = self.partition.next_deadline();
            let deadline = deadline.expect("something that only time can help");
            self.pass(deadline.0.saturating_sub(self.now.0));
            self.settle();
        }
    }

    /// Execute events until the response is available.
    pub fn wait_for(&mut self, request_id: RequestId) -> Answer {
        self.end_of_turn();
        loop {
            if let Some(answer) = self.answers.remove(&request_id) {
                return answer;
            }
            if !self.step() {
                // Only the passing of time can produce the response, as with `memory`.
                let deadline = self.partition.next_deadline();
                let deadline = deadline.expect("an answer without anything under way");
                self.pass(deadline.0.saturating_sub(self.now.0));
            }
        }
    }

    pub fn take_answer(&mut self, request_id: RequestId) -> Option<Answer> {
        self.answers.remove(&request_id)
    }

    pub fn ask(&mut self, request: Request) -> Answer {
        let request_id = self.submit(request);
        self.wait_for(request_id)
    }

    pub fn append(&mut self, messages: &[Sent]) -> Answer {
        self.ask(Request::Append {
            batch: batch(messages),
        })
    }

    pub fn poll(&mut self, strategy: PollingStrategy, count: u32) -> Polled {
        self.try_poll(strategy, count).expect("a poll")
    }

    pub fn try_poll(
        &mut self,
        strategy: PollingStrategy,
        count: u32,
    ) -> Result<Polled, PartitionError> {
        let answer = self.ask(poll(strategy, count, None, false))?;
        match answer {
            Response::Polled(polled) => Ok(polled),
            other => panic!("not a poll: {other:?}"),
        }
    }

    pub fn next(&mut self, consumer: ConsumerKey, count: u32) -> Polled {
        let answer = self.ask(poll(PollingStrategy::Next, count, Some(consumer), true));
        match answer.expect("a poll") {
            Response::Polled(polled) => polled,
            other => panic!("not a poll: {other:?}"),
        }
    }

    pub fn store(&mut self, consumer: ConsumerKey, offset: u64) -> Answer {
        self.ask(Request::StoreOffset {
            by: None,
            consumer,
            offset: Offset(offset),
        })
    }

    pub fn stored(&mut self, consumer: ConsumerKey) -> Option<u64> {
        match self
            .ask(Request::GetOffset { consumer })
            .expect("an answer")
        {
            Response::Offset(stored) => stored.map(|stored| stored.stored.0),
            other => panic!("not an offset: {other:?}"),
        }
    }

    /// Submit a chunk of a stage.
    pub fn submit_chunk(
        &mut self,
        stage: Option<StageId>,
        chunk: u32,
        is_last: bool,
        messages: &[Sent],
    ) -> RequestId {
        self.submit(Request::Stage {
            stage,
            lifetime_micros: LIFETIME_MICROS,
            chunk,
            is_last,
            batch: batch(messages),
        })
    }

    /// Submit a chunk of a stage and wait for the response.
    pub fn stage_chunk(
        &mut self,
        stage: Option<StageId>,
        chunk: u32,
        is_last: bool,
        messages: &[Sent],
    ) -> Answer {
        let request_id = self.submit_chunk(stage, chunk, is_last, messages);
        self.wait_for(request_id)
    }

    /// Stage messages completely.
    pub fn stage(&mut self, messages: &[Sent]) -> StageId {
        match self.stage_chunk(None, 0, true, messages) {
            Ok(Response::Staged { stage, .. }) => stage,
            other => panic!("not staged: {other:?}"),
        }
    }

    /// Publish stages and wait for the completion.
    pub fn publish(&mut self, number: u64, stages: &[StageId]) -> Published {
        assert!(!self.partition.publish(number, stages));
        self.settle_in_time(|partition| partition.applied() >= number);
        let published = self.published.pop().expect("it is reported");
        assert_eq!(published.number, number);
        published
    }

    pub fn purge(&mut self) {
        self.config.purge_epoch += 1;
        let epoch = self.config.purge_epoch;
        self.statistics = Arc::default();
        let statistics = Arc::clone(&self.statistics);
        self.partition
            .purge(epoch, statistics, self.now, &mut self.out);
        self.collect();
    }

    pub fn retain(&mut self, retention: Retention, keeps_unread: bool) {
        self.partition
            .retain(retention, keeps_unread, self.now, &mut self.out);
        self.collect();
    }

    pub fn remove_oldest(&mut self, keeps_unread: bool) -> bool {
        let is_gone = self
            .partition
            .remove_oldest(keeps_unread, self.now, &mut self.out);
        self.collect();
        is_gone
    }

    pub fn close(&mut self) {
        self.partition.close(self.now, &mut self.out);
        self.settle_in_time(Partition::is_closed);
    }

    /// Close, and pass every executed operation to `see`.
    pub fn close_in_steps(&mut self, mut see: impl FnMut(&StorageOperation)) {
        self.partition.close(self.now, &mut self.out);
        self.collect();
        while let Some(next) = self.under_way.first() {
            see(next);
            self.step();
        }
        assert!(self.partition.is_closed());
    }

    /// Reopen after `harm` was applied to the disk of the closed partition.
    pub fn reopen_with(&mut self, harm: fn(&mut Self)) {
        harm(self);
        self.reopen();
    }

    /// Close and open again.
    pub fn restart(&mut self) {
        self.close();
        self.reopen();
    }

    /// Crash: every operation in flight happened fully, partly or not at all. Reopen.
    pub fn crash(&mut self, crash: Crash) {
        self.collect();
        self.under_way
            .crash(crash, &mut self.disk, &mut self.random);
        self.disk.faults.clear();
        self.reopen();
    }

    fn reopen(&mut self) {
        self.reopen_without_settling();
        self.settle_in_time(|partition| partition.is_open() || partition.failure().is_some());
    }

    /// Begin to reopen.
    pub fn reopen_without_settling(&mut self) {
        let seed = self.random.u64(..);
        let disk = std::mem::take(&mut self.disk);
        let mut world = Self::with_disk(self.config.clone(), disk, seed);
        world.is_shuffled = self.is_shuffled;
        world.now = self.now;
        world.next_request_id = self.next_request_id;
        *self = world;
    }

    /// Operations in flight, for checks of which may be in flight together.
    pub fn operations_under_way(&self) -> impl Iterator<Item = &StorageOperation> {
        self.under_way.operations()
    }

    /// Drain the outbox and check its invariants.
    fn collect(&mut self) {
        self.published.append(&mut self.out.published);
        self.notices.append(&mut self.out.notices);
        for (request_id, answer) in self.out.responses.drain(..) {
            let before = self.answers.insert(request_id, answer);
            assert!(before.is_none(), "{request_id:?} was answered twice");
        }
        for request in self.out.storage.drain(..) {
            self.under_way.begin(request);
        }
    }
}

pub fn poll(
    strategy: PollingStrategy,
    count: u32,
    consumer: Option<ConsumerKey>,
    auto_commit: bool,
) -> Request {
    Request::Poll(Poll {
        strategy,
        count,
        consumer,
        auto_commit,
        by: None,
        minimum_bytes: 0,
        bytes_max: Poll::UNLIMITED,
    })
}
