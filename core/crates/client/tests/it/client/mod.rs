//! The client against servers on real sockets.

mod over_websocket;

use std::io::Write;
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::support::{Fault, MemoryServer, listen, read_frame};
use headrace_client::{
    Client, ClientError, ConnectOptions, NewTopic, Pipeline, PreparedBatch, ResponseBuffer,
    Transport, WriteStyle,
};
use headrace_model::{GroupId, Offset, PartitionId, StreamId, TopicId, UserId};
use headrace_wire::batch::BatchBuilder;
use headrace_wire::command::{ConsumerOffsetPath, GroupPath, PollMessages};
use headrace_wire::frame::ResponseHeader;
use headrace_wire::{
    Command, CommandCode, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, Status,
};

fn connect(address: std::net::SocketAddr) -> Client {
    Client::connect(&address.to_string(), &ConnectOptions::default()).expect("listens")
}

fn named(name: &str) -> Identifier<'_> {
    Identifier::Named(name)
}

fn batch_of(payloads: &[&[u8]]) -> BatchBuilder {
    let mut batch = BatchBuilder::new();
    for payload in payloads {
        batch.push(0, 1, payload, b"").expect("fits");
    }
    batch
}

fn prepared(payloads: &[&[u8]], partition_id: u32) -> PreparedBatch {
    PreparedBatch::new(
        named("s"),
        named("t"),
        Partitioning::PartitionId(partition_id),
        Arc::new(batch_of(payloads)),
    )
    .expect("representable")
}

fn path(partition_id: u32) -> ConsumerOffsetPath<'static> {
    ConsumerOffsetPath {
        consumer: Consumer {
            kind: ConsumerKind::Consumer,
            id: Identifier::Numeric(1),
        },
        stream: Identifier::Numeric(11),
        topic: Identifier::Numeric(22),
        partition_id: Some(partition_id),
    }
}

fn poll_request(strategy: PollingStrategy, count: u32) -> PollMessages<'static> {
    let path = path(0);
    PollMessages {
        consumer: path.consumer,
        stream: path.stream,
        topic: path.topic,
        partition_id: path.partition_id,
        strategy,
        count,
        auto_commit: false,
    }
}

/// GW-1: a round trip of every typed command.
#[test]
fn a_session_from_login_to_deletion() {
    let server = MemoryServer::start(Fault::None);
    let mut client = connect(server.address);
    client.ping().expect("needs no login");
    let refused = client.login("iggy", "wrong").expect_err("wrong password");
    assert_eq!(refused.status(), Some(Status::INVALID_CREDENTIALS));
    assert!(refused.leaves_connection_usable());
    assert_eq!(
        refused.to_string().split(':').next(),
        Some("LoginUser was refused with status 42 (InvalidCredentials)")
    );
    assert_eq!(client.login("iggy", "iggy").expect("right"), UserId(0));
    assert_eq!(
        client.login_with_access_token("secret").expect("any"),
        UserId(7)
    );

    assert!(matches!(
        client.get_stream(named("s")),
        Err(ClientError::NotFound {
            command: CommandCode::GetStream
        })
    ));
    assert_eq!(client.create_stream("s").expect("free"), StreamId(11));
    assert_eq!(
        client.create_stream("s").expect_err("taken").status(),
        Some(Status::STREAM_NAME_ALREADY_EXISTS)
    );
    assert_eq!(client.get_stream(named("s")).expect("exists"), StreamId(11));
    let topic = client
        .create_topic(named("s"), &NewTopic::new("t", 2))
        .expect("free");
    assert_eq!((topic.id, topic.partitions_count), (TopicId(22), 2));
    assert_eq!(
        client.get_topic(named("s"), named("t")).expect("exists"),
        topic
    );

    let batch = batch_of(&[b"one", b"two"]);
    let request = batch.request(named("s"), named("t"), Partitioning::PartitionId(0));
    client.send(&request).expect("accepted");
    client
        .send_prepared(&prepared(&[b"three"], 0))
        .expect("accepted");
    let missing = client
        .send_prepared(&prepared(&[b"x"], 9))
        .expect_err("no such partition");
    assert_eq!(missing.status(), Some(Status::PARTITION_NOT_FOUND));

    let mut buffer = ResponseBuffer::default();
    let polled = client
        .poll(&poll_request(PollingStrategy::First, 10), &mut buffer)
        .expect("exists");
    assert_eq!(polled.partition_id, PartitionId(0));
    assert_eq!(polled.current_offset, Offset(2));
    assert_eq!(polled.messages_count, 3);
    let payloads: Vec<_> = polled
        .messages()
        .map(|message| message.expect("whole").payload().to_vec())
        .collect();
    assert_eq!(
        payloads,
        [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]
    );

    assert_eq!(client.get_offset(path(0)).expect("answered"), None);
    client.store_offset(path(0), Offset(1)).expect("stored");
    let stored = client
        .get_offset(path(0))
        .expect("answered")
        .expect("stored");
    assert_eq!(
        (stored.partition_id, stored.stored),
        (PartitionId(0), Offset(1))
    );
    client.delete_offset(path(0)).expect("stored");
    assert_eq!(
        client.delete_offset(path(0)).expect_err("gone").status(),
        Some(Status::CONSUMER_OFFSET_NOT_FOUND)
    );

    client.delete_topic(named("s"), named("t")).expect("exists");
    client.delete_stream(named("s")).expect("exists");
    assert!(!server.has_stream());
    assert!(matches!(
        client.create_stream(""),
        Err(ClientError::Unrepresentable { .. })
    ));
    client
        .ping()
        .expect("nothing was sent of what has no encoding");
}

/// GW-1: a round trip of the commands for consumer groups.
#[test]
fn a_membership_from_creation_to_deletion() {
    let server = MemoryServer::start(Fault::None);
    let mut client = connect(server.address);
    client.create_stream("s").expect("free");
    client
        .create_topic(named("s"), &NewTopic::new("t", 2))
        .expect("free");
    let group_path = GroupPath {
        stream: named("s"),
        topic: named("t"),
        group: named("g"),
    };
    assert!(matches!(
        client.get_group(group_path),
        Err(ClientError::NotFound {
            command: CommandCode::GetConsumerGroup
        })
    ));
    assert_eq!(
        client
            .join_group(group_path)
            .expect_err("no group")
            .status(),
        Some(Status::CONSUMER_GROUP_ID_NOT_FOUND)
    );
    assert_eq!(
        client.get_groups(named("s"), named("t")).expect("answered"),
        []
    );
    let created = client
        .create_group(named("s"), named("t"), "g")
        .expect("free");
    assert_eq!((created.id, created.name.as_str()), (GroupId(33), "g"));
    assert_eq!((created.partitions_count, created.members_count), (2, 0));
    assert_eq!(
        client.get_groups(named("s"), named("t")).expect("answered"),
        [created]
    );

    client.join_group(group_path).expect("exists");
    let joined = client.get_group(group_path).expect("exists");
    assert_eq!(joined.members_count, 1);
    assert_eq!(joined.members[0].partitions, [0, 1]);
    client
        .send_prepared(&prepared(&[b"one"], 0))
        .expect("accepted");
    let as_member = Consumer {
        kind: ConsumerKind::Group,
        id: named("g"),
    };
    let request = PollMessages {
        consumer: as_member,
        partition_id: None,
        ..poll_request(PollingStrategy::Next, 10)
    };
    let mut buffer = ResponseBuffer::default();
    let polled = client.poll(&request, &mut buffer).expect("a member");
    assert_eq!(polled.messages_count, 1);
    let offset_path = ConsumerOffsetPath {
        consumer: as_member,
        ..path(0)
    };
    client
        .store_offset(offset_path, Offset(0))
        .expect("a member");
    let stored = client.get_offset(offset_path).expect("answered");
    assert_eq!(stored.map(|stored| stored.stored), Some(Offset(0)));
    client.delete_offset(offset_path).expect("stored");

    client.leave_group(group_path).expect("a member");
    let left = client.get_group(group_path).expect("exists");
    assert_eq!((left.members_count, left.members.len()), (0, 0));
    client.delete_group(group_path).expect("exists");
    assert_eq!(
        client.delete_group(group_path).expect_err("gone").status(),
        Some(Status::CONSUMER_GROUP_ID_NOT_FOUND)
    );
}

/// A poll buffer grows to the size of the answer and is reused for smaller ones.
#[test]
fn answers_of_any_size_fit_the_buffer() {
    let server = MemoryServer::start(Fault::None);
    let mut client = connect(server.address);
    client.create_stream("s").expect("free");
    client
        .create_topic(named("s"), &NewTopic::new("t", 1))
        .expect("free");
    let large = vec![7; 300_000];
    for payload in [&b"small"[..], &large, b"", &large[..20_000]] {
        client
            .send_prepared(&prepared(&[payload], 0))
            .expect("accepted");
    }
    let mut buffer = ResponseBuffer::with_capacity(100);
    for (offset, length) in [(0, 5), (1, 300_000), (2, 0), (3, 20_000), (0, 5)] {
        let polled = client
            .poll(
                &poll_request(PollingStrategy::Offset(offset), 1),
                &mut buffer,
            )
            .expect("exists");
        let message = polled.messages().next().expect("one").expect("whole");
        assert_eq!(message.header().offset(), offset);
        assert_eq!(message.payload().len(), length);
        assert!(message.checksum_matches());
    }
    let polled = client
        .poll(&poll_request(PollingStrategy::Offset(4), 1), &mut buffer)
        .expect("exists");
    assert_eq!((polled.messages_count, polled.message_bytes.len()), (0, 0));
}

/// The server receives all frames before it answers the first: they really are in flight together. Answers match
/// requests in order, refusals included.
#[test]
fn a_pipeline_keeps_its_window_full_and_its_order() {
    const WINDOW: usize = 4;
    const BATCHES: usize = 10;
    let address = listen(|mut stream| {
        let mut held = Vec::new();
        let mut total = 0;
        while let Some((code, payload)) = read_frame(&mut stream) {
            let Ok(Command::SendMessages(request)) = Command::decode(code, &payload) else {
                panic!("only batches are sent");
            };
            // The count identifies the batches: every third is refused.
            let status = if request.messages_count % 3 == 0 {
                Status::PARTITION_NOT_FOUND
            } else {
                Status::OK
            };
            held.extend_from_slice(&ResponseHeader { status, length: 0 }.encode());
            total += 1;
            if total == WINDOW || total == BATCHES {
                stream.write_all(&held).expect("the client reads");
                held.clear();
            } else if total > WINDOW {
                stream
                    .write_all(&std::mem::take(&mut held))
                    .expect("the client reads");
            }
        }
    });
    let mut client = connect(address);
    let window = NonZeroUsize::new(WINDOW).expect("not 0");
    let mut pipeline = Pipeline::new(&mut client, window);
    let mut answers = Vec::new();
    for count in 1..=BATCHES {
        let payloads = vec![&b"x"[..]; count];
        let answer = pipeline
            .send(&prepared(&payloads, 0), count)
            .expect("connected");
        assert_eq!(answer.is_some(), count > WINDOW, "batch {count}");
        answers.extend(answer);
    }
    assert!(pipeline.is_full());
    while let Some(answer) = pipeline.receive().expect("connected") {
        answers.push(answer);
    }
    assert_eq!(pipeline.in_flight(), 0);
    let tags: Vec<_> = answers.iter().map(|answer| answer.tag).collect();
    assert_eq!(tags, (1..=BATCHES).collect::<Vec<_>>());
    for answer in answers {
        let refused = answer.outcome == Err(Status::PARTITION_NOT_FOUND);
        assert_eq!(refused, answer.tag % 3 == 0, "batch {}", answer.tag);
    }
}

/// Pipelined answers may be split by the network anywhere.
#[test]
fn pipelined_answers_are_cut_anywhere() {
    let address = listen(|mut stream| {
        stream.set_nodelay(true).expect("a socket");
        for _ in 0..6 {
            read_frame(&mut stream);
        }
        // Answers that differ, so that a shifted one is detected: every second is a refusal.
        let answers: Vec<u8> = (0..6)
            .flat_map(|index| {
                let status = if index % 2 == 0 {
                    Status::OK
                } else {
                    Status::PARTITION_NOT_FOUND
                };
                ResponseHeader { status, length: 0 }.encode()
            })
            .collect();
        for piece in answers.chunks(11) {
            stream.write_all(piece).expect("the client reads");
            thread::sleep(Duration::from_millis(5));
        }
        read_frame(&mut stream);
    });
    let mut client = connect(address);
    let mut pipeline = Pipeline::new(&mut client, NonZeroUsize::new(6).expect("not 0"));
    for tag in 0..6 {
        pipeline
            .send(&prepared(&[b"x"], 0), tag)
            .expect("connected");
    }
    for tag in 0..6 {
        let answer = pipeline.receive().expect("connected").expect("on its way");
        assert_eq!(answer.tag, tag);
        assert_eq!(answer.outcome.is_ok(), tag % 2 == 0, "batch {tag}");
    }
}

/// The network may split the bytes anywhere.
#[test]
fn answers_that_come_byte_by_byte_are_put_together() {
    let address = listen(|mut stream| {
        stream.set_nodelay(true).expect("a socket");
        while let Some((code, _)) = read_frame(&mut stream) {
            let answer = if code == CommandCode::Ping.code() {
                ResponseHeader::EMPTY.encode().to_vec()
            } else {
                let mut answer = ResponseHeader {
                    status: Status::OK,
                    length: 4,
                }
                .encode()
                .to_vec();
                answer.extend_from_slice(&9_u32.to_le_bytes());
                answer
            };
            for byte in answer {
                stream.write_all(&[byte]).expect("the client reads");
                thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let mut client = connect(address);
    for _ in 0..3 {
        client.ping().expect("answered");
        assert_eq!(client.login("ann", "secret").expect("answered"), UserId(9));
    }
}

/// GW-10: a server that shuts down sends an unsolicited notice; the next request reports it.
#[test]
fn a_farewell_is_the_answer_to_the_next_request() {
    let address = listen(|mut stream| {
        read_frame(&mut stream);
        let mut answer = ResponseHeader {
            status: Status::OK,
            length: 4,
        }
        .encode()
        .to_vec();
        answer.extend_from_slice(&0_u32.to_le_bytes());
        answer.extend_from_slice(&ResponseHeader::error(Status::DISCONNECTED).encode());
        stream.write_all(&answer).expect("the client reads");
        read_frame(&mut stream);
    });
    let mut client = connect(address);
    client.login("ann", "secret").expect("answered");
    let farewell = client.ping().expect_err("the server is leaving");
    assert_eq!(farewell.status(), Some(Status::DISCONNECTED));
    let gone = client.ping().expect_err("the server has left");
    assert!(!gone.leaves_connection_usable(), "{gone}");
}

fn answering_once(answer: &'static [u8]) -> Client {
    let address = listen(move |mut stream: TcpStream| {
        read_frame(&mut stream);
        stream.write_all(answer).expect("the client reads");
    });
    connect(address)
}

#[test]
fn each_violation_of_the_protocol_by_an_answer_has_its_own_error() {
    // An error whose payload is not an explanation, because it is longer than one may be.
    let mut client = answering_once(&[42, 0, 0, 0, 1, 4, 0, 0, 0]);
    assert!(matches!(
        client.login("ann", "secret"),
        Err(ClientError::Malformed {
            command: CommandCode::LoginUser,
            ..
        })
    ));
    assert!(matches!(client.ping(), Err(ClientError::Disconnected)));
    // An identity of two bytes.
    let mut client = answering_once(&[0, 0, 0, 0, 2, 0, 0, 0, 1, 1]);
    assert!(matches!(
        client.login("ann", "secret"),
        Err(ClientError::Malformed { .. })
    ));
    // Truncated within the header, and within the payload.
    for cut in [&[0, 0, 0][..], &[0, 0, 0, 0, 4, 0, 0, 0, 1]] {
        let mut client = answering_once(cut);
        assert!(matches!(
            client.login("ann", "secret"),
            Err(ClientError::Disconnected)
        ));
        let mut client = answering_once(&cut[..3]);
        assert!(matches!(client.ping(), Err(ClientError::Disconnected)));
    }
    // A status that is not in the registry.
    let mut client = answering_once(&[0x39, 0x30, 0, 0, 0, 0, 0, 0]);
    let unknown = client.ping().expect_err("refused");
    assert_eq!(unknown.status(), Some(Status(12345)));
    assert!(unknown.to_string().contains("12345"), "{unknown}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let address = listen(|mut stream| while read_frame(&mut stream).is_some() {});
    let options = ConnectOptions {
        response_timeout: Some(Duration::from_millis(50)),
        ..ConnectOptions::default()
    };
    let mut client = Client::connect(&address.to_string(), &options).expect("listens");
    assert!(matches!(client.ping(), Err(ClientError::Timeout { .. })));
    // The late answer may still arrive: it must not be taken for the answer to the next request.
    assert!(matches!(client.ping(), Err(ClientError::Disconnected)));

    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let unused_address = free.local_addr().expect("bound").to_string();
    drop(free);
    assert!(matches!(
        Client::connect(&unused_address, &ConnectOptions::default()),
        Err(ClientError::Connect { .. })
    ));
}

#[test]
fn the_official_clients_way_of_writing_is_understood_as_well() {
    let server = MemoryServer::start(Fault::None);
    let options = ConnectOptions {
        no_delay: false,
        write_style: WriteStyle::HeaderFirst,
        ..ConnectOptions::default()
    };
    let mut client = Client::connect(&server.address.to_string(), &options).expect("listens");
    client.create_stream("s").expect("free");
    client
        .create_topic(named("s"), &NewTopic::new("t", 1))
        .expect("free");
    for size in [1, 8000, 8200, 200_000] {
        client
            .send_prepared(&prepared(&[&vec![1; size]], 0))
            .expect("accepted");
    }
    assert_eq!(server.messages_counts(), [4]);
}
