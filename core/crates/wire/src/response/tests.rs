//! Round trips of the response to every command, and refusal of damaged payloads.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::collection;
use proptest::prelude::*;

use super::*;
use crate::permissions::Permissions;
use crate::permissions::tests::permissions;
use crate::{
    CommandCode, CompressionAlgorithm, Identifier, NodeRole, NodeStatus, PartitionState,
    Partitioning, Status, TransactionOutcome, Transport, UserStatus,
};

/// Owned values from which responses of every kind are built.
#[derive(Debug, Clone)]
struct Values {
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

fn values() -> impl Strategy<Value = Values> {
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
    fn response(&self, code: CommandCode) -> Response<'_> {
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
            Code::PinReader => Response::Pinned(ReaderPin {
                already_pinned: self.small.is_multiple_of(2),
                value: &self.bytes,
            }),
            _ => Response::Empty,
        }
    }
}

fn encoded(response: &Response<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    response.encode(&mut payload);
    payload
}

#[test]
fn nothing_found_is_an_empty_payload() {
    for code in [
        CommandCode::GetClient,
        CommandCode::GetUser,
        CommandCode::GetConsumerOffset,
        CommandCode::GetStream,
        CommandCode::GetTopic,
        CommandCode::GetConsumerGroup,
        CommandCode::SendMessages,
        CommandCode::Ping,
    ] {
        assert_eq!(Response::decode(code, &[]), Ok(Response::Empty));
    }
    assert_eq!(
        Response::decode(CommandCode::GetStreams, &[]),
        Ok(Response::Streams(Vec::new()))
    );
    for code in [
        CommandCode::GetMe,
        CommandCode::GetStats,
        CommandCode::CreateStream,
        CommandCode::PollMessages,
        CommandCode::LoginUser,
    ] {
        assert_eq!(Response::decode(code, &[]), Err(Malformed::Truncated));
    }
    assert_eq!(
        Response::decode(CommandCode::FlushUnsavedBuffer, &[0]),
        Err(Malformed::TrailingBytes)
    );
}

#[test]
fn counts_without_items_allocate_nothing() {
    let mut payload = Vec::new();
    StreamHeader {
        id: 0,
        created_at: 0,
        topics_count: u32::MAX,
        size_bytes: 0,
        messages_count: 0,
        name: "s",
    }
    .encode(&mut payload);
    assert_eq!(
        StreamDetails::decode(&payload),
        Err(Malformed::CountMismatch)
    );
    let member = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert_eq!(GroupMember::decode(&member), Err(Malformed::Truncated));
}

#[test]
fn a_count_that_disagrees_with_the_items_is_refused() {
    let header = GroupHeader {
        id: 1,
        partitions_count: 2,
        members_count: 2,
        name: "g",
    };
    let member = GroupMember {
        id: 0,
        partitions: vec![0, 1],
    };
    let with_members = |count| {
        let mut payload = Vec::new();
        header.encode(&mut payload);
        encode_list(&vec![member.clone(); count], &mut payload);
        GroupDetails::decode(&payload).map(|details| details.members.len())
    };
    assert_eq!(with_members(1), Err(Malformed::CountMismatch));
    assert_eq!(with_members(2), Ok(2));
    assert_eq!(with_members(3), Err(Malformed::TrailingBytes));
}

#[test]
fn encoding_takes_the_count_from_the_items() {
    let details = GroupDetails {
        group: GroupHeader {
            id: 1,
            partitions_count: 2,
            members_count: 99,
            name: "g",
        },
        members: Vec::new(),
    };
    let mut payload = Vec::new();
    details.encode(&mut payload);
    assert_eq!(
        GroupDetails::decode(&payload).map(|details| details.group.members_count),
        Ok(0)
    );
}

#[test]
fn unknown_codes_are_refused() {
    let mut user = Vec::new();
    UserHeader {
        id: 1,
        created_at: 2,
        status: UserStatus::Active,
        username: "abc",
    }
    .encode(&mut user);
    user[12] = 3;
    assert_eq!(UserHeader::decode(&user), Err(Malformed::UnknownCode(3)));
    user[12] = 1;
    for (block, error) in [
        (&[2, 0, 0, 0][..], Malformed::UnknownCode(2)),
        (&[0, 0, 1, 0], Malformed::ReservedNotZero),
        (&[0, 0, 0], Malformed::Truncated),
        (&[1, 1, 0, 0, 0, 0], Malformed::InvalidLength),
    ] {
        let payload = [&user[..], block].concat();
        assert_eq!(UserDetails::decode(&payload), Err(error), "{block:?}");
    }
}

#[test]
fn a_polled_batch_is_checked_on_demand() {
    let mut builder = crate::batch::BatchBuilder::new();
    builder.push(1, 2, b"a", b"").expect("fits");
    builder.push(1, 2, b"b", b"").expect("fits");
    let zero = Identifier::Numeric(0);
    let mut message_bytes = builder
        .request(zero, zero, Partitioning::Balanced)
        .messages
        .to_vec();
    let check = |messages_count, message_bytes: &[u8]| {
        Polled {
            header: PolledHeader {
                messages_count,
                ..PolledHeader::default()
            },
            message_bytes,
        }
        .check()
    };
    assert_eq!(check(2, &message_bytes), Ok(()));
    assert_eq!(check(1, &message_bytes), Err(Malformed::CountMismatch));
    assert_eq!(check(2, &message_bytes[..70]), Err(Malformed::Truncated));
    message_bytes[63] = 1;
    assert_eq!(check(2, &message_bytes), Err(Malformed::ReservedNotZero));
}

#[test]
fn the_head_of_a_poll_counts_what_follows() {
    let header = PolledHeader {
        partition_id: 7,
        current_offset: 8,
        messages_count: 2,
    };
    let head = header.frame_head(100).expect("fits");
    let mut whole = Vec::new();
    encode_frame(&mut whole, |payload| {
        header.encode(payload);
        payload.extend_from_slice(&[0; 100]);
    });
    assert_eq!(head, whole[..24]);
    assert_eq!(whole.len(), 124);
    assert_eq!(header.frame_head(u64::from(u32::MAX) - 15), None);
    assert_eq!(header.frame_head(u64::MAX), None);
    assert!(header.frame_head(u64::from(u32::MAX) - 16).is_some());
}

#[test]
fn frames_are_appended() {
    let mut out = vec![9];
    encode_frame(&mut out, |payload| Identity { user_id: 5 }.encode(payload));
    assert_eq!(out, [9, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(
        ResponseHeader::parse(out[1..].first_chunk().expect("a header")).status,
        Status::OK
    );
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(values in values()) {
        for &code in CommandCode::ALL {
            let response = values.response(code);
            let mut payload = encoded(&response);
            prop_assert_eq!(Response::decode(code, &payload), Ok(response.clone()));
            // Q18: official clients do not read a payload of one byte.
            if !matches!(code, CommandCode::GetSnapshot) {
                prop_assert!(payload.len() != 1);
            }

            // A response that holds exactly one object is refused if bytes follow it.
            let opaque_end = matches!(response, Response::Snapshot(_) | Response::Polled(_) | Response::Read(_));
            let is_list = matches!(
                response,
                Response::Clients(_) | Response::Users(_) | Response::Tokens(_) | Response::Streams(_)
                    | Response::Topics(_) | Response::Groups(_) | Response::Watched(_) | Response::Described(_)
            );
            if !opaque_end && !is_list {
                payload.push(0);
                prop_assert!(Response::decode(code, &payload).is_err(), "{:?}", code);
                payload.pop();
                for end in 1..payload.len() {
                    prop_assert!(Response::decode(code, &payload[..end]).is_err(), "{:?}", code);
                }
            }
        }
    }

    #[test]
    fn damage_never_panics_and_what_decodes_is_stable(
        values in values(),
        place: prop::sample::Index,
        byte: u8,
    ) {
        for &code in CommandCode::ALL {
            let mut payload = encoded(&values.response(code));
            if payload.is_empty() {
                continue;
            }
            let place = place.index(payload.len());
            payload[place] = byte;
            for end in [payload.len(), place] {
                if let Ok(response) = Response::decode(code, &payload[..end]) {
                    let again = encoded(&response);
                    // Compares bytes instead of values, because statistics may contain NaN.
                    let decoded = Response::decode(code, &again);
                    prop_assert_eq!(decoded.map(|response| encoded(&response)), Ok(again));
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(payload in collection::vec(any::<u8>(), 0..300)) {
        for &code in CommandCode::ALL {
            let response = Response::decode(code, &payload);
            if let Ok(Response::Polled(polled)) = response {
                let _ = polled.check();
            }
        }
    }
}
