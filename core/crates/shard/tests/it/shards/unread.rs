//! Answers that clients do not read: they hold up their own users only.

use headrace_proto::catalog::v1 as records;
use headrace_wire::{Command, PollingStrategy, Status};

use crate::shards::messages::poll;
use crate::shards::waits::wait;
use crate::world::{Setup, World, user};

const MEMORY_BYTES: u64 = 64 << 20;
/// Number of messages of a megabyte in partition 0.
const LARGE_COUNT: u32 = 20;
/// First of the users who read nothing.
const HOSTILE: u32 = 10;
const HOSTILE_USERS: u32 = 8;

/// A world whose partition 0 has large messages, and partition 1 a small one.
fn with_messages() -> World {
    let mut world = World::of(Setup {
        memory_bytes: MEMORY_BYTES,
        connections_max: 1000,
        waited_partitions_max: 1000,
        ..Setup::default()
    })
    .with_topic(2);
    let may_poll = records::GlobalPermissions {
        poll_messages: true,
        ..Default::default()
    };
    let users = (HOSTILE..HOSTILE + HOSTILE_USERS)
        .map(|id| user(id, &format!("hostile-{id}"), Some(may_poll)));
    world.publish(users.collect());
    let producer = world.client();
    let payload = vec![7; 1_000_000];
    for _ in 0..LARGE_COUNT {
        assert_eq!(world.send(producer, 0, &[&payload]), Status::OK);
        world.pass(3_000);
    }
    assert_eq!(world.send(producer, 1, &[b"s"]), Status::OK);
    world
}

/// Connections of a user, each with two requests in a row whose answers it does not read.
fn read_nothing(
    world: &mut World,
    user: u32,
    connections: usize,
    command: &Command<'_>,
) -> Vec<usize> {
    let links: Vec<usize> = (0..connections).map(|_| world.client_of(user)).collect();
    for link in &links {
        world.hold_sends(*link);
    }
    for _ in 0..2 {
        for link in &links {
            world.request(*link, command);
            world.pass(1_000);
        }
    }
    links
}

/// A wait for the messages of a partition that are there already.
fn waiting(partition: u32) -> Command<'static> {
    Command::WaitMessages(wait(partition, PollingStrategy::First, 1, 1_000_000))
}

/// Check that another user's polls are answered at once, small and large, and waits as well.
fn check_others(world: &mut World) {
    for _ in 0..3 {
        let reader = world.client();
        for (partition, count, bytes) in [(1, 1, 1), (0, 1, 1_000_000)] {
            let first = poll(partition, PollingStrategy::First, count);
            world.request(reader, &first);
            world.pass(500_000);
            let found = world.try_reply(reader).expect("within a second").payloads();
            assert_eq!(found[0].len(), bytes);
        }
        world.request(reader, &waiting(1));
        world.pass(500_000);
        assert_eq!(world.try_reply(reader).expect("at once").status, Status::OK);
    }
    let statistics = world.processes[0].memory.pool().statistics();
    assert!(statistics.reads_bytes <= MEMORY_BYTES / 2, "{statistics:?}");
}

/// SHARD-12: a user whose connections read nothing waits for himself, and no other user waits for him.
#[test]
fn unread_polls_hold_up_their_own_user_only() {
    let mut world = with_messages();
    let all = poll(0, PollingStrategy::First, LARGE_COUNT);
    let links = read_nothing(&mut world, HOSTILE, 30, &all);
    check_others(&mut world);
    // What he reads at last is answered, also what had to wait.
    for link in &links {
        world.release_sends(*link);
    }
    world.pass(1_000_000);
    for link in links {
        for _ in 0..2 {
            let found = world.reply(link).payloads();
            assert!(!found.is_empty(), "{link}");
        }
    }
}

/// Each user leaves the others half of what is left.
#[test]
fn no_number_of_users_ends_the_polls_of_others() {
    let mut world = with_messages();
    let all = poll(0, PollingStrategy::First, LARGE_COUNT);
    for user in HOSTILE..HOSTILE + HOSTILE_USERS {
        read_nothing(&mut world, user, 10, &all);
    }
    let reader = world.client();
    for _ in 0..10 {
        world.request(reader, &poll(1, PollingStrategy::First, 1));
        world.pass(500_000);
        let found = world.try_reply(reader).expect("within a second").payloads();
        assert_eq!(found, [b"s"]);
    }
}

/// The same holds for requests that wait for messages, and for single messages larger than what is left.
#[test]
fn unread_waits_and_single_messages_are_counted_as_well() {
    for command in [waiting(0), poll(0, PollingStrategy::Offset(3), 1)] {
        let mut world = with_messages();
        read_nothing(&mut world, HOSTILE, 60, &command);
        check_others(&mut world);
    }
}

/// Small answers count for the buffers that they keep in memory: here a megabyte each.
#[test]
fn small_unread_answers_keep_no_large_buffers() {
    let mut world = with_messages();
    let producer = world.client();
    let filler = vec![7; 1_000_000];
    for number in 0..100 {
        let sent = world.send(producer, 1, &[&filler, b"t"]);
        assert_eq!(sent, Status::OK, "{number}");
        world.pass(3_000);
        let reader = world.client_of(HOSTILE);
        world.hold_sends(reader);
        let last = poll(1, PollingStrategy::Offset(2 * number + 2), 1);
        world.request(reader, &last);
        world.pass(3_000);
    }
    check_others(&mut world);
}

/// A client that takes nothing for half a minute while its user's other requests wait is disconnected; one that goes
/// on reading slowly stays.
#[test]
fn a_client_that_takes_nothing_is_disconnected() {
    let mut world = with_messages();
    let all = poll(0, PollingStrategy::First, LARGE_COUNT);
    let links = read_nothing(&mut world, HOSTILE, 30, &all);
    let (slow, stuck) = links.split_first().expect("thirty");
    for _ in 0..8 {
        world.pass(5_000_000);
        world.release_sends_once(*slow);
    }
    assert!(!world.is_closed(*slow));
    assert!(stuck.iter().any(|link| world.is_closed(*link)));
    let other = world.client_of(HOSTILE);
    world.request(other, &poll(1, PollingStrategy::First, 1));
    let reply = (0..20).find_map(|_| {
        world.pass(30_000_000);
        world.try_reply(other)
    });
    assert_eq!(reply.expect("in the end").payloads(), [b"s"]);
}
