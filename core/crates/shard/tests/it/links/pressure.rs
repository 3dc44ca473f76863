//! A node that stops reading holds back the connections that use it, and no others.

use headrace_proto::catalog::v1 as records;
use headrace_wire::Status;

use crate::links::{losses::poll, reading::wait};
use crate::world::{IN_FLIGHT_BYTES_MAX, SILENCE_MICROS, Setup, TIMEOUT_MICROS, World, user};

/// Memory of the gateway, and size of an answer of which some fit.
const MEMORY_BYTES: u64 = 8 << 20;
const ANSWER_BYTES: usize = 2_200_000;
/// Number of users who read nothing.
const READERS: u32 = 8;

#[test]
fn who_wants_a_slow_node_waits_and_others_go_on() {
    let mut world = World::gateway(2);
    world.place_everywhere(&[1, 2]);
    let (slow, other) = (world.client(), world.client());
    world.post(slow, 0, &[b"0"]);
    assert_eq!(world.reply(slow).status, Status::OK);
    world.node(1).is_mute = true;
    let payload = vec![b'x'; 10_000];
    for _ in 0..30 {
        world.post(slow, 0, &[&payload]);
    }
    // Bytes up to the limit, and the capacity of the inbox.
    let left = world.wires[slow].towards[0].len() as u64;
    assert!(left > 300_000 - 3 * IN_FLIGHT_BYTES_MAX, "{left}");
    assert_eq!(world.node(1).requests, 1 + 7);
    world.post(other, 1, &[b"1"]);
    assert_eq!(world.reply(other).status, Status::OK);
    // One more request of another connection is admitted, and that connection is held as well.
    world.post(other, 0, &[b"2"]);
    world.post(other, 1, &[b"3"]);
    assert_eq!(world.try_reply(other), None);
    assert_eq!(world.node(2).requests, 1);
    world.node(1).is_mute = false;
    world.run();
    for _ in 0..30 {
        assert_eq!(world.reply(slow).status, Status::OK);
    }
    for _ in 0..2 {
        assert_eq!(world.reply(other).status, Status::OK);
    }
    assert_eq!(world.node(1).requests, 1 + 30 + 1);
    assert_eq!(world.wires[slow].towards[0].len(), 0);
}

/// Polls that wait at an idle node do not hold back writers.
#[test]
fn waiting_polls_hold_back_no_writer() {
    let mut world = World::gateway(2);
    world.place_everywhere(&[1, 1]);
    let readers: Vec<usize> = (0..IN_FLIGHT_BYTES_MAX / 256)
        .map(|_| world.client())
        .collect();
    for &reader in &readers {
        world.request(reader, &wait(0, 20_000_000));
    }
    let writer = world.client();
    for _ in 0..3 {
        world.post(writer, 1, &[b"1"]);
        assert_eq!(world.reply(writer).status, Status::OK);
    }
    for reader in readers {
        assert_eq!(world.try_reply(reader), None);
    }
}

#[test]
fn who_is_held_may_leave() {
    let mut world = World::gateway(1);
    world.down = vec![1];
    let payload = vec![b'x'; 10_000];
    let clients = [world.client(), world.client()];
    for client in clients {
        for _ in 0..10 {
            world.post(client, 0, &[&payload]);
        }
    }
    assert!(!world.wires[clients[0]].towards[0].is_empty());
    world.wires[clients[0]].is_ended[0] = true;
    world.pass(TIMEOUT_MICROS * 4);
    assert!(!world.is_closed(clients[1]));
    for _ in 0..10 {
        let refused = world.reply(clients[1]).status;
        assert_eq!(refused, Status::PARTITION_UNAVAILABLE);
    }
}

fn short_of_memory() -> World {
    World::gateway_of(
        1,
        Setup {
            memory_bytes: MEMORY_BYTES,
            ..Setup::gateway()
        },
    )
}

/// Readers of large answers, as many as do not fit into the memory, whose clients do not read, and the writer of a batch
/// whose acknowledgement is behind those answers.
fn deaf_readers(world: &mut World) -> (Vec<usize>, usize) {
    let writer = world.client();
    world.post(writer, 0, &[&vec![b'x'; ANSWER_BYTES]]);
    assert_eq!(world.reply(writer).status, Status::OK);
    let may_poll = records::GlobalPermissions {
        poll_messages: true,
        ..Default::default()
    };
    let ids = 10..10 + READERS;
    let users = (ids.clone()).map(|id| user(id, &format!("reader-{id}"), Some(may_poll)));
    world.publish(users.collect());
    // Messages are larger than what all answers together may hold, so each user gets one.
    let readers: Vec<_> = ids.map(|id| world.client_of(id)).collect();
    for reader in &readers {
        world.wires[*reader].is_deaf = true;
        world.request(*reader, &poll(0, false));
    }
    // An eighth of the memory stays free, and the connections have buffers.
    let answered = answered(world, &readers);
    assert!((2..4).contains(&answered), "{answered}");
    world.post(writer, 0, &[b"behind the answers"]);
    (readers, writer)
}

/// Number of readers that were answered.
fn answered(world: &World, readers: &[usize]) -> usize {
    (readers.iter())
        .filter(|reader| world.wires[**reader].towards[1].len() > 1_000_000)
        .count()
}

/// SHARD-12: a link on which an answer waits for memory is kept.
#[test]
fn a_link_that_waits_for_memory_is_not_silent() {
    let mut world = short_of_memory();
    let (readers, writer) = deaf_readers(&mut world);
    world.pass(SILENCE_MICROS * 2);
    assert_eq!(world.links_to(1).len(), 1);
    assert_eq!(world.try_reply(writer), None);
    for reader in &readers {
        world.wires[*reader].is_deaf = false;
    }
    world.pass(SILENCE_MICROS / 2);
    assert_eq!(world.reply(writer).status, Status::OK);
    assert_eq!(answered(&world, &readers), readers.len());
    assert!(world.reports.is_empty(), "{:?}", world.reports);
}

/// SHARD-12: clients that do not read stop others only for the time that reading may take.
#[test]
fn clients_that_do_not_read_are_disconnected_while_others_wait() {
    let mut world = short_of_memory();
    let (readers, writer) = deaf_readers(&mut world);
    world.pass(25_000_000);
    assert_eq!(world.try_reply(writer), None);
    world.pass(75_000_000);
    assert_eq!(world.reply(writer).status, Status::OK);
    assert_eq!(world.links_to(1).len(), 1);
    let closed = (readers.iter()).filter(|reader| world.is_closed(**reader));
    let closed = closed.count();
    assert!((4..8).contains(&closed), "{closed}");
    let report = &world.reports[0];
    assert!(
        report.contains("connections were closed: their clients left answers"),
        "{report}"
    );
    assert!(report.starts_with("warning: "), "{report}");
    // The others may take their time: no one needs their memory.
    world.pass(100_000_000);
    let open = readers.iter().filter(|reader| !world.is_closed(**reader));
    assert_eq!(open.count(), readers.len() - closed);
    assert!(!world.is_closed(writer));
}
