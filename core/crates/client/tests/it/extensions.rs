//! Extensions of Headrace servers to the binary protocol, against a scripted server.
#![allow(clippy::disallowed_methods, reason = "clients read clocks")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use headrace_client::{Client, ClientError, ConnectOptions, ResponseBuffer, Watcher};
use headrace_model::{Offset, PartitionId};
use headrace_wire::command::{
    LoginWithTicket, PollMessages, WaitMessages, WatchPartitions, WatchedTopic,
};
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader, ResponseHeader};
use headrace_wire::response::{
    Capabilities, Limit, LimitKind, Polled, PolledHeader, ReadAnswer, ReadGap, WatchedPartition,
    encode_frame, encode_list,
};
use headrace_wire::{
    Command, CommandCode, Consumer, ConsumerKind, Identifier, PollingStrategy, Status, WatchAction,
};

/// Serve one connection.
fn serve(script: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || script(listener.accept().expect("a client").0));
    address
}

/// Read a request, which must equal this one.
fn expect(stream: &mut TcpStream, command: &Command<'_>) {
    let mut header = [0; REQUEST_HEADER_BYTES];
    stream.read_exact(&mut header).expect("a request");
    let header = RequestHeader::parse(&header);
    let mut payload = vec![0; header.payload_bytes().expect("a payload") as usize];
    stream.read_exact(&mut payload).expect("a payload");
    assert_eq!(Command::decode(header.code, &payload).as_ref(), Ok(command));
}

fn answer(stream: &mut TcpStream, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut frame = Vec::new();
    encode_frame(&mut frame, encode);
    stream.write_all(&frame).expect("sent");
}

fn connect(address: SocketAddr, response_timeout: Duration) -> Client {
    let options = ConnectOptions {
        response_timeout: Some(response_timeout),
        ..ConnectOptions::default()
    };
    Client::connect(&address.to_string(), &options).expect("listens")
}

fn wait(maximum_wait: Duration) -> WaitMessages<'static> {
    WaitMessages {
        poll: PollMessages {
            consumer: Consumer {
                kind: ConsumerKind::Consumer,
                id: Identifier::Numeric(1),
            },
            stream: Identifier::Named("s"),
            topic: Identifier::Named("t"),
            partition_id: Some(3),
            strategy: PollingStrategy::Next,
            count: 10,
            auto_commit: false,
        },
        minimum_bytes: 1,
        maximum_wait_micros: u64::try_from(maximum_wait.as_micros()).expect("short"),
    }
}

#[test]
fn tickets_are_shown() {
    let address = serve(|mut stream| {
        let ticket = "hrt1.signed";
        expect(
            &mut stream,
            &Command::LoginWithTicket(LoginWithTicket { ticket }),
        );
        answer(&mut stream, |_| {});
        let ticket = "hrt1.forged";
        expect(
            &mut stream,
            &Command::LoginWithTicket(LoginWithTicket { ticket }),
        );
        let refusal = ResponseHeader::error(Status::INVALID_TICKET);
        stream.write_all(&refusal.encode()).expect("sent");
    });
    let mut client = connect(address, Duration::from_secs(10));
    client.login_with_ticket("hrt1.signed").expect("let in");
    let refusal = client.login_with_ticket("hrt1.forged").expect_err("not");
    assert_eq!(refusal.status(), Some(Status::INVALID_TICKET));
}

/// The server's explanation of a refusal is in the error, whether or not the answer could have had a payload; a server
/// without explanations does not matter.
#[test]
fn refusals_are_explained() {
    let explained = |text: &str| {
        let header = ResponseHeader {
            status: Status::PARTITION_UNAVAILABLE,
            length: u32::try_from(text.len()).expect("short"),
        };
        [&header.encode(), text.as_bytes()].concat()
    };
    let address = serve(move |mut stream| {
        expect(&mut stream, &Command::ExplainRefusals);
        let unknown = ResponseHeader::error(Status::INVALID_COMMAND);
        stream.write_all(&unknown.encode()).expect("sent");
        expect(&mut stream, &Command::ExplainRefusals);
        answer(&mut stream, |_| {});
        expect(&mut stream, &Command::Ping);
        let (head, tail) = (explained("the node"), explained(" is gone"));
        stream.write_all(&head[..12]).expect("sent");
        stream.write_all(&head[12..]).expect("sent");
        expect(&mut stream, &Command::Capabilities);
        stream.write_all(&tail).expect("sent");
        expect(&mut stream, &Command::Ping);
        answer(&mut stream, |_| {});
    });
    let mut client = connect(address, Duration::from_secs(10));
    client.explain_refusals().expect("nothing lost");
    client.explain_refusals().expect("answered");
    let first = client.ping().expect_err("refused");
    let second = client.capabilities().expect_err("refused");
    for (refusal, text) in [
        (first, "(PartitionUnavailable): the node"),
        (second, ":  is gone"),
    ] {
        assert_eq!(refusal.status(), Some(Status::PARTITION_UNAVAILABLE));
        assert!(refusal.to_string().ends_with(text), "{refusal}");
    }
    client.ping().expect("the connection goes on");
}

#[test]
fn capabilities_come_as_they_are() {
    let announced = Capabilities {
        version: 1,
        codes: vec![10_000, 10_001],
        limits: vec![Limit {
            kind: LimitKind::WaitMicros as u32,
            value: 5,
        }],
    };
    let address = serve({
        let announced = announced.clone();
        move |mut stream| {
            expect(&mut stream, &Command::Capabilities);
            answer(&mut stream, |out| announced.encode(out));
        }
    });
    let mut client = connect(address, Duration::from_secs(10));
    let capabilities = client.capabilities().expect("answered");
    assert_eq!(capabilities, announced);
    assert_eq!(capabilities.limit(LimitKind::WaitMicros), Some(5));
    assert_eq!(capabilities.limit(LimitKind::PollBytes), None);
}

/// GW-7: the time of the wait does not count towards the timeout of the answer, which starts after it.
#[test]
fn a_wait_may_take_longer_than_an_answer() {
    let timeout = Duration::from_millis(200);
    let long = wait(Duration::from_secs(10));
    let short = wait(Duration::from_millis(1));
    let address = serve(move |mut stream| {
        expect(&mut stream, &Command::ReadMessages(long));
        thread::sleep(Duration::from_millis(500));
        let polled = Polled {
            header: PolledHeader {
                partition_id: 3,
                current_offset: 7,
                messages_count: 0,
            },
            message_bytes: &[],
        };
        let gap = ReadGap { from: 4, to: 6 };
        answer(&mut stream, |out| ReadAnswer { gap, polled }.encode(out));
        expect(&mut stream, &Command::ReadMessages(short));
        // No answer: the client disconnects.
        let _ = stream.read(&mut [0]);
    });
    let mut client = connect(address, timeout);
    let mut buffer = ResponseBuffer::default();
    let polled = client.wait(&long, &mut buffer).expect("in time");
    assert_eq!(
        (polled.partition_id, polled.current_offset),
        (PartitionId(3), Offset(7))
    );
    let gap = polled.gap.expect("two are missing");
    assert_eq!((gap.from, gap.to), (Offset(4), Offset(6)));
    let begin = Instant::now();
    let late = client.wait(&short, &mut buffer).expect_err("too late");
    assert!(matches!(late, ClientError::Timeout { .. }), "{late}");
    assert!(begin.elapsed() >= timeout);
    assert!(!late.leaves_connection_usable());
    assert!(matches!(client.ping(), Err(ClientError::Disconnected)));
}

fn watch(action: WatchAction) -> WatchPartitions<'static> {
    WatchPartitions {
        action,
        topics: vec![WatchedTopic {
            stream: Identifier::Numeric(1),
            topic: Identifier::Named("t"),
            partition_ids: vec![0, 1],
        }],
    }
}

fn entry(partition_id: u32, next_offset: u64) -> WatchedPartition {
    WatchedPartition {
        status: Status::OK,
        stream_id: 1,
        topic_id: 2,
        partition_id,
        incarnation: 3,
        purge_epoch: 0,
        first_offset: 0,
        next_offset,
    }
}

/// GW-7: notifications arrive between answers, many at once, and none is taken for an answer.
#[test]
fn a_watcher_distinguishes_notifications_from_answers() {
    let many: Vec<_> = (0..3000).map(|id| entry(id, 9)).collect();
    let address = serve({
        let many = many.clone();
        move |mut stream| {
            expect(
                &mut stream,
                &Command::WatchPartitions(watch(WatchAction::Add)),
            );
            answer(&mut stream, |_| {});
            answer(&mut stream, |out| {
                encode_list(&[entry(0, 5), entry(1, 0)], out);
            });
            expect(&mut stream, &Command::Ping);
            for part in many.chunks(1024) {
                answer(&mut stream, |out| encode_list(part, out));
            }
            answer(&mut stream, |_| {});
            expect(
                &mut stream,
                &Command::WatchPartitions(watch(WatchAction::Remove)),
            );
            let refusal = ResponseHeader::error(Status::INVALID_COMMAND).encode();
            stream.write_all(&refusal).expect("sent");
            let _ = stream.read(&mut [0]);
        }
    });
    let mut watcher = Watcher::new(connect(address, Duration::from_secs(10)));
    watcher.change(&watch(WatchAction::Add)).expect("watched");
    let mut notified = Vec::new();
    while notified.len() < 2 {
        notified.extend(watcher.next(Duration::from_secs(10)).expect("news"));
    }
    assert_eq!(notified, [entry(0, 5), entry(1, 0)]);
    let nothing = watcher.next(Duration::from_millis(10)).expect("no news");
    assert_eq!(nothing, []);
    watcher.ping().expect("answered");
    let notified = watcher.next(Duration::ZERO).expect("news");
    assert_eq!(notified, many);
    let refused = watcher.change(&watch(WatchAction::Remove));
    let refused = refused.expect_err("refused");
    assert_eq!(refused.status(), Some(Status::INVALID_COMMAND));
    assert!(matches!(
        refused,
        ClientError::Refused {
            command: CommandCode::WatchPartitions,
            ..
        }
    ));
}
