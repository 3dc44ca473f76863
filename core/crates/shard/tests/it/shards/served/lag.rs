//! Gateway and node with different catalog versions.

use headrace_link::{
    CallHeader, Membership, PartitionRef, RequestId, ToGateway, ToNode, WhenReady,
};
use headrace_model::{ClientId, ClientKey, GroupId, Namespace, NodeId, Offset};
use headrace_partition::{ConsumerKey, Poll, PollingStrategy, Request, Response};
use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_wire::Status;

use super::peer::{INCARNATION, Peer, place, poll};
use crate::shards::nodes::{HERE, THERE, here, node_here};
use crate::world::{World, partition, placed};

fn world_with(namespace: Namespace, placement: &[u32]) -> (World, Peer) {
    let mut world = node_here(placement);
    let peer = Peer::to(&mut world, namespace);
    (world, peer)
}

/// Announce that the gateway has this version of the catalog.
fn announce(world: &mut World, peer: &mut Peer, version: u64) {
    peer.say(world, ToNode::CatalogVersion(version));
}

fn base_offset(heard: &[ToGateway], call: RequestId) -> Offset {
    match heard {
        [
            ToGateway::Answer {
                call: of,
                result: Ok(Response::Appended { base_offset, .. }),
            },
        ] if *of == call => *base_offset,
        other => panic!("not appended: {other:?}"),
    }
}

/// A frame that requires a newer catalog of the node waits, and so do all frames behind it.
#[test]
fn a_node_waits_for_the_catalog_of_its_gateway() {
    let namespace = partition(0);
    let newer = [
        (place(namespace), vec![THERE], vec![placed(&[HERE])]),
        (
            PartitionRef {
                incarnation: INCARNATION + 1,
                ..place(namespace)
            },
            vec![HERE],
            vec![
                Change::TopicPut(World::topic(1, INCARNATION + 1, 0)),
                placed(&[HERE]),
            ],
        ),
        (
            PartitionRef {
                purge_epoch: 1,
                ..place(namespace)
            },
            vec![HERE],
            vec![Change::TopicPut(World::topic(1, INCARNATION, 1))],
        ),
        (
            place(partition(1)),
            vec![HERE],
            vec![
                Change::TopicPut(World::topic(2, INCARNATION, 0)),
                placed(&[HERE, HERE]),
            ],
        ),
    ];
    for (wanted, before, changes) in newer {
        let mut world = node_here(&before);
        let client = world.login(0);
        world.send(client, 0, &[b"before"]);
        let mut peer = Peer::to(&mut world, wanted.namespace);
        let version = world.version() + 1;
        announce(&mut world, &mut peer, version);
        let first = peer.append(&mut world, wanted, &[b"1"]);
        peer.append(&mut world, wanted, &[b"2"]);
        world.pass(1_000_000);
        assert_eq!(peer.hear(&mut world), [], "{wanted:?}");
        assert!(world.bytes_towards(peer.link) > 0, "nothing more is read");
        world.publish(changes);
        let heard = peer.hear(&mut world);
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert_eq!(base_offset(&heard[..1], first), Offset(0));
        world.pass(6_000_000);
        assert!(!world.is_closed(peer.link), "it has caught up in time");
    }
}

/// The change that arrives first may be an unrelated one.
#[test]
fn a_node_that_has_caught_up_says_what_it_knows() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace, &[THERE]);
    let version = world.version();
    announce(&mut world, &mut peer, version + 2);
    let call = peer.append(&mut world, place(namespace), &[b"1"]);
    world.publish(vec![Change::StreamPut(records::Stream {
        id: 1,
        name: "other".into(),
        ..Default::default()
    })]);
    assert_eq!(peer.hear(&mut world), []);
    world.publish(vec![Change::StreamDeleted(1)]);
    let version = version + 2;
    assert_eq!(
        peer.hear(&mut world),
        [ToGateway::WrongNode { call, version }]
    );
}

/// A node that gets no changes drains the link, and the gateway knows that nothing unanswered was executed.
#[test]
fn a_node_that_stays_behind_parts_with_its_gateway() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace, &[HERE, THERE]);
    let answered = peer.append(&mut world, place(namespace), &[b"1"]);
    assert_eq!(base_offset(&peer.hear(&mut world), answered), Offset(0));
    let version = world.version() + 1;
    announce(&mut world, &mut peer, version);
    let purged = PartitionRef {
        purge_epoch: 1,
        ..place(namespace)
    };
    world.storage_held = true;
    let begun = peer.append(&mut world, place(namespace), &[b"2"]);
    peer.append(&mut world, purged, &[b"is not taken"]);
    world.pass(4_900_000);
    assert_eq!(peer.hear(&mut world), []);
    world.pass(200_000);
    assert_eq!(peer.hear(&mut world), [], "something is being written");
    world.release_storage();
    let (heard, last) = peer.hear_all(&mut world);
    assert_eq!(base_offset(&heard, begun), Offset(1));
    assert_eq!(last[..4], Status::DISCONNECTED.0.to_le_bytes());
    assert!(world.is_closed(peer.link));
    // A call that was not accepted was not executed, even if the change arrives now.
    world.publish(vec![Change::TopicPut(World::topic(2, INCARNATION, 1))]);
    let mut peer = Peer::to(&mut world, namespace);
    let call = peer.append(&mut world, purged, &[b"taken"]);
    assert_eq!(base_offset(&peer.hear(&mut world), call), Offset(0));
}

/// Refused calls are not overtaken by others that the same gateway sent before it received the refusals.
#[test]
fn a_partition_is_not_here_until_its_gateway_has_heard_that() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace, &[HERE]);
    world.publish(vec![placed(&[THERE])]);
    let version = world.version();
    let not_here = |call| ToGateway::WrongNode { call, version };
    let calls = [b"1", b"2"].map(|text| peer.append(&mut world, place(namespace), &[text]));
    assert_eq!(peer.hear(&mut world), calls.map(not_here));
    world.publish(vec![placed(&[HERE])]);
    let late = peer.append(&mut world, place(namespace), &[b"3"]);
    assert_eq!(peer.hear(&mut world), [not_here(late)]);
    // The announcement may have been sent before any refusal was received.
    announce(&mut world, &mut peer, version + 1);
    let last = peer.append(&mut world, place(namespace), &[b"4"]);
    assert_eq!(peer.hear(&mut world), [not_here(last)]);
    // Another gateway has no refused calls.
    let mut other = Peer::to(&mut world, namespace);
    let call = other.append(&mut world, place(namespace), &[b"0"]);
    assert_eq!(base_offset(&other.hear(&mut world), call), Offset(0));
    // The call of a closed client is not repeated; the next repetition is an equally valid sign.
    let again = [calls[1], late, last];
    for (call, offset) in again.into_iter().zip(1..) {
        peer.append_as(&mut world, call, place(namespace), &[b"x"]);
        assert_eq!(base_offset(&peer.hear(&mut world), call), Offset(offset));
    }
    let call = peer.append(&mut world, place(namespace), &[b"5"]);
    assert_eq!(base_offset(&peer.hear(&mut world), call), Offset(4));
}

/// Same as above, but the partition leaves while a batch waits for it.
#[test]
fn what_leaves_with_a_batch_is_not_here_for_the_next() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace, &[HERE]);
    world.storage_held = true;
    // The partition is still opening, so both batches wait.
    let calls = [b"1", b"2"].map(|text| peer.append(&mut world, place(namespace), &[text]));
    world.publish(vec![placed(&[THERE])]);
    let version = world.version();
    world.publish(vec![placed(&[HERE])]);
    let late = peer.append(&mut world, place(namespace), &[b"3"]);
    world.release_storage();
    let heard = peer.hear(&mut world);
    let refused = |call: &RequestId| {
        heard.iter().any(|frame| {
            matches!(frame, ToGateway::WrongNode { call: of, version: since } if of == call && *since >= version)
        })
    };
    let taken = calls.iter().filter(|call| !refused(call)).count();
    assert_eq!(heard.len(), 3);
    assert!(
        taken == 2 || refused(&late),
        "the third has not overtaken the others: {heard:?}"
    );
}

fn group(gateway: u64, partitions: Vec<u32>) -> Change {
    Change::ConsumerGroupPut(records::ConsumerGroup {
        name: "g".into(),
        key: 9,
        partitions_count: 1,
        members: vec![records::GroupMember {
            id: 1,
            gateway_id: gateway,
            client_id: 8,
            user_id: 0,
            incarnation: 100,
            partitions,
            revocations: Vec::new(),
        }],
        ..Default::default()
    })
}

/// A member that has just been assigned a partition is not refused by a node with an older catalog.
#[test]
fn a_member_that_is_new_is_waited_for() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace, &[HERE]);
    let gateway = 5;
    let member = Membership {
        group: GroupId(0),
        key: 9,
        client: ClientKey {
            gateway,
            client: ClientId(8),
        },
        incarnation: 100,
    };
    let wanted = Poll {
        consumer: Some(ConsumerKey::Group(9)),
        minimum_bytes: 1,
        ..poll(PollingStrategy::Next)
    };
    world.publish(vec![group(gateway, Vec::new())]);
    let version = world.version();
    announce(&mut world, &mut peer, version + 1);
    let wanted = (wanted, WhenReady::Answer);
    peer.wait(&mut world, place(namespace), wanted, Some(member));
    assert_eq!(peer.hear(&mut world), []);
    world.publish(vec![group(gateway, vec![0])]);
    assert_eq!(peer.hear(&mut world), [], "it waits at the partition");
    let mut other = Peer::to(&mut world, namespace);
    other.append(&mut world, place(namespace), &[b"1"]);
    let heard = peer.hear(&mut world);
    assert!(
        matches!(heard[..], [ToGateway::Answer { result: Ok(_), .. }]),
        "{heard:?}"
    );
    // A member known to the node does not wait, however new the gateway's catalog is.
    announce(&mut world, &mut peer, version + 10);
    let call = peer.call();
    let request = Request::Poll(Poll {
        consumer: Some(ConsumerKey::Group(9)),
        ..poll(PollingStrategy::First)
    });
    let frame = ToNode::Request {
        header: CallHeader {
            call,
            place: place(namespace),
            member: Some(member),
            trace: None,
        },
        request,
    };
    peer.say(&mut world, frame);
    assert_eq!(peer.hear(&mut world).len(), 1);
}

/// A node that was just registered accepts its first gateway before its own catalog contains it.
#[test]
fn a_node_may_not_know_itself_yet() {
    let mut world = World::hosting(&here());
    let version = world.version();
    let mut early = Peer::ask(&mut world, 0, 0, version);
    let (heard, last) = early.hear_all(&mut world);
    assert_eq!(heard, []);
    assert_eq!(last[..4], Status::PARTITION_ELSEWHERE.0.to_le_bytes());
    let mut peer = Peer::ask(&mut world, 0, 0, version + 1);
    assert!(matches!(
        peer.hear(&mut world)[..],
        [ToGateway::Welcome {
            node: NodeId(HERE),
            ..
        }]
    ));
}

/// A watch is refused like a request, and is registered when it is repeated.
#[test]
fn a_watch_follows_its_partition() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace, &[THERE]);
    let version = world.version();
    let watch = || ToNode::Watch {
        place: place(namespace),
        last_state: None,
        wants_openings: false,
    };
    peer.say(&mut world, watch());
    assert_eq!(
        peer.hear(&mut world),
        [ToGateway::NotWatched { namespace, version }]
    );
    announce(&mut world, &mut peer, version + 1);
    peer.say(&mut world, watch());
    assert_eq!(peer.hear(&mut world), []);
    world.publish(vec![placed(&[HERE])]);
    assert!(matches!(
        peer.hear(&mut world)[..],
        [ToGateway::StateChanged { .. }]
    ));
}
