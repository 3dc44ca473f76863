//! Requests of gateways that are answered without waiting.

use headrace_link::{CallHeader, Refusal, RequestId, Scope, StatisticsSnapshot, ToGateway, ToNode};
use headrace_model::{Namespace, Offset};
use headrace_partition::{ConsumerKey, PartitionError, PollingStrategy, Request, Response};
use headrace_proto::catalog::v1::delta::Change;

use super::peer::{INCARNATION, Peer, place, poll, polled};
use crate::shards::nodes::{HERE, THERE, node_here, node_within};
use crate::world::{World, partition, placed};

fn answer(heard: &[ToGateway], call: RequestId) -> Result<Response, Refusal> {
    let [ToGateway::Answer { call: of, result }] = heard else {
        panic!("not one answer: {heard:?}");
    };
    assert_eq!(*of, call);
    result.clone()
}

fn world_with(namespace: Namespace) -> (World, Peer) {
    let mut world = node_here(&[HERE, HERE, HERE, HERE]);
    let peer = Peer::to(&mut world, namespace);
    (world, peer)
}

#[test]
fn everything_that_a_partition_can_do_is_done_for_gateways() {
    let namespace = partition(1);
    let (mut world, mut peer) = world_with(namespace);
    let place = place(namespace);
    let consumer = ConsumerKey::Consumer(7);
    let mut ask = |request| {
        let call = peer.request(&mut world, place, request);
        answer(&peer.hear(&mut world), call)
    };
    let batch = super::peer::messages(&[b"1", b"2", b"3"]);
    let appended = Response::Appended {
        base_offset: Offset(0),
        messages_count: 3,
    };
    assert_eq!(ask(Request::Append { batch }), Ok(appended));
    let offset = Offset(1);
    assert_eq!(
        ask(Request::StoreOffset {
            consumer,
            offset,
            by: None
        }),
        Ok(Response::Done)
    );
    assert!(matches!(
        ask(Request::GetOffset { consumer }),
        Ok(Response::Offset(Some(found))) if found.stored == Offset(1)
    ));
    let Ok(Response::Polled(polled)) = ask(Request::Poll(poll(PollingStrategy::Next))) else {
        panic!("polled");
    };
    assert_eq!(
        (polled.last_offset, polled.messages_count),
        (Some(Offset(2)), 1)
    );
    assert_eq!(
        ask(Request::DeleteOffset { consumer, by: None }),
        Ok(Response::Done)
    );
    assert_eq!(
        ask(Request::DeleteOffset { consumer, by: None }),
        Err(Refusal::Partition(PartitionError::OffsetNotFound))
    );
    assert_eq!(
        ask(Request::GetOffset { consumer }),
        Ok(Response::Offset(None))
    );
    assert_eq!(ask(Request::Flush { fsync: true }), Ok(Response::Done));
    assert_eq!(
        ask(Request::DeleteSegments { count: 1 }),
        Ok(Response::Done)
    );
    let offset = Offset(99);
    assert!(
        ask(Request::StoreOffset {
            consumer,
            offset,
            by: None
        })
        .is_err()
    );
}

#[test]
fn large_batches_and_answers_come_whole() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let text: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let payloads: Vec<&[u8]> = text.chunks(500_000).collect();
    let call = peer.append(&mut world, place(namespace), &payloads[..5]);
    assert!(answer(&peer.hear(&mut world), call).is_ok());
    let request = Request::Poll(poll(PollingStrategy::First));
    let call = peer.request(&mut world, place(namespace), request);
    let Ok(Response::Polled(polled)) = answer(&peer.hear(&mut world), call) else {
        panic!("polled");
    };
    let bytes: Vec<u8> = (polled.slices.iter())
        .flat_map(|slice| slice.to_vec())
        .collect();
    let mut rest = &bytes[..];
    for payload in &payloads[..5] {
        let (message, behind) = headrace_wire::message::MessageView::split_first(rest).unwrap();
        assert_eq!(message.payload(), *payload);
        rest = behind;
    }
    assert_eq!(rest, []);
}

/// The limit for clients with a ticket is none for gateways, which have one of their own for their clients.
#[test]
fn gateways_send_more_than_clients_may() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    world.storage_held = true;
    let small = peer.append(&mut world, place(namespace), &[b"1"]);
    let payload = vec![7; 1_000_000];
    let large = peer.append(&mut world, place(namespace), &[&payload[..]; 5]);
    world.release_storage();
    let heard = peer.hear(&mut world);
    assert_eq!(heard.len(), 2);
    assert!(answer(&heard[..1], small).is_ok());
    assert!(answer(&heard[1..], large).is_ok());
    assert!(!world.is_closed(peer.link));
}

/// A gateway may have more memory than its node. The other requests on the link are those of all its clients.
#[test]
fn a_batch_that_never_fits_into_memory_is_refused_alone() {
    let namespace = partition(0);
    let mut world = node_within(8 << 20, &[HERE]);
    let mut peer = Peer::to(&mut world, namespace);
    world.storage_held = true;
    let before = peer.append(&mut world, place(namespace), &[b"1"]);
    let call = peer.call();
    let payload = vec![7; 1_000_000];
    let frame = ToNode::Request {
        header: CallHeader {
            call,
            place: place(namespace),
            member: None,
            trace: None,
        },
        request: Request::Append {
            batch: super::peer::messages(&[&payload[..]; 5]),
        },
    };
    let bytes: Vec<u8> = (frame.encode().iter())
        .flat_map(|slice| slice.to_vec())
        .collect();
    // The header, parts of the call, and parts of the messages arrive one after the other.
    for piece in [0..8, 8..11, 11..20, 20..2_000_000, 2_000_000..bytes.len()] {
        assert_eq!(peer.hear(&mut world), []);
        world.write(peer.link, &bytes[piece.clone()]);
        if piece.contains(&15) {
            let refused = Err(Refusal::Partition(PartitionError::MalformedBatch));
            assert_eq!(answer(&peer.hear(&mut world), call), refused);
        }
    }
    assert_eq!(world.bytes_towards(peer.link), 0);
    world.release_storage();
    assert!(answer(&peer.hear(&mut world), before).is_ok());
    let behind = peer.append(&mut world, place(namespace), &[b"2"]);
    assert!(answer(&peer.hear(&mut world), behind).is_ok());
    assert!(!world.is_closed(peer.link));
}

/// Requests of many clients share a link: a slow one does not delay the others.
#[test]
fn answers_come_in_any_order() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    peer.append(&mut world, place(namespace), &[b"1"]);
    peer.hear(&mut world);
    world.storage_held = true;
    let slow = peer.append(&mut world, place(namespace), &[b"2"]);
    let request = Request::Poll(poll(PollingStrategy::First));
    let quick = peer.request(&mut world, place(namespace), request);
    assert!(answer(&peer.hear(&mut world), quick).is_ok());
    world.release_storage();
    assert!(answer(&peer.hear(&mut world), slow).is_ok());
}

#[test]
fn what_does_not_exist_is_not_found() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let old = place(namespace);
    world.publish(vec![
        Change::TopicPut(World::topic(1, INCARNATION + 1, 0)),
        placed(&[HERE]),
    ]);
    let call = peer.append(&mut world, old, &[b"for the one before"]);
    assert_eq!(answer(&peer.hear(&mut world), call), Err(Refusal::NotFound));
    let new = headrace_link::PartitionRef {
        incarnation: INCARNATION + 1,
        ..old
    };
    let call = peer.append(&mut world, new, &[b"for this one"]);
    assert!(answer(&peer.hear(&mut world), call).is_ok());
}

#[test]
fn a_shard_takes_what_is_its_own() {
    let namespace = partition(0);
    let mut world = node_here(&[HERE, THERE]);
    let version = world.version();
    let other = 1 - super::peer::shard_of(namespace);
    let mut peer = Peer::open(&mut world, 0, other);
    let call = peer.append(&mut world, place(namespace), &[b"x"]);
    assert_eq!(
        peer.hear(&mut world),
        [ToGateway::WrongNode { call, version }]
    );
}

#[test]
fn statistics_of_all_shards_are_reported() {
    let mut world = node_here(&[HERE, THERE, HERE, HERE]);
    let client = world.login(0);
    for id in [0, 2, 3] {
        let payloads = vec![&b"x"[..]; id as usize + 1];
        assert_eq!(world.send(client, id, &payloads), headrace_wire::Status::OK);
    }
    let mut peer = Peer::open(&mut world, 0, 0);
    let mut ask = |scope| {
        let call = peer.call();
        peer.say(&mut world, ToNode::Statistics { call, scope });
        let heard = peer.hear(&mut world);
        let [
            ToGateway::Statistics {
                call: of,
                partitions: statistics,
            },
        ] = &heard[..]
        else {
            panic!("{heard:?}");
        };
        assert_eq!(*of, call);
        statistics.clone()
    };
    let topic = partition(0);
    let all = ask(Scope::All);
    let counts = |statistics: &[StatisticsSnapshot]| -> Vec<(Namespace, u64)> {
        (statistics.iter())
            .map(|statistics| (statistics.namespace, statistics.messages_count))
            .collect()
    };
    let expected = [0, 2, 3].map(|id| (partition(id), u64::from(id) + 1));
    assert_eq!(counts(&all), expected);
    assert_eq!(ask(Scope::Stream(topic.stream())), all);
    assert_eq!(ask(Scope::Topic(topic.stream(), topic.topic())), all);
    let other = headrace_model::StreamId(1);
    assert_eq!(ask(Scope::Stream(other)), []);
    assert_eq!(ask(Scope::Topic(other, topic.topic())), []);
}

/// A gateway that does not read its answers is not read from, so nothing accumulates here.
#[test]
fn a_slow_gateway_is_not_heard() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let payload = vec![7; 1 << 20];
    peer.append(&mut world, place(namespace), &[&payload]);
    peer.hear(&mut world);
    world.hold_sends(peer.link);
    for _ in 0..100 {
        let request = Request::Poll(poll(PollingStrategy::First));
        peer.request(&mut world, place(namespace), request);
    }
    let heard = peer.hear(&mut world).len();
    assert!(heard < 10, "{heard} answers wait for who does not read");
    assert!(world.bytes_towards(peer.link) > 0);
    let mut answers = heard;
    for _ in 0..100 {
        world.release_sends(peer.link);
        answers += peer.hear(&mut world).len();
    }
    assert_eq!(answers, 100);
    assert_eq!(world.bytes_towards(peer.link), 0);
}

/// Batches that wait for storage are limited: beyond that nothing more is read.
#[test]
fn batches_under_way_are_bounded() {
    let namespace = partition(0);
    let (mut world, mut peer) = world_with(namespace);
    let payload = vec![7; 1 << 20];
    world.storage_held = true;
    for _ in 0..100 {
        peer.append(&mut world, place(namespace), &[&payload]);
    }
    assert!(world.bytes_towards(peer.link) > 30 << 20);
    world.release_storage();
    assert_eq!(peer.hear(&mut world).len(), 100);
    let request = Request::Poll(poll(PollingStrategy::Offset(99)));
    peer.request(&mut world, place(namespace), request);
    assert_eq!(polled(&peer.hear(&mut world)).0, Some(Offset(99)));
}
