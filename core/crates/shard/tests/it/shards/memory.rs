//! SHARD-12: memory shortage delays requests, and fails none.

use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_wire::{Command, Identifier, Partitioning, PollingStrategy, Status};

use crate::shards::messages::{payloads, poll};
use crate::world::{Setup, World, batch, to_partition, user};

const MEMORY_BYTES: u64 = 16 << 20;

/// A world whose shards share this much memory.
fn with_memory(memory_bytes: u64) -> World {
    World::of(Setup {
        memory_bytes,
        ..Setup::default()
    })
}

fn send_command(payload: &[u8], partition: u32, request: impl FnOnce(&Command<'_>)) {
    let batch = batch(&[payload]);
    let send = to_partition(&batch, partition);
    request(&Command::SendMessages(send));
}

/// Caches of all shards' partitions release what a batch needs: the messages sent exceed the pool by far.
#[test]
fn caches_never_keep_batches_out() {
    let mut world = with_memory(MEMORY_BYTES).with_topic(10);
    let links = [world.login(0), world.login(1)];
    let payload = vec![7; 1_000_000];
    for number in 0..180 {
        let link = links[number % 2];
        let partition = u32::try_from(number % 10).unwrap();
        assert_eq!(world.send(link, partition, &[&payload]), Status::OK);
        world.pass(3_000);
    }
    for partition in 0..10 {
        for offset in [0, 17] {
            let command = poll(partition, PollingStrategy::Offset(offset), 1);
            let found = payloads(&mut world, links[0], &command);
            assert_eq!(found, [payload.as_slice()], "{partition}:{offset}");
        }
    }
}

/// Partitions of one shard release what a batch for another shard needs.
#[test]
fn caches_of_an_idle_shard_are_given_back() {
    let mut world = with_memory(MEMORY_BYTES).with_topic(64);
    let links = [world.login(0), world.login(1)];
    let payload = vec![7; 400_000];
    // All partitions have messages, on both shards.
    for partition in 0..64 {
        assert_eq!(world.send(links[0], partition, &[&payload]), Status::OK);
        world.pass(3_000);
    }
    let large = vec![8; 3_900_000];
    for _ in 0..4 {
        assert_eq!(world.send(links[1], 0, &[&large]), Status::OK);
        world.pass(3_000);
    }
    let found = payloads(
        &mut world,
        links[1],
        &poll(0, PollingStrategy::Offset(1), 1),
    );
    assert_eq!(found, [large]);
}

/// A large batch that waits is not overtaken by later small ones, and proceeds when a consumer has received the
/// messages that occupied its memory.
#[test]
fn batches_that_wait_are_let_in_in_their_order() {
    // Messages are larger than what all answers together may hold, so each user gets one.
    let mut world = with_memory(14 << 20).with_topic(4);
    let may_poll = records::GlobalPermissions {
        poll_messages: true,
        ..Default::default()
    };
    let users = (1..4).map(|id| user(id, &format!("reader-{id}"), Some(may_poll)));
    world.publish(users.collect());
    let producer = world.login(0);
    let payload = vec![7; 3_900_000];
    // Three consumers that receive nothing keep most of the memory.
    let consumers: Vec<usize> = (1..4).map(|id| world.client_of(id)).collect();
    for (partition, consumer) in (0..).zip(&consumers) {
        assert_eq!(world.send(producer, partition, &[&payload]), Status::OK);
        world.hold_sends(*consumer);
        world.request(*consumer, &poll(partition, PollingStrategy::First, 1));
    }
    let waiting: Vec<usize> = (0..3).map(|shard| world.login(shard % 2)).collect();
    let sizes = [3_900_000, 100_000, 50_000];
    for (link, size) in waiting.iter().zip(sizes) {
        send_command(&vec![9; size], 3, |command| world.request(*link, command));
    }
    for _ in 0..20 {
        world.pass(5_000);
    }
    for link in &waiting {
        assert!(world.try_reply(*link).is_none(), "there is no memory");
    }
    // Commands and small batches proceed.
    assert_eq!(world.send(producer, 3, &[b"small"]), Status::OK);
    for consumer in &consumers {
        world.release_sends(*consumer);
        world.pass(5_000);
    }
    for _ in 0..20 {
        world.pass(5_000);
    }
    for link in &waiting {
        assert_eq!(world.reply(*link).status, Status::OK);
    }
    for (offset, length) in [(0, 5), (1, 3_900_000), (2, 100_000), (3, 50_000)] {
        let found = poll(3, PollingStrategy::Offset(offset), 1);
        assert_eq!(payloads(&mut world, producer, &found)[0].len(), length);
    }
}

/// Small batches are all appended, even if their partitions need more blocks than fit into memory.
#[test]
fn a_thousand_partitions_share_little_memory() {
    let mut world = with_memory(1 << 20).with_topic(1000);
    let link = world.login(0);
    for round in 0..2_u8 {
        for partition in 0..1000 {
            let payload = vec![round; 500];
            assert_eq!(world.send(link, partition, &[&payload]), Status::OK);
            if partition % 50 == 0 {
                world.pass(3_000);
            }
        }
    }
    let found = payloads(&mut world, link, &poll(999, PollingStrategy::First, 10));
    assert_eq!(found.len(), 2);
}

const OTHER: u32 = 7;

/// A world in which another user may send, too, and the frame of a batch that is a quarter of all memory.
fn with_another_user() -> (World, Vec<u8>) {
    let mut world = with_memory(MEMORY_BYTES).with_topic(2);
    world.publish(vec![Change::UserPut(records::User {
        id: OTHER,
        username: "other".into(),
        created_at_micros: 1,
        status: records::UserStatus::Active.into(),
        permissions: Some(records::Permissions {
            global: Some(records::GlobalPermissions {
                send_messages: true,
                ..Default::default()
            }),
            streams: Vec::new(),
        }),
        ..Default::default()
    })]);
    let mut frame = Vec::new();
    send_command(&vec![7; 3_900_000], 0, |command| {
        command.try_encode_frame(&mut frame).expect("representable");
    });
    Command::Ping.try_encode_frame(&mut frame).expect("short");
    (world, frame)
}

/// Batches of one user, on however many connections, leave room for large batches of other users. The excess waits and
/// is not refused, and later requests of the same connection stay behind it.
#[test]
fn one_user_leaves_room_for_others() {
    let (mut world, frame) = with_another_user();
    let slow: Vec<usize> = (0..10).map(|number| world.login(number % 2)).collect();
    let begin = 100;
    for link in &slow {
        world.write(*link, &frame[..begin]);
    }
    for shard in 0..2 {
        let other = world.in_process(shard, OTHER);
        let large = vec![1; 1_000_000];
        assert_eq!(world.send(other, 1, &[&large]), Status::OK, "at once");
    }
    for link in &slow {
        world.write(*link, &frame[begin..]);
    }
    for link in &slow {
        // Shards check periodically for room that others have released.
        for _ in 0..20 {
            world.pass(5_000);
        }
        let sent = world.reply(*link);
        assert_eq!((sent.status, sent.payload.len()), (Status::OK, 0));
        assert_eq!(world.reply(*link).status, Status::OK, "the ping behind it");
        assert_eq!(world.try_reply(*link), None);
    }
    let reader = world.login(0);
    let last = poll(0, PollingStrategy::Offset(9), 10);
    assert_eq!(payloads(&mut world, reader, &last).len(), 1, "all ten");
}

/// Connections that end, and requests that are refused, release their part of the share.
#[test]
fn what_ends_gives_its_room_back() {
    let (mut world, frame) = with_another_user();
    let links: Vec<usize> = (0..6).map(|number| world.login(number % 2)).collect();
    for link in &links {
        world.write(*link, &frame[..100]);
    }
    // Two connections hold a claim, and one of them closes.
    world.hang_up(links[0]);
    let payload = vec![1; 3_900_000];
    let nowhere = batch(&[&payload]);
    let nowhere = nowhere.request(
        Identifier::Named("nowhere"),
        Identifier::Numeric(0),
        Partitioning::PartitionId(0),
    );
    let late = world.login(0);
    for _ in 0..3 {
        world.request(late, &Command::SendMessages(nowhere));
    }
    for link in &links[1..] {
        world.write(*link, &frame[100..]);
    }
    for _ in 0..100 {
        world.pass(5_000);
    }
    for link in &links[1..] {
        assert_eq!(world.reply(*link).status, Status::OK, "{link}");
    }
    for _ in 0..3 {
        let refused = world.reply(late).status;
        assert_eq!(refused, Status::STREAM_ID_NOT_FOUND);
    }
    assert_eq!(world.send(late, 0, &[&payload]), Status::OK);
}
