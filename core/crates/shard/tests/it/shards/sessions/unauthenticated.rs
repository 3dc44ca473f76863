//! Unauthenticated connections: limits on their memory and their duration.

use std::net::SocketAddr;

use headrace_shard::Arrival;
use headrace_websocket::request;
use headrace_wire::{Command, Status};

use crate::world::{World, login};

/// Header that announces the largest control command.
fn head_of_ten_mebibytes() -> Vec<u8> {
    let length = u32::try_from((10 << 20) + 4).expect("representable");
    [length.to_le_bytes(), 202_u32.to_le_bytes()].concat()
}

fn proxied(header: &[u8], address: SocketAddr) -> (World, usize) {
    let mut world = World::new();
    let link = world.connect_by(0, |_| Arrival {
        is_proxied: true,
        ..Arrival::tcp(address)
    });
    world.write(link, header);
    (world, link)
}

/// PROXY header of a balancer for a connection of 203.0.113.7:51234.
fn proxy_header() -> Vec<u8> {
    [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..],
        &[203, 0, 113, 7, 10, 0, 0, 1, 0xc8, 0x22, 0x1f, 0x9a],
    ]
    .concat()
}

/// GW-9: eight bytes of each unauthenticated connection take no memory from the pool that others would need.
#[test]
fn requests_announced_before_a_login_take_no_memory() {
    let mut world = World::new();
    let before = world.memory_in_use();
    for _ in 0..8 {
        let link = world.connect(0);
        world.write(link, &head_of_ten_mebibytes());
        assert_eq!(world.reply(link).status, Status::UNAUTHENTICATED);
    }
    assert!(world.memory_in_use() - before <= 8 * 4096);
    let link = world.login(0);
    assert_eq!(world.ask(link, &Command::GetStreams).status, Status::OK);
}

/// Rejected requests let the buffers grow only to the size that a login needs.
#[test]
fn buffers_stay_small_before_a_login() {
    let mut world = World::new();
    let before = world.memory_in_use();
    let links: Vec<usize> = (0..8).map(|_| world.connect(0)).collect();
    for link in &links {
        let mut pings = Vec::new();
        for _ in 0..20_000 {
            Command::Ping
                .try_encode_frame(&mut pings)
                .expect("representable");
        }
        pings.extend([0; 4]);
        world.write(*link, &pings);
    }
    assert!(world.memory_in_use() - before <= 8 * 4096);
}

/// Refusals pile up only to a limit if the client does not read them. Nothing more is received from it then.
#[test]
fn refusals_that_are_not_read_take_little_memory() {
    const BYTES: usize = 4 << 20;
    let mut world = World::new();
    let link = world.connect(0);
    world.hold_sends(link);
    world.request(link, &Command::Ping);
    // Frames of length 0, each of eight bytes like its refusal.
    world.write(link, &vec![0; BYTES]);
    assert!(world.bytes_towards(link) > BYTES / 2);
    world.release_sends(link);
    assert_eq!(world.bytes_towards(link), 0);
    assert_eq!(world.take_back(link).len(), 8 + BYTES);
}

/// The same limit applies to WebSocket upgrade requests that never end.
#[test]
fn a_request_for_an_upgrade_is_small() {
    let mut world = World::new();
    let before = world.memory_in_use();
    let link = world.connect_by(0, Arrival::websocket);
    let (request, _) = request("localhost:8092", "/", [3; 16]);
    world.write(link, &request[..request.len() - 2]);
    let header = format!("X: {}\r\n", "x".repeat(1000));
    for _ in 0..6 {
        world.write(link, header.as_bytes());
    }
    assert!(!world.is_finished(link));
    assert!(world.memory_in_use() - before <= 8 * 1024);
    world.write(link, header.as_bytes());
    assert!(world.is_finished(link) || world.is_closed(link));
}

/// A connection without login is closed, whatever else is requested on it, and so is one after a logout.
#[test]
fn unauthenticated_connections_are_closed() {
    let mut world = World::new();
    let (silent, busy, left) = (world.connect(0), world.connect(1), world.login(0));
    let known = world.login(1);
    world.pass(6_000_000);
    assert_eq!(world.ask(busy, &Command::Ping).status, Status::OK);
    assert_eq!(world.ask(left, &Command::LogoutUser).status, Status::OK);
    world.pass(5_000_000);
    assert!(world.is_finished(silent) && world.is_finished(busy));
    assert!(!world.is_finished(left));
    world.pass(5_000_000);
    assert!(world.is_finished(left));
    assert_eq!(world.ask(known, &Command::GetStreams).status, Status::OK);
}

/// A connection that is to be closed is also closed if the client does not read what was sent to it.
#[test]
fn a_connection_whose_client_does_not_read_is_closed() {
    let mut world = World::new();
    let (deaf, slow) = (world.connect(0), world.connect(1));
    for link in [deaf, slow] {
        world.hold_sends(link);
        world.request(link, &Command::Ping);
    }
    world.pass(10_000_000);
    world.pass(19_000_000);
    for link in [deaf, slow] {
        assert!(!world.is_finished(link) && !world.is_closed(link));
    }
    world.release_sends(slow);
    assert!(world.is_finished(slow));
    world.pass(2_000_000);
    assert!(world.is_closed(deaf) && !world.is_finished(deaf));
}

/// A connection whose login waits behind many other requests is not closed meanwhile.
#[test]
fn a_login_under_way_is_waited_for() {
    let mut world = World::new();
    let link = world.connect(0);
    world.pass(9_000_000);
    world.control_held = true;
    world.request(link, &login("secret"));
    world.pass(5_000_000);
    assert!(!world.is_finished(link));
    world.control_held = false;
    world.release_control();
    assert_eq!(world.reply(link).status, Status::OK);
    world.pass(20_000_000);
    assert!(!world.is_finished(link));
}

/// A large payload has to arrive in time, because its memory is not available to others.
#[test]
fn a_payload_that_does_not_come_ends_its_connection() {
    let mut world = World::new();
    let before = world.memory_in_use();
    let (slow, good) = (world.login(0), world.login(0));
    for link in [slow, good] {
        world.write(link, &head_of_ten_mebibytes());
    }
    assert!(world.memory_in_use() - before >= 2 * (10 << 20));
    world.pass(90_000_000);
    world.write(good, &vec![0; 10 << 20]);
    assert_eq!(world.reply(good).status, Status::INVALID_FORMAT);
    world.pass(11_000_000);
    assert!(world.is_finished(slow) && !world.is_finished(good));
    world.write(good, &head_of_ten_mebibytes());
    world.pass(99_000_000);
    assert!(!world.is_finished(good));
    world.pass(2_000_000);
    assert!(world.is_finished(good));
}

/// The PROXY header of a balancer sets the peer's address, however the header is split.
#[test]
fn the_source_behind_a_balancer_is_known() {
    let balancer = SocketAddr::from(([10, 0, 0, 9], 4000));
    let (mut world, link) = proxied(&proxy_header()[..13], balancer);
    let mut rest = proxy_header()[13..].to_vec();
    login("secret")
        .try_encode_frame(&mut rest)
        .expect("representable");
    world.write(link, &rest);
    assert_eq!(world.reply(link).status, Status::OK);
    assert_eq!(world.control_requests[0].address, "203.0.113.7:51234");
}

/// The PROXY header may also precede a WebSocket.
#[test]
fn the_source_of_a_websocket_is_known() {
    let mut world = World::new();
    let link = world.connect_by(0, |address| Arrival {
        is_proxied: true,
        ..Arrival::websocket(address)
    });
    let (request, _) = request("localhost:8092", "/", [3; 16]);
    world.write(link, &[proxy_header(), request].concat());
    let response = world.take_back(link);
    assert!(response.starts_with(b"HTTP/1.1 101"));
}

/// A connection from a balancer without PROXY header is closed: otherwise clients could send a forged one later.
#[test]
fn a_balancer_has_to_say_something() {
    let balancer = SocketAddr::from(([10, 0, 0, 9], 4000));
    let mut frame = Vec::new();
    Command::Ping
        .try_encode_frame(&mut frame)
        .expect("representable");
    let (world, link) = proxied(&frame, balancer);
    assert!(world.is_closed(link));
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let (mut world, link) = proxied(local, balancer);
    assert_eq!(world.ask(link, &Command::Ping).status, Status::OK);
}
