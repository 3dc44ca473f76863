//! Processor time: each user has a share of every turn, whatever the number of its connections.

use headrace_proto::catalog::v1 as records;
use headrace_wire::{Command, Identifier, PollingStrategy, Status, command::TopicPath};

use crate::shards::messages::poll;
use crate::world::{Setup, World, batch, partition_of, to_partition, user};

const HOSTILE: u32 = 10;
const CONNECTIONS: usize = 16;
/// Maximum number of small requests of one user in one turn.
const REQUESTS_MAX: usize = 256;

fn frame(command: &Command<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    command.try_encode_frame(&mut frame).expect("representable");
    frame
}

/// A world, and connections of one user.
fn with_many_connections() -> (World, Vec<usize>) {
    let mut world = World::of(Setup {
        connections_max: 1000,
        ..Setup::default()
    })
    .with_topic(8);
    let rights = records::GlobalPermissions {
        read_streams: true,
        poll_messages: true,
        ..Default::default()
    };
    world.publish(vec![user(HOSTILE, "hostile", Some(rights))]);
    let links = (0..CONNECTIONS).map(|_| world.client_of(HOSTILE)).collect();
    (world, links)
}

/// Have these connections send a request many times, without waiting for answers.
fn pipeline(world: &mut World, links: &[usize], command: &Command<'_>, count: usize) {
    for link in links {
        world.wires[*link].towards[0].extend(frame(command).repeat(count));
    }
}

fn get_topic() -> Command<'static> {
    Command::GetTopic(TopicPath {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
    })
}

fn answers(world: &mut World, links: &[usize]) -> Vec<usize> {
    let read = |link: &usize| std::iter::from_fn(|| world.try_reply(*link)).count();
    links.iter().map(read).collect()
}

/// SHARD-12: many connections of one user delay another by one share of a turn, not by one for each connection.
#[test]
fn pipelined_requests_of_one_user_leave_turns_to_others() {
    let (mut world, links) = with_many_connections();
    let victim = world.client();
    pipeline(&mut world, &links, &get_topic(), 1000);
    let payloads = batch(&[b"x"]);
    let send = Command::SendMessages(to_partition(&payloads, partition_of(0)));
    pipeline(&mut world, &[victim], &send, 1);
    let mut before: usize = 0;
    let status = loop {
        assert!(world.turn(), "nothing is answered any more");
        let answered: usize = answers(&mut world, &links).iter().sum();
        assert!(answered <= REQUESTS_MAX, "{answered} in one turn");
        before += answered;
        if let Some(reply) = world.try_reply(victim) {
            break reply.status;
        }
    };
    assert_eq!(status, Status::OK);
    assert!(before > 0 && before <= 6 * REQUESTS_MAX, "{before} before");
    world.run();
    let after: usize = answers(&mut world, &links).iter().sum();
    assert_eq!(before + after, CONNECTIONS * 1000);
}

/// Bytes that leave count as well: answers of a megabyte are sent one after the other.
#[test]
fn large_answers_of_one_user_leave_turns_to_others() {
    let (mut world, links) = with_many_connections();
    let partition = partition_of(0);
    let producer = world.client();
    let payload = vec![7; 1_000_000];
    assert_eq!(world.send(producer, partition, &[&payload]), Status::OK);
    let first = poll(partition, PollingStrategy::First, 1);
    pipeline(&mut world, &links, &first, 3);
    let mut all = 0;
    while world.turn() {
        let sent: usize = links.iter().map(|link| world.take_back(*link).len()).sum();
        assert!(sent <= 2_100_000, "{sent} bytes in one turn");
        all += sent;
    }
    assert!(all > CONNECTIONS * 3 * payload.len());
}

/// Connections of one user take turns among each other.
#[test]
fn connections_of_one_user_take_turns() {
    let (mut world, links) = with_many_connections();
    pipeline(&mut world, &links, &get_topic(), 20_000);
    for _ in 0..1000 {
        world.turn();
    }
    let answered = answers(&mut world, &links);
    let (least, most) = (answered.iter().min(), answered.iter().max());
    assert!(least.map(|least| least * 2) > most.copied(), "{answered:?}");
}
