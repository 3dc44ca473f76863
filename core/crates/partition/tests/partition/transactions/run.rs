//! One run: writers, transactions, other producers, time, and faults.

use fastrand::Rng;
use headrace_model::{Durability, Offset, StageId, Timestamp};
use headrace_partition::storage::FileName;
use headrace_partition::{PartitionConfig, PartitionError, RequestId, Response, StageLimits};

use super::catalog::Catalog;
use super::checker::visible;
use crate::support::disk::{Crash, Fault};
use crate::support::messages::{Sent, sent};
use crate::support::world::{World, config};

/// Return whether a message is staged: staged messages have odd numbers, others even ones.
pub const fn is_staged(number: u64) -> bool {
    number % 2 == 1
}

/// A client that fills a stage.
#[derive(Debug)]
struct Writer {
    stage: Option<StageId>,
    /// Messages of the acknowledged chunks.
    messages: Vec<u64>,
    chunks: u32,
    /// Chunk in flight: messages, and whether it is the last.
    chunk: Vec<u64>,
    is_last: bool,
    /// Requests for the chunk in flight; their responses may be lost.
    request_ids: Vec<RequestId>,
}

/// An acknowledged stage.
#[derive(Debug, Clone)]
struct Ready {
    stage: StageId,
    messages: Vec<u64>,
}

pub struct Run {
    pub world: World,
    pub catalog: Catalog,
    random: Rng,
    /// Messages that were acknowledged.
    pub certain: Vec<u64>,
    /// Messages found by the last check.
    pub seen: Vec<u64>,
    writers: Vec<Writer>,
    ready: Vec<Ready>,
    appends: Vec<(RequestId, Vec<u64>)>,
    next: u64,
    length: usize,
    /// True if the disk may become full.
    is_small_disk: bool,
    /// Largest value of `applied` returned by the partition.
    applied: u64,
}

impl Run {
    pub fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let durability = match random.u8(..3) {
            0 => Durability::Memory,
            1 => Durability::Os,
            _ => Durability::Fsync,
        };
        let settings = PartitionConfig {
            segment_size_bytes: random.u64(500..6000),
            tail_cache_bytes: random.u64(..4) * 2000,
            queue_bytes_max: if random.bool() { 2000 } else { 64 << 20 },
            poll_size_bytes_max: 5000,
            stages: StageLimits {
                count_max: random.u32(3..20),
                stage_bytes_max: random.u64(2000..10_000),
                bytes_max: random.u64(5000..100_000),
                ..StageLimits::DEFAULT
            },
            ..config(durability)
        };
        let length = [8, 100, 600][random.usize(..3)];
        let is_small_disk = random.bool();
        let mut world = World::shuffled(settings, seed);
        world.settle();
        Self {
            world,
            catalog: Catalog::new(random.u64(..65_000_000)),
            random,
            certain: Vec::new(),
            seen: Vec::new(),
            writers: Vec::new(),
            ready: Vec::new(),
            appends: Vec::new(),
            next: 0,
            length,
            is_small_disk,
            applied: 0,
        }
    }

    pub fn run(mut self) {
        for _ in 0..self.random.usize(20..200) {
            self.act();
            self.process_responses();
        }
        self.end();
    }

    fn act(&mut self) {
        match self.random.u8(..100) {
            0..15 => self.write(),
            15..25 => self.append(),
            25..37 => self.commit(),
            37..47 => self.sync_catalog(),
            47..75 => {
                self.world.end_of_turn();
                for _ in 0..self.random.usize(..12) {
                    self.world.step();
                }
            }
            75..80 => self.check(),
            80..83 => self.abort(),
            83..86 => self.pass_horizon(),
            86..90 => {
                let micros = self.random.u64(..5_000_000);
                self.catalog.timestamp += micros;
                self.world.pass(micros);
            }
            90..92 => {
                let faults = vec![Fault::ExhaustedForChanges; self.random.usize(..4)];
                self.world.disk.faults.extend(faults);
            }
            92 => self.purge(),
            93 => self.world.disk.full = self.is_small_disk && self.random.bool(),
            94 => self.restart(),
            95 => self.settle(),
            _ => self.crash(),
        }
    }

    fn numbers(&mut self, staged: bool) -> Vec<u64> {
        let count = self.random.usize(..5);
        let first = self.next;
        self.next += count as u64;
        let number = |number| number * 2 + u64::from(staged);
        (first..self.next).map(number).collect()
    }

    fn sent(&self, numbers: &[u64]) -> Vec<Sent> {
        let sent = |number: &u64| sent(*number, self.length);
        numbers.iter().map(sent).collect()
    }

    fn append(&mut self) {
        let numbers = self.numbers(false);
        if numbers.is_empty() {
            return;
        }
        let messages = self.sent(&numbers);
        let bytes = messages.iter().map(|message| 64 + message.payload.len());
        if self.random.bool() && !self.world.partition.has_room_for(bytes.sum()) {
            return;
        }
        let request_id = if self.random.bool() {
            self.world.submit_in_place(&messages)
        } else {
            let batch = crate::support::messages::batch(&messages);
            let append = headrace_partition::Request::Append { batch };
            self.world.submit(append)
        };
        self.appends.push((request_id, numbers));
    }

    /// Send a writer's next chunk, or repeat the current one.
    fn write(&mut self) {
        let index = self.random.usize(..4);
        if index >= self.writers.len() {
            let chunk = self.numbers(true);
            let is_last = self.random.bool();
            self.writers.push(Writer {
                stage: None,
                messages: Vec::new(),
                chunks: 0,
                chunk,
                is_last,
                request_ids: Vec::new(),
            });
        }
        let index = index.min(self.writers.len() - 1);
        let messages = self.sent(&self.writers[index].chunk.clone());
        let writer = &mut self.writers[index];
        if writer.stage.is_none() && !writer.request_ids.is_empty() {
            // A writer without a stage id waits for it.
            return;
        }
        let (stage, chunk, is_last) = (writer.stage, writer.chunks, writer.is_last);
        let request_id = self.world.submit_chunk(stage, chunk, is_last, &messages);
        self.writers[index].request_ids.push(request_id);
    }

    /// Process responses and reports of the partition.
    fn process_responses(&mut self) {
        for (request_id, numbers) in std::mem::take(&mut self.appends) {
            match self.world.take_answer(request_id) {
                Some(Ok(_)) => self.certain.extend(numbers),
                Some(Err(_)) => {}
                None => self.appends.push((request_id, numbers)),
            }
        }
        for mut writer in std::mem::take(&mut self.writers) {
            if let Some(writer) = self.process_writer_responses(&mut writer).then_some(writer) {
                self.writers.push(writer);
            }
        }
        for published in std::mem::take(&mut self.world.published) {
            assert_eq!(published.stages_missing, 0, "{published:?}");
            let applied = self.world.partition.applied();
            assert!(published.number <= applied, "it is on the device");
        }
        let applied = self.world.partition.applied();
        if self.world.partition.is_open() {
            assert!(
                applied >= self.applied,
                "{} was on the device",
                self.applied
            );
            self.applied = applied;
        }
    }

    /// Process the responses to a writer. Returns whether the writer continues.
    fn process_writer_responses(&mut self, writer: &mut Writer) -> bool {
        let mut answer = None;
        for request_id in std::mem::take(&mut writer.request_ids) {
            match self.world.take_answer(request_id) {
                Some(answered) => answer = Some(answered),
                None => writer.request_ids.push(request_id),
            }
        }
        match answer {
            None
            | Some(Err(
                PartitionError::Busy | PartitionError::Failed(_) | PartitionError::Closed,
            )) => true,
            Some(Ok(Response::Staged {
                stage, messages, ..
            })) => {
                assert!(writer.stage.is_none_or(|known| known == stage));
                writer.stage = Some(stage);
                writer.messages.append(&mut writer.chunk);
                assert_eq!(messages, writer.messages.len() as u64);
                writer.chunks += 1;
                // Other requests for the same chunk get the same response.
                writer.request_ids.clear();
                if writer.is_last {
                    self.ready.push(Ready {
                        stage,
                        messages: std::mem::take(&mut writer.messages),
                    });
                    return false;
                }
                writer.chunk = self.numbers(true);
                writer.is_last = self.random.bool();
                true
            }
            Some(Err(
                PartitionError::StageNotFound
                | PartitionError::StageTooLarge
                | PartitionError::StagesExhausted
                | PartitionError::Store { .. },
            )) => false,
            Some(other) => panic!("a writer heard {other:?}"),
        }
    }

    fn commit(&mut self) {
        let count = self.random.usize(1..4).min(self.ready.len());
        if count == 0 {
            return;
        }
        self.random.shuffle(&mut self.ready);
        let taken = self.ready.split_off(self.ready.len() - count);
        let stages = taken.iter().map(|ready| ready.stage).collect();
        let messages = taken.iter().flat_map(|ready| ready.messages.clone());
        let _ = self.catalog.commit(stages, messages.collect());
    }

    fn abort(&mut self) {
        let stages = self.ready.iter().map(|ready| ready.stage);
        let unfinished = self.writers.iter().filter_map(|writer| writer.stage);
        let stages: Vec<StageId> = stages.chain(unfinished).collect();
        if let Some(stage) = self.random.choice(&stages).copied()
            && self.catalog.abort(stage)
        {
            self.world.partition.drop_stages(&[stage]);
        }
    }

    /// Apply the catalog to the partition, and report completed publications to the catalog.
    fn sync_catalog(&mut self) {
        for (number, stages) in &self.catalog.pending {
            self.world.partition.publish(*number, stages);
        }
        self.world.end_of_turn();
        if self.random.bool() {
            let applied = self.world.partition.applied();
            self.catalog.applied(applied);
        }
    }

    fn pass_horizon(&mut self) {
        let horizon = Timestamp(self.catalog.timestamp);
        let catalog = &self.catalog;
        (self.world.partition).drop_expired_stages(horizon, |stage| catalog.names(stage));
        self.world.end_of_turn();
    }

    fn purge(&mut self) {
        self.catalog.purge();
        self.world.purge();
        self.process_responses();
        self.certain.clear();
        self.seen.clear();
        self.appends.clear();
    }

    fn settle(&mut self) {
        self.world.disk.full = false;
        self.world.disk.faults.clear();
        self.world
            .settle_in_time(|partition| partition.failure().is_none());
        self.process_responses();
    }

    fn restart(&mut self) {
        if self.world.config.durability == Durability::Memory {
            // A stop does not wait for space.
            self.settle();
        }
        self.world.close();
        self.process_responses();
        self.begin_again();
        self.world.disk.full = false;
        self.world.disk.faults.clear();
        self.world.restart();
    }

    fn crash(&mut self) {
        if self.random.bool() {
            // Crash in the middle of other work.
            self.write();
            self.sync_catalog();
            for _ in 0..self.random.usize(..10) {
                self.world.step();
            }
        }
        self.process_responses();
        let crash = if self.random.bool() {
            Crash::Kill
        } else {
            Crash::Power
        };
        let durability = self.world.config.durability;
        let keeps = match crash {
            Crash::Kill => durability != Durability::Memory,
            Crash::Power => durability == Durability::Fsync,
        };
        if !keeps {
            self.certain.clear();
            self.seen.clear();
        }
        self.world.disk.full = false;
        self.world.crash(crash);
        assert_eq!(self.world.partition.failure(), None);
        self.begin_again();
        self.check();
    }

    /// Forget requests from before the restart, which are never answered.
    fn begin_again(&mut self) {
        self.appends.clear();
        for writer in &mut self.writers {
            writer.request_ids.clear();
        }
    }

    /// Complete everything, and check that nothing is left over.
    fn end(&mut self) {
        self.settle();
        for (number, stages) in &self.catalog.pending {
            self.world.partition.publish(*number, stages);
        }
        let last = self.catalog.pending.keys().next_back().copied();
        let last = last.unwrap_or(0);
        self.world.settle_in_time(|partition| {
            let is_written = partition.visible_end() == partition.next_offset();
            is_written && partition.applied() >= last
        });
        self.process_responses();
        self.check();
        let complete = self.catalog.committed.values();
        let expected: usize = complete.map(Vec::len).sum();
        let found = self.seen.iter().filter(|number| is_staged(**number));
        assert_eq!(found.count(), expected, "all of it is published");
        let everything = Timestamp(u64::MAX);
        self.world
            .partition
            .drop_expired_stages(everything, |_| false);
        (self.world).settle_in_time(|partition| partition.stages_count() == 0);
        let is_stage = |file: &FileName| matches!(file, FileName::Stage(_));
        assert!(!self.world.disk.files().iter().any(is_stage));
        let partition = &self.world.partition;
        assert_eq!((partition.stages_count(), partition.staged_bytes()), (0, 0));
        assert!(self.world.partition.next_offset() >= Offset(self.seen.len() as u64));
        let before = visible(&mut self.world);
        self.world.restart();
        assert_eq!(visible(&mut self.world), before);
        assert!(self.world.partition.applied() >= self.applied);
    }
}
