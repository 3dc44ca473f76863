//! A consumer over two sessions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headrace_sdk_core::{
    Batch, Consumer, ConsumerConfig, ConsumerEffect, DataToken, Failure, Item, OwnedIdentifier,
    Start, WatchToken,
};
use headrace_wire::CommandCode;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::driver::{Driver, Event};
use crate::engine::{Engine, SessionSettings};
use crate::promise::Promise;

type Commit = Arc<Promise<Result<(), Failure>>>;

/// Position of a partition: offset of the next message that will be taken, if known, and the one after the last readable message.
pub type Position = Option<(Option<u64>, u64)>;

enum Order {
    Taken(usize),
    Commit(u32, u64, Commit),
    Processed(u32, u64),
    Seek(u32, Start, Arc<Promise<bool>>),
    Pause(Vec<u32>),
    Resume(Vec<u32>),
    Position(u32, Arc<Promise<Position>>),
    Leave(Arc<Promise<()>>),
}

#[derive(Default)]
struct Ready {
    items: VecDeque<Item>,
    waits: Vec<Arc<Promise<()>>>,
    is_ended: bool,
}

/// Result of taking from a consumer.
#[derive(Debug)]
pub enum Taken {
    /// The next item.
    Item(Item),
    /// No item at the moment: wait for the promise, then try again.
    Nothing(Arc<Promise<()>>),
    /// The consumer has ended, and everything was taken.
    Ended,
}

/// A consumer of one topic. Dropping it ends it without storing anything.
pub struct ConsumerHandle {
    orders: UnboundedSender<Order>,
    ready: Arc<Mutex<Ready>>,
    opened: Arc<Promise<Result<(), Failure>>>,
}

impl std::fmt::Debug for ConsumerHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ConsumerHandle")
            .finish_non_exhaustive()
    }
}

impl ConsumerHandle {
    /// Begin a consumer. Its first items name its partitions.
    pub fn new(
        engine: &Engine,
        settings: &SessionSettings,
        config: ConsumerConfig,
        stream: OwnedIdentifier,
        topic: OwnedIdentifier,
    ) -> Self {
        let _clock = engine.clock();
        let (orders, receiver) = unbounded_channel();
        let opened = Arc::default();
        let ready = Arc::new(Mutex::new(Ready::default()));
        let task = Task {
            consumer: Consumer::new(config, stream, topic),
            data: Driver::new(settings.of_connected_client()),
            watch: Driver::new(settings.of_connected_client()),
            orders: receiver,
            ready: Arc::clone(&ready),
            left: Vec::new(),
            commits_in_flight: 0,
            has_left: false,
            opened: Arc::clone(&opened),
            began: Instant::now(),
        };
        engine.spawn(task.run());
        Self {
            orders,
            ready,
            opened,
        }
    }

    /// Ends when the partitions are known, and where each of them is read.
    pub fn opened(&self) -> Arc<Promise<Result<(), Failure>>> {
        Arc::clone(&self.opened)
    }

    /// Take the next item, without waiting.
    pub fn take(&self) -> Taken {
        let mut ready = lock(&self.ready);
        if let Some(item) = ready.items.pop_front() {
            drop(ready);
            if let Item::Batch(batch) = &item {
                let _ = self.orders.send(Order::Taken(batch.messages.len()));
            }
            return Taken::Item(item);
        }
        if ready.is_ended {
            return Taken::Ended;
        }
        // Waits that were given up would add up while no message comes.
        ready.waits.retain(|wait| Arc::strong_count(wait) > 1);
        let wait = Arc::new(Promise::default());
        ready.waits.push(Arc::clone(&wait));
        Taken::Nothing(wait)
    }

    /// Store the offset of the last processed message of a partition.
    pub fn commit(&self, partition: u32, offset: u64) -> Commit {
        let promise = Commit::default();
        let order = Order::Commit(partition, offset, Arc::clone(&promise));
        if self.orders.send(order).is_err() {
            promise.fulfil(Err(Failure::Closed));
        }
        promise
    }

    /// Note the offset after the last processed message of a partition.
    pub fn note_processed(&self, partition: u32, next_offset: u64) {
        let _ = self.orders.send(Order::Processed(partition, next_offset));
    }

    /// Continue at another place of a partition. The value says whether the consumer reads the partition.
    pub fn seek(&self, partition: u32, start: Start) -> Arc<Promise<bool>> {
        let promise = Arc::new(Promise::default());
        let order = Order::Seek(partition, start, Arc::clone(&promise));
        if self.orders.send(order).is_err() {
            promise.fulfil(false);
        }
        promise
    }

    /// Stop to read partitions. Batches that are ready stay.
    pub fn pause(&self, partitions: Vec<u32>) {
        let _ = self.orders.send(Order::Pause(partitions));
    }

    /// Continue to read partitions; without any, all of them.
    pub fn resume(&self, partitions: Vec<u32>) {
        let _ = self.orders.send(Order::Resume(partitions));
    }

    /// Ask for the position of a partition; `None` if the consumer does not read it.
    pub fn position(&self, partition: u32) -> Arc<Promise<Position>> {
        let promise = Arc::new(Promise::default());
        let order = Order::Position(partition, Arc::clone(&promise));
        if self.orders.send(order).is_err() {
            promise.fulfil(None);
        }
        promise
    }

    /// Leave the group and end. The promise is fulfilled then.
    pub fn leave(&self) -> Arc<Promise<()>> {
        let promise = Arc::new(Promise::default());
        if self
            .orders
            .send(Order::Leave(Arc::clone(&promise)))
            .is_err()
        {
            promise.fulfil(());
        }
        promise
    }
}

fn lock(ready: &Mutex<Ready>) -> MutexGuard<'_, Ready> {
    ready.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Task {
    consumer: Consumer<Commit>,
    data: Driver<DataToken<Commit>>,
    watch: Driver<WatchToken>,
    orders: UnboundedReceiver<Order>,
    ready: Arc<Mutex<Ready>>,
    left: Vec<Arc<Promise<()>>>,
    commits_in_flight: usize,
    has_left: bool,
    opened: Arc<Promise<Result<(), Failure>>>,
    began: Instant,
}

impl Task {
    async fn run(mut self) {
        loop {
            // Also while there is always an event that is ready.
            self.consumer.tick(self.began.elapsed());
            if self.carry_out() {
                break;
            }
            let deadline = self.consumer.next_deadline();
            let until = deadline.map(|deadline| self.began + deadline);
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => break,
                },
                // Rare, while answers to reads may always be ready.
                event = self.watch.next() => self.process_watch(event),
                event = self.data.next() => self.process_data(event),
                () = async { sleep_until(until.expect("checked")).await }, if until.is_some() => {}
            }
        }
        self.end();
    }

    /// Carry out what the consumer asks for. Returns true if it has ended: it has left, and every commit has its result.
    fn carry_out(&mut self) -> bool {
        while let Some(effect) = self.consumer.next_effect() {
            match effect {
                ConsumerEffect::Data { request, token } => self.data.submit(request, token),
                ConsumerEffect::Watch { request, token } => self.watch.submit(request, token),
                ConsumerEffect::Item(item) => self.hand_out(item),
                ConsumerEffect::Committed { token, outcome } => {
                    self.commits_in_flight -= 1;
                    token.fulfil(outcome);
                }
                ConsumerEffect::Left => self.has_left = true,
            }
        }
        if self.consumer.is_positioned() && !self.opened.is_fulfilled() {
            self.opened.fulfil(Ok(()));
        }
        self.has_left && self.commits_in_flight == 0
    }

    fn hand_out(&mut self, item: Item) {
        match &item {
            // The next owner of the partition reads them again.
            Item::Lost(partitions) => {
                self.drop_batches(|batch| partitions.contains(&batch.partition));
            }
            // Their messages were removed, and their offsets are those of other messages now.
            Item::Reset { partition } => self.drop_batches(|batch| batch.partition == *partition),
            _ => {}
        }
        if let Item::Failed(failure) = &item {
            self.opened.fulfil(Err(failure.clone()));
        }
        let mut ready = lock(&self.ready);
        if matches!(item, Item::Refused(_)) {
            // Only the last one counts, whenever the caller takes it.
            ready.items.retain(|item| !matches!(item, Item::Refused(_)));
        }
        ready.is_ended |= matches!(item, Item::Failed(_));
        ready.items.push_back(item);
        let waits = std::mem::take(&mut ready.waits);
        drop(ready);
        for wait in waits {
            wait.fulfil(());
        }
    }

    fn drop_batches(&mut self, is_void: impl Fn(&Batch) -> bool) {
        let mut bytes = 0;
        lock(&self.ready).items.retain(|item| match item {
            Item::Batch(batch) if is_void(batch) => {
                bytes += batch.messages.len();
                false
            }
            _ => true,
        });
        self.consumer.taken(bytes);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Taken(bytes) => self.consumer.taken(bytes),
            Order::Commit(partition, offset, promise) => {
                self.commits_in_flight += 1;
                self.consumer.commit(partition, offset, promise);
            }
            Order::Processed(partition, next_offset) => {
                self.consumer.note_processed(partition, next_offset);
            }
            Order::Seek(partition, start, promise) => {
                let epoch = self.consumer.seek(partition, start);
                if let Some(epoch) = epoch {
                    self.drop_batches(|batch| batch.partition == partition && batch.epoch < epoch);
                }
                promise.fulfil(epoch.is_some());
            }
            Order::Pause(partitions) => self.consumer.pause(&partitions),
            Order::Resume(partitions) => self.consumer.resume(&partitions),
            Order::Position(partition, promise) => {
                // Messages that were read ahead are still to come.
                let ahead = lock(&self.ready).items.iter().find_map(|item| match item {
                    Item::Batch(batch) if batch.partition == partition => Some(batch.first_offset),
                    _ => None,
                });
                let position = self.consumer.position(partition);
                promise.fulfil(position.map(|(next, end)| (ahead.or(next), end)));
            }
            Order::Leave(promise) => {
                self.left.push(promise);
                self.consumer.leave();
            }
        }
    }

    fn process_data(&mut self, event: Event<DataToken<Commit>>) {
        let now = self.began.elapsed();
        match event {
            Event::Opened(generation) => {
                let is_group = self.consumer.is_member();
                let needed = [
                    Some(CommandCode::ReadMessages),
                    is_group.then_some(CommandCode::GetMembership),
                ];
                for code in needed.into_iter().flatten() {
                    if !self.data.session().offers(code) {
                        return self.consumer.end(Failure::Unrepresentable {
                            reason: format!(
                                "the server does not offer {}: it is no Headrace server, or an older one",
                                code.name()
                            ),
                        });
                    }
                }
                self.consumer.data_opened(generation, now);
            }
            Event::Lost => self.consumer.data_lost(),
            Event::Answered { token, outcome } => self.consumer.data_answered(token, outcome, now),
            Event::Failed(failure) => self.consumer.end(failure),
            Event::Notified(_) => {}
        }
    }

    fn process_watch(&mut self, event: Event<WatchToken>) {
        match event {
            Event::Opened(generation) => self.consumer.watch_opened(generation),
            Event::Lost => self.consumer.watch_lost(),
            Event::Answered { token, outcome } => self.consumer.watch_answered(token, outcome),
            Event::Notified(payload) => self.consumer.watch_notified(&payload),
            Event::Failed(failure) => self.consumer.end(failure),
        }
    }

    fn end(mut self) {
        self.opened.fulfil(Err(Failure::Closed));
        let mut ready = lock(&self.ready);
        ready.is_ended = true;
        let waits = std::mem::take(&mut ready.waits);
        drop(ready);
        for wait in waits {
            wait.fulfil(());
        }
        for left in &self.left {
            left.fulfil(());
        }
        for (token, outcome) in self.data.end() {
            if let DataToken::Commit(promise) = token {
                promise.fulfil(outcome.map(|_| ()));
            }
        }
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Commit(_, _, promise) => promise.fulfil(Err(Failure::Closed)),
                Order::Seek(_, _, promise) => promise.fulfil(false),
                Order::Position(_, promise) => promise.fulfil(None),
                Order::Leave(promise) => promise.fulfil(()),
                Order::Taken(_) | Order::Processed(..) | Order::Pause(_) | Order::Resume(_) => {}
            }
        }
    }
}
