//! GW-1: the byte examples of the protocol reference, exactly. Hash values are tested next to the hash functions.

use headrace_wire::batch::{self, BatchBuilder};
use headrace_wire::command::{CreateStream, CreateTopic, LoginUser, PollMessages};
use headrace_wire::frame::{RequestHeader, ResponseHeader};
use headrace_wire::headers::{self, Value};
use headrace_wire::message::{CHECKSUM_BYTES, HeaderMut, Messages, checksum};
use headrace_wire::permissions::{Permissions, StreamPermissions, TopicPermissions};
use headrace_wire::response::{
    Identity, Polled, PolledHeader, Response, StreamHeader, encode_frame,
};
use headrace_wire::{
    Command, CommandCode, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, Status,
};

/// Bytes from hexadecimal digits separated by spaces.
fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    assert!(rest.is_empty());
    pairs
        .iter()
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("digits");
            u8::from_str_radix(pair, 16).expect("hexadecimal")
        })
        .collect()
}

/// Check that the command encodes to the expected frame and the frame decodes to the command.
fn assert_request(command: &Command<'_>, expected: &str) {
    let expected = bytes(expected);
    let mut frame = Vec::new();
    command.try_encode_frame(&mut frame).expect("encodes");
    assert_eq!(frame, expected, "{command:?}");

    let (header, payload) = expected.split_first_chunk().expect("a header");
    let header = RequestHeader::parse(header);
    assert_eq!(
        header.payload_bytes().map(|bytes| bytes as usize),
        Some(payload.len())
    );
    assert_eq!(Command::decode(header.code, payload).as_ref(), Ok(command));
}

/// Check that the response encodes to the expected frame and the frame decodes to the response.
fn assert_response(code: CommandCode, response: &Response<'_>, expected: &str) {
    let expected = bytes(expected);
    let mut frame = Vec::new();
    encode_frame(&mut frame, |payload| response.encode(payload));
    assert_eq!(frame, expected, "{response:?}");

    let (header, payload) = expected.split_first_chunk().expect("a header");
    let header = ResponseHeader::parse(header);
    assert_eq!(header.status, Status::OK);
    assert_eq!(header.length as usize, payload.len());
    assert_eq!(Response::decode(code, payload).as_ref(), Ok(response));
}

fn user_headers() -> Vec<u8> {
    let mut encoded = Vec::new();
    headers::push(Value::Text("k"), Value::Uint32(7), &mut encoded).expect("encodes");
    encoded
}

#[test]
fn ping_and_empty_answers() {
    assert_request(&Command::Ping, "04000000 01000000");
    assert_response(CommandCode::Ping, &Response::Empty, "00000000 00000000");
    assert_eq!(
        ResponseHeader::error(Status::STREAM_ID_NOT_FOUND).encode(),
        bytes("f1030000 00000000")[..]
    );
}

#[test]
fn login() {
    assert_request(
        &Command::LoginUser(LoginUser {
            username: "iggy",
            password: "iggy",
            version: "1.0.0",
            context: "",
        }),
        "1b000000 26000000  04 69676779  04 69676779  05000000 312e302e30  00000000",
    );
    assert_response(
        CommandCode::LoginUser,
        &Response::Identity(Identity { user_id: 0 }),
        "00000000 04000000 00000000",
    );
}

#[test]
fn create_stream() {
    assert_request(
        &Command::CreateStream(CreateStream { name: "s1" }),
        "07000000 ca000000  02 7331",
    );
    let expected = "00000000 23000000  00000000 00401e18240a0600 00000000 0000000000000000 0000000000000000 02 7331";
    let stream = StreamHeader {
        id: 0,
        created_at: 1_700_000_000_000_000,
        topics_count: 0,
        size_bytes: 0,
        messages_count: 0,
        name: "s1",
    };
    let mut frame = Vec::new();
    encode_frame(&mut frame, |payload| stream.encode(payload));
    assert_eq!(frame, bytes(expected));
    assert_eq!(StreamHeader::decode(&frame[8..]), Ok(stream));
    let Ok(Response::Stream(details)) = Response::decode(CommandCode::CreateStream, &frame[8..])
    else {
        panic!("the answer holds a stream");
    };
    assert_response(
        CommandCode::CreateStream,
        &Response::Stream(details),
        expected,
    );
}

#[test]
fn create_topic() {
    assert_request(
        &Command::CreateTopic(CreateTopic {
            stream: Identifier::Numeric(0),
            partitions_count: 1,
            compression_code: 1,
            message_expiry: 0,
            max_topic_size: 0,
            replication_factor: 0,
            name: "t1",
        }),
        "23000000 2e010000  01 04 00000000  01000000  01  0000000000000000  0000000000000000  00  02 7431",
    );
}

#[test]
fn one_user_header() {
    let expected = bytes("02 01000000 6b  0b 04000000 07000000");
    assert_eq!(user_headers(), expected);
    let pairs: Vec<_> = headers::pairs(&expected)
        .collect::<Result<_, _>>()
        .expect("sound");
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0].key.value(), Ok(Value::Text("k")));
    assert_eq!(pairs[0].value.value(), Ok(Value::Uint32(7)));
}

#[test]
fn permissions_on_one_stream_and_topic() {
    let expected =
        bytes("00000000000000000000  01  03000000 000100000100  01  05000000 00000001 00  00");
    let topic = TopicPermissions {
        send_messages: true,
        ..TopicPermissions::default()
    };
    let mut stream = StreamPermissions::default();
    stream.rights.read_stream = true;
    stream.rights.poll_messages = true;
    stream.topics.insert(5, topic);
    let mut permissions = Permissions::default();
    permissions.streams.insert(3, stream);
    let mut encoded = Vec::new();
    permissions.encode(&mut encoded);
    assert_eq!(encoded, expected);
    assert_eq!(Permissions::decode(&expected), Ok(permissions));
}

#[test]
fn send_messages() {
    let mut builder = BatchBuilder::new();
    builder
        .push(1, 1_700_000_000_000_000, b"hi", &user_headers())
        .expect("fits");
    builder
        .push(0, 1_700_000_000_000_001, b"bye", b"")
        .expect("fits");
    let send = builder.request(
        Identifier::Named("s1"),
        Identifier::Numeric(0),
        Partitioning::PartitionId(0),
    );
    assert_eq!(
        batch::validate(send.indexes, send.messages, send.messages_count),
        Ok(())
    );
    let sizes: Vec<usize> = Messages::new(send.messages)
        .map(|message| message.expect("whole").bytes().len())
        .collect();
    assert_eq!(sizes, [81, 67]);
    assert_request(
        &Command::SendMessages(send),
        "d0000000 65000000
         14000000
         02 02 7331   01 04 00000000   02 04 00000000
         02000000
         00000000 51000000 0000000000000000
         00000000 94000000 0000000000000000
         0000000000000000 01000000000000000000000000000000 0000000000000000 0000000000000000
         00401e18240a0600 0f000000 02000000 0000000000000000
         6869  02010000006b0b0400000007000000
         0000000000000000 00000000000000000000000000000000 0000000000000000 0000000000000000
         01401e18240a0600 00000000 03000000 0000000000000000
         627965",
    );
}

#[test]
fn poll_messages() {
    assert_request(
        &Command::PollMessages(PollMessages {
            consumer: Consumer {
                kind: ConsumerKind::Consumer,
                id: Identifier::Numeric(1),
            },
            stream: Identifier::Named("s1"),
            topic: Identifier::Numeric(0),
            partition_id: Some(0),
            strategy: PollingStrategy::Next,
            count: 10,
            auto_commit: true,
        }),
        "28000000 64000000   01 01 04 01000000   02 02 7331   01 04 00000000   01 00000000   05 0000000000000000   0a000000   01",
    );
}

/// Stamping the message of the send example as the server does yields the published checksum.
#[test]
fn polled_message_with_its_checksum() {
    let mut builder = BatchBuilder::new();
    builder
        .push(1, 1_700_000_000_000_000, b"hi", &user_headers())
        .expect("fits");
    let zero = Identifier::Numeric(0);
    let mut message = builder
        .request(zero, zero, Partitioning::Balanced)
        .messages
        .to_vec();
    let mut header = HeaderMut(message.first_chunk_mut().expect("a header"));
    header.set_offset(0);
    header.set_timestamp(1_700_000_001_000_000);
    let sum = checksum(&message[CHECKSUM_BYTES..]);
    message[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());

    let polled = Polled {
        header: PolledHeader {
            partition_id: 0,
            current_offset: 1,
            messages_count: 1,
        },
        message_bytes: &message,
    };
    assert_eq!(polled.check(), Ok(()));
    assert_response(
        CommandCode::PollMessages,
        &Response::Polled(polled),
        "00000000 61000000   00000000 0100000000000000 01000000
         01a07a022f259931 01000000000000000000000000000000 0000000000000000 40822d18240a0600
         00401e18240a0600 0f000000 02000000 0000000000000000  6869  02010000006b0b0400000007000000",
    );
    let stored = Messages::new(&message)
        .next()
        .expect("a message")
        .expect("whole");
    assert!(stored.checksum_matches());
    assert_eq!(stored.payload(), b"hi");
    assert_eq!(stored.user_headers(), user_headers());
}
