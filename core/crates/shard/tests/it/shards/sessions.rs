//! Sessions: logins, their end, shutdown.

mod endings;
mod quotas;
mod turns;
mod unauthenticated;

use std::net::SocketAddr;

use headrace_proto::{
    catalog::v1::{self as records, delta::Change},
    control::v1::request::Operation,
    metadata::v1::command::Meant,
};
use headrace_shard::Arrival;
use headrace_wire::{
    Command, Identifier, Status,
    command::{GroupPath, PartitionsCount, StreamPath, TopicPath},
    response::{ClientHeader, decode_list},
};

use crate::world::{CONNECTIONS_MAX, PASSWORD, Setup, World, login, user};

/// GW-9: before a login only pings and logins are answered.
#[test]
fn nothing_but_ping_works_before_login() {
    let mut world = World::new();
    let link = world.connect(0);
    assert_eq!(world.ask(link, &Command::Ping).status, Status::OK);
    assert_eq!(
        world.ask(link, &Command::GetStreams).status,
        Status::UNAUTHENTICATED
    );
    assert_eq!(
        world.ask(link, &login("wrong")).status,
        Status::INVALID_CREDENTIALS
    );
    assert_eq!(
        world.ask(link, &Command::GetStreams).status,
        Status::UNAUTHENTICATED
    );
    assert_eq!(world.ask(link, &login("secret")).status, Status::OK);
    assert_eq!(world.ask(link, &Command::GetStreams).status, Status::OK);
    assert_eq!(world.ask(link, &Command::LogoutUser).status, Status::OK);
    assert_eq!(
        world.ask(link, &Command::GetStreams).status,
        Status::UNAUTHENTICATED
    );
}

/// A login in flight holds back requests pipelined behind it, so that they run authenticated.
#[test]
fn requests_behind_a_login_are_logged_in() {
    let mut world = World::new();
    let link = world.connect(0);
    let mut frames = Vec::new();
    login("secret").try_encode_frame(&mut frames).unwrap();
    Command::GetStreams.try_encode_frame(&mut frames).unwrap();
    world.write(link, &frames);
    assert_eq!(world.reply(link).status, Status::OK);
    assert_eq!(world.reply(link).status, Status::OK);
}

/// The open sessions of a deleted user end at once, and never pass to another user with the same number.
#[test]
fn a_deleted_user_is_out_at_once() {
    let mut world = World::new();
    let link = world.login(1);
    world.publish(vec![Change::UserDeleted(0)]);
    assert_eq!(
        world.ask(link, &Command::GetStreams).status,
        Status::UNAUTHENTICATED
    );
}

/// Users who may see all streams learn that a stream does not exist.
#[test]
fn what_is_missing_is_an_empty_answer_or_an_error() {
    let mut world = World::new();
    let link = world.login(0);
    let nothing = StreamPath {
        stream: Identifier::Named("nothing"),
    };
    let reply = world.ask(link, &Command::GetStream(nothing));
    assert_eq!((reply.status, reply.payload.len()), (Status::OK, 0));
    let reply = world.ask(link, &Command::DeleteStream(nothing));
    assert_eq!(reply.status, Status::STREAM_ID_NOT_FOUND);
}

/// A shutdown answers what is in flight, sends status 8, and closes all connections.
#[test]
fn shutdown_answers_and_disconnects() {
    let mut world = World::new().with_topic(2);
    let link = world.login(0);
    let idle = world.connect(1);
    world.storage_held = true;
    world.post(link, 0, &[b"kept"]);
    assert_eq!(world.try_reply(link), None);
    world.shut_down();
    assert!(!world.is_stopped());
    world.release_storage();
    assert_eq!(world.reply(link).status, Status::OK);
    assert_eq!(world.reply(link).status, Status::DISCONNECTED);
    assert_eq!(world.reply(idle).status, Status::DISCONNECTED);
    assert!(world.is_closed(link) && world.is_closed(idle));
    assert!(!world.is_stopped());
    world.close_partitions();
    assert!(world.is_stopped());
}

/// Data that a client sends after the final frame is discarded; closing at once would lose answers in transit. A client
/// that never closes is disconnected in the end.
#[test]
fn a_connection_lingers_for_what_is_still_sent() {
    let mut world = World::new();
    let link = world.login(0);
    let silent = world.connect(1);
    for link in [link, silent] {
        world.stay(link);
    }
    world.shut_down();
    for link in [link, silent] {
        assert_eq!(world.reply(link).status, Status::DISCONNECTED);
        assert!(world.is_finished(link) && !world.is_closed(link));
    }
    for _ in 0..100 {
        world.request(link, &Command::Ping);
    }
    world.pass(900_000);
    assert_eq!(world.try_reply(link), None);
    assert!(!world.is_closed(link) && !world.is_closed(silent));
    world.pass(200_000);
    assert!(world.is_closed(link) && world.is_closed(silent));
    world.close_partitions();
    assert!(world.is_stopped());
}

/// A client that does not read keeps an answer in flight. When the time for answers is over it is cut off, and the
/// partitions close.
#[test]
fn a_client_that_does_not_read_keeps_no_partition_open() {
    let mut world = World::new().with_topic(2);
    let (deaf, idle) = (world.login(0), world.connect(1));
    world.hold_sends(deaf);
    world.request(deaf, &Command::Ping);
    world.shut_down();
    world.pass(2_000_000);
    assert!(world.is_closed(idle) && !world.is_closed(deaf));
    world.end_shutdown();
    assert!(world.is_closed(deaf));
    assert!(world.is_stopped());
}

/// Numbers of the listed clients.
fn listed(world: &mut World, link: usize) -> Vec<u32> {
    let reply = world.ask(link, &Command::GetClients);
    assert_eq!(reply.status, Status::OK);
    decode_list::<ClientHeader<'_>>(&reply.payload)
        .unwrap()
        .iter()
        .map(|client| client.client_id)
        .collect()
}

/// A world in which clients silent for longer than 6 seconds are removed from the registry.
pub fn with_heartbeat() -> World {
    World::of(Setup {
        heartbeat_interval_micros: Some(5_000_000),
        ..Setup::default()
    })
}

/// Silent clients are removed from the registry, and their connections continue to work. In-process sessions, which
/// never ping, are exempt.
#[test]
fn silence_ends_registrations_of_clients_only() {
    let mut world = with_heartbeat();
    let silent = world.login(0);
    let alive = world.login(0);
    let listener = world.in_process(0, 0);
    for _ in 0..4 {
        world.pass(2_000_000);
        assert_eq!(world.ask(alive, &Command::Ping).status, Status::OK);
    }
    assert_eq!(listed(&mut world, alive), [2]);
    assert!(world.notices.is_empty(), "it was in no group");
    for link in [silent, alive, listener] {
        assert!(!world.is_closed(link));
    }
    assert_eq!(world.ask(listener, &Command::GetMe).status, Status::OK);
    // The client is still logged in, and its next command registers it again.
    assert_eq!(world.ask(silent, &Command::GetMe).status, Status::OK);
    assert_eq!(listed(&mut world, alive), [2, 4]);
    world.hang_up(silent);
    assert_eq!(listed(&mut world, alive), [2]);
}

/// The connection limit applies to clients: in-process connections do not count.
#[test]
fn listeners_take_no_places_of_clients() {
    let mut world = World::new();
    for _ in 0..CONNECTIONS_MAX {
        world.in_process(0, 0);
    }
    let clients: Vec<usize> = (0..CONNECTIONS_MAX).map(|_| world.login(0)).collect();
    assert!(clients.iter().all(|client| !world.is_closed(*client)));
    let beyond = world.connect(0);
    assert!(world.is_closed(beyond));
    world.hang_up(clients[3]);
    let next = world.connect(0);
    assert!(!world.is_closed(next));
}

fn from(world: &mut World, address: [u8; 4]) -> usize {
    world.connect_by(0, |known| {
        Arrival::tcp(SocketAddr::from((address, known.port())))
    })
}

/// The oldest connection without a login leaves if all places are taken, of the address that has most of them.
#[test]
fn connections_without_a_login_leave_places_to_others() {
    let mut world = World::new();
    let (user, honest) = (world.login(0), from(&mut world, [10, 0, 0, 1]));
    let first: Vec<usize> = (2..CONNECTIONS_MAX)
        .map(|_| from(&mut world, [10, 0, 0, 2]))
        .collect();
    for _ in 0..30 {
        world.pass(20_000);
        let late = from(&mut world, [10, 0, 0, 2]);
        assert!(!world.is_closed(late));
    }
    assert!(first.iter().all(|link| world.is_closed(*link)));
    world.pass(20_000);
    let late = from(&mut world, [10, 0, 0, 3]);
    for link in [user, honest, late] {
        assert!(!world.is_closed(link));
        assert_eq!(world.ask(link, &login(PASSWORD)).status, Status::OK);
    }
}

/// One user may have half of the places that the others leave: the next login is refused, and others log in.
#[test]
fn connections_of_one_user_leave_places_to_others() {
    let mut world = World::new();
    let users = (1..4).map(|id| user(id, &format!("user-{id}"), None));
    world.publish(users.collect());
    let roots: Vec<usize> = (0..CONNECTIONS_MAX).map(|_| world.login(1)).collect();
    world.hang_up(roots[0]);
    let again = world.login(1);
    let beyond = world.connect(0);
    let refused = world.ask(beyond, &login(PASSWORD)).status;
    assert_eq!(refused, Status::TOO_MANY_CONNECTIONS);
    assert_eq!(world.ask(again, &login(PASSWORD)).status, Status::OK);
    world.hang_up(beyond);
    // Users whom a listener has logged in.
    let counts = (1..4).map(|id| {
        (0..100).position(|_| {
            let client = world.client_of(id);
            world.is_closed(client)
        })
    });
    assert_eq!(counts.collect::<Vec<_>>(), [Some(8), Some(4), Some(2)]);
}

/// The quota of connections refuses the next login, and a connection that a listener has logged in; root has none.
#[test]
fn connections_of_a_user_are_limited_by_its_quota() {
    let mut world = World::new();
    let Change::UserPut(mut limited) = user(1, "user-1", None) else {
        unreachable!()
    };
    let with = |connections| {
        Some(records::Quota {
            connections,
            ..Default::default()
        })
    };
    limited.quota = with(2);
    world.publish(vec![Change::UserPut(limited.clone())]);
    let clients: Vec<usize> = (0..3).map(|_| world.client_of(1)).collect();
    let closed = |world: &World| -> Vec<bool> {
        clients
            .iter()
            .map(|client| world.is_closed(*client))
            .collect()
    };
    assert_eq!(closed(&world), [false, false, true]);

    // A smaller quota is for new connections: the present ones stay.
    limited.quota = with(1);
    world.publish(vec![Change::UserPut(limited.clone())]);
    assert_eq!(closed(&world), [false, false, true]);
    world.hang_up(clients[0]);
    let beyond = world.client_of(1);
    assert!(world.is_closed(beyond));

    limited.quota = None;
    world.publish(vec![Change::UserPut(limited)]);
    let next = world.client_of(1);
    assert!(!world.is_closed(next));
}

/// Numbers are reused, and a gateway's catalog may be old: a command contains the incarnation of its stream, topic or
/// group.
#[test]
fn commands_say_what_they_mean() {
    let mut world = World::new().with_topic(1);
    world.publish(vec![Change::ConsumerGroupPut(records::ConsumerGroup {
        name: "g".into(),
        key: 9,
        partitions_count: 1,
        ..Default::default()
    })]);
    let link = world.login(0);
    let (stream, topic) = (Identifier::Named("s"), Identifier::Named("t"));
    let path = TopicPath { stream, topic };
    let count = PartitionsCount {
        stream,
        topic,
        partitions_count: 1,
    };
    let group = GroupPath {
        stream,
        topic,
        group: Identifier::Named("g"),
    };
    let (in_stream, on_topic) = (Meant::StreamIncarnation(2), Meant::TopicIncarnation(3));
    let about_group = Meant::GroupKey(9);
    for (command, expected) in [
        (Command::DeleteStream(StreamPath { stream }), in_stream),
        (Command::PurgeStream(StreamPath { stream }), in_stream),
        (Command::DeleteTopic(path), on_topic),
        (Command::PurgeTopic(path), on_topic),
        (Command::CreatePartitions(count), on_topic),
        (Command::DeletePartitions(count), on_topic),
        (Command::DeleteConsumerGroup(group), about_group),
        (Command::JoinConsumerGroup(group), about_group),
        (Command::LeaveConsumerGroup(group), about_group),
    ] {
        assert_eq!(world.ask(link, &command).status, Status::OK);
        let request = world.control_requests.last().cloned();
        let Some(Operation::Command(proposed)) = request.and_then(|request| request.operation)
        else {
            panic!("{command:?} is not proposed");
        };
        assert_eq!(proposed.meant, Some(expected), "{command:?}");
    }
}
