//! Routing of requests, and their reasons to wait.

use headrace_proto::catalog::v1::{TopicKey, delta::Change};
use headrace_wire::{
    Command, Identifier, PartitionState, Status,
    command::{SetTraceContext, TopicPath, WaitMessages},
    response::{Appended, PartitionDescription, decode_list},
};

use crate::links::losses::poll;
use crate::world::{Setup, TIMEOUT_MICROS, World, partition, poll_first};

fn log(world: &World, id: u32) -> Vec<String> {
    let log = world.truth.logs.get(&partition(id));
    let payloads = log.into_iter().flatten();
    payloads
        .map(|payload| String::from_utf8(payload.clone()).unwrap())
        .collect()
}

/// GW-2: a client's messages to a gateway reach the node's partition over a single link.
#[test]
fn a_link_is_opened_when_it_is_needed() {
    let mut world = World::gateway(2);
    let client = world.client();
    assert!(world.links_to(1).is_empty());
    world.post(client, 0, &[b"1", b"2"]);
    world.post(client, 1, &[b"3"]);
    let large = vec![b'x'; 40_000];
    world.post(client, 0, &[&large]);
    for _ in 0..3 {
        assert_eq!(world.reply(client).status, Status::OK);
    }
    assert_eq!(log(&world, 0)[..2], ["1", "2"]);
    assert_eq!(log(&world, 0)[2].as_bytes(), large);
    assert_eq!(log(&world, 1), ["3"]);
    assert_eq!(world.links_to(1).len(), 1);
    assert!(world.links_to(2).is_empty());
    assert!(world.reports.is_empty());
}

/// USE-6: the trace context of a request is forwarded with that request only.
#[test]
fn a_trace_goes_along() {
    let mut world = World::gateway(1);
    let client = world.client();
    let context = Command::SetTraceContext(SetTraceContext {
        trace_id: 5,
        span_id: 6,
        flags: 1,
    });
    let large = vec![7; 20_000];
    for payload in [&b"small"[..], &large] {
        assert_eq!(world.ask(client, &context).status, Status::OK);
        world.post(client, 0, &[payload]);
        world.post(client, 0, &[payload]);
        for _ in 0..2 {
            assert_eq!(world.reply(client).status, Status::OK);
        }
    }
    assert_eq!(world.ask(client, &context).status, Status::OK);
    assert_eq!(world.ask(client, &poll(0, false)).status, Status::OK);
    assert_eq!(world.ask(client, &poll(0, false)).status, Status::OK);
    let traces: Vec<_> = (world.node(1).traces.iter())
        .map(|trace| (trace.trace_id, trace.span_id))
        .collect();
    assert_eq!(traces, [(5, 6); 3]);
}

#[test]
fn what_waits_for_a_node_goes_in_its_order() {
    let mut world = World::gateway(1);
    world.down = vec![1];
    let (first, second) = (world.client(), world.client());
    world.post(first, 0, &[b"1"]);
    world.post(second, 0, &[b"2"]);
    world.post(first, 0, &[b"3"]);
    world.pass(TIMEOUT_MICROS / 2);
    assert_eq!(world.try_reply(first), None);
    assert_eq!(world.reports.len(), 1, "said once: {:?}", world.reports);
    world.down.clear();
    world.pass(TIMEOUT_MICROS / 4);
    world.pass(TIMEOUT_MICROS / 4 * 7);
    for client in [first, first, second] {
        assert_eq!(world.reply(client).status, Status::OK);
    }
    assert_eq!(log(&world, 0), ["1", "2", "3"]);
    assert_eq!(
        world.reports.len(),
        2,
        "and that it is over: {:?}",
        world.reports
    );
    assert!(
        world.reports[0].starts_with("error: "),
        "{:?}",
        world.reports
    );
    assert!(
        world.reports[1].starts_with("info: "),
        "{:?}",
        world.reports
    );
}

#[test]
fn requests_to_an_absent_node_are_refused_after_the_timeout() {
    let mut world = World::gateway(1);
    world.down = vec![1];
    let client = world.client();
    world.post(client, 0, &[b"1"]);
    world.pass(TIMEOUT_MICROS - 200_000);
    assert_eq!(world.try_reply(client), None);
    world.pass(400_000);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
    world.down.clear();
    world.pass(TIMEOUT_MICROS);
    assert!(log(&world, 0).is_empty(), "what was refused is not done");
    world.post(client, 0, &[b"2"]);
    world.pass(TIMEOUT_MICROS / 2);
    assert_eq!(world.reply(client).status, Status::OK);
}

/// A batch is refused because its node is unavailable, and the node returns a moment later: later batches of the same
/// connection to that partition are not executed in its place. Other partitions and connections are unaffected.
#[test]
fn what_was_sent_behind_a_refused_batch_is_refused_with_it() {
    let mut world = World::gateway(2);
    world.down = vec![1, 2];
    let (client, other) = (world.client(), world.client());
    world.post(client, 0, &[b"1"]);
    world.pass(TIMEOUT_MICROS - 100_000);
    world.post(client, 0, &[b"2"]);
    world.post(client, 1, &[b"elsewhere"]);
    world.post(other, 0, &[b"of another"]);
    world.pass(200_000);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
    assert_eq!(world.try_reply(client), None, "another partition");
    assert_eq!(world.try_reply(other), None, "another connection");
    world.pass(TIMEOUT_MICROS / 8);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
    assert_eq!(world.reply(other).status, Status::PARTITION_UNAVAILABLE);
}

/// Once the node was away for long, even a client whose timeout is shorter than `links.unsent_timeout` gets the reason.
#[test]
fn a_node_that_was_away_for_long_is_waited_for_briefly() {
    let mut world = World::gateway(2);
    world.down = vec![1];
    let client = world.client();
    world.post(client, 0, &[b"1"]);
    world.pass(TIMEOUT_MICROS + 200_000);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
    world.post(client, 1, &[b"2"]);
    world.pass(TIMEOUT_MICROS / 8 - 100_000);
    assert_eq!(world.try_reply(client), None, "the link is tried first");
    world.pass(200_000);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
    // The node returns and fails again: this is a new outage.
    world.down.clear();
    world.pass(TIMEOUT_MICROS);
    world.post(client, 0, &[b"3"]);
    world.pass(100_000);
    assert_eq!(world.reply(client).status, Status::OK);
    world.down = vec![1];
    let link = world.links_to(1)[0];
    world.wires[link].is_ended[0] = true;
    world.pass(100_000);
    world.post(client, 0, &[b"4"]);
    world.pass(TIMEOUT_MICROS - 500_000);
    assert_eq!(world.try_reply(client), None);
    world.pass(600_000);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
}

/// A client that asked for explanations learns the partition and the node; other clients get only a status, as they
/// expect.
#[test]
fn refusals_name_the_partition_and_the_node() {
    let mut world = World::gateway(2);
    world.down = vec![1];
    let (plain, explained) = (world.client(), world.client());
    let reply = world.ask(explained, &Command::ExplainRefusals);
    assert_eq!((reply.status, reply.payload.len()), (Status::OK, 0));
    let read = Command::ReadMessages(WaitMessages {
        poll: poll_first(1, 1, false),
        minimum_bytes: 1,
        maximum_wait_micros: TIMEOUT_MICROS / 2,
    });
    for client in [plain, explained] {
        world.post(client, 1, &[b"1"]);
        world.pass(TIMEOUT_MICROS + 200_000);
        let text = if client == explained {
            "partition 1 of topic \"t\" in stream \"s\" is on node \"n1\", which is not reached"
        } else {
            ""
        };
        for waits in [false, true] {
            if waits {
                world.request(client, &read);
                world.pass(TIMEOUT_MICROS + 200_000);
            }
            let reply = world.reply(client);
            assert_eq!(reply.status, Status::PARTITION_UNAVAILABLE);
            assert_eq!(String::from_utf8(reply.payload).unwrap(), text);
        }
    }
}

/// Offsets cross links, also those of batches that waited for their node; other clients get no payload, as they expect.
#[test]
fn offsets_of_batches_cross_links() {
    let mut world = World::gateway(2);
    let (plain, asks) = (world.client(), world.client());
    let reply = world.ask(asks, &Command::ReportOffsets);
    assert_eq!((reply.status, reply.payload.len()), (Status::OK, 0));
    let large = vec![b'x'; 40_000];
    let mut next = [0; 2];
    for waits in [false, true] {
        if waits {
            world.down = vec![1];
            let link = world.links_to(1)[0];
            world.wires[link].is_ended[0] = true;
            world.pass(100_000);
        }
        let batches: [(u32, &[&[u8]]); 3] =
            [(0, &[b"1", b"2"]), (1, &[b"3"]), (0, &[&large, b"4", b"5"])];
        for (partition, messages) in batches {
            world.post(asks, partition, messages);
        }
        world.post(plain, 1, &[b"6"]);
        if waits {
            assert_eq!(world.try_reply(asks), None);
            world.down.clear();
            world.pass(TIMEOUT_MICROS / 4);
        }
        for (partition, messages) in &batches {
            let reply = world.reply(asks);
            assert_eq!(reply.status, Status::OK);
            let appended = Appended::decode(&reply.payload).unwrap();
            let next = &mut next[*partition as usize];
            assert_eq!(
                (appended.partition_id, appended.base_offset),
                (*partition, *next)
            );
            *next += messages.len() as u64;
        }
        let reply = world.reply(plain);
        assert_eq!((reply.status, reply.payload.len()), (Status::OK, 0));
        next[1] += 1;
    }
}

/// Lists of partitions show those on unreachable nodes.
#[test]
fn partitions_of_a_stopped_node_show() {
    let mut world = World::gateway(2);
    world.place_everywhere(&[1, 2]);
    let client = world.client();
    let describe = Command::DescribePartitions(TopicPath {
        stream: Identifier::Named("s"),
        topic: Identifier::Named("t"),
    });
    let states = |world: &mut World| {
        world.request(client, &describe);
        world.pass(1_500_000);
        let reply = world.reply(client);
        assert_eq!(reply.status, Status::OK);
        let described: Vec<PartitionDescription<'_>> = decode_list(&reply.payload).unwrap();
        (described.iter())
            .map(|found| (found.id, found.node.to_owned(), found.state))
            .collect::<Vec<_>>()
    };
    let of = |first, second| vec![(0, "n1".to_owned(), first), (1, "n2".to_owned(), second)];
    let serving = PartitionState::Serving;
    assert_eq!(states(&mut world), of(serving, serving));
    let contacts = |world: &World| -> Vec<(u32, bool)> {
        let all = world.processes[0].contacts.all();
        (all.iter())
            .map(|((node, _), is_reached)| (node.0, *is_reached))
            .collect()
    };
    assert_eq!(contacts(&world), [(1, true), (2, true)]);
    world.down = vec![2];
    let link = world.links_to(2)[0];
    world.wires[link].is_ended[0] = true;
    world.run();
    assert_eq!(contacts(&world), [(1, true), (2, false)], "lists of nodes");
    assert_eq!(states(&mut world), of(serving, PartitionState::Unreachable));
    world.down.clear();
    world.pass(2_000_000);
    assert_eq!(contacts(&world), [(1, true), (2, true)]);
    assert_eq!(states(&mut world), of(serving, serving));
}

/// A gateway knows which nodes it reaches without a request for them.
#[test]
fn every_node_is_tried() {
    let mut world = World::gateway(1);
    let reached = |world: &World| -> Vec<(u32, bool)> {
        let all = world.processes[0].contacts.all();
        (all.iter()).map(|((node, _), is)| (node.0, *is)).collect()
    };
    world.down = vec![2];
    world.pass(1_000_000);
    assert_eq!(reached(&world), [(1, true), (2, false)]);
    world.down.clear();
    world.pass(2_000_000);
    assert_eq!(reached(&world), [(1, true), (2, true)]);
    let link = world.links_to(1)[0];
    world.wires[link].is_ended[0] = true;
    world.run();
    assert_eq!(reached(&world), [(1, false), (2, true)]);
    world.pass(2_000_000);
    assert_eq!(reached(&world), [(1, true), (2, true)]);
}

/// A client whose request waits for a node cannot send heartbeats.
#[test]
fn who_waits_for_a_node_is_not_silent() {
    let mut world = World::gateway_of(
        1,
        Setup {
            heartbeat_interval_micros: Some(1_000_000),
            ..Setup::gateway()
        },
    );
    let (first, second, idle) = (world.client(), world.client(), world.client());
    world.down = vec![1];
    world.post(first, 0, &[b"1"]);
    world.pass(TIMEOUT_MICROS + 200_000);
    assert_eq!(world.reply(first).status, Status::PARTITION_UNAVAILABLE);
    assert_eq!(
        world.registered(),
        [1],
        "those are silent that wait for nothing"
    );
    // The node answers late.
    world.down.clear();
    world.post(first, 0, &[b"2"]);
    world.pass(400_000);
    assert_eq!(world.reply(first).status, Status::OK);
    world.node(1).is_mute = true;
    world.post(first, 0, &[b"3"]);
    world.pass(4_000_000);
    world.node(1).is_mute = false;
    world.pass(1_000_000);
    assert_eq!(world.reply(first).status, Status::OK);
    assert_eq!(world.registered(), [1]);
    world.pass(3_000_000);
    assert!(world.registered().is_empty());
    assert!(
        [first, second, idle]
            .iter()
            .all(|client| !world.is_closed(*client))
    );
}

#[test]
fn requests_to_a_partition_without_a_node_wait() {
    let mut world = World::gateway(1);
    world.place(&[9]);
    world.hear_all();
    let client = world.client();
    world.post(client, 0, &[b"1"]);
    world.pass(TIMEOUT_MICROS / 2);
    assert_eq!(world.try_reply(client), None);
    world.place_everywhere(&[2]);
    assert_eq!(world.reply(client).status, Status::OK);
    assert_eq!(log(&world, 0), ["1"]);
    assert_eq!(world.links_to(2).len(), 1);
}

/// A node with a newer catalog refuses calls; the gateway keeps their order until its catalog is as new.
#[test]
fn what_is_refused_goes_to_the_new_place_first() {
    let mut world = World::gateway(2);
    let client = world.client();
    world.post(client, 0, &[b"0"]);
    assert_eq!(world.reply(client).status, Status::OK);
    world.place(&[2, 1]);
    world.follow_all();
    for payload in [b"1", b"2", b"3"] {
        world.post(client, 0, &[payload]);
    }
    world.post(client, 1, &[b"other"]);
    assert_eq!(world.try_reply(client), None);
    assert_eq!(log(&world, 1), ["other"], "the lanes of others are free");
    world.pass(TIMEOUT_MICROS / 2);
    assert_eq!(log(&world, 0), ["0"]);
    world.hear_all();
    for _ in 0..4 {
        assert_eq!(world.reply(client).status, Status::OK);
    }
    assert_eq!(log(&world, 0), ["0", "1", "2", "3"]);
}

/// Calls are sent to a new node only after the old one has answered everything.
#[test]
fn what_is_in_flight_to_the_old_place_is_waited_for() {
    let mut world = World::gateway(1);
    let client = world.client();
    world.node(1).is_mute = true;
    world.post(client, 0, &[b"1"]);
    world.post(client, 0, &[b"2"]);
    world.node(1).is_mute = false;
    world.run();
    world.node(1).is_mute = true;
    world.post(client, 0, &[b"3"]);
    world.place(&[2]);
    world.hear_all();
    world.follow(2, world.version());
    world.post(client, 0, &[b"4"]);
    assert!(world.links_to(2).is_empty());
    assert_eq!(log(&world, 0), ["1", "2", "3"]);
    world.node(1).is_mute = false;
    world.run();
    for _ in 0..4 {
        assert_eq!(world.reply(client).status, Status::OK);
    }
    assert_eq!(log(&world, 0), ["1", "2", "3", "4"]);
    assert_eq!(world.links_to(2).len(), 1);
}

/// A node with an older catalog does not answer before its catalog is as new.
#[test]
fn a_node_that_is_behind_catches_up_first() {
    let mut world = World::gateway(1);
    let client = world.client();
    world.post(client, 0, &[b"1"]);
    world.place(&[2]);
    world.hear_all();
    world.post(client, 0, &[b"2"]);
    world.pass(TIMEOUT_MICROS * 2);
    assert_eq!(world.reply(client).status, Status::OK);
    assert_eq!(world.try_reply(client), None);
    world.follow_all();
    assert_eq!(world.reply(client).status, Status::OK);
    assert_eq!(log(&world, 0), ["1", "2"]);
}

#[test]
fn requests_that_wait_for_a_deleted_partition_are_refused() {
    let mut world = World::gateway(2);
    world.down = vec![1];
    let clients = [world.client(), world.client()];
    for (client, id) in clients.into_iter().zip([0, 1]) {
        world.post(client, id, &[b"1"]);
    }
    // The topic is created anew, with another incarnation.
    world.publish(vec![
        Change::TopicDeleted(TopicKey::default()),
        Change::TopicPut(World::topic(1, 9, 0)),
    ]);
    world.pass(100_000);
    for client in clients {
        assert_eq!(world.reply(client).status, Status::PARTITION_NOT_FOUND);
    }
    world.post(clients[0], 5, &[b"1"]);
    assert_eq!(world.reply(clients[0]).status, Status::PARTITION_NOT_FOUND);
}

#[test]
fn a_node_that_has_started_anew_gets_a_new_link() {
    let mut world = World::gateway(1);
    let client = world.client();
    world.post(client, 0, &[b"1"]);
    assert_eq!(world.reply(client).status, Status::OK);
    world.publish(vec![world.node_record(1, 2)]);
    assert!(world.links_to(1).is_empty());
    world.follow(1, world.version());
    world.post(client, 0, &[b"2"]);
    assert_eq!(world.reply(client).status, Status::OK);
    assert_eq!(world.node(1).links_opened, 2);
    assert_eq!(log(&world, 0), ["1", "2"]);
}

#[test]
fn a_refused_link_is_tried_again_after_growing_pauses() {
    let mut world = World::gateway(1);
    world.node(1).refuses = Some(Status::INVALID_TICKET);
    let client = world.client();
    world.post(client, 0, &[b"1"]);
    let before = world.wires.len();
    world.pass(TIMEOUT_MICROS * 9 / 10);
    let tries = world.wires.len() - before;
    assert!((2..10).contains(&tries), "{tries} tries");
    assert_eq!(world.reports.len(), 1, "{:?}", world.reports);
    assert!(world.reports[0].contains("20202"), "{:?}", world.reports);
    world.node(1).refuses = None;
    world.pass(TIMEOUT_MICROS);
    assert_eq!(world.reply(client).status, Status::PARTITION_UNAVAILABLE);
    world.post(client, 0, &[b"2"]);
    world.pass(TIMEOUT_MICROS / 2);
    assert_eq!(world.reply(client).status, Status::OK);
    assert_eq!(log(&world, 0), ["2"]);
}

#[test]
fn a_gateway_that_stops_waits_for_answers_and_not_for_nodes() {
    let mut world = World::gateway(2);
    world.place_everywhere(&[1, 2]);
    world.down = vec![2];
    let clients = [world.client(), world.client()];
    world.node(1).is_mute = true;
    world.post(clients[0], 0, &[b"1"]);
    world.post(clients[1], 1, &[b"2"]);
    world.node(1).is_mute = false;
    world.run();
    world.node(1).is_mute = true;
    world.post(clients[0], 0, &[b"3"]);
    world.shut_down();
    assert_eq!(world.reply(clients[0]).status, Status::OK);
    let refused = world.reply(clients[1]).status;
    assert_eq!(refused, Status::PARTITION_UNAVAILABLE);
    assert_eq!(world.reply(clients[1]).status, Status::DISCONNECTED);
    assert_eq!(world.try_reply(clients[0]), None);
    world.node(1).is_mute = false;
    world.run();
    assert_eq!(world.reply(clients[0]).status, Status::OK);
    assert_eq!(world.reply(clients[0]).status, Status::DISCONNECTED);
    world.pass(2_000_000);
    assert!(world.is_drained());
    world.close_partitions();
    assert!(world.is_stopped());
    assert!(world.links_to(1).is_empty());
}
