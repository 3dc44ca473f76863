//! Two members of a group against a server whose partitions move and whose connections break at random.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const PARTITIONS: u32 = 3;

#[derive(Debug, Clone)]
enum Step {
    Append(u32),
    /// The oldest request of a member is executed and answered.
    Answer(usize),
    /// The oldest request of a member is refused for the moment.
    Refuse(usize),
    /// The watch session of a member delivers the oldest report.
    Report(usize),
    /// The owner of a member takes an item and processes its messages.
    Take(usize),
    Commit(usize, u32),
    /// The data connection of a member breaks, after so many of its requests were executed without an answer.
    Lose(usize, usize),
    Open(usize),
    LoseWatch(usize),
    OpenWatch(usize),
    /// A partition is to move to another member.
    Revoke(u32),
    /// The time for giving a partition up has passed.
    Move(u32),
    Heartbeat(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let member = 0..2_usize;
    let partition = 0..PARTITIONS;
    prop_oneof![
        4 => partition.clone().prop_map(Step::Append),
        12 => member.clone().prop_map(Step::Answer),
        1 => member.clone().prop_map(Step::Refuse),
        6 => member.clone().prop_map(Step::Report),
        6 => member.clone().prop_map(Step::Take),
        3 => (member.clone(), partition.clone()).prop_map(|(member, partition)| Step::Commit(member, partition)),
        1 => (member.clone(), 0..3_usize).prop_map(|(member, executed)| Step::Lose(member, executed)),
        3 => member.clone().prop_map(Step::Open),
        1 => member.clone().prop_map(Step::LoseWatch),
        3 => member.clone().prop_map(Step::OpenWatch),
        2 => partition.clone().prop_map(Step::Revoke),
        1 => partition.prop_map(Step::Move),
        4 => member.prop_map(Step::Heartbeat),
    ]
}

/// A partition on the server.
#[derive(Default)]
struct Log {
    end: u64,
    stored: Option<u64>,
    owner: Option<usize>,
    is_leaving: bool,
    /// Number of the present ownership.
    ownership: u32,
    /// Ownership in which each member last asked for the stored offset.
    asked_in: [Option<u32>; 2],
    /// Last offset that the owner was sent.
    delivered: Option<u64>,
    processed: BTreeSet<u64>,
}

impl Log {
    fn is_given_up(&self) -> bool {
        self.is_leaving && self.delivered <= self.stored
    }
}

struct Member {
    consumer: Consumer<u32>,
    now: Duration,
    generation: u64,
    is_open: bool,
    has_joined: bool,
    asked: VecDeque<(Request, DataToken<u32>)>,
    is_watching: bool,
    watched: BTreeSet<u32>,
    /// Partition and end, as they were when the report was made.
    reports: VecDeque<(u32, u64)>,
    ready: VecDeque<Item>,
    /// Partitions as the caller knows them, with the offset after the last message of this ownership.
    owned: BTreeMap<u32, Option<u64>>,
    last_processed: BTreeMap<u32, u64>,
}

struct World {
    logs: Vec<Log>,
    members: Vec<Member>,
}

impl World {
    fn new() -> Self {
        let member = || {
            let mut config = ConsumerConfig::new(group(false));
            config.prefetch_bytes = 500;
            Member {
                consumer: Consumer::new(
                    config,
                    OwnedIdentifier::Numeric(1),
                    OwnedIdentifier::Numeric(2),
                ),
                now: SECOND,
                generation: 0,
                is_open: false,
                has_joined: false,
                asked: VecDeque::new(),
                is_watching: false,
                watched: BTreeSet::new(),
                reports: VecDeque::new(),
                ready: VecDeque::new(),
                owned: BTreeMap::new(),
                last_processed: BTreeMap::new(),
            }
        };
        let mut world = Self {
            logs: (0..PARTITIONS).map(|_| Log::default()).collect(),
            members: vec![member(), member()],
        };
        world.open(0);
        world.open_watch(0);
        world
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append(id) => {
                self.logs[id as usize].end += 1;
                let end = self.logs[id as usize].end;
                for member in &mut self.members {
                    if member.watched.contains(&id) {
                        member.reports.push_back((id, end));
                    }
                }
            }
            Step::Answer(member) => self.answer(member),
            Step::Refuse(member) => {
                if let Some((_, token)) = self.members[member].asked.pop_front() {
                    self.answered(member, token, refused(Status::TASK_TIMEOUT));
                }
            }
            Step::Report(member) => self.report(member),
            Step::Take(member) => self.take(member),
            Step::Commit(member, id) => self.commit(member, id),
            Step::Lose(member, executed) => self.lose(member, executed),
            Step::Open(member) => self.open(member),
            Step::LoseWatch(member) => {
                let member = &mut self.members[member];
                if member.is_watching {
                    member.is_watching = false;
                    member.watched.clear();
                    member.reports.clear();
                    member.consumer.watch_lost();
                }
            }
            Step::OpenWatch(member) => self.open_watch(member),
            Step::Revoke(id) => {
                let log = &mut self.logs[id as usize];
                log.is_leaving = log.owner.is_some() && !log.is_leaving;
                self.settle(id);
            }
            Step::Move(id) => {
                if self.logs[id as usize].is_leaving {
                    self.pass_on(id);
                }
            }
            Step::Heartbeat(member) => self.heartbeat(member),
        }
        for member in 0..self.members.len() {
            self.collect(member);
        }
    }

    /// Give a partition to the other member, or to the only one.
    fn pass_on(&mut self, id: u32) {
        let log = &mut self.logs[id as usize];
        let joined = |index: &usize| self.members[*index].has_joined;
        let other = (0..2)
            .filter(joined)
            .find(|index| Some(*index) != log.owner);
        log.owner = other.or((0..2).find(joined));
        log.is_leaving = false;
        log.ownership += 1;
        log.delivered = None;
    }

    fn settle(&mut self, id: u32) {
        if self.logs[id as usize].is_given_up() {
            self.pass_on(id);
        }
    }

    fn collect(&mut self, index: usize) {
        while let Some(effect) = self.members[index].consumer.next_effect() {
            let member = &mut self.members[index];
            match effect {
                ConsumerEffect::Data { request, token } => {
                    assert!(matches!(request.repeat, Repeat::Bound(_)));
                    if member.is_open && request.repeat == Repeat::Bound(member.generation) {
                        member.asked.push_back((request, token));
                    } else {
                        let reason = "lost".to_owned();
                        let outcome = Err(Failure::NotSent { reason });
                        member.consumer.data_answered(token, outcome, member.now);
                    }
                }
                ConsumerEffect::Watch { request, .. } => {
                    let frame = request.frame.concat();
                    let decoded = Command::decode(request.code, &frame[8..]);
                    let Ok(Command::WatchPartitions(change)) = decoded else {
                        panic!("{decoded:?}");
                    };
                    for id in &change.topics[0].partition_ids {
                        if change.action == WatchAction::Remove {
                            member.watched.remove(id);
                        } else if member.is_watching {
                            member.watched.insert(*id);
                            member.reports.push_back((*id, self.logs[*id as usize].end));
                        }
                    }
                }
                ConsumerEffect::Item(item) => self.hand_out(index, item),
                ConsumerEffect::Committed { .. } => {}
                ConsumerEffect::Left => panic!("no member leaves"),
            }
        }
    }

    fn hand_out(&mut self, index: usize, item: Item) {
        let member = &mut self.members[index];
        if let Item::Lost(ids) = &item {
            let mut bytes = 0;
            member.ready.retain(|item| match item {
                Item::Batch(batch) if ids.contains(&batch.partition) => {
                    bytes += batch.messages.len();
                    false
                }
                _ => true,
            });
            member.consumer.taken(bytes);
        }
        member.ready.push_back(item);
    }

    fn answer(&mut self, index: usize) {
        if let Some((request, token)) = self.members[index].asked.pop_front() {
            let outcome = self.execute(index, &request);
            self.answered(index, token, outcome);
        }
    }

    fn answered(&mut self, index: usize, token: DataToken<u32>, outcome: Outcome) {
        let member = &mut self.members[index];
        member.consumer.data_answered(token, outcome, member.now);
        self.collect(index);
    }

    fn execute(&mut self, index: usize, request: &Request) -> Outcome {
        let frame = request.frame.concat();
        match Command::decode(request.code, &frame[8..]).expect("a valid request") {
            Command::JoinConsumerGroup(_) => {
                self.members[index].has_joined = true;
                for id in 0..PARTITIONS {
                    if self.logs[id as usize].owner.is_none() {
                        self.pass_on(id);
                    }
                }
                Ok(Bytes::new())
            }
            Command::GetMembership(_) if !self.members[index].has_joined => {
                refused(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND)
            }
            Command::GetMembership(_) => {
                let owned = (0..PARTITIONS).zip(&self.logs);
                let owned = owned.filter(|(_, log)| log.owner == Some(index));
                let owned = owned.map(|(partition_id, log)| AssignedPartition {
                    partition_id,
                    is_leaving: log.is_leaving,
                });
                Ok(member_answer(owned.collect()))
            }
            Command::GetConsumerOffset(path) => {
                let id = path.partition_id.expect("one is named");
                let log = &mut self.logs[id as usize];
                log.asked_in[index] = Some(log.ownership);
                let found = log.stored;
                Ok(found.map_or_else(Bytes::new, |offset| stored(id, offset)))
            }
            Command::StoreConsumerOffset(request) => {
                let id = request.path.partition_id.expect("one is named");
                let log = &mut self.logs[id as usize];
                if log.owner != Some(index) {
                    return refused(Status::NOT_RESOLVED_CONSUMER);
                }
                let is_processed =
                    (0..=request.offset).all(|offset| log.processed.contains(&offset));
                assert!(is_processed, "stored is what was processed");
                // One that was away and came back between two heartbeats has not been noticed.
                if log.asked_in[index] == Some(log.ownership) {
                    let is_further = log.stored.is_none_or(|stored| stored <= request.offset);
                    assert!(is_further, "a group is not moved back");
                }
                log.stored = Some(request.offset);
                self.settle(id);
                Ok(Bytes::new())
            }
            Command::ReadMessages(request) => {
                let id = request.poll.partition_id.expect("one is named");
                let log = &mut self.logs[id as usize];
                if log.owner != Some(index) {
                    return Ok(read_answer(0, ReadGap::default(), 0..0, 0));
                }
                let begin = match request.poll.strategy {
                    PollingStrategy::Offset(offset) => offset,
                    _ => 0,
                };
                let end = log.end.min(begin + 3).max(begin);
                if begin < end {
                    log.delivered = log.delivered.max(Some(end - 1));
                }
                let last = log.end.saturating_sub(1);
                Ok(read_answer(id, ReadGap::default(), begin..end, last))
            }
            other => panic!("{other:?}"),
        }
    }

    fn report(&mut self, index: usize) {
        let member = &mut self.members[index];
        let Some((partition_id, next_offset)) = member.reports.pop_front() else {
            return;
        };
        let report = WatchedPartition {
            status: Status::OK,
            stream_id: 1,
            topic_id: 2,
            partition_id,
            incarnation: 1,
            purge_epoch: 0,
            first_offset: 0,
            next_offset,
        };
        let mut payload = Vec::new();
        encode_list(&[WatchedLog::from(report)], &mut payload);
        member.consumer.watch_notified(&payload);
        self.collect(index);
    }

    fn take(&mut self, index: usize) {
        let member = &mut self.members[index];
        match member.ready.pop_front() {
            None => return,
            Some(Item::Assigned(ids)) => {
                for id in ids {
                    let before = member.owned.insert(id, None);
                    assert_eq!(before, None, "{id} is assigned twice");
                }
            }
            Some(Item::Revoked(ids) | Item::Lost(ids)) => {
                for id in ids {
                    assert!(member.owned.remove(&id).is_some(), "{id} was not assigned");
                }
            }
            Some(Item::Batch(batch)) => {
                member.consumer.taken(batch.messages.len());
                let next = member
                    .owned
                    .get_mut(&batch.partition)
                    .expect("it is assigned");
                assert!(
                    next.is_none_or(|next| next == batch.first_offset),
                    "without gaps"
                );
                *next = Some(batch.next_offset);
                let log = &mut self.logs[batch.partition as usize];
                log.processed.extend(batch.first_offset..batch.next_offset);
                let last = batch.next_offset - 1;
                member.last_processed.insert(batch.partition, last);
                member
                    .consumer
                    .note_processed(batch.partition, batch.next_offset);
            }
            Some(item) => panic!("{item:?}"),
        }
        self.collect(index);
    }

    fn commit(&mut self, index: usize, id: u32) {
        let member = &mut self.members[index];
        if let Some(offset) = member.last_processed.get(&id) {
            member.consumer.commit(id, *offset, id);
        }
        self.collect(index);
    }

    fn lose(&mut self, index: usize, executed: usize) {
        if !self.members[index].is_open {
            return;
        }
        for _ in 0..executed {
            if let Some((request, token)) = self.members[index].asked.pop_front() {
                let _lost = self.execute(index, &request);
                let reason = "lost".to_owned();
                self.members[index].is_open = false;
                self.answered(index, token, Err(Failure::Unanswered { reason }));
            }
        }
        let member = &mut self.members[index];
        member.is_open = false;
        member.has_joined = false;
        for (_, token) in std::mem::take(&mut member.asked) {
            let reason = "lost".to_owned();
            let outcome = Err(Failure::NotSent { reason });
            member.consumer.data_answered(token, outcome, member.now);
        }
        member.consumer.data_lost();
        for id in 0..PARTITIONS {
            if self.logs[id as usize].owner == Some(index) {
                self.pass_on(id);
            }
        }
        self.collect(index);
    }

    fn open(&mut self, index: usize) {
        let member = &mut self.members[index];
        if !member.is_open {
            member.is_open = true;
            member.generation += 1;
            member.consumer.data_opened(member.generation, member.now);
            self.collect(index);
        }
    }

    fn open_watch(&mut self, index: usize) {
        let member = &mut self.members[index];
        if !member.is_watching {
            member.is_watching = true;
            member.consumer.watch_opened(1);
            self.collect(index);
        }
    }

    fn heartbeat(&mut self, index: usize) {
        let member = &mut self.members[index];
        if let Some(deadline) = member.consumer.next_deadline() {
            member.now = member.now.max(deadline);
            member.consumer.tick(member.now);
            let next = member.consumer.next_deadline();
            assert!(
                next.is_none_or(|next| next > member.now),
                "no wake-up is in vain"
            );
        }
        self.collect(index);
    }

    fn is_processed(&self) -> bool {
        (self.logs.iter()).all(|log| log.processed.len() as u64 == log.end)
    }

    /// Let everything work.
    fn finish(&mut self) {
        for round in 1..100 {
            for index in 0..2 {
                self.open(index);
                self.open_watch(index);
                let mut answers = 0;
                while !self.members[index].asked.is_empty()
                    || !self.members[index].reports.is_empty()
                    || !self.members[index].ready.is_empty()
                {
                    self.answer(index);
                    self.report(index);
                    self.take(index);
                    answers += 1;
                    assert!(answers < 1000, "it does not ask without end");
                }
                for id in 0..PARTITIONS {
                    self.commit(index, id);
                }
            }
            if self.is_processed() {
                return;
            }
            for index in 0..2 {
                self.heartbeat(index);
            }
            // A partition whose owner was sent something and has lost the answer moves when its time has passed.
            for id in (0..PARTITIONS).filter(|_| round % 10 == 0) {
                self.run(&Step::Move(id));
            }
        }
        panic!("it makes progress");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_handed_out_in_order_to_the_owner_of_its_partition(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        world.finish();
        for log in &world.logs {
            prop_assert!(log.stored.is_none_or(|stored| stored < log.end));
        }
    }
}
