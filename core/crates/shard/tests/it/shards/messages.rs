//! Messages through sessions, on the same shard and across shards.

mod offsets;

use headrace_proto::catalog::v1::delta::Change;
use headrace_wire::{Command, Identifier, Partitioning, PollingStrategy, Status};

use crate::shards::waits::wait;
use crate::world::{World, batch, owner_of, polling, to_partition};

pub fn poll(partition: u32, strategy: PollingStrategy, count: u32) -> Command<'static> {
    Command::PollMessages(polling(partition, strategy, count))
}

/// Payloads of a poll.
pub fn payloads(world: &mut World, link: usize, command: &Command<'_>) -> Vec<Vec<u8>> {
    world.ask(link, command).payloads()
}

/// SHARD-4, SHARD-11: partitions of both shards serve clients of either.
#[test]
fn every_partition_is_reached_from_every_shard() {
    let mut world = World::new().with_topic(8);
    let links = [world.login(0), world.login(1)];
    for partition in 0..8 {
        for link in links {
            let text = format!("{partition} by {link}");
            assert_eq!(world.send(link, partition, &[text.as_bytes()]), Status::OK);
        }
        for link in links {
            let found = payloads(
                &mut world,
                link,
                &poll(partition, PollingStrategy::First, 10),
            );
            assert_eq!(
                found,
                links
                    .map(|link| format!("{partition} by {link}").into_bytes())
                    .to_vec()
            );
        }
    }
}

/// Partitions without requests get their turns as well: messages are synced soon after they were written.
#[test]
fn written_messages_are_synced_soon() {
    let mut world = World::new().with_topic(4);
    let link = world.login(0);
    for partition in 0..4 {
        assert_eq!(world.send(link, partition, &[b"m"]), Status::OK);
    }
    let unsynced = |world: &World| -> Vec<bool> {
        let statistics = world.statistics();
        statistics
            .iter()
            .map(|each| each.unsynced_bytes() > 0)
            .collect()
    };
    assert_eq!(unsynced(&world), [true; 4]);
    world.pass(2_000_000);
    assert_eq!(unsynced(&world), [false; 4]);
}

/// SHARD-5: batches of one connection are in flight together and answered in order, across shards.
#[test]
fn batches_are_pipelined_and_answered_in_order() {
    let mut world = World::new().with_topic(4);
    let link = world.login(0);
    world.storage_held = true;
    let mut frames = Vec::new();
    for number in 0..20_u32 {
        let text = number.to_string();
        let partition = if number == 13 { 99 } else { number % 4 };
        let large = vec![b'x'; 20_000];
        let one = batch(&[text.as_bytes(), &large]);
        let request = to_partition(&one, partition);
        Command::SendMessages(request)
            .try_encode_frame(&mut frames)
            .unwrap();
    }
    Command::Ping.try_encode_frame(&mut frames).unwrap();
    world.write(link, &frames);
    assert_eq!(world.try_reply(link), None);
    world.release_storage();
    for number in 0..20 {
        let expected = if number == 13 {
            Status::PARTITION_NOT_FOUND
        } else {
            Status::OK
        };
        assert_eq!(world.reply(link).status, expected, "batch {number}");
    }
    assert_eq!(world.reply(link).status, Status::OK);
    let found = payloads(&mut world, link, &poll(2, PollingStrategy::First, 100));
    let firsts: Vec<_> = found
        .iter()
        .step_by(2)
        .map(|text| String::from_utf8_lossy(text))
        .collect();
    assert_eq!(firsts, ["2", "6", "10", "14", "18"]);
}

/// A purge, and a topic that is created again under the same number, are visible to the next request on any shard.
#[test]
fn partitions_are_emptied_before_anything_else_happens() {
    for (shard, incarnation, purge_epoch) in [(0, 3, 1), (1, 9, 0)] {
        let mut world = World::new().with_topic(4);
        let link = world.login(shard);
        for partition in 0..4 {
            assert_eq!(world.send(link, partition, &[b"old"]), Status::OK);
        }
        let topic = World::topic(4, incarnation, purge_epoch);
        world.publish(vec![Change::TopicPut(topic)]);
        for partition in 0..4 {
            let first = poll(partition, PollingStrategy::First, 9);
            assert!(payloads(&mut world, link, &first).is_empty());
            assert_eq!(world.send(link, partition, &[b"new"]), Status::OK);
            let next = poll(partition, PollingStrategy::Next, 9);
            assert_eq!(payloads(&mut world, link, &next), [b"new"]);
        }
    }
}

/// Batches without a partition are distributed by a counter or by the key.
#[test]
fn every_partitioning_finds_its_partition() {
    let mut world = World::new().with_topic(3);
    let link = world.login(0);
    for _ in 0..3 {
        let one = batch(&[b"dealt"]);
        let request = one.request(
            Identifier::Numeric(0),
            Identifier::Numeric(0),
            Partitioning::Balanced,
        );
        assert_eq!(
            world.ask(link, &Command::SendMessages(request)).status,
            Status::OK
        );
    }
    for partition in 0..3 {
        let found = payloads(
            &mut world,
            link,
            &poll(partition, PollingStrategy::First, 9),
        );
        assert_eq!(found, [b"dealt"]);
    }
    let one = batch(&[b"keyed"]);
    let request = one.request(
        Identifier::Numeric(0),
        Identifier::Numeric(0),
        Partitioning::MessagesKey(b"user-123"),
    );
    assert_eq!(
        world.ask(link, &Command::SendMessages(request)).status,
        Status::OK
    );
    // XXH32 of the key is 1 modulo 3.
    let found = payloads(&mut world, link, &poll(1, PollingStrategy::Last, 1));
    assert_eq!(found, [b"keyed"]);
}

/// SHARD-6: a connection whose requests all belong to another shard moves there, and nothing in flight or received is
/// lost or reordered.
#[test]
fn a_connection_moves_to_its_partitions() {
    let mut world = World::new().with_topic(8);
    let link = world.login(0);
    let away = (0..8)
        .find(|partition| owner_of(*partition) == 1)
        .expect("some partition belongs to the other shard");
    let mut frames = Vec::new();
    for number in 0..100_u32 {
        let text = number.to_string();
        let one = batch(&[text.as_bytes()]);
        let request = to_partition(&one, away);
        Command::SendMessages(request)
            .try_encode_frame(&mut frames)
            .unwrap();
    }
    world.write(link, &frames);
    for _ in 0..100 {
        assert_eq!(world.reply(link).status, Status::OK);
    }
    assert_eq!(world.shard_of(link), 1);
    let found = payloads(&mut world, link, &poll(away, PollingStrategy::First, 200));
    let expected: Vec<_> = (0..100)
        .map(|number| number.to_string().into_bytes())
        .collect();
    assert_eq!(found, expected);
    assert_eq!(world.shard_of(link), 1);
}

/// Traffic for many partitions does not move the connection.
#[test]
fn a_connection_with_mixed_traffic_stays() {
    let mut world = World::new().with_topic(8);
    let link = world.login(0);
    for number in 0..200 {
        assert_eq!(world.send(link, number % 8, &[b"x"]), Status::OK);
    }
    assert_eq!(world.shard_of(link), 0);
}

/// SHARD-7: batches beyond the write queue's limit are held back in order, and none is refused.
#[test]
fn batches_wait_for_room() {
    let mut world = World::new().with_topic(1);
    let links = [world.login(0), world.login(1)];
    assert_eq!(world.send(links[0], 0, &[b"first"]), Status::OK);
    world.storage_held = true;
    let payload = |link: usize, number: usize| {
        let length = if number.is_multiple_of(2) {
            30_000
        } else {
            300
        };
        vec![u8::try_from(16 * link + number).expect("small"); length]
    };
    for number in 0..8 {
        for link in links {
            world.post(link, 0, &[&payload(link, number)]);
            assert_eq!(world.try_reply(link), None);
        }
    }
    world.release_storage();
    for link in links {
        for _ in 0..8 {
            assert_eq!(world.reply(link).status, Status::OK);
        }
    }
    let found = payloads(
        &mut world,
        links[0],
        &poll(0, PollingStrategy::Offset(1), 100),
    );
    assert_eq!(found.len(), 16);
    for link in links {
        let own: Vec<_> = found
            .iter()
            .filter(|found| usize::from(found[0]) / 16 == link)
            .cloned()
            .collect();
        let sent: Vec<_> = (0..8).map(|number| payload(link, number)).collect();
        assert!(own == sent, "in the order in which {link} sent them");
    }
}

/// Deleting a topic also discards batches that wait for memory in it: none reaches the topic's successor.
#[test]
fn what_waits_for_room_goes_with_its_topic() {
    let mut world = World::new().with_topic(8);
    for partition in 0..8 {
        let link = world.login(0);
        world.storage_held = true;
        let payload = vec![b'x'; 40_000];
        let batch = batch(&[&payload]);
        for _ in 0..4 {
            let request = to_partition(&batch, partition);
            world.request(link, &Command::SendMessages(request));
        }
        let incarnation = 4 + u64::from(partition);
        world.publish(vec![Change::TopicPut(World::topic(8, incarnation, 0))]);
        world.release_storage();
        let statuses: Vec<Status> = (0..4).map(|_| world.reply(link).status).collect();
        assert_eq!(statuses[3], Status::PARTITION_NOT_FOUND, "{statuses:?}");
        let found = payloads(
            &mut world,
            link,
            &poll(partition, PollingStrategy::First, 10),
        );
        assert!(found.is_empty());
    }
}

/// SHARD-12: any number of batches that arrive while their partition opens wait in order: a refusal of one would let
/// the next one overtake it.
#[test]
fn batches_wait_in_order_while_their_partition_opens() {
    let mut world = World::new();
    world.storage_held = true;
    let mut world = world.with_topic(1);
    let links = [world.login(0), world.login(0), world.login(1)];
    let payload = |link: usize, number: usize| format!("{link}-{number:03}").into_bytes();
    for number in 0..200 {
        for link in links {
            let batch = batch(&[&payload(link, number)]);
            let partitioning = Partitioning::PartitionId(0);
            let (stream, topic) = (Identifier::Named("s"), Identifier::Numeric(0));
            let request = batch.request(stream, topic, partitioning);
            world.request(link, &Command::SendMessages(request));
        }
    }
    world.release_storage();
    for link in links {
        for number in 0..200 {
            assert_eq!(world.reply(link).status, Status::OK, "{link}-{number}");
        }
    }
    let all = payloads(&mut world, links[0], &poll(0, PollingStrategy::First, 1000));
    for link in links {
        let prefix = format!("{link}-").into_bytes();
        let of_link = all.iter().filter(|found| found.starts_with(&prefix));
        assert!(
            of_link.eq(&(0..200)
                .map(|number| payload(link, number))
                .collect::<Vec<_>>())
        );
    }
}

/// A request for no messages does not wait.
#[test]
fn a_wait_for_no_messages_is_answered_at_once() {
    let mut world = World::new().with_topic(8);
    let link = world.login(0);
    for partition in 0..8 {
        let mut request = wait(partition, PollingStrategy::Next, 1, 10_000_000);
        request.poll.count = 0;
        let command = Command::WaitMessages(request);
        assert!(payloads(&mut world, link, &command).is_empty());
    }
}
