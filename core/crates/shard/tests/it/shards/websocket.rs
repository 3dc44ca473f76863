//! GW-2: the protocol in the messages of a WebSocket.

use headrace_shard::Arrival;
use headrace_websocket::{
    CloseCode, Decoder, Item, Limits, Opcode, Role, Step, apply_mask, check_response,
    close_payload, encode_header, request,
};
use headrace_wire::{
    Command, Status,
    command::CreateStream,
    frame::{RESPONSE_HEADER_BYTES, ResponseHeader},
    response::Appended,
};

use crate::world::{PASSWORD, Reply, World, batch, login, poll_first, to_partition};

const KEY: [u8; 4] = [7, 0, 255, 90];

/// Client end of a WebSocket.
struct Peer {
    link: usize,
    decoder: Decoder,
}

/// Message that a client receives.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// One message holds exactly one response.
    Reply(Reply),
    Pong,
    Close(Option<u16>),
}

fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = encode_header(opcode, payload.len(), Some(KEY))
        .as_slice()
        .to_vec();
    let start = bytes.len();
    bytes.extend(payload);
    apply_mask(&mut bytes[start..], KEY, 0);
    bytes
}

fn encoded(command: &Command<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    command.try_encode_frame(&mut frame).expect("representable");
    frame
}

/// A batch of one message.
fn sent(payload: &[u8]) -> Vec<u8> {
    let batch = batch(&[payload]);
    encoded(&Command::SendMessages(to_partition(&batch, 0)))
}

impl Peer {
    fn connect(world: &mut World, shard: usize) -> Self {
        let link = world.connect_by(shard, Arrival::websocket);
        let (request, accept) = request("localhost:8092", "/", [3; 16]);
        world.write(link, &request);
        let response = world.take_back(link);
        assert_eq!(check_response(&response, &accept), Ok(Some(response.len())));
        let limits = Limits {
            frame_bytes_max: 1 << 30,
            message_bytes_max: 1 << 30,
        };
        Self {
            link,
            decoder: Decoder::new(Role::Client, limits),
        }
    }

    fn login(world: &mut World, shard: usize) -> Self {
        let mut peer = Self::connect(world, shard);
        assert_eq!(peer.ask(world, &login(PASSWORD)).status, Status::OK);
        peer
    }

    fn write(&self, world: &mut World, opcode: Opcode, payload: &[u8]) {
        world.write(self.link, &frame(opcode, payload));
    }

    fn ask(&mut self, world: &mut World, command: &Command<'_>) -> Reply {
        self.write(world, Opcode::Binary, &encoded(command));
        match self.heard(world).pop() {
            Some(Heard::Reply(reply)) => reply,
            other => panic!("{other:?} in place of a response"),
        }
    }

    /// Take everything that has arrived.
    fn heard(&mut self, world: &mut World) -> Vec<Heard> {
        let mut bytes = world.take_back(self.link);
        let mut rest = &mut bytes[..];
        let mut heard = Vec::new();
        while !rest.is_empty() {
            let step = self
                .decoder
                .next(rest)
                .expect("the server keeps to the rules");
            let Step::Item { item, consumed } = step else {
                panic!("frames are sent whole");
            };
            heard.push(match item {
                Item::Data {
                    payload,
                    ends_message: true,
                    ..
                } => {
                    let (header, payload) = rest[payload]
                        .split_first_chunk::<RESPONSE_HEADER_BYTES>()
                        .expect("a header");
                    let header = ResponseHeader::parse(header);
                    assert_eq!(header.length as usize, payload.len(), "one response each");
                    Heard::Reply(Reply {
                        status: header.status,
                        payload: payload.to_vec(),
                    })
                }
                Item::Pong => Heard::Pong,
                Item::Close { code } => Heard::Close(code.map(|code| code.0)),
                other => panic!("{other:?}"),
            });
            rest = &mut rest[consumed..];
        }
        heard
    }
}

fn poll() -> Command<'static> {
    Command::PollMessages(poll_first(0, 10, false))
}

fn ok() -> Heard {
    Heard::Reply(Reply {
        status: Status::OK,
        payload: Vec::new(),
    })
}

#[test]
fn batches_and_polls_travel_in_messages() {
    let mut world = World::new().with_topic(1);
    let mut peer = Peer::login(&mut world, 0);
    let large = vec![9; 300_000];
    let medium = vec![1; 17_000];
    let payloads: [&[u8]; 3] = [b"small", &large, &medium];
    for payload in payloads {
        peer.write(&mut world, Opcode::Binary, &sent(payload));
        assert_eq!(peer.heard(&mut world), [ok()]);
    }
    let reply = peer.ask(&mut world, &poll());
    assert_eq!(reply.status, Status::OK);
    assert_eq!(
        reply.payload.len(),
        16 + payloads
            .iter()
            .map(|payload| 64 + payload.len())
            .sum::<usize>()
    );
}

/// Requests are a stream of bytes, however it is divided; each response is one message.
#[test]
fn messages_towards_the_server_have_no_meaning() {
    let mut world = World::new();
    let mut peer = Peer::login(&mut world, 0);
    let ping = encoded(&Command::Ping);
    peer.write(&mut world, Opcode::Binary, &ping.repeat(3));
    assert_eq!(peer.heard(&mut world), [ok(), ok(), ok()]);
    let (front, back) = ping.split_at(5);
    peer.write(&mut world, Opcode::Binary, front);
    peer.write(&mut world, Opcode::Binary, b"");
    assert_eq!(peer.heard(&mut world), []);
    peer.write(&mut world, Opcode::Binary, &[back, &ping[..1]].concat());
    assert_eq!(peer.heard(&mut world), [ok()]);
    peer.write(&mut world, Opcode::Binary, &ping[1..]);
    assert_eq!(peer.heard(&mut world), [ok()]);
    // In one segment: requests, a text message without meaning, a ping.
    let stream = [
        frame(Opcode::Binary, &ping),
        frame(Opcode::Text, "größe".as_bytes()),
        frame(Opcode::Ping, b"?"),
        frame(Opcode::Pong, b"!"),
        frame(Opcode::Binary, &ping),
    ]
    .concat();
    world.write(peer.link, &stream);
    let mut heard = peer.heard(&mut world);
    heard.sort_by_key(|heard| matches!(heard, Heard::Reply(_)));
    assert_eq!(heard, [Heard::Pong, ok(), ok()]);
}

#[test]
fn what_is_no_upgrade_is_refused_and_closed() {
    for (bytes, expected) in [
        (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], "HTTP/1.1 426"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405"),
        (b"\x04\0\0\0\x01\0\0\0", "HTTP/1.1 400"),
        (
            &[&b"GET / HTTP/1.1\r\nA: "[..], &vec![b'a'; 17_000]].concat(),
            "HTTP/1.1 431",
        ),
    ] {
        let mut world = World::new();
        let link = world.connect_by(1, Arrival::websocket);
        world.write(link, bytes);
        let answer = String::from_utf8(world.take_back(link)).expect("text");
        assert!(answer.starts_with(expected), "{answer}");
        assert!(world.is_closed(link));
    }
}

/// Neither a silent connection nor an incomplete upgrade lasts forever; an authenticated connection does.
#[test]
fn an_upgrade_has_to_come_in_time() {
    let mut world = World::new();
    let silent = world.connect_by(0, Arrival::websocket);
    let slow = world.connect_by(1, Arrival::websocket);
    world.write(slow, b"GET / HTTP/1.1\r\nHost: ");
    let mut open = Peer::connect(&mut world, 0);
    assert_eq!(open.ask(&mut world, &login(PASSWORD)).status, Status::OK);
    world.pass(9_900_000);
    assert!(!world.is_finished(silent) && !world.is_finished(slow));
    world.pass(200_000);
    for link in [silent, slow] {
        assert!(world.take_back(link).starts_with(b"HTTP/1.1 408"));
        assert!(world.is_closed(link));
    }
    assert_eq!(open.ask(&mut world, &Command::Ping).status, Status::OK);
}

#[test]
fn a_violation_closes_with_its_code() {
    for (bytes, code) in [
        (vec![0x82, 0], 1002),
        (frame(Opcode::Text, &[0xff]), 1007),
        (
            encode_header(Opcode::Binary, (16 << 20) + 1, Some(KEY))
                .as_slice()
                .to_vec(),
            1009,
        ),
    ] {
        let mut world = World::new();
        let mut peer = Peer::login(&mut world, 0);
        // Requests in front of the violation are answered.
        let stream = [frame(Opcode::Binary, &encoded(&Command::Ping)), bytes].concat();
        world.write(peer.link, &stream);
        assert_eq!(peer.heard(&mut world), [ok(), Heard::Close(Some(code))]);
        assert!(world.is_closed(peer.link));
    }
}

/// The peer gets its own close code back, after the answers to its requests.
#[test]
fn a_peer_may_close() {
    for (payload, code) in [
        (close_payload(CloseCode::NORMAL, "bye"), Some(1000)),
        (Vec::new(), None),
    ] {
        let mut world = World::new().with_topic(1);
        let mut peer = Peer::login(&mut world, 0);
        world.storage_held = true;
        let stream = [
            frame(Opcode::Binary, &sent(b"kept")),
            frame(Opcode::Close, &payload),
            frame(Opcode::Binary, &encoded(&Command::Ping)),
        ]
        .concat();
        world.write(peer.link, &stream);
        assert_eq!(peer.heard(&mut world), []);
        world.release_storage();
        assert_eq!(peer.heard(&mut world), [ok(), Heard::Close(code)]);
        assert!(world.is_closed(peer.link));
    }
}

/// A slow (waiting) request does not keep a connection that the peer has closed.
#[test]
fn a_peer_that_closes_does_not_wait_for_ever() {
    let mut world = World::new().with_topic(1);
    let mut peer = Peer::login(&mut world, 0);
    world.storage_held = true;
    peer.write(&mut world, Opcode::Binary, &sent(b"kept"));
    peer.write(&mut world, Opcode::Close, &[]);
    world.pass(900_000);
    assert_eq!(peer.heard(&mut world), []);
    world.pass(200_000);
    assert_eq!(peer.heard(&mut world), [Heard::Close(None)]);
    assert!(world.is_closed(peer.link));
    // The late answer finds no connection.
    world.release_storage();
    assert_eq!(peer.heard(&mut world), []);
}

/// Status 8 as a message, followed by a close frame; before the upgrade, an HTTP response.
#[test]
fn shutdown_disconnects() {
    let mut world = World::new();
    let mut peer = Peer::login(&mut world, 0);
    let young = world.connect_by(1, Arrival::websocket);
    world.shut_down();
    let notice = Heard::Reply(Reply {
        status: Status::DISCONNECTED,
        payload: Vec::new(),
    });
    assert_eq!(peer.heard(&mut world), [notice, Heard::Close(Some(1001))]);
    assert!(world.take_back(young).starts_with(b"HTTP/1.1 503"));
    assert!(world.is_closed(peer.link) && world.is_closed(young));
    world.close_partitions();
    assert!(world.is_stopped());
}

/// Accepted requests are answered before the close frame as on TCP, however long that takes.
#[test]
fn shutdown_answers_what_is_in_flight() {
    let mut world = World::new().with_topic(1);
    let mut peer = Peer::login(&mut world, 0);
    world.storage_held = true;
    peer.write(&mut world, Opcode::Binary, &sent(b"kept"));
    world.shut_down();
    world.pass(5_000_000);
    assert_eq!(peer.heard(&mut world), []);
    world.release_storage();
    let notice = Heard::Reply(Reply {
        status: Status::DISCONNECTED,
        payload: Vec::new(),
    });
    assert_eq!(
        peer.heard(&mut world),
        [ok(), notice, Heard::Close(Some(1001))]
    );
    world.close_partitions();
    assert!(world.is_stopped());
}

/// SHARD-6: a WebSocket connection moves to the shard of its traffic, even in the middle of a message, and still gets
/// the offsets that it has asked for.
#[test]
fn a_websocket_moves_between_shards() {
    let mut world = World::new().with_topic(8);
    let mut peer = Peer::login(&mut world, 0);
    assert_eq!(
        peer.ask(&mut world, &Command::ReportOffsets).status,
        Status::OK
    );
    let mut moved = false;
    for partition in 0..8 {
        for base_offset in 0..40 {
            let batch = batch(&[b"m"]);
            let request = to_partition(&batch, partition);
            let reply = peer.ask(&mut world, &Command::SendMessages(request));
            assert_eq!(reply.status, Status::OK);
            let appended = Appended {
                partition_id: partition,
                base_offset,
            };
            assert_eq!(Appended::decode(&reply.payload), Ok(appended));
        }
        moved |= world.shard_of(peer.link) == 1;
    }
    assert!(moved);
    let ping = encoded(&Command::Ping);
    peer.write(&mut world, Opcode::Ping, b"still there?");
    peer.write(&mut world, Opcode::Binary, &ping[..3]);
    peer.write(&mut world, Opcode::Binary, &ping[3..]);
    assert_eq!(peer.heard(&mut world), [Heard::Pong, ok()]);
}

/// Bad input is answered as on TCP, and the connection continues.
#[test]
fn bad_requests_are_answered() {
    let mut world = World::new();
    let mut peer = Peer::connect(&mut world, 0);
    let unknown = [&4_u32.to_le_bytes()[..], &60_000_u32.to_le_bytes()].concat();
    let short = [&3_u32.to_le_bytes()[..], &1_u32.to_le_bytes()].concat();
    for bytes in [unknown, short] {
        peer.write(&mut world, Opcode::Binary, &bytes);
        let reply = Reply {
            status: Status::INVALID_COMMAND,
            payload: Vec::new(),
        };
        assert_eq!(peer.heard(&mut world), [Heard::Reply(reply)]);
    }
    let reply = peer.ask(
        &mut world,
        &Command::CreateStream(CreateStream { name: "x" }),
    );
    assert_eq!(reply.status, Status::UNAUTHENTICATED);
    assert!(!world.is_closed(peer.link));
}
