//! Round trips of all commands, and the documented status for damaged payloads.

use alloc::string::String;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::batch::INDEX_BYTES;
use crate::permissions::Permissions;
use crate::permissions::tests::permissions;
use crate::quota::tests::quota;
use crate::{Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, WatchAction};

/// Owned values from which commands of every kind are built.
#[derive(Debug, Clone)]
struct Values {
    name: String,
    text: String,
    password: String,
    by_number: [bool; 3],
    small: u8,
    medium: u32,
    large: u64,
    key: Vec<u8>,
    flag: bool,
    strategy: PollingStrategy,
    permissions: Option<Permissions>,
}

fn values() -> impl Strategy<Value = Values> {
    let strategy = prop_oneof![
        any::<u64>().prop_map(PollingStrategy::Offset),
        any::<u64>().prop_map(PollingStrategy::Timestamp),
        Just(PollingStrategy::First),
        Just(PollingStrategy::Last),
        Just(PollingStrategy::Next),
    ];
    (
        ("\\PC{1,60}", "\\PC{0,60}", "\\PC{0,30}"),
        any::<[bool; 3]>(),
        (any::<u8>(), any::<u32>(), any::<u64>()),
        vec(any::<u8>(), 0..=255),
        any::<bool>(),
        strategy,
        proptest::option::of(permissions()),
    )
        .prop_map(
            |(texts, by_number, numbers, key, flag, strategy, permissions)| Values {
                name: texts.0,
                text: texts.1,
                password: texts.2,
                by_number,
                small: numbers.0,
                medium: numbers.1,
                large: numbers.2,
                key,
                flag,
                strategy,
                permissions,
            },
        )
}

impl Values {
    fn identifier(&self, index: usize) -> Identifier<'_> {
        if self.by_number[index] {
            Identifier::Numeric(self.medium.rotate_left(7))
        } else {
            Identifier::Named(&self.name)
        }
    }

    fn stream_path(&self) -> StreamPath<'_> {
        StreamPath {
            stream: self.identifier(0),
        }
    }

    fn topic_path(&self) -> TopicPath<'_> {
        TopicPath {
            stream: self.identifier(0),
            topic: self.identifier(1),
        }
    }

    fn group_path(&self) -> GroupPath<'_> {
        GroupPath {
            stream: self.identifier(0),
            topic: self.identifier(1),
            group: self.identifier(2),
        }
    }

    fn consumer(&self) -> Consumer<'_> {
        Consumer {
            kind: if self.flag {
                ConsumerKind::Group
            } else {
                ConsumerKind::Consumer
            },
            id: self.identifier(2),
        }
    }

    fn offset_path(&self) -> ConsumerOffsetPath<'_> {
        ConsumerOffsetPath {
            consumer: self.consumer(),
            stream: self.identifier(0),
            topic: self.identifier(1),
            partition_id: self.flag.then_some(self.medium),
        }
    }

    fn partitions_count(&self) -> PartitionsCount<'_> {
        PartitionsCount {
            stream: self.identifier(0),
            topic: self.identifier(1),
            partitions_count: self.medium,
        }
    }

    fn poll_messages(&self) -> PollMessages<'_> {
        PollMessages {
            consumer: self.consumer(),
            stream: self.identifier(0),
            topic: self.identifier(1),
            partition_id: self.by_number[2].then_some(self.medium),
            strategy: self.strategy,
            count: self.medium,
            auto_commit: self.flag,
        }
    }

    fn kept_name(&self) -> RecordName<'_> {
        RecordName {
            stream: self.identifier(0),
            name: &self.name,
        }
    }

    fn stages(&self) -> Vec<StagedAt> {
        let stage = |byte: &u8| StagedAt {
            topic_id: u32::from(*byte),
            partition_id: self.medium,
            incarnation: self.large,
            stage: u128::from(self.large) << (*byte % 64),
        };
        self.key.iter().map(stage).collect()
    }

    /// Batch whose blocks have the right sizes; decoding does not inspect their content.
    fn send_messages<'a>(&'a self, partitioning: Partitioning<'a>) -> SendMessages<'a> {
        let messages_count = self.key.len() / INDEX_BYTES;
        let (indexes, messages) = self.key.split_at(messages_count * INDEX_BYTES);
        SendMessages {
            stream: self.identifier(0),
            topic: self.identifier(1),
            partitioning,
            messages_count: u32::try_from(messages_count).expect("few"),
            indexes,
            messages,
        }
    }

    #[allow(clippy::too_many_lines, reason = "one arm per command")]
    fn command(&self, code: CommandCode) -> Command<'_> {
        match code {
            CommandCode::Ping => Command::Ping,
            CommandCode::GetStats => Command::GetStats,
            CommandCode::GetSnapshot => Command::GetSnapshot(GetSnapshot {
                compression_code: self.small,
                kind_codes: &self.key,
            }),
            CommandCode::GetClusterMetadata => Command::GetClusterMetadata,
            CommandCode::GetMe => Command::GetMe,
            CommandCode::GetClient => Command::GetClient(GetClient {
                client_id: self.medium,
            }),
            CommandCode::GetClients => Command::GetClients,
            CommandCode::GetUser => Command::GetUser(GetUser {
                user: self.identifier(0),
            }),
            CommandCode::GetUsers => Command::GetUsers,
            CommandCode::CreateUser => Command::CreateUser(CreateUser {
                username: &self.name,
                password: &self.password,
                status_code: self.small,
                permissions: self.permissions.clone(),
            }),
            CommandCode::DeleteUser => Command::DeleteUser(DeleteUser {
                user: self.identifier(0),
            }),
            CommandCode::UpdateUser => Command::UpdateUser(UpdateUser {
                user: self.identifier(0),
                username: self.flag.then_some(&*self.name),
                status_code: self.by_number[2].then_some(self.small),
            }),
            CommandCode::GetQuotas => Command::GetQuotas,
            CommandCode::GetUserQuota => Command::GetUserQuota(GetUser {
                user: self.identifier(0),
            }),
            CommandCode::SetUserQuota => Command::SetUserQuota(SetUserQuota {
                user: self.identifier(0),
                quota: quota(self.large, self.medium),
            }),
            CommandCode::GetTopicQuota => Command::GetTopicQuota(self.topic_path()),
            CommandCode::SetTopicQuota => Command::SetTopicQuota(SetTopicQuota {
                stream: self.identifier(0),
                topic: self.identifier(1),
                quota: quota(self.large, self.medium),
            }),
            CommandCode::UpdatePermissions => Command::UpdatePermissions(UpdatePermissions {
                user: self.identifier(0),
                permissions: self.permissions.clone(),
            }),
            CommandCode::ChangePassword => Command::ChangePassword(ChangePassword {
                user: self.identifier(0),
                current_password: &self.password,
                new_password: &self.text,
            }),
            CommandCode::LoginUser => Command::LoginUser(LoginUser {
                username: &self.name,
                password: &self.password,
                version: &self.text,
                context: &self.password,
            }),
            CommandCode::LogoutUser => Command::LogoutUser,
            CommandCode::GetPersonalAccessTokens => Command::GetPersonalAccessTokens,
            CommandCode::CreatePersonalAccessToken => {
                Command::CreatePersonalAccessToken(CreateAccessToken {
                    name: &self.name,
                    expiry: self.large,
                })
            }
            CommandCode::DeletePersonalAccessToken => {
                Command::DeletePersonalAccessToken(DeleteAccessToken { name: &self.name })
            }
            CommandCode::LoginWithPersonalAccessToken => {
                Command::LoginWithPersonalAccessToken(LoginWithAccessToken { token: &self.name })
            }
            CommandCode::PollMessages => Command::PollMessages(self.poll_messages()),
            CommandCode::SendMessages => Command::SendMessages(self.send_messages(if self.flag {
                Partitioning::MessagesKey(&self.key)
            } else if self.by_number[2] {
                Partitioning::PartitionId(self.medium)
            } else {
                Partitioning::Balanced
            })),
            CommandCode::FlushUnsavedBuffer => Command::FlushUnsavedBuffer(FlushUnsavedBuffer {
                stream: self.identifier(0),
                topic: self.identifier(1),
                partition_id: self.medium,
                fsync: self.flag,
            }),
            CommandCode::GetConsumerOffset => Command::GetConsumerOffset(self.offset_path()),
            CommandCode::StoreConsumerOffset => Command::StoreConsumerOffset(StoreConsumerOffset {
                path: self.offset_path(),
                offset: self.large,
            }),
            CommandCode::DeleteConsumerOffset => Command::DeleteConsumerOffset(self.offset_path()),
            CommandCode::GetStream => Command::GetStream(self.stream_path()),
            CommandCode::GetStreams => Command::GetStreams,
            CommandCode::CreateStream => Command::CreateStream(CreateStream { name: &self.name }),
            CommandCode::DeleteStream => Command::DeleteStream(self.stream_path()),
            CommandCode::UpdateStream => Command::UpdateStream(UpdateStream {
                stream: self.identifier(0),
                name: &self.name,
            }),
            CommandCode::PurgeStream => Command::PurgeStream(self.stream_path()),
            CommandCode::GetTopic => Command::GetTopic(self.topic_path()),
            CommandCode::GetTopics => Command::GetTopics(self.stream_path()),
            CommandCode::CreateTopic => Command::CreateTopic(CreateTopic {
                stream: self.identifier(0),
                partitions_count: self.medium,
                compression_code: self.small,
                message_expiry: self.large,
                max_topic_size: self.large.rotate_left(11),
                replication_factor: self.small,
                name: &self.name,
            }),
            CommandCode::DeleteTopic => Command::DeleteTopic(self.topic_path()),
            CommandCode::UpdateTopic => Command::UpdateTopic(UpdateTopic {
                stream: self.identifier(0),
                topic: self.identifier(1),
                compression_code: self.small,
                message_expiry: self.large,
                max_topic_size: self.large.rotate_left(11),
                replication_factor: self.small,
                name: &self.name,
            }),
            CommandCode::PurgeTopic => Command::PurgeTopic(self.topic_path()),
            CommandCode::CreatePartitions => Command::CreatePartitions(self.partitions_count()),
            CommandCode::DeletePartitions => Command::DeletePartitions(self.partitions_count()),
            CommandCode::DeleteSegments => Command::DeleteSegments(DeleteSegments {
                stream: self.identifier(0),
                topic: self.identifier(1),
                partition_id: self.medium,
                segments_count: self.medium.rotate_left(3),
            }),
            CommandCode::GetConsumerGroup => Command::GetConsumerGroup(self.group_path()),
            CommandCode::GetConsumerGroups => Command::GetConsumerGroups(self.topic_path()),
            CommandCode::CreateConsumerGroup => Command::CreateConsumerGroup(CreateConsumerGroup {
                stream: self.identifier(0),
                topic: self.identifier(1),
                name: &self.name,
            }),
            CommandCode::DeleteConsumerGroup => Command::DeleteConsumerGroup(self.group_path()),
            CommandCode::JoinConsumerGroup => Command::JoinConsumerGroup(self.group_path()),
            CommandCode::LeaveConsumerGroup => Command::LeaveConsumerGroup(self.group_path()),
            CommandCode::GetMembership => Command::GetMembership(self.group_path()),
            CommandCode::Capabilities => Command::Capabilities,
            CommandCode::WaitMessages => Command::WaitMessages(WaitMessages {
                poll: self.poll_messages(),
                minimum_bytes: self.medium.rotate_left(13),
                maximum_wait_micros: self.large,
            }),
            CommandCode::ReadMessages => Command::ReadMessages(WaitMessages {
                poll: self.poll_messages(),
                minimum_bytes: self.medium.rotate_left(5),
                maximum_wait_micros: self.large.rotate_left(3),
            }),
            CommandCode::DescribePartitions => Command::DescribePartitions(self.topic_path()),
            CommandCode::ExplainRefusals => Command::ExplainRefusals,
            CommandCode::ReportOffsets => Command::ReportOffsets,
            CommandCode::SetTraceContext => Command::SetTraceContext(SetTraceContext {
                trace_id: u128::from(self.large) << 60,
                span_id: self.large,
                flags: self.small,
            }),
            CommandCode::DisconnectClient => Command::DisconnectClient(DisconnectClient {
                client_id: self.medium,
            }),
            CommandCode::OpenLink => Command::OpenLink(OpenLink {
                version: u16::from(self.small),
                node_id: self.medium,
                shard: u16::from(self.small.rotate_left(3)),
                gateway: self.large,
                catalog_version: self.large.rotate_left(7),
                ticket: &self.name,
            }),
            CommandCode::LoginWithTicket => {
                Command::LoginWithTicket(LoginWithTicket { ticket: &self.name })
            }
            CommandCode::IssueTicket => Command::IssueTicket(IssueTicket {
                stream: self.identifier(0),
                topic: self.identifier(1),
                read: self.flag || self.by_number[2],
                write: !self.flag,
                lifetime_seconds: self.medium,
            }),
            CommandCode::PlanRange => Command::PlanRange(PlanRange {
                stream: self.identifier(0),
                topic: self.identifier(1),
                partition_id: self.medium,
                start: self.large,
                end: self.large.rotate_left(5),
                target_bytes: self.large.rotate_left(11),
            }),
            CommandCode::StageMessages => Command::StageMessages(StageMessages {
                stage: u128::from(self.large) << 60,
                lifetime_seconds: self.medium,
                chunk: self.medium.rotate_left(9),
                is_last: self.flag,
                batch: self.send_messages(Partitioning::PartitionId(self.medium)),
            }),
            CommandCode::CommitTransaction => Command::CommitTransaction(CommitTransaction {
                stream: self.identifier(0),
                transaction: &self.name,
                query_id: &self.name,
                batch_id: self.large,
                fence: self.flag,
                stages: self.stages(),
            }),
            CommandCode::AbortTransaction => Command::AbortTransaction(AbortTransaction {
                stream: self.identifier(0),
                transaction: &self.name,
                query_id: &self.name,
                batch_id: self.large,
                stages: self.stages(),
            }),
            CommandCode::GetTransaction => Command::GetTransaction(self.kept_name()),
            CommandCode::DeleteTransaction => Command::DeleteTransaction(self.kept_name()),
            CommandCode::PinReader => Command::PinReader(PinReader {
                stream: self.identifier(0),
                reader: &self.name,
                value: &self.key,
            }),
            CommandCode::UnpinReader => Command::UnpinReader(self.kept_name()),
            CommandCode::WatchPartitions => Command::WatchPartitions(WatchPartitions {
                action: if self.flag {
                    WatchAction::Add
                } else {
                    WatchAction::Remove
                },
                topics: (0..self.key.len() % 3)
                    .map(|index| WatchedTopic {
                        stream: self.identifier(index),
                        topic: self.identifier(1),
                        partition_ids: self.key.iter().map(|id| u32::from(*id)).collect(),
                    })
                    .collect(),
            }),
        }
    }
}

/// Return whether messages extend to the end of the payload.
fn has_messages(code: CommandCode) -> bool {
    matches!(code, CommandCode::SendMessages | CommandCode::StageMessages)
}

fn encoded(command: &Command<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    command.encode(&mut payload);
    payload
}

#[test]
fn there_are_47_commands_and_the_extensions() {
    let (extensions, classic): (Vec<_>, Vec<_>) = CommandCode::ALL
        .iter()
        .copied()
        .partition(|code| code.is_extension());
    assert_eq!((classic.len(), extensions.len()), (47, 26));
    for &code in CommandCode::ALL {
        assert_eq!(CommandCode::try_from(code.code()), Ok(code));
    }
    for code in [0, 2, 45, 306, 606, 9_999, 10_013, u32::MAX] {
        assert_eq!(CommandCode::try_from(code), Err(Status::INVALID_COMMAND));
        assert_eq!(Command::decode(code, &[]), Err(Status::INVALID_COMMAND));
    }
}

#[test]
fn secrets_are_not_printed() {
    let login = Command::LoginUser(LoginUser {
        username: "user",
        password: "hunter2",
        version: "",
        context: "",
    });
    let change = Command::ChangePassword(ChangePassword {
        user: Identifier::Numeric(1),
        current_password: "hunter2",
        new_password: "hunter2",
    });
    let create = Command::CreateUser(CreateUser {
        username: "user",
        password: "hunter2",
        status_code: 1,
        permissions: None,
    });
    let token = Command::LoginWithPersonalAccessToken(LoginWithAccessToken { token: "hunter2" });
    for command in [login, change, create, token] {
        assert!(!alloc::format!("{command:?}").contains("hunter2"));
    }
}

#[test]
fn values_without_an_encoding_are_refused_and_leave_no_trace() {
    let long = "x".repeat(256);
    let commands = [
        Command::CreateStream(CreateStream { name: "" }),
        Command::CreateStream(CreateStream { name: &long }),
        Command::GetStream(StreamPath {
            stream: Identifier::Named(""),
        }),
        Command::ChangePassword(ChangePassword {
            user: Identifier::Numeric(0),
            current_password: &long,
            new_password: "",
        }),
        Command::SendMessages(SendMessages {
            stream: Identifier::Numeric(0),
            topic: Identifier::Numeric(0),
            partitioning: Partitioning::MessagesKey(long.as_bytes()),
            messages_count: 0,
            indexes: &[],
            messages: &[],
        }),
    ];
    for command in commands {
        let mut out = alloc::vec![7];
        assert_eq!(command.try_encode(&mut out), Err(Status::INVALID_FORMAT));
        assert_eq!(
            command.try_encode_frame(&mut out),
            Err(Status::INVALID_FORMAT)
        );
        assert_eq!(out, [7]);
    }
    assert_eq!(Identifier::named(&long), Err(Status::INVALID_FORMAT));
    assert_eq!(Identifier::named("a"), Ok(Identifier::Named("a")));
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(values in values()) {
        for &code in CommandCode::ALL {
            let command = values.command(code);
            prop_assert_eq!(command.code(), code);
            let mut payload = encoded(&command);
            prop_assert_eq!(Command::decode(code.code(), &payload), Ok(command.clone()));

            let mut frame = Vec::new();
            prop_assert_eq!(command.try_encode_frame(&mut frame), Ok(()));
            let (header, body) = frame.split_first_chunk().expect("a header");
            let header = RequestHeader::parse(header);
            prop_assert_eq!(header.code, code.code());
            prop_assert_eq!(header.payload_bytes().map(|bytes| bytes as usize), Some(body.len()));
            prop_assert_eq!(body, &payload);

            // Trailing bytes are padding, except in commands that end with messages.
            if !has_messages(code) {
                payload.extend_from_slice(&[0xff; 3]);
                prop_assert_eq!(Command::decode(code.code(), &payload), Ok(command));
            }
        }
    }

    /// GW-9: a payload that is truncated anywhere cannot be decoded.
    #[test]
    fn truncation_is_status_3(values in values()) {
        for &code in CommandCode::ALL {
            // Truncated messages are detected by validation.
            if has_messages(code) {
                continue;
            }
            let payload = encoded(&values.command(code));
            for end in 0..payload.len() {
                let result = Command::decode(code.code(), &payload[..end]);
                prop_assert_eq!(result, Err(Status::INVALID_COMMAND), "{:?} cut at {}", code, end);
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
            let mut payload = encoded(&values.command(code));
            if payload.is_empty() {
                continue;
            }
            let place = place.index(payload.len());
            payload[place] = byte;
            if let Ok(command) = Command::decode(code.code(), &payload) {
                let again = encoded(&command);
                prop_assert_eq!(Command::decode(code.code(), &again), Ok(command));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(payload in vec(any::<u8>(), 0..300)) {
        for &code in CommandCode::ALL {
            if let Ok(command) = Command::decode(code.code(), &payload) {
                let again = encoded(&command);
                prop_assert_eq!(Command::decode(code.code(), &again), Ok(command));
            }
        }
    }
}

#[test]
fn a_ticket_is_for_reading_or_writing_or_both() {
    let mut payload = encoded(&Command::IssueTicket(IssueTicket {
        stream: Identifier::Numeric(1),
        topic: Identifier::Numeric(2),
        read: true,
        write: false,
        lifetime_seconds: 60,
    }));
    let access = payload.len() - 5;
    for byte in 0..=u8::MAX {
        payload[access] = byte;
        let decoded = Command::decode(CommandCode::IssueTicket.code(), &payload);
        let access = match decoded {
            Ok(Command::IssueTicket(request)) => Ok((request.read, request.write)),
            Ok(other) => panic!("{other:?}"),
            Err(status) => Err(status),
        };
        let expected = match byte {
            1 => Ok((true, false)),
            2 => Ok((false, true)),
            3 => Ok((true, true)),
            _ => Err(Status::INVALID_COMMAND),
        };
        assert_eq!(access, expected, "{byte}");
    }
}
