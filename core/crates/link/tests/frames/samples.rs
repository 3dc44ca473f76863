//! Samples of every frame.

use std::num::NonZeroU16;
use std::sync::Arc;

use headrace_buffer::Slice;
use headrace_link::{
    CallHeader, EndWait, Membership, PartitionRef, Refusal, RequestId, Scope, StatisticsSnapshot,
    ToGateway, ToNode, TraceContext, WatchedState, WhenReady,
};
use headrace_model::{
    ClientId, ClientKey, GroupId, Namespace, NodeId, Offset, Opening, PartitionId, StageId,
    StreamId, TopicId, UserId,
};
use headrace_partition::storage::{FileName, StorageError, StorageErrorKind};
use headrace_partition::{
    Batch, Committer, ConsumerKey, Failure, Gap, Level, PartitionError, Poll, Polled,
    PollingStrategy, RangePlan, RangeToPlan, ReadError, Request, Response, Split, StoredOffset,
};
use proptest::option;
use proptest::prelude::*;

/// A gateway frame that can be built again: batches cannot be cloned.
#[derive(Debug, Clone)]
pub enum Sample {
    Append {
        call: RequestId,
        place: PartitionRef,
        member: Option<Membership>,
        trace: Option<TraceContext>,
        messages: Vec<u8>,
        messages_count: u32,
        /// Set for staged messages: stage, lifetime, number of the chunk, and whether it is the last.
        stage_chunk: Option<(Option<StageId>, u64, u32, bool)>,
    },
    Other(Other),
}

#[derive(Debug, Clone)]
pub enum Other {
    Request(
        RequestId,
        PartitionRef,
        Option<Membership>,
        Option<TraceContext>,
        Asked,
    ),
    Wait(RequestId, PartitionRef, Option<Membership>, Poll, WhenReady),
    StopWaiting(RequestId, Namespace, EndWait),
    Watch(PartitionRef, Option<WatchedState>, bool),
    Unwatch(Namespace),
    Statistics(RequestId, Scope),
    CatalogVersion(u64),
}

#[derive(Debug, Clone)]
pub enum Asked {
    Poll(Poll),
    GetOffset(ConsumerKey),
    StoreOffset(ConsumerKey, Offset, Option<Committer>),
    DeleteOffset(ConsumerKey, Option<Committer>),
    Flush(bool),
    DeleteSegments(u32),
    PlanRange(RangeToPlan),
}

impl Sample {
    pub fn is_batch(&self) -> bool {
        matches!(self, Self::Append { .. })
    }

    pub fn messages_bytes(&self) -> usize {
        match self {
            Self::Append { messages, .. } => messages.len(),
            Self::Other(_) => 0,
        }
    }

    pub fn frame(self) -> ToNode {
        match self {
            Self::Append {
                call,
                place,
                member,
                trace,
                messages,
                messages_count,
                stage_chunk: part,
            } => ToNode::Request {
                header: CallHeader {
                    call,
                    place,
                    member,
                    trace,
                },
                request: with_messages(Batch::copied(&messages, messages_count), part),
            },
            Self::Other(other) => other.frame(),
        }
    }
}

fn with_messages(batch: Batch, part: Option<(Option<StageId>, u64, u32, bool)>) -> Request {
    match part {
        None => Request::Append { batch },
        Some((stage, lifetime_micros, chunk, is_last)) => Request::Stage {
            stage,
            lifetime_micros,
            chunk,
            is_last,
            batch,
        },
    }
}

impl Other {
    fn frame(self) -> ToNode {
        match self {
            Self::Request(call, place, member, trace, asked) => ToNode::Request {
                header: CallHeader {
                    call,
                    place,
                    member,
                    trace,
                },
                request: asked.request(),
            },
            Self::Wait(call, place, member, poll, when_ready) => ToNode::Wait {
                header: CallHeader {
                    call,
                    place,
                    member,
                    trace: None,
                },
                poll,
                when_ready,
            },
            Self::StopWaiting(call, namespace, stop) => ToNode::EndWait {
                call,
                namespace,
                reaction: stop,
            },
            Self::Watch(place, seen, wants_openings) => ToNode::Watch {
                place,
                last_state: seen,
                wants_openings,
            },
            Self::Unwatch(namespace) => ToNode::Unwatch { namespace },
            Self::Statistics(call, scope) => ToNode::Statistics { call, scope },
            Self::CatalogVersion(version) => ToNode::CatalogVersion(version),
        }
    }
}

impl Asked {
    fn request(self) -> Request {
        match self {
            Self::Poll(poll) => Request::Poll(poll),
            Self::GetOffset(consumer) => Request::GetOffset { consumer },
            Self::StoreOffset(consumer, offset, by) => Request::StoreOffset {
                consumer,
                offset,
                by,
            },
            Self::DeleteOffset(consumer, by) => Request::DeleteOffset { consumer, by },
            Self::Flush(fsync) => Request::Flush { fsync },
            Self::DeleteSegments(count) => Request::DeleteSegments { count },
            Self::PlanRange(range) => Request::PlanRange(range),
        }
    }
}

/// An arbitrary partition.
pub fn place() -> PartitionRef {
    PartitionRef {
        namespace: Namespace::new(StreamId(1), TopicId(2), PartitionId(3)).unwrap(),
        incarnation: 4,
        purge_epoch: 5,
    }
}

/// A batch with the longest possible head before its messages.
pub fn longest() -> Sample {
    Sample::Append {
        call: RequestId(u64::MAX),
        place: place(),
        member: Some(Membership {
            group: GroupId(1),
            key: 2,
            client: ClientKey {
                gateway: 3,
                client: ClientId(4),
            },
            incarnation: 5,
        }),
        trace: Some(TraceContext {
            trace_id: 1,
            span_id: 1,
        }),
        messages: vec![1; 64],
        messages_count: 1,
        stage_chunk: Some((Some(StageId(1)), 2, 3, true)),
    }
}

fn call() -> impl Strategy<Value = RequestId> {
    any::<u64>().prop_map(RequestId)
}

fn namespace() -> impl Strategy<Value = Namespace> {
    (0..1_u64 << 44).prop_map(|word| Namespace::from_packed(word).unwrap())
}

fn places() -> impl Strategy<Value = PartitionRef> {
    (namespace(), any::<u64>(), any::<u64>()).prop_map(|(namespace, incarnation, purge_epoch)| {
        PartitionRef {
            namespace,
            incarnation,
            purge_epoch,
        }
    })
}

fn member() -> impl Strategy<Value = Option<Membership>> {
    let member = any::<(u32, u32, u64, u32, u64)>().prop_map(
        |(group, key, gateway, client, incarnation)| Membership {
            group: GroupId(group),
            key,
            client: ClientKey {
                gateway,
                client: ClientId(client),
            },
            incarnation,
        },
    );
    option::of(member)
}

fn trace() -> impl Strategy<Value = Option<TraceContext>> {
    let trace = (1..u128::MAX, 1..u64::MAX)
        .prop_map(|(trace_id, span_id)| TraceContext { trace_id, span_id });
    option::of(trace)
}

fn consumer() -> impl Strategy<Value = ConsumerKey> {
    prop_oneof![
        any::<u32>().prop_map(ConsumerKey::Consumer),
        any::<u32>().prop_map(ConsumerKey::Group),
    ]
}

fn committer() -> impl Strategy<Value = Option<Committer>> {
    let by = any::<(u32, bool)>().prop_map(|(user, manages)| Committer {
        user: UserId(user),
        manages,
    });
    option::of(by)
}

fn poll() -> impl Strategy<Value = Poll> {
    let strategy = prop_oneof![
        any::<u64>().prop_map(PollingStrategy::Offset),
        any::<u64>().prop_map(PollingStrategy::Timestamp),
        Just(PollingStrategy::First),
        Just(PollingStrategy::Last),
        Just(PollingStrategy::Next),
    ];
    let numbers = any::<(u32, bool, u32, u32)>();
    (strategy, option::of((consumer(), committer())), numbers).prop_map(
        |(strategy, consumer, (count, auto_commit, minimum_bytes, bytes_max))| Poll {
            strategy,
            count,
            consumer: consumer.map(|(consumer, _)| consumer),
            auto_commit,
            by: consumer.and_then(|(_, by)| by),
            minimum_bytes,
            bytes_max,
        },
    )
}

fn view() -> impl Strategy<Value = WatchedState> {
    let openings = proptest::collection::vec(any::<(u64, u64)>(), 0..4);
    (any::<(u64, u64, u64, u64)>(), openings).prop_map(
        |((incarnation, purge_epoch, first, end), openings)| {
            let opening = |(epoch, end)| Opening {
                epoch,
                end: Offset(end),
            };
            let openings: Vec<Opening> = openings.into_iter().map(opening).collect();
            WatchedState {
                incarnation,
                purge_epoch,
                first: Offset(first),
                end: Offset(end),
                epoch: openings.last().map_or(0, |last| last.epoch),
                openings: openings.into(),
            }
        },
    )
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        poll().prop_map(Asked::Poll),
        consumer().prop_map(Asked::GetOffset),
        (consumer(), any::<u64>(), committer())
            .prop_map(|(consumer, offset, by)| Asked::StoreOffset(consumer, Offset(offset), by)),
        (consumer(), committer()).prop_map(|(consumer, by)| Asked::DeleteOffset(consumer, by)),
        any::<bool>().prop_map(Asked::Flush),
        any::<u32>().prop_map(Asked::DeleteSegments),
        any::<(u64, u64, u64)>().prop_map(|(start, end, target_bytes)| {
            Asked::PlanRange(RangeToPlan {
                start: Offset(start),
                end: Offset(end),
                target_bytes,
            })
        }),
    ]
}

/// Frames of a gateway.
pub fn to_node() -> impl Strategy<Value = Sample> {
    let append = (
        call(),
        places(),
        member(),
        trace(),
        prop::collection::vec(any::<u8>(), 0..200),
        any::<u32>(),
        option::of((
            option::of((1..=u128::MAX).prop_map(StageId)),
            any::<u64>(),
            any::<u32>(),
            any::<bool>(),
        )),
    )
        .prop_map(
            |(call, place, member, trace, messages, messages_count, part)| Sample::Append {
                call,
                place,
                member,
                trace,
                messages,
                messages_count,
                stage_chunk: part,
            },
        );
    let when_ready = prop_oneof![
        Just(WhenReady::Answer),
        Just(WhenReady::AnswerNow),
        Just(WhenReady::Notify),
    ];
    let stop = prop_oneof![
        Just(EndWait::Take),
        Just(EndWait::Refuse),
        Just(EndWait::Cancel),
    ];
    let scope = prop_oneof![
        Just(Scope::All),
        any::<u32>().prop_map(|stream| Scope::Stream(StreamId(stream))),
        any::<(u32, u32)>()
            .prop_map(|(stream, topic)| Scope::Topic(StreamId(stream), TopicId(topic))),
    ];
    let other = prop_oneof![
        (call(), places(), member(), trace(), asked()).prop_map(
            |(call, place, member, trace, asked)| Other::Request(call, place, member, trace, asked)
        ),
        (call(), places(), member(), poll(), when_ready).prop_map(
            |(call, place, member, poll, when_ready)| Other::Wait(
                call, place, member, poll, when_ready
            )
        ),
        (call(), namespace(), stop)
            .prop_map(|(call, namespace, stop)| Other::StopWaiting(call, namespace, stop)),
        (places(), option::of(view()), any::<bool>()).prop_map(|(place, seen, wants_openings)| {
            let seen = seen.map(|seen| WatchedState {
                epoch: if wants_openings { seen.epoch } else { 0 },
                openings: [].into(),
                ..seen
            });
            Other::Watch(place, seen, wants_openings)
        }),
        namespace().prop_map(Other::Unwatch),
        (call(), scope).prop_map(|(call, scope)| Other::Statistics(call, scope)),
        any::<u64>().prop_map(Other::CatalogVersion),
    ];
    prop_oneof![1 => append, 3 => other.prop_map(Sample::Other)]
}

fn file() -> impl Strategy<Value = FileName> {
    prop_oneof![
        any::<u64>().prop_map(|offset| FileName::Log(Offset(offset))),
        any::<u64>().prop_map(|offset| FileName::Index(Offset(offset))),
        any::<(u64, u32)>().prop_map(|(offset, number)| FileName::Cut(Offset(offset), number)),
        any::<(u64, u32)>().prop_map(|(offset, number)| FileName::Foreign(Offset(offset), number)),
        Just(FileName::Offsets),
        Just(FileName::Manifest),
        Just(FileName::ManifestCopy),
        any::<u128>().prop_map(|stage| FileName::Stage(StageId(stage))),
        any::<u128>().prop_map(|stage| FileName::DamagedStage(StageId(stage))),
        Just(FileName::Transactions),
    ]
}

fn storage() -> impl Strategy<Value = StorageError> {
    let kind = prop_oneof![
        Just(StorageErrorKind::Missing),
        Just(StorageErrorKind::NoSpace),
        Just(StorageErrorKind::Damaged),
        Just(StorageErrorKind::Exhausted),
        Just(StorageErrorKind::Other),
    ];
    (kind, any::<i32>()).prop_map(|(kind, os_error)| StorageError { kind, os_error })
}

fn refused() -> impl Strategy<Value = Refusal> {
    let damaged = (namespace(), any::<(u64, u64)>(), file()).prop_map(
        |(namespace, (offset, position), file)| ReadError::Damaged {
            namespace,
            offset: Offset(offset),
            file,
            position,
        },
    );
    let broken =
        (namespace(), file(), storage()).prop_map(|(namespace, file, source)| ReadError::Storage {
            namespace,
            file,
            source,
        });
    let too_large = any::<u64>().prop_map(|bytes| ReadError::TooLarge { bytes });
    let error = prop_oneof![
        Just(PartitionError::Busy),
        any::<u64>().prop_map(|offset| PartitionError::InvalidOffset {
            requested: Offset(offset)
        }),
        Just(PartitionError::OffsetNotFound),
        Just(PartitionError::MalformedBatch),
        prop_oneof![Just(ReadError::Busy), too_large, damaged, broken]
            .prop_map(PartitionError::Read),
        (namespace(), file(), storage()).prop_map(|(namespace, file, source)| {
            PartitionError::Remove {
                namespace,
                file,
                source,
            }
        }),
        (namespace(), any::<bool>(), ".{0,40}").prop_map(|(namespace, readable, reason)| {
            PartitionError::Failed(Arc::new(Failure {
                namespace,
                readable,
                reason,
            }))
        }),
        Just(PartitionError::Closed),
        Just(PartitionError::StageNotFound),
        any::<u32>().prop_map(|expected| PartitionError::StageOutOfOrder { expected }),
        Just(PartitionError::StageTooLarge),
        Just(PartitionError::StagesExhausted),
        Just(PartitionError::TooManyConsumers),
        Just(PartitionError::OffsetOfAnotherUser),
        (namespace(), file(), storage()).prop_map(|(namespace, file, source)| {
            PartitionError::Store {
                namespace,
                file,
                source,
            }
        }),
    ];
    prop_oneof![
        1 => Just(Refusal::NotFound),
        1 => Just(Refusal::NothingAssigned),
        1 => Just(Refusal::NotOwner),
        1 => Just(Refusal::NotReady),
        1 => Just(Refusal::TopicFull),
        1 => Just(Refusal::Elsewhere),
        1 => Just(Refusal::Unavailable),
        8 => error.prop_map(Refusal::Partition),
    ]
}

fn polled() -> impl Strategy<Value = Polled> {
    let slices = prop::collection::vec(prop::collection::vec(any::<u8>(), 64..200), 0..4);
    let gap = option::of((any::<u32>(), 1..u32::MAX).prop_map(|(from, missing)| Gap {
        from: Offset(from.into()),
        to: Offset(u64::from(from) + u64::from(missing)),
    }));
    (any::<(u64, u64)>(), slices, gap).prop_map(|((current, last), slices, gap)| Polled {
        gap,
        current_offset: Offset(current),
        last_offset: (!slices.is_empty()).then_some(Offset(last)),
        messages_count: u32::try_from(slices.len()).unwrap(),
        size_bytes: slices.iter().map(|slice| slice.len() as u64).sum(),
        slices: slices.into_iter().map(Slice::from_vec).collect(),
    })
}

fn plan() -> impl Strategy<Value = RangePlan> {
    let splits = prop::collection::vec(any::<(u64, u64)>(), 0..5);
    (any::<(u64, u64)>(), splits).prop_map(|((first, next), splits)| RangePlan {
        first_offset: Offset(first),
        next_offset: Offset(next),
        splits: (splits.into_iter())
            .map(|(offset, bytes)| Split {
                offset: Offset(offset),
                bytes,
            })
            .collect(),
    })
}

fn response() -> impl Strategy<Value = Response> {
    prop_oneof![
        plan().prop_map(Response::Planned),
        Just(Response::Done),
        any::<(u64, u32)>().prop_map(|(base, messages_count)| Response::Appended {
            base_offset: Offset(base),
            messages_count,
        }),
        polled().prop_map(Response::Polled),
        any::<(u64, u64)>().prop_map(|(end, bytes)| Response::BelowMinimum(Level {
            end: Offset(end),
            bytes
        })),
        any::<(u128, u64, u64)>().prop_map(|(stage, messages, bytes)| Response::Staged {
            stage: StageId(stage),
            messages,
            bytes,
        }),
        option::of(any::<(u64, u64)>()).prop_map(|offset| {
            Response::Offset(offset.map(|(current, stored)| StoredOffset {
                current: Offset(current),
                stored: Offset(stored),
            }))
        }),
    ]
}

fn statistics() -> impl Strategy<Value = StatisticsSnapshot> {
    (
        namespace(),
        any::<[u64; 10]>(),
        any::<u32>(),
        any::<[bool; 3]>(),
    )
        .prop_map(
            |(namespace, numbers, segments_count, [failed, retention_held, is_cleaned])| {
                StatisticsSnapshot {
                    namespace,
                    incarnation: numbers[0],
                    messages_count: numbers[1],
                    size_bytes: numbers[2],
                    segments_count,
                    current_offset: Offset(numbers[3]),
                    first_offset: Offset(numbers[4]),
                    unsynced_bytes: numbers[5],
                    purge_epoch: numbers[6],
                    failed,
                    oldest_segment_timestamp: numbers[7],
                    removed_segments: numbers[8],
                    removed_bytes: numbers[9],
                    retention_held,
                    is_cleaned,
                }
            },
        )
}

/// Frames of a node.
pub fn to_gateway() -> impl Strategy<Value = ToGateway> {
    let result = prop_oneof![response().prop_map(Ok), refused().prop_map(Err)];
    prop_oneof![
        1 => (any::<(u64, u32)>(), 1..u16::MAX).prop_map(|((catalog_version, node), shards)| {
            ToGateway::Welcome {
                catalog_version,
                node: NodeId(node),
                shards: NonZeroU16::new(shards).unwrap(),
            }
        }),
        6 => (call(), result).prop_map(|(call, result)| ToGateway::Answer { call, result }),
        1 => call().prop_map(|call| ToGateway::PollReady { call }),
        1 => (namespace(), view()).prop_map(|(namespace, view)| ToGateway::StateChanged { namespace, view }),
        1 => (call(), any::<u64>()).prop_map(|(call, version)| ToGateway::WrongNode { call, version }),
        1 => (namespace(), any::<u64>())
            .prop_map(|(namespace, version)| ToGateway::NotWatched { namespace, version }),
        1 => (call(), prop::collection::vec(statistics(), 0..4))
            .prop_map(|(call, partitions)| ToGateway::Statistics { call, partitions }),
    ]
}
