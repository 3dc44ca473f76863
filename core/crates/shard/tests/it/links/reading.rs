//! Waiting polls, watched partitions, and statistics.

use headrace_wire::{
    Command, CommandCode, Identifier, Status, WatchAction,
    command::{Attributes, StreamPath, TopicPath, WaitMessages, WatchPartitions, WatchedTopic},
};

use crate::links::losses::poll;
use crate::world::{SILENCE_MICROS, WITHOUT_RIGHTS, World, poll_first};

pub fn wait(partition: u32, micros: u64) -> Command<'static> {
    Command::WaitMessages(WaitMessages {
        poll: poll_first(partition, 10, false),
        minimum_bytes: 1,
        maximum_wait_micros: micros,
    })
}

/// Small and large answers are forwarded unchanged.
#[test]
fn what_a_node_has_can_be_polled() {
    for size in [1, 1000, 100_000] {
        let mut world = World::gateway(1);
        let client = world.client();
        let payload = vec![7; size];
        world.post(client, 0, &[&payload, b"2"]);
        assert_eq!(world.reply(client).status, Status::OK);
        let reply = world.ask(client, &poll(0, false));
        assert_eq!(reply.payloads(), [&payload[..], b"2"]);
    }
}

/// GW-7: a poll waits at the node, even over successive links.
#[test]
fn a_poll_waits_elsewhere() {
    let mut world = World::gateway(1);
    let (reader, writer) = (world.client(), world.client());
    world.request(reader, &wait(0, 20_000_000));
    assert_eq!(world.try_reply(reader), None);
    let link = world.links_to(1)[0];
    world.cut(link, 0, 0);
    world.pass(10_000_000);
    assert_eq!(world.links_to(1).len(), 1, "it waits again");
    assert_eq!(world.try_reply(reader), None);
    world.post(writer, 0, &[b"1"]);
    assert_eq!(world.reply(reader).payloads(), [b"1"]);
    assert_eq!(world.reply(writer).status, Status::OK);
}

#[test]
fn a_poll_waits_no_longer_than_asked() {
    let mut world = World::gateway(1);
    let reader = world.client();
    world.request(reader, &wait(0, 1_000_000));
    world.pass(900_000);
    assert_eq!(world.try_reply(reader), None);
    world.pass(200_000);
    let reply = world.reply(reader);
    assert_eq!(reply.status, Status::OK);
    assert!(reply.payloads().is_empty());
    // An unavailable node is reported as such.
    world.down = vec![1];
    let link = world.links_to(1)[0];
    world.cut(link, 0, 0);
    world.request(reader, &wait(0, 1_000_000));
    world.pass(1_100_000);
    assert_eq!(world.reply(reader).status, Status::PARTITION_UNAVAILABLE);
}

/// A hung node keeps its connections open: a poll whose deadline has passed is refused once the silence timeout
/// expires.
#[test]
fn a_poll_does_not_wait_for_a_node_that_hangs() {
    let mut world = World::gateway(1);
    let reader = world.client();
    world.request(reader, &wait(0, 1_000_000));
    world.node(1).is_mute = true;
    // No answer is due while the poll may wait.
    world.pass(900_000);
    assert_eq!(world.links_to(1).len(), 1);
    world.pass(SILENCE_MICROS);
    assert_eq!(world.try_reply(reader), None);
    world.pass(1_000_000);
    assert_eq!(world.reply(reader).status, Status::PARTITION_UNAVAILABLE);
    assert!(!world.is_closed(reader));
}

#[test]
fn a_poll_that_waits_follows_its_partition() {
    let mut world = World::gateway(1);
    let (reader, writer) = (world.client(), world.client());
    world.request(reader, &wait(0, 20_000_000));
    world.place_everywhere(&[2]);
    world.post(writer, 0, &[b"1"]);
    assert_eq!(world.reply(reader).payloads(), [b"1"]);
    assert_eq!(world.links_to(2).len(), 1);
}

fn watch() -> Command<'static> {
    Command::WatchPartitions(WatchPartitions {
        action: WatchAction::Add,
        topics: vec![WatchedTopic {
            stream: Identifier::Numeric(0),
            topic: Identifier::Numeric(0),
            partition_ids: vec![0],
        }],
    })
}

/// GW-7: watchers are notified, over successive links and after moves of the partition.
#[test]
fn watchers_are_notified_whatever_happens_to_links() {
    let mut world = World::gateway(1);
    let (watcher, writer) = (world.client(), world.client());
    world.request(watcher, &watch());
    assert_eq!(world.reply(watcher).status, Status::OK);
    assert!(!world.reply(watcher).payload.is_empty(), "how it is");
    for round in 0..4 {
        assert_eq!(world.try_reply(watcher), None);
        world.post(writer, 0, &[b"1"]);
        assert_eq!(world.reply(writer).status, Status::OK);
        assert!(!world.reply(watcher).payload.is_empty(), "round {round}");
        match round {
            0 => {
                let link = world.links_to(1)[0];
                world.cut(link, 0, 0);
                world.pass(1_000_000);
            }
            1 => {
                // The gateway receives the change first.
                world.place_everywhere(&[2]);
            }
            2 => {
                // The nodes receive the change first.
                world.place(&[1]);
                world.follow_all();
                world.hear_all();
                world.pass(1_000_000);
            }
            _ => {}
        }
    }
}

/// Statistics are gathered before a list is returned; a node that does not answer delays it by one second.
#[test]
fn statistics_are_gathered_when_a_client_requests_them() {
    let mut world = World::gateway(2);
    world.place_everywhere(&[1, 2]);
    let client = world.client();
    for (id, count) in [(0, 3), (1, 2)] {
        for _ in 0..count {
            world.post(client, id, &[b"x"]);
            assert_eq!(world.reply(client).status, Status::OK);
        }
    }
    let get = Command::GetStream(StreamPath {
        stream: Identifier::Numeric(0),
    });
    let count = |payload: &[u8]| {
        // `u32 id · u64 created_at · u32 topics_count · u64 size_bytes · u64 messages_count`.
        u64::from_le_bytes(payload[24..32].try_into().unwrap())
    };
    let reply = world.ask(client, &get);
    assert_eq!(count(&reply.payload), 5);
    world.post(client, 0, &[b"x"]);
    world.post(client, 1, &[b"x"]);
    for _ in 0..2 {
        assert_eq!(world.reply(client).status, Status::OK);
    }
    world.node(2).is_mute = true;
    world.request(client, &get);
    world.pass(900_000);
    assert_eq!(world.try_reply(client), None);
    world.pass(300_000);
    assert_eq!(
        count(&world.reply(client).payload),
        6,
        "without the last of the mute one"
    );
    world.node(2).is_mute = false;
    world.run();
    let reply = world.ask(client, &Command::GetStats);
    assert_eq!(reply.status, Status::OK);
    let missing = Command::GetStream(StreamPath {
        stream: Identifier::Numeric(9),
    });
    assert!(world.ask(client, &missing).payload.is_empty());
}

/// Requests behind one for statistics wait with it, so a stopped node must not delay each of them.
#[test]
fn statistics_are_not_awaited_from_a_stopped_node() {
    let mut world = World::gateway(2);
    world.place_everywhere(&[1, 2]);
    let client = world.client();
    let get = Command::GetTopic(TopicPath {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
    });
    assert_eq!(world.ask(client, &get).status, Status::OK);
    world.down = vec![2];
    let link = world.links_to(2)[0];
    world.cut(link, 0, 0);
    for _ in 0..20 {
        assert_eq!(world.ask(client, &get).status, Status::OK);
        world.pass(300_000);
    }
    // None waits for the attempts to connect, which the network loses.
    world.silent = vec![2];
    world.pass(2_000_000);
    assert_eq!(world.ask(client, &get).status, Status::OK);
    // The next attempt reaches it, without a request.
    world.silent.clear();
    world.down.clear();
    world.pass(7_000_000);
    world.node(2).is_mute = true;
    world.request(client, &get);
    assert_eq!(world.try_reply(client), None, "it is asked");
}

/// The only link is gone with the node's former process, whether it was open or not, and nothing else needs another.
#[test]
fn statistics_are_not_awaited_from_a_node_that_has_started_anew() {
    for is_linked in [false, true] {
        let mut world = World::gateway(1);
        let client = world.client();
        if is_linked {
            world.post(client, 0, &[b"x"]);
            assert_eq!(world.reply(client).status, Status::OK);
        }
        world.node(1).is_mute = true;
        world.request(client, &Command::GetStreams);
        assert_eq!(world.try_reply(client), None);
        world.publish(vec![world.node_record(1, 2)]);
        assert!(world.links_to(1).is_empty());
        world.pass(1_200_000);
        let reply = world.try_reply(client).map(|reply| reply.status);
        assert_eq!(reply, Some(Status::OK), "linked: {is_linked}");
    }
}

/// A refused request is refused at once: its latency does not reveal that the entity exists.
#[test]
fn statistics_are_not_asked_for_by_those_who_may_not_see_them() {
    let mut world = World::gateway(1);
    let client = world.client_of(WITHOUT_RIGHTS);
    world.node(1).is_mute = true;
    for id in [0, 9] {
        let (stream, topic) = (Identifier::Numeric(id), Identifier::Numeric(0));
        for command in with_statistics(stream, topic) {
            world.request(client, &command);
            let reply = world.try_reply(client).map(|reply| reply.status);
            assert_eq!(reply, Some(Status::UNAUTHORIZED), "{command:?}");
        }
    }
}

/// Every command that the registry marks waits for the nodes.
#[test]
fn every_command_with_statistics_asks_for_them() {
    let mut world = World::gateway(1);
    world.place_everywhere(&[1, 1]);
    world.node(1).is_mute = true;
    let commands = with_statistics(Identifier::Numeric(0), Identifier::Numeric(0));
    let marked = (CommandCode::ALL.iter())
        .filter(|code| code.attributes().has(Attributes::STATISTICS))
        .copied();
    let mut codes = commands.clone().map(|command| command.code());
    codes.sort();
    assert_eq!(codes.to_vec(), marked.collect::<Vec<_>>());
    for command in commands {
        let client = world.client();
        world.request(client, &command);
        assert_eq!(world.try_reply(client), None, "{command:?}");
    }
}

fn with_statistics<'a>(stream: Identifier<'a>, topic: Identifier<'a>) -> [Command<'a>; 6] {
    [
        Command::GetStats,
        Command::GetStreams,
        Command::GetStream(StreamPath { stream }),
        Command::GetTopics(StreamPath { stream }),
        Command::GetTopic(TopicPath { stream, topic }),
        Command::DescribePartitions(TopicPath { stream, topic }),
    ]
}
