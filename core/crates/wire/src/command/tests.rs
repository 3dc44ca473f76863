//! Round trips of all commands, and the documented status for damaged payloads.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Partitioning;
use crate::samples::values;

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
fn commands_name_their_targets() {
    let (stream, topic) = (Identifier::Numeric(1), Identifier::Named("t"));
    let path = TopicPath { stream, topic };
    let offset = StoreConsumerOffset {
        path: ConsumerOffsetPath {
            consumer: Consumer {
                kind: crate::ConsumerKind::Consumer,
                id: stream,
            },
            stream,
            topic,
            partition_id: None,
        },
        offset: 1,
    };
    for (command, target) in [
        (Command::Ping, (None, None)),
        (Command::GetTopicQuota(path), (Some(stream), Some(topic))),
        (
            Command::StoreConsumerOffset(offset),
            (Some(stream), Some(topic)),
        ),
        (
            Command::CreateStream(CreateStream { name: "s" }),
            (None, None),
        ),
        (
            Command::DeleteStream(StreamPath { stream }),
            (Some(stream), None),
        ),
    ] {
        assert_eq!(command.target(), target, "{command:?}");
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
