//! Answers to batches with partition and offset, for connections that have asked for them.

use headrace_wire::{
    Command, Identifier, Partitioning, PollingStrategy, Status,
    command::GroupPath,
    response::{Appended, Polled},
};

use crate::shards::messages::poll;
use crate::world::{PASSWORD, Reply, World, batch, login, owner_of};

/// Open a connection that asks for offsets, which needs no login, and log in.
fn reporting(world: &mut World, shard: usize) -> usize {
    let link = world.connect(shard);
    for command in [Command::ReportOffsets, login(PASSWORD)] {
        assert_eq!(world.ask(link, &command).status, Status::OK);
    }
    link
}

fn frame(partitioning: Partitioning<'_>, payloads: &[&[u8]]) -> Vec<u8> {
    let batch = batch(payloads);
    let request = batch.request(Identifier::Named("s"), Identifier::Numeric(0), partitioning);
    let mut frame = Vec::new();
    (Command::SendMessages(request).try_encode_frame(&mut frame)).expect("representable");
    frame
}

fn appended(reply: &Reply) -> (u32, u64) {
    assert_eq!((reply.status, reply.payload.len()), (Status::OK, 12));
    let appended = Appended::decode(&reply.payload).unwrap();
    (appended.partition_id, appended.base_offset)
}

/// The answer names the partition that the server chose and the offset of the first message; other connections get the
/// answer without payload.
#[test]
fn those_who_ask_learn_where_a_batch_is() {
    let mut world = World::new().with_topic(4);
    let (asks, plain) = (reporting(&mut world, 0), world.login(0));
    let mut next = [0; 4];
    for (number, partitioning) in [
        Partitioning::PartitionId(2),
        Partitioning::MessagesKey(b"user-123"),
        Partitioning::Balanced,
        Partitioning::Balanced,
        Partitioning::Balanced,
        Partitioning::Balanced,
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("batch {number}").into_bytes();
        world.write(asks, &frame(partitioning, &[&text, b"second", b"third"]));
        let reply = world.reply(asks);
        let (partition, offset) = appended(&reply);
        assert_eq!(offset, next[partition as usize], "batch {number}");
        next[partition as usize] += 4;
        let at = poll(partition, PollingStrategy::Offset(offset), 1);
        let polled = world.ask(plain, &at).payload;
        let mut found = Polled::decode(&polled).unwrap().messages();
        assert_eq!(found.next().unwrap().unwrap().payload(), text);

        let named = Partitioning::PartitionId(partition);
        world.write(plain, &frame(named, &[b"other"]));
        assert_eq!(world.take_back(plain), [0; 8], "as ever");
    }
    assert!(next.iter().all(|next| *next > 0), "{next:?}");
}

/// Refusals, and answers to all other commands, are those of any connection.
#[test]
fn only_answers_to_batches_change() {
    let mut world = World::new().with_topic(1);
    let (asks, plain) = (reporting(&mut world, 1), world.login(1));
    let group = GroupPath {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        group: Identifier::Named("none"),
    };
    for link in [asks, plain] {
        world.write(link, &frame(Partitioning::PartitionId(7), &[b"x"]));
        let reply = world.reply(link);
        assert_eq!(
            (reply.status, reply.payload.len()),
            (Status::PARTITION_NOT_FOUND, 0)
        );
    }
    for command in [
        Command::Ping,
        Command::GetStreams,
        Command::GetConsumerGroup(group),
        poll(0, PollingStrategy::First, 9),
    ] {
        assert_eq!(world.ask(asks, &command), world.ask(plain, &command));
    }
}

/// SHARD-6: a connection that moves to the shard of its partition is answered in the same way before and afterwards.
#[test]
fn offsets_are_reported_wherever_the_connection_is() {
    let mut world = World::new().with_topic(8);
    let (asks, plain) = (reporting(&mut world, 0), world.login(0));
    let away = (0..8).find(|partition| owner_of(*partition) == 1).unwrap();
    let mut frames = Vec::new();
    for _ in 0..100 {
        frames.extend(frame(Partitioning::PartitionId(away), &[b"1", b"2"]));
    }
    world.write(asks, &frames);
    for number in 0..100 {
        let reply = world.reply(asks);
        assert_eq!(appended(&reply), (away, 2 * number));
    }
    world.write(plain, &frames);
    assert_eq!(world.take_back(plain), [0; 8 * 100]);
    assert_eq!((world.shard_of(asks), world.shard_of(plain)), (1, 1));
    world.write(asks, &frame(Partitioning::PartitionId(away), &[b"last"]));
    let reply = world.reply(asks);
    assert_eq!(appended(&reply), (away, 400));
}

/// Batches that wait, for the opening of their partition and for room in its queue, are answered with the offsets that
/// they get in the end.
#[test]
fn batches_that_have_waited_report_their_offsets() {
    let mut world = World::new();
    world.storage_held = true;
    let mut world = world.with_topic(1);
    let links = [reporting(&mut world, 0), reporting(&mut world, 1)];
    let large = vec![b'x'; 30_000];
    for _ in 0..8 {
        for link in links {
            world.write(link, &frame(Partitioning::PartitionId(0), &[&large, b"y"]));
            assert_eq!(world.try_reply(link), None);
        }
    }
    world.release_storage();
    let mut all: Vec<u64> = Vec::new();
    for link in links {
        let of_link: Vec<u64> = (0..8).map(|_| appended(&world.reply(link)).1).collect();
        assert!(of_link.is_sorted(), "{of_link:?}");
        all.extend(of_link);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq((0..16).map(|batch| 2 * batch)));
}
