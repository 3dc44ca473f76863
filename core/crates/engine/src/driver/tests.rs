//! Requests, producers and consumers over sockets, with a scripted server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use headrace_sdk_core::{
    ConsumerConfig, Item, Login, Membership, OwnedIdentifier, Place, ProducerConfig, PushRefused,
    Repeat, SendFailure, Start,
};
use headrace_websocket::{
    Decoder, Item as DecodedItem, Limits, Opcode, Origins, Role, Step, encode_header, read_request,
    response,
};
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader};
use headrace_wire::response::{Appended, Capabilities, WatchedLog, WatchedPartition, encode_list};
use headrace_wire::response::{PartitionInfo, TopicDetails, TopicHeader};
use headrace_wire::{CommandCode, CompressionAlgorithm, Status};

use super::*;
use crate::{
    Address, ConsumerHandle, Engine, Observer, Outgoing, ProducerHandle, Promise, Requester, Taken,
};

const SECONDS: Duration = Duration::from_secs(20);

/// A server that does what the test says.
struct Server(TcpListener);

impl Server {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    fn settings(&self, is_websocket: bool) -> Arc<SessionSettings> {
        let address = self.0.local_addr().expect("it is bound").to_string();
        Arc::new(SessionSettings {
            addresses: vec![Address::parse(&address, is_websocket).expect("an address")],
            login: Login::None,
            connect_timeout: SECONDS,
            response_timeout: SECONDS,
            keepalive: SECONDS,
            first_rounds: 1,
            reports_offsets: false,
            observer: Observer::default(),
        })
    }

    fn requester(&self) -> Requester {
        Requester::new(&engine(), self.settings(false))
    }

    /// Accept a connection and answer its login.
    fn accept(&self) -> Peer<TcpStream> {
        let (stream, _) = self.0.accept().expect("a connection");
        stream.set_read_timeout(Some(SECONDS)).expect("supported");
        stream.set_nodelay(true).expect("supported");
        let mut peer = Peer(stream);
        peer.greet();
        peer
    }
}

fn engine() -> Engine {
    Engine::of_process().expect("a thread")
}

/// One connection.
struct Peer<S>(S);

impl<S: Read + Write> Peer<S> {
    fn greet(&mut self) {
        let mut capabilities = Vec::new();
        Capabilities {
            version: 1,
            codes: vec![
                CommandCode::WatchPartitions.code(),
                CommandCode::ReadMessages.code(),
                CommandCode::ReportOffsets.code(),
            ],
            limits: Vec::new(),
        }
        .encode(&mut capabilities);
        assert_eq!(self.request().0, CommandCode::Capabilities);
        assert_eq!(self.request().0, CommandCode::ExplainRefusals);
        assert_eq!(self.request().0, CommandCode::Ping);
        self.answer(Status::OK, &capabilities);
        self.answer(Status::OK, b"");
        self.answer(Status::OK, b"");
    }

    fn request(&mut self) -> (CommandCode, Vec<u8>) {
        let mut header = [0; REQUEST_HEADER_BYTES];
        self.0.read_exact(&mut header).expect("a request");
        let header = RequestHeader::parse(&header);
        let length = header.payload_bytes().expect("valid");
        let mut payload = vec![0; usize::try_from(length).expect("short")];
        self.0.read_exact(&mut payload).expect("its payload");
        (header.code.try_into().expect("a command"), payload)
    }

    fn answer(&mut self, status: Status, payload: &[u8]) {
        self.0
            .write_all(&frame(status, payload))
            .expect("the client reads");
    }
}

fn frame(status: Status, payload: &[u8]) -> Vec<u8> {
    let header = ResponseHeader {
        status,
        length: u32::try_from(payload.len()).expect("short"),
    };
    [&header.encode()[..], payload].concat()
}

fn request(code: CommandCode, repeat: Repeat) -> Request {
    Request::encoded(code.code(), b"", repeat).expect("short")
}

fn wait<T: Clone>(promise: &Promise<T>) -> T {
    assert!(promise.wait(SECONDS), "it was not fulfilled in time");
    promise.get().expect("it is fulfilled")
}

fn topic(partitions_count: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    TopicDetails {
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
    }
    .encode(&mut payload);
    payload
}

#[test]
fn answers_arrive_in_pieces_and_several_at_once() {
    let server = Server::new();
    let requester = server.requester();
    let promises: Vec<_> = (0..4)
        .map(|_| requester.submit(request(CommandCode::GetMe, Repeat::IfUnsent)))
        .collect();
    let mut peer = server.accept();
    assert_eq!(wait(&requester.opened()), Ok(()));
    for _ in &promises {
        assert_eq!(peer.request().0, CommandCode::GetMe);
    }
    let large = vec![7; 3 * INBOX_BYTES];
    let mut bytes = frame(Status::OK, b"first");
    bytes.extend(frame(Status::UNAUTHORIZED, b""));
    bytes.extend(frame(Status::OK, &large));
    bytes.extend(frame(Status::OK, b"last"));
    // Byte by byte at the beginning, then a piece that ends within the header of the last answer.
    let (slow, rest) = bytes.split_at(25);
    for byte in slow {
        peer.0.write_all(&[*byte]).expect("the client reads");
    }
    let (most, end) = rest.split_at(rest.len() - 7);
    peer.0.write_all(most).expect("the client reads");
    assert_eq!(wait(&promises[0]), Ok(Bytes::from_static(b"first")));
    assert_eq!(wait(&promises[2]), Ok(Bytes::from(large)));
    assert!(!promises[3].is_fulfilled());
    peer.0.write_all(end).expect("the client reads");
    assert_eq!(wait(&promises[3]), Ok(Bytes::from_static(b"last")));
    let refused = wait(&promises[1]).expect_err("it was refused");
    assert_eq!(refused.status(), Some(Status::UNAUTHORIZED));
}

/// A slow network takes longer for an answer than a server that hangs is waited for.
#[test]
fn an_answer_that_arrives_slowly_is_awaited() {
    let server = Server::new();
    let settings = SessionSettings {
        response_timeout: Duration::from_secs(3),
        ..SessionSettings::clone(&server.settings(false))
    };
    let requester = Requester::new(&engine(), Arc::new(settings));
    let promise = requester.submit(request(CommandCode::GetMe, Repeat::IfUnsent));
    let mut peer = server.accept();
    peer.request();
    // Longer than the timeout in all. A machine that stands still for two seconds between two pieces does no harm.
    for piece in frame(Status::OK, &[7; 7]).chunks(1) {
        std::thread::sleep(Duration::from_millis(250));
        peer.0.write_all(piece).expect("the client reads");
    }
    assert_eq!(wait(&promise), Ok(Bytes::from_static(&[7; 7])));
}

#[test]
fn a_server_that_closes_in_the_middle_of_an_answer_is_connected_to_again() {
    let server = Server::new();
    let requester = server.requester();
    let once = requester.submit(request(CommandCode::GetMe, Repeat::IfUnsent));
    let again = requester.submit(request(CommandCode::GetStats, Repeat::Always));
    let mut peer = server.accept();
    peer.request();
    peer.request();
    let bytes = frame(Status::OK, b"answer");
    peer.0.write_all(&bytes[..10]).expect("the client reads");
    drop(peer);
    let failure = wait(&once).expect_err("the answer is incomplete");
    assert!(!failure.is_certainly_not_executed(), "{failure}");
    let mut peer = server.accept();
    assert_eq!(peer.request().0, CommandCode::GetStats);
    peer.answer(Status::OK, b"stats");
    assert_eq!(wait(&again), Ok(Bytes::from_static(b"stats")));
    drop(requester);
    let ended = peer.0.read(&mut [0]).expect("the client closes");
    assert_eq!(ended, 0);
}

#[test]
fn what_is_no_answer_ends_the_connection_and_no_server_the_session() {
    let server = Server::new();
    let requester = server.requester();
    let promise = requester.submit(request(CommandCode::GetMe, Repeat::IfUnsent));
    let mut peer = server.accept();
    peer.request();
    peer.0
        .write_all(b"HTTP/1.1 400 Bad")
        .expect("the client reads");
    let failure = wait(&promise).expect_err("it is no answer");
    assert!(
        failure
            .to_string()
            .contains("no server of the binary protocol"),
        "{failure}"
    );

    let settings = server.settings(false);
    drop((requester, server));
    let requester = Requester::new(&engine(), settings);
    let failure = wait(&requester.opened()).expect_err("no server listens");
    assert!(
        failure
            .to_string()
            .starts_with("cannot connect to 127.0.0.1:"),
        "{failure}"
    );
    let late = requester.submit(request(CommandCode::GetMe, Repeat::Always));
    assert_eq!(wait(&late), Err(failure));
}

/// The server's side of a WebSocket, as a stream of bytes.
struct Socket {
    stream: TcpStream,
    decoder: Decoder,
    raw: Vec<u8>,
    received: Vec<u8>,
}

impl Socket {
    fn accept(server: &Server) -> Peer<Self> {
        let (mut stream, _) = server.0.accept().expect("a connection");
        stream.set_read_timeout(Some(SECONDS)).expect("supported");
        let mut request = Vec::new();
        let upgrade = loop {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            request.push(byte[0]);
            if let Some(upgrade) = read_request(&request, &Origins::default()).expect("an upgrade")
            {
                break upgrade;
            }
        };
        stream
            .write_all(&response(&upgrade))
            .expect("the client reads");
        let limits = Limits {
            frame_bytes_max: 1 << 20,
            message_bytes_max: 1 << 20,
        };
        Peer(Self {
            stream,
            decoder: Decoder::new(Role::Server, limits),
            raw: Vec::new(),
            received: Vec::new(),
        })
    }

    fn send(&mut self, opcode: Opcode, payload: &[u8]) {
        let header = encode_header(opcode, payload.len(), None);
        let frame = [header.as_slice(), payload].concat();
        self.stream.write_all(&frame).expect("the client reads");
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.received.is_empty() {
            let mut more = [0; 4096];
            let count = self.stream.read(&mut more)?;
            self.raw.extend_from_slice(&more[..count]);
            while let Step::Item { item, consumed } =
                self.decoder.next(&mut self.raw).map_err(io::Error::other)?
            {
                if let DecodedItem::Data { payload, .. } = item {
                    self.received.extend_from_slice(&self.raw[payload]);
                }
                self.raw.drain(..consumed);
                if self.raw.is_empty() {
                    break;
                }
            }
        }
        let count = buffer.len().min(self.received.len());
        buffer[..count].copy_from_slice(&self.received[..count]);
        self.received.drain(..count);
        Ok(count)
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.send(Opcode::Binary, buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_websocket_carries_the_same_frames() {
    let server = Server::new();
    let requester = Requester::new(&engine(), server.settings(true));
    let promise = requester.submit(request(CommandCode::GetMe, Repeat::Always));
    let mut peer = Socket::accept(&server);
    peer.greet();
    assert_eq!(peer.request().0, CommandCode::GetMe);
    peer.0.send(Opcode::Close, b"");
    let mut peer = Socket::accept(&server);
    peer.greet();
    assert_eq!(peer.request().0, CommandCode::GetMe);
    // Frames of the protocol need not be messages of the WebSocket.
    let bytes = frame(Status::OK, b"me");
    peer.0.send(Opcode::Binary, &bytes[..9]);
    peer.0.send(Opcode::Ping, b"");
    peer.0.send(Opcode::Binary, &bytes[9..]);
    assert_eq!(wait(&promise), Ok(Bytes::from_static(b"me")));
}

fn message(partition: u32) -> Outgoing<'static> {
    Outgoing {
        place: Place::Partition(partition),
        id: 1,
        payload: b"message",
        headers: b"",
    }
}

fn producer(server: &Server) -> ProducerHandle {
    ProducerHandle::new(
        &engine(),
        &server.settings(false),
        ProducerConfig::default(),
        OwnedIdentifier::Numeric(1),
        OwnedIdentifier::Numeric(2),
        None,
    )
}

/// A producer whose topic has been looked up, and the other side of its connection.
fn producer_of(server: &Server, partitions: u32) -> (ProducerHandle, Peer<TcpStream>) {
    let producer = producer(server);
    let mut peer = server.accept();
    assert_eq!(peer.request().0, CommandCode::ReportOffsets);
    assert_eq!(peer.request().0, CommandCode::GetTopic);
    peer.answer(Status::OK, b"");
    peer.answer(Status::OK, &topic(partitions));
    (producer, peer)
}

#[test]
fn a_producer_of_a_topic_without_partitions_does_not_open() {
    let server = Server::new();
    let (producer, _peer) = producer_of(&server, 0);
    let reason = "topic \"topic\" has no partitions".to_owned();
    let failure = Failure::Unrepresentable { reason };
    assert_eq!(wait(&producer.opened()), Err(failure));
}

#[test]
fn a_producer_delivers_over_a_lost_connection_and_closes() {
    let server = Server::new();
    let (producer, mut peer) = producer_of(&server, 2);
    assert_eq!(wait(&producer.opened()), Ok(()));
    assert_eq!(producer.partitions_count(), 2);
    let mut handle = None;
    let pushed = producer.push([message(1), message(2)].into_iter(), |batch, index| {
        assert_eq!(index, 0);
        handle = Some(batch);
    });
    let no_partition = PushRefused::NoPartition {
        partition: 2,
        partitions_count: 2,
    };
    assert_eq!(pushed, (1, Some(no_partition)));
    let closed = producer.close();
    assert_eq!(peer.request().0, CommandCode::SendMessages);
    peer.answer(Status::PARTITION_UNAVAILABLE, b"");
    let refused = producer.push(std::iter::once(message(0)), |_, _| {});
    assert_eq!(refused, (0, Some(PushRefused::Closed)));
    drop(peer);
    let mut peer = server.accept();
    assert_eq!(peer.request().0, CommandCode::ReportOffsets);
    peer.answer(Status::OK, b"");
    assert_eq!(peer.request().0, CommandCode::SendMessages);
    assert!(!closed.is_fulfilled());
    let mut payload = Vec::new();
    let appended = Appended {
        partition_id: 1,
        base_offset: 40,
    };
    appended.encode(&mut payload);
    peer.answer(Status::OK, &payload);
    let stored = wait(&handle.expect("a batch")).expect("it is stored");
    assert_eq!((stored.partition, stored.base_offset), (1, Some(40)));
    wait(&closed);
    let counters = producer.counters();
    assert_eq!((counters.batches_delivered, counters.batches_sent), (1, 2));
    assert_eq!(counters.buffered_bytes, 0);
}

#[test]
fn a_failure_is_taken_while_one_of_its_messages_was_not_asked_for() {
    let server = Server::new();
    let (producer, mut peer) = producer_of(&server, 2);
    assert_eq!(wait(&producer.opened()), Ok(()));
    let failure = SendFailure::Request(Failure::Refused {
        code: CommandCode::SendMessages.code(),
        status: Status::TOPIC_ID_NOT_FOUND,
        explanation: String::new(),
    });
    for is_second_asked_for in [false, true] {
        let mut sent = Vec::new();
        let messages = [message(1), message(1)].into_iter();
        producer.push(messages, |batch, index| sent.push((batch, index)));
        let flushed = producer.flush();
        assert_eq!(peer.request().0, CommandCode::SendMessages);
        peer.answer(Status::TOPIC_ID_NOT_FOUND, b"");
        wait(&flushed);
        let [(batch, first), (_, second)] = sent.try_into().expect("two messages");
        assert_eq!(batch.ask(first..first + 1), Some(Err(failure.clone())));
        if is_second_asked_for {
            assert_eq!(batch.ask(second..second + 1), Some(Err(failure.clone())));
        }
        let taken = producer.take_failure();
        assert_eq!(taken.is_some(), !is_second_asked_for);
        assert!(taken.is_none_or(|taken| taken == failure));
        assert_eq!(producer.take_failure(), None);
    }
}

#[test]
fn a_producer_opens_over_a_lost_connection() {
    let server = Server::new();
    let producer = producer(&server);
    for is_answered in [false, true] {
        let mut peer = server.accept();
        assert_eq!(peer.request().0, CommandCode::ReportOffsets);
        assert_eq!(peer.request().0, CommandCode::GetTopic);
        peer.answer(Status::OK, b"");
        if is_answered {
            peer.answer(Status::OK, &topic(2));
            assert_eq!(wait(&producer.opened()), Ok(()));
        }
    }
    assert_eq!(producer.partitions_count(), 2);
}

#[test]
fn a_consumer_reports_its_partitions_and_answers_every_commit() {
    let server = Server::new();
    let membership = Membership::Alone {
        name: Some(OwnedIdentifier::Numeric(5)),
        partitions: Some(vec![0]),
    };
    let mut config = ConsumerConfig::new(membership);
    config.start = Start::End;
    let consumer = ConsumerHandle::new(
        &engine(),
        &server.settings(false),
        config,
        OwnedIdentifier::Numeric(1),
        OwnedIdentifier::Numeric(2),
    );
    // Either session may be the first.
    let mut peers = [server.accept(), server.accept()];
    let requests = peers.each_mut().map(|peer| peer.request().0);
    if requests[0] == CommandCode::WatchPartitions {
        peers.swap(0, 1);
    }
    let [mut data, mut watch] = peers;
    let mut report = Vec::new();
    let partition = WatchedPartition {
        status: Status::OK,
        stream_id: 1,
        topic_id: 2,
        partition_id: 0,
        incarnation: 1,
        purge_epoch: 0,
        first_offset: 0,
        next_offset: 7,
    };
    encode_list(&[WatchedLog::from(partition)], &mut report);
    watch.answer(Status::OK, &report);
    watch.answer(Status::OK, b"");
    data.answer(Status::OK, b"");
    let item = loop {
        match consumer.take() {
            Taken::Item(item) => break item,
            Taken::Nothing(wait) => assert!(wait.wait(SECONDS), "an item"),
            Taken::Ended => panic!("it has ended"),
        }
    };
    assert_eq!(item, Item::Assigned(vec![0]));
    let done = consumer.commit(0, 3);
    assert_eq!(data.request().0, CommandCode::StoreConsumerOffset);
    data.answer(Status::OK, b"");
    assert_eq!(wait(&done), Ok(()));
    let open = consumer.commit(0, 4);
    assert_eq!(data.request().0, CommandCode::StoreConsumerOffset);
    drop(consumer);
    let failure = wait(&open).expect_err("the answer is not awaited");
    assert!(!failure.is_certainly_not_executed(), "{failure}");
}
