mod model;
mod moves;
mod reads;

use headrace_model::{Offset, Opening};
use headrace_wire::batch::BatchBuilder;
use headrace_wire::message::{HEADER_BYTES, HeaderMut, Messages};
use headrace_wire::response::{
    AssignedPartition, ConsumerOffsetInfo, Membership as MemberAnswer, PartitionInfo, Polled,
    PolledHeader, ReadAnswer, ReadGap, TopicDetails, TopicHeader, WatchedLog, WatchedPartition,
    encode_list,
};
use headrace_wire::{CommandCode, CompressionAlgorithm, PollingStrategy, Status, WatchAction};

use bytes::Bytes;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A consumer with its requests, in short words, and what it has handed out.
struct Bench {
    consumer: Consumer<u32>,
    now: Duration,
    /// Requests on the data session that are not answered, oldest first.
    asked: VecDeque<(String, DataToken<u32>)>,
    watch: Vec<String>,
    reported: Vec<String>,
}

impl Bench {
    fn new(membership: Membership, start: Start) -> Self {
        let mut config = ConsumerConfig::new(membership);
        config.start = start;
        config.prefetch_bytes = 1000;
        Self {
            consumer: Consumer::new(
                config,
                OwnedIdentifier::Numeric(1),
                OwnedIdentifier::named("topic").expect("short"),
            ),
            now: SECOND,
            asked: VecDeque::new(),
            watch: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// A consumer without a group that reads these partitions, and knows no stored offsets.
    fn alone(partitions: &[u32], start: Start) -> Self {
        let mut bench = Self::new(
            Membership::Alone {
                name: None,
                partitions: Some(partitions.to_vec()),
            },
            start,
        );
        bench.open(1);
        bench.reported.clear();
        bench.watch.clear();
        bench
    }

    /// A member that owns these partitions, without stored offsets.
    fn member(partitions: &[u32]) -> Self {
        let mut bench = Self::new(group(true), Start::First);
        bench.open(1);
        bench.answer("join", Ok(Bytes::new()));
        bench.assign(partitions, &[]);
        for partition in partitions {
            bench.answer(&format!("offset {partition}"), Ok(Bytes::new()));
        }
        bench.reported.clear();
        bench.watch.clear();
        bench
    }

    fn open(&mut self, generation: u64) {
        self.consumer.watch_opened(generation);
        self.consumer.data_opened(generation, self.now);
        self.collect();
    }

    fn lose(&mut self) {
        let reason = "reset".to_owned();
        while let Some((_, token)) = self.asked.pop_front() {
            let outcome = Err(Failure::Unanswered {
                reason: reason.clone(),
            });
            self.consumer.data_answered(token, outcome, self.now);
        }
        self.consumer.data_lost();
        self.collect();
        // What was asked after the loss is answered at once.
        while let Some((_, token)) = self.asked.pop_front() {
            let outcome = Err(Failure::NotSent {
                reason: reason.clone(),
            });
            self.consumer.data_answered(token, outcome, self.now);
            self.collect();
        }
    }

    fn collect(&mut self) {
        while let Some(effect) = self.consumer.next_effect() {
            match effect {
                ConsumerEffect::Data { request, token } => {
                    let frame = request.frame.concat();
                    self.asked
                        .push_back((words(request.code, &frame[8..]), token));
                }
                ConsumerEffect::Watch { request, .. } => {
                    let frame = request.frame.concat();
                    self.watch.push(words(request.code, &frame[8..]));
                }
                ConsumerEffect::Item(item) => self.reported.push(item_words(&item)),
                ConsumerEffect::Committed { token, outcome } => {
                    let result = if outcome.is_ok() { "done" } else { "failed" };
                    self.reported.push(format!("commit {token} {result}"));
                }
                ConsumerEffect::Left => self.reported.push("left".to_owned()),
            }
        }
    }

    /// Answer the oldest request, which is to be this one.
    fn answer(&mut self, request: &str, outcome: Outcome) {
        let (asked, token) = self.asked.pop_front().expect("something was asked");
        assert_eq!(asked, request);
        self.consumer.data_answered(token, outcome, self.now);
        self.collect();
    }

    fn assign(&mut self, owned: &[u32], leaving: &[u32]) {
        let mut partitions: Vec<_> = (owned.iter().map(|id| (*id, false)))
            .chain(leaving.iter().map(|id| (*id, true)))
            .map(|(partition_id, is_leaving)| AssignedPartition {
                partition_id,
                is_leaving,
            })
            .collect();
        partitions.sort_by_key(|partition| partition.partition_id);
        self.answer("membership", Ok(member_answer(partitions)));
    }

    /// Report that a partition has the messages up to, but without, `next_offset`.
    fn report(&mut self, partition_id: u32, next_offset: u64) {
        self.report_purged(partition_id, 0, next_offset);
    }

    fn report_purged(&mut self, partition_id: u32, purge_epoch: u64, next_offset: u64) {
        self.report_all(&[watched(partition_id, purge_epoch, next_offset)]);
    }

    fn report_status(&mut self, partition_id: u32, status: Status) {
        self.report_all(&[WatchedPartition {
            status,
            stream_id: 1,
            topic_id: 1,
            partition_id,
            incarnation: 0,
            purge_epoch: 0,
            first_offset: 0,
            next_offset: 0,
        }]);
    }

    /// Report a log with these openings, each with the end that it found.
    fn report_opened(&mut self, next_offset: u64, openings: &[(u64, u64)]) {
        let opening = |&(epoch, end)| Opening {
            epoch,
            end: Offset(end),
        };
        self.report_logs(&[WatchedLog {
            state: watched(0, 0, next_offset),
            openings: openings.iter().map(opening).collect(),
        }]);
    }

    fn report_all(&mut self, reports: &[WatchedPartition]) {
        let logs: Vec<WatchedLog> = reports.iter().copied().map(WatchedLog::from).collect();
        self.report_logs(&logs);
    }

    fn report_logs(&mut self, reports: &[WatchedLog]) {
        let mut payload = Vec::new();
        encode_list(reports, &mut payload);
        self.consumer.watch_notified(&payload);
        self.collect();
    }

    /// Let time pass up to the next deadline, which has to exist.
    fn pass(&mut self) {
        self.now = self.consumer.next_deadline().expect("there is a deadline");
        self.consumer.tick(self.now);
        self.collect();
    }

    fn take_reported(&mut self) -> Vec<String> {
        self.collect();
        std::mem::take(&mut self.reported)
    }

    fn asked(&self) -> Vec<&str> {
        self.asked.iter().map(|(words, _)| words.as_str()).collect()
    }
}

/// State of a partition that is read from its first message on.
const fn watched(partition_id: u32, purge_epoch: u64, next_offset: u64) -> WatchedPartition {
    WatchedPartition {
        status: Status::OK,
        stream_id: 1,
        topic_id: 1,
        partition_id,
        incarnation: 1,
        purge_epoch,
        first_offset: 0,
        next_offset,
    }
}

fn group(create: bool) -> Membership {
    Membership::Group {
        group: OwnedIdentifier::named("group").expect("short"),
        create,
    }
}

fn words(code: u32, payload: &[u8]) -> String {
    match Command::decode(code, payload).expect("a valid request") {
        Command::JoinConsumerGroup(_) => "join".to_owned(),
        Command::CreateConsumerGroup(request) => format!("create {}", request.name),
        Command::LeaveConsumerGroup(_) => "leave".to_owned(),
        Command::GetMembership(_) => "membership".to_owned(),
        Command::GetTopic(_) => "topic".to_owned(),
        Command::GetConsumerOffset(path) => {
            format!("offset {}", path.partition_id.expect("one is named"))
        }
        Command::StoreConsumerOffset(request) => {
            let partition = request.path.partition_id.expect("one is named");
            format!("store {partition} {}", request.offset)
        }
        Command::ReadMessages(request) => {
            let partition = request.poll.partition_id.expect("one is named");
            assert!(!request.poll.auto_commit);
            match request.poll.strategy {
                PollingStrategy::Offset(offset) => format!("read {partition} from {offset}"),
                strategy => format!("read {partition} {strategy:?}"),
            }
        }
        Command::WatchPartitions(request) => {
            let ids = &request.topics[0].partition_ids;
            let sign = match request.action {
                WatchAction::AddNamingOpenings => "+",
                WatchAction::Add => "+ without openings ",
                WatchAction::Remove => "-",
            };
            format!("{sign}{ids:?}")
        }
        other => panic!("{other:?}"),
    }
}

fn item_words(item: &Item) -> String {
    match item {
        Item::Batch(batch) => {
            assert_eq!(
                u64::from(batch.messages_count),
                batch.next_offset - batch.first_offset
            );
            format!(
                "batch {} {}..{}",
                batch.partition, batch.first_offset, batch.next_offset
            )
        }
        Item::Assigned(ids) => format!("assigned {ids:?}"),
        Item::Revoked(ids) => format!("revoked {ids:?}"),
        Item::Lost(ids) => format!("lost {ids:?}"),
        Item::Gap {
            partition,
            from,
            to,
        } => format!("gap {partition} {from}..{to}"),
        Item::Reset { partition } => format!("reset {partition}"),
        Item::Refused(failure) => format!("refused: {failure}"),
        Item::Failed(failure) => format!("failed: {failure}"),
    }
}

fn refused(status: Status) -> Outcome {
    Err(Failure::Refused {
        code: CommandCode::Ping.code(),
        status,
        explanation: String::new(),
    })
}

fn member_answer(partitions: Vec<AssignedPartition>) -> Bytes {
    let mut payload = Vec::new();
    let answer = MemberAnswer {
        member_id: 1,
        partitions,
    };
    answer.encode(&mut payload);
    payload.into()
}

fn stored(partition_id: u32, stored_offset: u64) -> Bytes {
    let mut payload = Vec::new();
    let info = ConsumerOffsetInfo {
        partition_id,
        current_offset: 1000,
        stored_offset,
    };
    info.encode(&mut payload);
    payload.into()
}

/// Messages with these offsets.
fn message_bytes(offsets: std::ops::Range<u64>) -> Vec<u8> {
    let mut messages = BatchBuilder::new();
    for _ in offsets.clone() {
        messages.push(1, 0, b"message", b"").expect("short");
    }
    let (_, mut bytes) = messages.into_parts();
    let length = HEADER_BYTES + b"message".len();
    for (offset, message) in offsets.zip(bytes.chunks_exact_mut(length)) {
        let header = message.first_chunk_mut::<HEADER_BYTES>();
        HeaderMut(header.expect("a whole message")).set_offset(offset);
    }
    bytes
}

/// The answer to a read of a partition whose last offset is `last`.
fn read_answer(partition_id: u32, gap: ReadGap, offsets: std::ops::Range<u64>, last: u64) -> Bytes {
    let bytes = message_bytes(offsets);
    let mut payload = Vec::new();
    let answer = ReadAnswer {
        gap,
        polled: Polled {
            header: PolledHeader {
                partition_id,
                current_offset: last,
                messages_count: u32::try_from(Messages::new(&bytes).count()).expect("few"),
            },
            message_bytes: &bytes,
        },
    };
    answer.encode(&mut payload);
    payload.into()
}

fn messages(partition: u32, offsets: std::ops::Range<u64>) -> Bytes {
    let last = offsets.end.saturating_sub(1);
    read_answer(partition, ReadGap::default(), offsets, last)
}

fn topic(partitions_count: u32) -> Bytes {
    let mut payload = Vec::new();
    let details = TopicDetails {
        topic: TopicHeader {
            id: 1,
            created_at: 0,
            partitions_count,
            message_expiry: 0,
            compression: CompressionAlgorithm::None,
            max_topic_size: 0,
            replication_factor: 1,
            size_bytes: 0,
            messages_count: 0,
            name: "topic",
        },
        partitions: (0..partitions_count)
            .map(|id| PartitionInfo {
                id,
                created_at: 0,
                segments_count: 1,
                current_offset: 0,
                size_bytes: 0,
                messages_count: 0,
            })
            .collect(),
    };
    details.encode(&mut payload);
    payload.into()
}
