//! Waiting polls and watches of gateways.

use headrace_link::{
    CallHeader, EndWait, Membership, Refusal, ToGateway, ToNode, WatchedState, WhenReady,
};
use headrace_model::{ClientId, ClientKey, GroupId, Namespace, Offset};
use headrace_partition::{ConsumerKey, PartitionError, Poll, PollingStrategy, Request, Response};
use headrace_proto::catalog::v1::delta::Change;

use super::peer::{INCARNATION, Peer, place, poll, polled};
use crate::shards::nodes::{HERE, THERE, node_here};
use crate::world::{WAITED_PARTITIONS_MAX, World, partition, placed};

fn world_with(namespace: Namespace) -> (World, Peer) {
    let mut world = node_here(&[HERE, HERE]);
    let peer = Peer::to(&mut world, namespace);
    (world, peer)
}

/// A poll for the next message.
fn wanted() -> Poll {
    Poll {
        minimum_bytes: 1,
        auto_commit: true,
        by: None,
        ..poll(PollingStrategy::Next)
    }
}

/// Offset stored by those polls.
fn stored(world: &mut World, namespace: Namespace) -> Option<Offset> {
    let mut peer = Peer::to(world, namespace);
    let consumer = ConsumerKey::Consumer(7);
    peer.request(world, place(namespace), Request::GetOffset { consumer });
    let heard = peer.hear(world);
    let [
        ToGateway::Answer {
            result: Ok(Response::Offset(offset)),
            ..
        },
    ] = heard[..]
    else {
        panic!("{heard:?}");
    };
    offset.map(|offset| offset.stored)
}

/// GW-7 over a link.
#[test]
fn a_poll_waits_at_the_node() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    let answered = peer.wait(&mut world, place, (wanted(), WhenReady::Answer), None);
    let notified = peer.wait(&mut world, place, (wanted(), WhenReady::Notify), None);
    assert_eq!(peer.hear(&mut world), []);
    let at_once = peer.wait(&mut world, place, (wanted(), WhenReady::AnswerNow), None);
    let not_ready = ToGateway::Answer {
        call: at_once,
        result: Err(Refusal::NotReady),
    };
    assert_eq!(peer.hear(&mut world), [not_ready]);
    let mut other = Peer::to(&mut world, namespace);
    other.append(&mut world, place, &[b"1"]);
    let heard = peer.hear(&mut world);
    assert_eq!(heard.len(), 2);
    assert!(heard.contains(&ToGateway::PollReady { call: notified }));
    assert!(heard.iter().any(
        |frame| matches!(frame, ToGateway::Answer { call, result: Ok(_) } if *call == answered)
    ));
    assert_eq!(stored(&mut world, namespace), Some(Offset(0)));
}

#[test]
fn a_wait_can_be_stopped() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    let mut stop = |world: &mut World, when_ready, stop| {
        let call = peer.wait(world, place, (wanted(), when_ready), None);
        let frame = ToNode::EndWait {
            call,
            namespace,
            reaction: stop,
        };
        peer.say(world, frame);
        (call, peer.hear(world))
    };
    let (_, heard) = stop(&mut world, WhenReady::Answer, EndWait::Take);
    assert_eq!(polled(&heard), (None, 0));
    let (call, heard) = stop(&mut world, WhenReady::Answer, EndWait::Refuse);
    let result = Err(Refusal::NotReady);
    assert_eq!(heard, [ToGateway::Answer { call, result }]);
    let (_, heard) = stop(&mut world, WhenReady::Notify, EndWait::Cancel);
    assert_eq!(heard, []);
    peer.append(&mut world, place, &[b"1"]);
    assert_eq!(peer.hear(&mut world).len(), 1, "no poll waits any more");
    // Stopping an unknown or answered call has no effect.
    let call = peer.call();
    for stop in [EndWait::Take, EndWait::Refuse, EndWait::Cancel] {
        let frame = ToNode::EndWait {
            call,
            namespace,
            reaction: stop,
        };
        peer.say(&mut world, frame);
    }
    assert_eq!(peer.hear(&mut world), []);
}

#[test]
fn waits_at_a_partition_that_leaves_are_refused() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    let answered = peer.wait(&mut world, place, (wanted(), WhenReady::Answer), None);
    let notified = peer.wait(&mut world, place, (wanted(), WhenReady::Notify), None);
    peer.say(
        &mut world,
        ToNode::Watch {
            place,
            last_state: None,
            wants_openings: false,
        },
    );
    assert!(matches!(
        peer.hear(&mut world)[..],
        [ToGateway::StateChanged { .. }]
    ));
    let seen = Some(WatchedState {
        incarnation: INCARNATION,
        ..WatchedState::default()
    });
    peer.say(
        &mut world,
        ToNode::Watch {
            place,
            last_state: seen,
            wants_openings: false,
        },
    );
    assert_eq!(peer.hear(&mut world), []);
    world.publish(vec![placed(&[THERE, HERE])]);
    let version = world.version();
    let heard = peer.hear(&mut world);
    let expected = [
        ToGateway::WrongNode {
            call: answered,
            version,
        },
        ToGateway::PollReady { call: notified },
        ToGateway::NotWatched { namespace, version },
    ];
    assert_eq!(heard.len(), expected.len(), "{heard:?}");
    assert!(expected.iter().all(|frame| heard.contains(frame)));
}

/// A purge, and a deletion, wake waiting polls as they do within one process.
#[test]
fn who_waits_at_a_partition_that_goes_finds_out() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    let call = peer.wait(&mut world, place, (wanted(), WhenReady::Answer), None);
    world.publish(vec![
        Change::TopicPut(World::topic(2, INCARNATION + 1, 0)),
        placed(&[HERE, HERE]),
    ]);
    let result = Err(Refusal::NotReady);
    assert_eq!(peer.hear(&mut world), [ToGateway::Answer { call, result }]);
}

#[test]
fn with_its_link_a_wait_is_forgotten() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    peer.wait(&mut world, place, (wanted(), WhenReady::Answer), None);
    peer.wait(&mut world, place, (wanted(), WhenReady::Notify), None);
    peer.say(
        &mut world,
        ToNode::Watch {
            place,
            last_state: None,
            wants_openings: false,
        },
    );
    peer.hear(&mut world);
    world.hang_up(peer.link);
    let mut other = Peer::to(&mut world, namespace);
    other.append(&mut world, place, &[b"1"]);
    assert_eq!(other.hear(&mut world).len(), 1);
    assert_eq!(peer.hear(&mut world), []);
    assert_eq!(stored(&mut world, namespace), None, "no client received it");
}

/// Messages found by a waiting poll during its node's shutdown are not lost: the poll is answered, or no offset is
/// stored.
#[test]
fn a_node_that_stops_ends_all_waits() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    let call = peer.wait(&mut world, place, (wanted(), WhenReady::Answer), None);
    peer.wait(&mut world, place, (wanted(), WhenReady::Notify), None);
    world.shut_down();
    let (heard, last) = peer.hear_all(&mut world);
    let result = Err(Refusal::NotReady);
    assert_eq!(heard, [ToGateway::Answer { call, result }]);
    assert_eq!(last.len(), 8);
    assert!(world.is_closed(peer.link));
}

#[test]
fn waits_of_a_link_are_bounded() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    for _ in 0..WAITED_PARTITIONS_MAX {
        peer.wait(&mut world, place, (wanted(), WhenReady::Answer), None);
    }
    assert_eq!(peer.hear(&mut world), []);
    let call = peer.wait(&mut world, place, (wanted(), WhenReady::Answer), None);
    let result = Err(Refusal::Partition(PartitionError::Busy));
    assert_eq!(peer.hear(&mut world), [ToGateway::Answer { call, result }]);
}

/// A watch notifies once, and again after it was repeated.
#[test]
fn a_gateway_watches_a_partition() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    peer.say(
        &mut world,
        ToNode::Watch {
            place,
            last_state: None,
            wants_openings: false,
        },
    );
    let view = WatchedState {
        incarnation: INCARNATION,
        ..WatchedState::default()
    };
    let seen = |view| ToGateway::StateChanged { namespace, view };
    assert_eq!(peer.hear(&mut world), [seen(view.clone())]);
    let frame = ToNode::Watch {
        place,
        last_state: Some(view.clone()),
        wants_openings: false,
    };
    peer.say(&mut world, frame);
    assert_eq!(peer.hear(&mut world), []);
    let mut other = Peer::to(&mut world, namespace);
    other.append(&mut world, place, &[b"1"]);
    let view = WatchedState {
        end: Offset(1),
        ..view
    };
    assert_eq!(peer.hear(&mut world), [seen(view.clone())]);
    other.append(&mut world, place, &[b"2"]);
    assert_eq!(peer.hear(&mut world), [], "once");
    let frame = ToNode::Watch {
        place,
        last_state: Some(view.clone()),
        wants_openings: false,
    };
    peer.say(&mut world, frame);
    let view = WatchedState {
        end: Offset(2),
        ..view
    };
    assert_eq!(peer.hear(&mut world), [seen(view.clone())]);
    let frame = ToNode::Watch {
        place,
        last_state: Some(view.clone()),
        wants_openings: false,
    };
    peer.say(&mut world, frame);
    peer.say(&mut world, ToNode::Unwatch { namespace });
    other.append(&mut world, place, &[b"3"]);
    assert_eq!(peer.hear(&mut world), []);
}

/// CG-4 over a link: a member that does not own a partition gets no messages of it.
#[test]
fn members_are_checked_at_the_node() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let member = Membership {
        group: GroupId(1),
        key: 1,
        client: ClientKey {
            gateway: 5,
            client: ClientId(9),
        },
        incarnation: 1,
    };
    let place = place(namespace);
    let call = peer.call();
    let frame = ToNode::Request {
        header: CallHeader {
            call,
            place,
            member: Some(member),
            trace: None,
        },
        request: Request::Poll(poll(PollingStrategy::First)),
    };
    peer.say(&mut world, frame);
    let result = Err(Refusal::NothingAssigned);
    assert_eq!(peer.hear(&mut world), [ToGateway::Answer { call, result }]);
    let wanted = (wanted(), WhenReady::Answer);
    let call = peer.wait(&mut world, place, wanted, Some(member));
    let result = Err(Refusal::NothingAssigned);
    assert_eq!(peer.hear(&mut world), [ToGateway::Answer { call, result }]);
}
