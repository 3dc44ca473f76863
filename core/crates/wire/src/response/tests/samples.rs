//! Responses to every command, built from arbitrary values.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::collection;
use proptest::prelude::*;

use crate::permissions::Permissions;
use crate::permissions::tests::permissions;
use crate::quota::tests::quota;
use crate::response::*;
use crate::{
    CommandCode, CompressionAlgorithm, NodeRole, NodeStatus, PartitionState, Status,
    TransactionOutcome, Transport, UserStatus,
};

/// Owned values from which responses of every kind are built.
#[derive(Debug, Clone)]
pub(super) struct Values {
    name: String,
    text: String,
    items: usize,
    small: u8,
    medium: u32,
    large: u64,
    ratio: f32,
    bytes: Vec<u8>,
    numbers: Vec<u32>,
    permissions: Option<Permissions>,
}

pub(super) fn values() -> impl Strategy<Value = Values> {
    (
        ("\\PC{1,60}", "\\PC{0,60}"),
        0_usize..4,
        (any::<u8>(), any::<u32>(), any::<u64>(), any::<f32>()),
        collection::vec(any::<u8>(), 0..300),
        collection::vec(any::<u32>(), 0..5),
        proptest::option::of(permissions()),
    )
        .prop_map(|(texts, items, numbers, bytes, ids, permissions)| Values {
            name: texts.0,
            text: texts.1,
            items,
            small: numbers.0,
            medium: numbers.1,
            large: numbers.2,
            ratio: numbers.3,
            bytes,
            numbers: ids,
            permissions,
        })
}

impl Values {
    fn quota_record(&self) -> QuotaRecord<'_> {
        let subject = if self.small.is_multiple_of(2) {
            QuotaSubject::User {
                id: self.medium,
                name: &self.name,
            }
        } else {
            QuotaSubject::Topic {
                stream_id: self.medium,
                topic_id: self.medium.rotate_left(3),
                stream: &self.name,
                topic: &self.name,
            }
        };
        QuotaRecord {
            subject,
            quota: quota(self.large, self.medium),
        }
    }

    fn pick<T: Copy>(&self, all: &[T]) -> T {
        all[usize::from(self.small) % all.len()]
    }

    fn count(&self) -> u32 {
        u32::try_from(self.items).expect("few")
    }

    fn stream(&self) -> StreamHeader<'_> {
        StreamHeader {
            id: self.medium,
            created_at: self.large,
            topics_count: self.count(),
            size_bytes: self.large.rotate_left(9),
            messages_count: self.large.rotate_left(17),
            name: &self.name,
        }
    }

    fn topic(&self) -> TopicHeader<'_> {
        TopicHeader {
            id: self.medium,
            created_at: self.large,
            partitions_count: self.count(),
            message_expiry: self.large.rotate_left(3),
            compression: self.pick(CompressionAlgorithm::ALL),
            max_topic_size: self.large.rotate_left(5),
            replication_factor: self.small,
            size_bytes: self.large.rotate_left(9),
            messages_count: self.large.rotate_left(17),
            name: &self.name,
        }
    }

    fn partition(&self) -> PartitionInfo {
        PartitionInfo {
            id: self.medium,
            created_at: self.large,
            segments_count: self.medium.rotate_left(3),
            current_offset: self.large.rotate_left(5),
            size_bytes: self.large.rotate_left(9),
            messages_count: self.large.rotate_left(17),
        }
    }

    fn group(&self) -> GroupHeader<'_> {
        GroupHeader {
            id: self.medium,
            partitions_count: self.medium.rotate_left(7),
            members_count: self.count(),
            name: &self.name,
        }
    }

    fn polled(&self) -> Polled<'_> {
        Polled {
            header: PolledHeader {
                partition_id: self.medium,
                current_offset: self.large,
                messages_count: self.count(),
            },
            message_bytes: &self.bytes,
        }
    }

    fn client(&self) -> ClientHeader<'_> {
        ClientHeader {
            client_id: self.medium,
            user_id: (self.small > 9).then_some(u32::from(self.small)),
            transport: self.pick(Transport::ALL),
            address: &self.text,
            groups_count: self.count(),
        }
    }

    fn user(&self) -> UserHeader<'_> {
        UserHeader {
            id: self.medium,
            created_at: self.large,
            status: self.pick(UserStatus::ALL),
            username: &self.name,
        }
    }

    fn stats(&self) -> Stats<'_> {
        Stats {
            process_id: self.medium,
            cpu_usage: self.ratio,
            total_cpu_usage: -self.ratio,
            memory_usage: self.large,
            total_memory: self.large.rotate_left(1),
            available_memory: self.large.rotate_left(2),
            run_time: self.large.rotate_left(3),
            start_time: self.large.rotate_left(4),
            read_bytes: self.large.rotate_left(5),
            written_bytes: self.large.rotate_left(6),
            messages_size_bytes: self.large.rotate_left(7),
            streams_count: self.medium.rotate_left(1),
            topics_count: self.medium.rotate_left(2),
            partitions_count: self.medium.rotate_left(3),
            segments_count: self.medium.rotate_left(4),
            messages_count: self.large.rotate_left(8),
            clients_count: self.medium.rotate_left(5),
            consumer_groups_count: self.medium.rotate_left(6),
            hostname: &self.name,
            os_name: &self.text,
            os_version: "",
            kernel_version: &self.text,
            server_version: &self.name,
            server_semver: self.medium.rotate_left(7),
            cache_metrics: vec![
                CacheMetrics {
                    stream_id: self.medium,
                    topic_id: self.medium.rotate_left(8),
                    partition_id: self.medium.rotate_left(9),
                    hits: self.large,
                    misses: self.large.rotate_left(10),
                    hit_ratio: self.ratio,
                };
                self.items
            ],
            threads_count: self.medium.rotate_left(11),
            free_disk_space: self.large.rotate_left(12),
            total_disk_space: self.large.rotate_left(13),
        }
    }

    fn cluster(&self) -> ClusterMetadata<'_> {
        ClusterMetadata {
            name: &self.text,
            nodes: vec![
                ClusterNode {
                    name: &self.name,
                    ip: &self.text,
                    tcp_port: 8090,
                    quic_port: u16::from(self.small),
                    http_port: 3000,
                    websocket_port: u16::MAX,
                    role: self.pick(NodeRole::ALL),
                    status: self.pick(NodeStatus::ALL),
                };
                self.items
            ],
        }
    }

    #[allow(clippy::too_many_lines, reason = "one arm per command")]
    pub(super) fn response(&self, code: CommandCode) -> Response<'_> {
        use CommandCode as Code;
        match code {
            Code::GetStats => Response::Stats(self.stats()),
            Code::GetSnapshot => Response::Snapshot(&self.bytes),
            Code::GetClusterMetadata => Response::ClusterMetadata(self.cluster()),
            Code::GetMe | Code::GetClient => Response::Client(ClientDetails {
                client: self.client(),
                groups: vec![
                    ClientGroup {
                        stream_id: self.medium,
                        topic_id: self.medium.rotate_left(3),
                        group_id: self.medium.rotate_left(5),
                    };
                    self.items
                ],
            }),
            Code::GetClients => Response::Clients(vec![self.client(); self.items]),
            Code::GetUser | Code::CreateUser => Response::User(UserDetails {
                user: self.user(),
                permissions: self.permissions.clone(),
            }),
            Code::GetUsers => Response::Users(vec![self.user(); self.items]),
            Code::LoginUser | Code::LoginWithPersonalAccessToken => Response::Identity(Identity {
                user_id: self.medium,
            }),
            Code::GetPersonalAccessTokens => Response::Tokens(vec![
                TokenInfo {
                    name: &self.name,
                    expiry_at: self.large,
                };
                self.items
            ]),
            Code::CreatePersonalAccessToken => {
                Response::RawToken(RawAccessToken { token: &self.name })
            }
            Code::SendMessages => Response::Appended(Appended {
                partition_id: self.medium,
                base_offset: self.large,
            }),
            Code::PollMessages | Code::WaitMessages => Response::Polled(self.polled()),
            Code::ReadMessages => Response::Read(ReadAnswer {
                gap: ReadGap {
                    from: 3,
                    to: self.large.max(4),
                },
                polled: self.polled(),
            }),
            Code::DescribePartitions => Response::Described(vec![
                PartitionDescription {
                    id: self.medium,
                    state: self.pick(PartitionState::ALL),
                    node_id: self.medium.rotate_left(3),
                    node: &self.name,
                    first_offset: self.large,
                    next_deletion_at: self.large.rotate_left(9),
                };
                self.items
            ]),
            Code::GetConsumerOffset => Response::ConsumerOffset(ConsumerOffsetInfo {
                partition_id: self.medium,
                current_offset: self.large,
                stored_offset: self.large.rotate_left(9),
            }),
            Code::GetStream | Code::CreateStream => Response::Stream(StreamDetails {
                stream: self.stream(),
                topics: vec![self.topic(); self.items],
            }),
            Code::GetStreams => Response::Streams(vec![self.stream(); self.items]),
            Code::GetTopic | Code::CreateTopic => Response::Topic(TopicDetails {
                topic: self.topic(),
                partitions: vec![self.partition(); self.items],
            }),
            Code::GetTopics => Response::Topics(vec![self.topic(); self.items]),
            Code::GetConsumerGroup | Code::CreateConsumerGroup => Response::Group(GroupDetails {
                group: self.group(),
                members: vec![
                    GroupMember {
                        id: self.medium,
                        partitions: self.numbers.clone(),
                    };
                    self.items
                ],
            }),
            Code::GetMembership => Response::Membership(Membership {
                member_id: self.medium,
                partitions: (self.numbers.iter())
                    .map(|&partition_id| AssignedPartition {
                        partition_id,
                        is_leaving: partition_id.is_multiple_of(2),
                    })
                    .collect(),
            }),
            Code::GetConsumerGroups => Response::Groups(vec![self.group(); self.items]),
            Code::WatchPartitions => Response::Watched(vec![
                WatchedPartition {
                    status: Status(self.medium),
                    stream_id: self.medium.rotate_left(3),
                    topic_id: self.medium.rotate_left(5),
                    partition_id: self.medium.rotate_left(7),
                    incarnation: self.large,
                    purge_epoch: self.large.rotate_left(9),
                    first_offset: self.large.rotate_left(17),
                    next_offset: self.large.rotate_left(23),
                };
                self.items
            ]),
            Code::Capabilities => Response::Capabilities(Capabilities {
                version: self.medium,
                codes: self.numbers.clone(),
                limits: vec![
                    Limit {
                        kind: self.medium,
                        value: self.large,
                    };
                    self.items
                ],
            }),
            Code::IssueTicket => Response::Ticket(IssuedTicket {
                ticket: &self.text,
                not_after: self.large,
            }),
            Code::PlanRange => Response::Planned(PlannedRange {
                first_offset: self.large,
                next_offset: self.large.rotate_left(3),
                splits: vec![
                    RangeSplit {
                        offset: self.large,
                        bytes: u64::from(self.medium),
                    };
                    self.items
                ],
            }),
            Code::StageMessages => Response::Staged(StagedMessages {
                stage: u128::from(self.large) << 60,
                messages: self.large,
                bytes: u64::from(self.medium),
            }),
            Code::CommitTransaction | Code::AbortTransaction => {
                Response::TransactionResult(TransactionResult {
                    outcome: self.pick(TransactionOutcome::ALL),
                    number: self.large,
                })
            }
            Code::GetTransaction => Response::Transaction(TransactionInfo {
                query_id: &self.name,
                batch_id: self.large,
                number: self.large.rotate_left(7),
                committed_at: u64::from(self.medium),
            }),
            Code::GetUserQuota | Code::GetTopicQuota => {
                Response::Quota(quota(self.large, self.medium))
            }
            Code::GetQuotas => Response::Quotas(vec![self.quota_record(); self.items]),
            Code::PinReader => Response::Pinned(ReaderPin {
                already_pinned: self.small.is_multiple_of(2),
                value: &self.bytes,
            }),
            _ => Response::Empty,
        }
    }
}
