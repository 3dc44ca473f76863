//! GW-9: each kind of invalid input gets the status that the protocol documents for it.

use headrace_wire::command::messages_range;
use headrace_wire::{Command, CommandCode, SendMetadata, Status};

fn status(code: CommandCode, payload: &[u8]) -> Status {
    match Command::decode(code.code(), payload) {
        Ok(command) => panic!("{command:?} was decoded"),
        Err(status) => status,
    }
}

/// Concatenate pieces to a payload.
fn join(pieces: &[&[u8]]) -> Vec<u8> {
    pieces.concat()
}

const NUMERIC: &[u8] = &[1, 4, 0, 0, 0, 0];

#[test]
fn undecodable_payloads_are_3() {
    let unknown_identifier_kind = status(CommandCode::GetStream, &[3, 4, 0, 0, 0, 0]);
    let name_not_utf8 = status(CommandCode::CreateStream, &[2, 0xff, 0xfe]);
    let identifier_not_utf8 = status(CommandCode::GetStream, &[2, 1, 0xff]);
    let password_not_utf8 = status(
        CommandCode::LoginUser,
        &[1, b'a', 1, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    let context_not_utf8 = status(
        CommandCode::LoginUser,
        &[1, b'a', 1, b'p', 0, 0, 0, 0, 1, 0, 0, 0, 0xff],
    );
    let consumer_kind = status(
        CommandCode::GetConsumerOffset,
        &join(&[&[3], NUMERIC, NUMERIC, NUMERIC, &[0; 5]]),
    );
    let polling_kind = status(
        CommandCode::PollMessages,
        &join(&[
            &[1],
            NUMERIC,
            NUMERIC,
            NUMERIC,
            &[0; 5],
            &[6],
            &[0; 8],
            &[0; 5],
        ]),
    );
    let login_without_context = status(CommandCode::LoginUser, &[1, b'a', 0, 0, 0, 0, 0]);
    for status in [
        unknown_identifier_kind,
        name_not_utf8,
        identifier_not_utf8,
        password_not_utf8,
        context_not_utf8,
        consumer_kind,
        polling_kind,
        login_without_context,
    ] {
        assert_eq!(status, Status::INVALID_COMMAND);
    }
}

#[test]
fn unknown_codes_of_handlers_are_3_when_the_handler_asks() {
    let create_topic = join(&[NUMERIC, &[1, 0, 0, 0], &[9], &[0; 17], &[1, b't']]);
    let Ok(Command::CreateTopic(topic)) = Command::decode(302, &create_topic) else {
        panic!("decodes: the permission check comes first");
    };
    assert_eq!(topic.compression(), Err(Status::INVALID_COMMAND));
    let update_topic = join(&[NUMERIC, NUMERIC, &[0], &[0; 17], &[1, b't']]);
    let Ok(Command::UpdateTopic(topic)) = Command::decode(304, &update_topic) else {
        panic!("decodes: the handler checks");
    };
    assert_eq!(topic.compression(), Err(Status::INVALID_COMMAND));
    let Ok(Command::CreateUser(user)) = Command::decode(33, &[1, b'u', 0, 3, 0]) else {
        panic!("decodes: the permission check comes first");
    };
    assert_eq!(user.status(), Err(Status::INVALID_COMMAND));
    let update_user = join(&[NUMERIC, &[0, 1, 7]]);
    let Ok(Command::UpdateUser(user)) = Command::decode(35, &update_user) else {
        panic!("decodes: the permission check comes first");
    };
    assert_eq!(user.status(), Err(Status::INVALID_COMMAND));
    let Ok(Command::GetSnapshot(snapshot)) = Command::decode(11, &[7, 1, 8]) else {
        panic!("decodes: the handler checks");
    };
    assert_eq!(snapshot.compression(), Err(Status::INVALID_COMMAND));
    assert_eq!(snapshot.kinds(), Err(Status::INVALID_COMMAND));
}

#[test]
fn structural_violations_are_4() {
    let empty_name = status(CommandCode::CreateStream, &[0]);
    let empty_token = status(CommandCode::LoginWithPersonalAccessToken, &[0]);
    let numeric_length = status(CommandCode::GetStream, &[1, 3, 0, 0, 0]);
    let numeric_length_before_truncation = status(CommandCode::GetStream, &[1, 8]);
    let empty_named = status(CommandCode::GetStream, &[2, 0]);
    let consumer_id = status(CommandCode::GetConsumerOffset, &[1, 2, 0]);
    let global_only = [0; 11];
    let permissions_too_short = status(
        CommandCode::UpdatePermissions,
        &join(&[NUMERIC, &[1], &[10, 0, 0, 0], &global_only]),
    );
    let permissions_too_long = status(
        CommandCode::UpdatePermissions,
        &join(&[NUMERIC, &[1], &[12, 0, 0, 0], &global_only, &[0]]),
    );
    for status in [
        empty_name,
        empty_token,
        numeric_length,
        numeric_length_before_truncation,
        empty_named,
        consumer_id,
        permissions_too_short,
        permissions_too_long,
    ] {
        assert_eq!(status, Status::INVALID_FORMAT);
    }
    // A length beyond the end of the payload makes the payload too short.
    assert_eq!(
        status(
            CommandCode::UpdatePermissions,
            &join(&[NUMERIC, &[1], &[12, 0, 0, 0], &global_only])
        ),
        Status::INVALID_COMMAND
    );
}

#[test]
fn flags_other_than_1_mean_absent_and_booleans_other_than_0_mean_true() {
    let update = join(&[NUMERIC, &[2, 0]]);
    let Ok(Command::UpdateUser(update)) = Command::decode(35, &update) else {
        panic!("decodes");
    };
    assert_eq!((update.username, update.status_code), (None, None));
    let poll = join(&[
        &[1],
        NUMERIC,
        NUMERIC,
        NUMERIC,
        &[2, 9, 0, 0, 0],
        &[5],
        &[0xff; 8],
        &[1, 0, 0, 0],
        &[0x80],
    ]);
    let Ok(Command::PollMessages(poll)) = Command::decode(100, &poll) else {
        panic!("decodes");
    };
    assert_eq!(poll.partition_id, None);
    assert_eq!(poll.strategy, headrace_wire::PollingStrategy::Next);
    assert!(poll.auto_commit);
}

/// `SendMessages` to stream 0 and topic 0.
fn send(partitioning: &[u8], count: &[u8], rest: &[u8]) -> Vec<u8> {
    let metadata = join(&[NUMERIC, NUMERIC, partitioning, count]);
    let length = u32::try_from(metadata.len()).expect("short");
    join(&[&length.to_le_bytes(), &metadata, rest])
}

#[test]
fn metadata_that_does_not_fit_is_3() {
    assert_eq!(
        status(CommandCode::SendMessages, &[]),
        Status::INVALID_COMMAND
    );
    assert_eq!(
        status(CommandCode::SendMessages, &[0, 0, 0]),
        Status::INVALID_COMMAND
    );
    assert_eq!(
        status(CommandCode::SendMessages, &[1, 0, 0, 0]),
        Status::INVALID_COMMAND
    );
    assert_eq!(
        status(CommandCode::SendMessages, &[0xff; 4]),
        Status::INVALID_COMMAND
    );
}

#[test]
fn identifiers_of_sends_are_6() {
    for identifier in [
        &[0, 4, 0, 0, 0, 0][..],
        &[1, 3, 0, 0, 0],
        &[1, 4, 0, 0],
        &[2, 0],
        &[2, 1, 0xff],
        &[2, 9, b'a'],
        &[1],
        &[],
    ] {
        let first = join(&[identifier]);
        let second = join(&[NUMERIC, identifier]);
        for metadata in [first, second] {
            let length = u32::try_from(metadata.len()).expect("short");
            let payload = join(&[&length.to_le_bytes(), &metadata]);
            assert_eq!(
                status(CommandCode::SendMessages, &payload),
                Status::INVALID_IDENTIFIER,
                "{metadata:?}"
            );
        }
    }
}

#[test]
fn partitioning_and_count_of_sends_are_3() {
    let count = [0; 4];
    for partitioning in [
        &[0, 0][..],
        &[4, 0],
        &[1, 1, 0],
        &[2, 3, 0, 0, 0],
        &[2, 8, 0, 0, 0, 0, 0, 0, 0, 0],
        &[3, 200, 0],
    ] {
        let payload = send(partitioning, &count, &[]);
        assert_eq!(
            status(CommandCode::SendMessages, &payload),
            Status::INVALID_COMMAND,
            "{partitioning:?}"
        );
    }
    let no_count = send(&[1, 0], &[], &[]);
    let half_a_count = send(&[1, 0], &[0, 0], &[0, 0]);
    let indexes_too_long = send(&[1, 0], &[1, 0, 0, 0], &[0; 15]);
    let indexes_beyond_everything = send(&[1, 0], &[0xff; 4], &[0; 64]);
    for payload in [
        no_count,
        half_a_count,
        indexes_too_long,
        indexes_beyond_everything,
    ] {
        assert_eq!(
            status(CommandCode::SendMessages, &payload),
            Status::INVALID_COMMAND
        );
        assert_eq!(messages_range(&payload), Err(Status::INVALID_COMMAND));
    }
}

#[test]
fn sends_accept_empty_keys_and_skip_what_follows_the_count() {
    let metadata = join(&[NUMERIC, NUMERIC, &[3, 0], &[1, 0, 0, 0], b"future"]);
    let length = u32::try_from(metadata.len()).expect("short");
    let payload = join(&[&length.to_le_bytes(), &metadata, &[7; 16], b"messages"]);
    let Ok(Command::SendMessages(send)) = Command::decode(101, &payload) else {
        panic!("decodes");
    };
    assert_eq!(
        send.partitioning,
        headrace_wire::Partitioning::MessagesKey(&[])
    );
    assert_eq!(send.indexes, [7; 16]);
    assert_eq!(send.messages, b"messages");
    assert_eq!(
        messages_range(&payload),
        Ok(payload.len() - 8..payload.len())
    );
}

#[test]
fn metadata_decodes_from_the_first_bytes_alone() {
    let payload = send(&[2, 4, 5, 0, 0, 0], &[2, 0, 0, 0], &[0; 32 + 100]);
    let payload_bytes = u32::try_from(payload.len()).expect("short");
    let metadata_bytes = payload.len() - 132;
    let metadata = SendMetadata::decode_prefix(&payload[..metadata_bytes], payload_bytes);
    let metadata = metadata.expect("the prefix holds the metadata");
    assert_eq!(metadata.metadata_bytes, metadata_bytes);
    assert_eq!(
        metadata.indexes_range(),
        metadata_bytes..metadata_bytes + 32
    );
    assert_eq!(
        metadata.messages_range(payload.len()),
        payload.len() - 100..payload.len()
    );
    let Ok(Command::SendMessages(whole)) = Command::decode(101, &payload) else {
        panic!("decodes");
    };
    assert_eq!(metadata.with_payload(&payload), Ok(whole));
    assert_eq!(
        metadata.with_payload(&payload[..metadata_bytes]),
        Err(Status::INVALID_COMMAND)
    );
    // The rest of the frame is checked against its announced length, so a frame that will be too short is refused at
    // once.
    assert_eq!(
        SendMetadata::decode_prefix(&payload[..metadata_bytes], payload_bytes - 101),
        Err(Status::INVALID_COMMAND)
    );
}
