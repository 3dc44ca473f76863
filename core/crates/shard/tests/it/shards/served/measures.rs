//! Statistics and traces of a node's requests.

use headrace_link::{CallHeader, ToNode, TraceContext};
use headrace_partition::{PollingStrategy, Request};
use headrace_shard::{Reading, TraceRecord};
use headrace_wire::{CommandCode, Status};

use super::peer::{Peer, messages, place, poll, shard_of};
use crate::shards::nodes::{HERE, THERE, node_here};
use crate::world::partition;

/// USE-6: requests of gateways are counted at the node like those of clients.
#[test]
fn requests_of_gateways_are_counted() {
    let mut world = node_here(&[HERE, THERE]);
    let namespace = partition(0);
    let mut peer = Peer::to(&mut world, namespace);
    peer.append(&mut world, place(namespace), &[b"one", b"two"]);
    let request = Request::Poll(poll(PollingStrategy::First));
    peer.request(&mut world, place(namespace), request);
    let elsewhere = partition(1);
    let mut other = Peer::to(&mut world, elsewhere);
    other.append(&mut world, place(elsewhere), &[b"x"]);
    let mut reading = Reading::default();
    for shard in 0..2 {
        world.meter(shard).add_to(&mut reading);
    }
    assert_eq!((reading.appended_messages, reading.polled_messages), (2, 2));
    assert!(reading.appended_bytes > 0 && reading.polled_bytes >= reading.appended_bytes);
    let answers = |code| -> u64 {
        let commands = reading.commands.iter();
        let of_command = commands.filter(|answers| answers.command == Some(code));
        of_command.flat_map(|answers| &answers.classes).sum()
    };
    assert_eq!(answers(CommandCode::SendMessages), 1);
    assert_eq!(answers(CommandCode::PollMessages), 1);
    assert!(reading.received_bytes > 0 && reading.sent_bytes > 0);
    // Calls that were not begun here do not count as answers of this node's partitions.
    let refused = reading.refusals.get(&Status::PARTITION_ELSEWHERE.0);
    assert_eq!(refused, None);
}

/// USE-6: the trace of a request continues at the node, with the context that it came with.
#[test]
fn a_traced_request_leaves_its_records_at_the_node() {
    let namespace = partition(0);
    let mut world = node_here(&[HERE]);
    let mut peer = Peer::to(&mut world, namespace);
    let context = TraceContext {
        trace_id: 7,
        span_id: 8,
    };
    for trace in [None, Some(context)] {
        let call = peer.call();
        let batch = messages(&[b"one"]);
        let frame = ToNode::Request {
            header: CallHeader {
                call,
                place: place(namespace),
                member: None,
                trace,
            },
            request: Request::Append { batch },
        };
        peer.say(&mut world, frame);
        assert_eq!(peer.hear(&mut world).len(), 1);
    }
    let shard = usize::from(shard_of(namespace));
    let records = world.meter(shard).tracer().take();
    let [
        TraceRecord::Partition(stored),
        TraceRecord::Request(request),
    ] = &records[..]
    else {
        panic!("{records:?}");
    };
    assert_eq!(request.key, stored.key);
    assert_eq!(request.context, context);
    assert_eq!(request.command, Some(CommandCode::SendMessages));
    assert_eq!((request.status, stored.messages_count), (0, 1));
    assert!(request.began > 0 && request.began <= stored.ended);
    assert_eq!(stored.namespace, namespace);
}
