//! Gateways whose clients know newer metadata than the local catalog (GW-8).

use headrace_model::Timestamp;
use headrace_proto::{
    catalog::v1::{self as records, delta::Change},
    control::v1::request::Operation,
};
use headrace_shard::Hosting;
use headrace_wire::{
    Command, Identifier, Partitioning, PollingStrategy, Status,
    command::{
        ConsumerOffsetPath, FlushUnsavedBuffer, GetUser, GroupPath, StageMessages, StreamPath,
        TopicPath,
    },
};

use crate::shards::{messages::poll, nodes::node_here};
use crate::world::{TIMEOUT_MICROS, World, batch, consumer};

const STREAM: Identifier<'_> = Identifier::Named("s");
const TOPIC: Identifier<'_> = Identifier::Named("t");
const PATH: TopicPath<'_> = TopicPath {
    stream: STREAM,
    topic: TOPIC,
};
const GROUP: GroupPath<'_> = GroupPath {
    stream: STREAM,
    topic: TOPIC,
    group: Identifier::Named("g"),
};
const USER: u32 = 5;

fn gateway() -> World {
    World::hosting(&Hosting::Nothing)
}

/// Number of requests for the newest catalog version.
fn questions(world: &World) -> usize {
    let asked = world.control_requests.iter();
    asked
        .filter(|request| matches!(request.operation, Some(Operation::CatchUp(_))))
        .count()
}

/// A user without permissions, or with permission to poll everything.
fn user(may_poll: bool) -> Change {
    let permissions = records::GlobalPermissions {
        poll_messages: may_poll,
        ..Default::default()
    };
    crate::world::user(USER, "reader", Some(permissions))
}

/// Call `with` with a batch to be sent and one to be staged, with payloads of this size.
fn with_batches(payload_bytes: usize, mut with: impl FnMut(&Command<'_>)) {
    let payload = vec![b'x'; payload_bytes];
    let batch = batch(&[&payload]);
    let request = || batch.request(STREAM, TOPIC, Partitioning::PartitionId(0));
    with(&Command::SendMessages(request()));
    with(&Command::StageMessages(StageMessages {
        stage: 0,
        chunk: 0,
        is_last: true,
        lifetime_seconds: 0,
        batch: request(),
    }));
}

/// Call `with` with requests that miss entities in different ways, and the expected statuses.
fn with_requests(mut with: impl FnMut(&Command<'_>, Status)) {
    // Inside the receive buffer, and in a separate one.
    for payload_bytes in [10, 100_000] {
        with_batches(payload_bytes, |command| {
            with(command, Status::STREAM_ID_NOT_FOUND);
        });
    }
    let offset = ConsumerOffsetPath {
        consumer: consumer(1),
        stream: STREAM,
        topic: TOPIC,
        partition_id: Some(0),
    };
    let flush = FlushUnsavedBuffer {
        stream: STREAM,
        topic: TOPIC,
        partition_id: 0,
        fsync: false,
    };
    let missing = Identifier::Named("missing");
    for (command, status) in [
        (
            poll(0, PollingStrategy::First, 1),
            Status::STREAM_ID_NOT_FOUND,
        ),
        (
            Command::FlushUnsavedBuffer(flush),
            Status::STREAM_ID_NOT_FOUND,
        ),
        (
            Command::DeleteConsumerOffset(offset),
            Status::STREAM_ID_NOT_FOUND,
        ),
        (
            Command::JoinConsumerGroup(GROUP),
            Status::STREAM_ID_NOT_FOUND,
        ),
        (Command::GetConsumerOffset(offset), Status::OK),
        (Command::GetConsumerGroup(GROUP), Status::OK),
        (Command::GetConsumerGroups(PATH), Status::OK),
        (
            Command::GetStream(StreamPath { stream: STREAM }),
            Status::OK,
        ),
        (Command::GetTopic(PATH), Status::OK),
        (Command::GetUser(GetUser { user: missing }), Status::OK),
    ] {
        with(&command, status);
    }
}

#[test]
fn what_is_missing_is_asked_for_once_and_refused_then() {
    let mut world = gateway();
    let link = world.login(0);
    let mut asked = 0;
    with_requests(|command, status| {
        world.control_held = true;
        world.request(link, command);
        world.request(link, &Command::Ping);
        assert_eq!(world.try_reply(link), None, "{command:?}");
        asked += 1;
        assert_eq!(questions(&world), asked, "{command:?}");

        world.release_control();
        let reply = world.reply(link);
        assert_eq!(
            (reply.status, reply.payload.len()),
            (status, 0),
            "{command:?}"
        );
        assert_eq!(world.reply(link).status, Status::OK, "the ping behind it");
        assert_eq!(questions(&world), asked, "{command:?}");
    });
}

#[test]
fn what_came_together_is_asked_for_together() {
    let mut world = gateway();
    let link = world.login(0);
    for asked in 1..=2 {
        let mut frames = Vec::new();
        for partition in 0..5 {
            let command = poll(partition, PollingStrategy::First, 1);
            command
                .try_encode_frame(&mut frames)
                .expect("representable");
        }
        world.write(link, &frames);
        for _ in 0..5 {
            assert_eq!(world.reply(link).status, Status::STREAM_ID_NOT_FOUND);
        }
        assert_eq!(questions(&world), asked);
    }
}

#[test]
fn batches_go_where_another_gateway_has_made_a_topic() {
    for payload_bytes in [10, 100_000] {
        with_batches(payload_bytes, |command| {
            let mut world = gateway();
            let link = world.login(0);
            world.change(World::stream_and_topic(1));
            world.request(link, command);
            assert_eq!(world.try_reply(link), None, "it waits for a node");
            // This world has no reachable nodes.
            world.pass(TIMEOUT_MICROS);
            assert_eq!(world.reply(link).status, Status::PARTITION_UNAVAILABLE);
            assert_eq!(questions(&world), 1);
        });
    }
}

#[test]
fn a_group_that_another_gateway_has_made_is_joined() {
    let mut world = gateway();
    let link = world.login(0);
    world.change(World::stream_and_topic(1));
    world.change(vec![Change::ConsumerGroupPut(records::ConsumerGroup {
        stream_id: 0,
        topic_id: 0,
        id: 0,
        name: "g".into(),
        key: 1,
        partitions_count: 1,
        ..Default::default()
    })]);
    assert_eq!(
        world.ask(link, &Command::JoinConsumerGroup(GROUP)).status,
        Status::OK
    );
    assert_eq!(questions(&world), 1);
    assert!(matches!(
        world
            .control_requests
            .last()
            .and_then(|request| request.operation.as_ref()),
        Some(Operation::Command(_))
    ));
}

#[test]
fn a_permission_that_was_just_granted_counts() {
    let mut world = gateway().with_topic(1);
    world.publish(vec![user(false)]);
    let link = world.in_process(0, USER);
    let polling = poll(0, PollingStrategy::First, 1);
    assert_eq!(world.ask(link, &polling).status, Status::UNAUTHORIZED);
    world.change(vec![user(true)]);
    world.request(link, &polling);
    assert_eq!(world.try_reply(link), None, "it waits for a node");
    assert_eq!(questions(&world), 2);
}

/// A complete server's catalog is always current, and gateways receive changes before nodes do.
#[test]
fn only_gateways_ask() {
    for mut world in [World::new(), node_here(&[])] {
        let link = world.login(0);
        with_requests(|command, _| {
            world.request(link, command);
            world.reply(link);
        });
        assert_eq!(questions(&world), 0);
    }
}

#[test]
fn a_gateway_that_stops_does_not_wait_for_what_is_newest() {
    let mut world = gateway();
    let link = world.login(0);
    world.control_held = true;
    world.request(link, &poll(0, PollingStrategy::First, 1));
    world.shut_down();
    assert!(world.is_finished(link));
    world.release_control();
    assert_eq!(world.reply(link).status, Status::DISCONNECTED);
    assert_eq!(world.try_reply(link), None);
    world.pass(Timestamp(60_000_000).0);
    assert!(world.is_closed(link));
}
