//! Opening and end of links.

use headrace_link::{ToGateway, VERSION};
use headrace_model::NodeId;
use headrace_partition::Response;
use headrace_shard::{ClockState, Hosting};
use headrace_ticket::{Access, Scope};
use headrace_wire::{Command, Status, command::OpenLink};

use super::peer::{Peer, place, ticket};
use crate::shards::nodes::{HERE, THERE, node_here};
use crate::world::{World, partition};

fn request(ticket: &str) -> OpenLink<'_> {
    OpenLink {
        version: VERSION,
        node_id: HERE,
        shard: 0,
        gateway: 5,
        catalog_version: 1,
        ticket,
    }
}

/// Send a request to open a link, and expect a refusal as the final response.
fn refused(world: &mut World, request: OpenLink<'_>) -> Status {
    let link = world.connect(0);
    let reply = world.ask(link, &Command::OpenLink(request));
    assert_eq!(reply.payload, []);
    assert!(world.is_closed(link));
    reply.status
}

/// GW-8: a link opens at the requested shard, whichever shard has accepted the connection.
#[test]
fn a_link_is_at_the_shard_that_was_asked_for() {
    let mut world = node_here(&[HERE]);
    for (at, shard) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let version = world.version();
        let mut peer = Peer::ask(&mut world, at, shard, version);
        let welcome = ToGateway::Welcome {
            catalog_version: version,
            node: NodeId(HERE),
            shards: 2.try_into().unwrap(),
        };
        assert_eq!(peer.hear(&mut world), [welcome]);
        assert_eq!(world.shard_of(peer.link), usize::from(shard));
    }
}

#[test]
fn a_link_tries_again_where_there_was_no_room() {
    let mut world = node_here(&[HERE]);
    let version = world.version();
    world.moves_fail = true;
    let mut peer = Peer::ask(&mut world, 0, 1, version);
    for _ in 0..3 {
        assert_eq!(peer.hear(&mut world), []);
        assert_eq!(world.shard_of(peer.link), 0);
        world.pass(100_000);
    }
    world.moves_fail = false;
    world.pass(100_000);
    assert_eq!(peer.hear(&mut world).len(), 1);
    assert_eq!(world.shard_of(peer.link), 1);
}

#[test]
fn a_link_is_no_client() {
    let mut world = node_here(&[HERE]);
    let client = world.login(0);
    let peers: Vec<Peer> = (0..20).map(|_| Peer::open(&mut world, 0, 0)).collect();
    let me = world.ask(client, &Command::GetMe);
    let all = world.ask(client, &Command::GetClients);
    assert_eq!(all.status, Status::OK);
    assert!(all.payload.len() <= me.payload.len(), "there is one client");
    for peer in &peers {
        assert!(!world.is_closed(peer.link));
    }
    // Links do not use up the connection slots of clients, either.
    let more = world.login(0);
    assert_eq!(world.ask(more, &Command::Ping).status, Status::OK);
}

#[test]
fn who_is_no_gateway_of_the_cluster_gets_no_link() {
    let mut world = node_here(&[HERE]);
    let good = ticket(&world, Scope::Cluster);
    assert_eq!(refused(&mut world, request("")), Status::INVALID_TICKET);
    let changed = format!("{}A", &good[..good.len() - 1]);
    let other = format!("{}B", &good[..good.len() - 1]);
    let forged = if changed == good { other } else { changed };
    assert_eq!(
        refused(&mut world, request(&forged)),
        Status::INVALID_TICKET
    );
    let namespace = partition(0);
    let narrow = Scope::Partition {
        namespace,
        incarnation: 3,
        access: Access::ALL,
    };
    let narrow = ticket(&world, narrow);
    assert_eq!(
        refused(&mut world, request(&narrow)),
        Status::INVALID_TICKET
    );
    world.pass(11_000_000);
    assert_eq!(refused(&mut world, request(&good)), Status::INVALID_TICKET);
    let mut embedded = World::hosting(&Hosting::Everything);
    let good = ticket(&embedded, Scope::Cluster);
    assert_eq!(
        refused(&mut embedded, request(&good)),
        Status::INVALID_TICKET
    );
}

/// The time of a shard is ahead while the wall clock, which was set back, catches up. Tickets are compared with the wall
/// clock.
#[test]
fn a_clock_that_was_set_back_refuses_no_tickets() {
    let mut world = node_here(&[HERE]);
    let good = ticket(&world, Scope::Cluster);
    world.pass(60_000_000);
    assert_eq!(refused(&mut world, request(&good)), Status::INVALID_TICKET);
    world.set_clock(ClockState {
        lead_micros: 60_000_000,
        ..ClockState::default()
    });
    let link = world.connect(0);
    world.request(link, &Command::OpenLink(request(&good)));
    assert!(!world.is_closed(link));
}

#[test]
fn what_is_asked_for_must_be_here() {
    let mut world = node_here(&[HERE]);
    let good = ticket(&world, Scope::Cluster);
    let newer = OpenLink {
        version: VERSION + 1,
        ..request(&good)
    };
    assert_eq!(refused(&mut world, newer), Status::INVALID_COMMAND);
    let shard = OpenLink {
        shard: 2,
        ..request(&good)
    };
    assert_eq!(refused(&mut world, shard), Status::INVALID_COMMAND);
    for node_id in [THERE, 9] {
        let other = OpenLink {
            node_id,
            ..request(&good)
        };
        assert_eq!(refused(&mut world, other), Status::PARTITION_ELSEWHERE);
    }
    let link = world.login(0);
    let reply = world.ask(link, &Command::OpenLink(request(&good)));
    assert_eq!(reply.status, Status::INVALID_COMMAND);
}

#[test]
fn a_gateway_that_says_what_none_says_is_heard_no_more() {
    let namespace = partition(0);
    for bytes in [
        // A request of the Iggy protocol (0.8).
        &[4, 0, 0, 0, 1, 0, 0, 0][..],
        // A length shorter than the code.
        &[3, 0, 0, 0, 0, 0, 0, 0],
        // A length above that of any batch.
        &[255, 255, 255, 255, 0xf9, 0x2a, 0, 0],
        // A request without content.
        &[4, 0, 0, 0, 0xf9, 0x2a, 0, 0],
    ] {
        let mut world = node_here(&[HERE]);
        let mut peer = Peer::to(&mut world, namespace);
        peer.append(&mut world, place(namespace), &[b"x"]);
        assert_eq!(peer.hear(&mut world).len(), 1);
        world.write(peer.link, bytes);
        assert!(world.is_closed(peer.link), "{bytes:?}");
        assert_eq!(peer.hear(&mut world), []);
    }
}

#[test]
fn a_call_is_not_used_again_before_it_is_answered() {
    let namespace = partition(0);
    let mut world = node_here(&[HERE]);
    let mut peer = Peer::to(&mut world, namespace);
    world.storage_held = true;
    let mut other = Peer::to(&mut world, namespace);
    peer.append(&mut world, place(namespace), &[b"x"]);
    let call = other.append(&mut world, place(namespace), &[b"x"]);
    // Another gateway may use the same numbers.
    assert!(!world.is_closed(peer.link) && !world.is_closed(other.link));
    peer.repeat();
    peer.append(&mut world, place(namespace), &[b"y"]);
    assert!(world.is_closed(peer.link));
    world.release_storage();
    assert!(matches!(
        other.hear(&mut world)[..],
        [ToGateway::Answer { call: of, result: Ok(_) }] if of == call
    ));
    other.repeat();
    other.append(&mut world, place(namespace), &[b"z"]);
    assert_eq!(other.hear(&mut world).len(), 1);
}

/// Calls that were begun are answered, followed by the final frame.
#[test]
fn a_node_that_stops_parts_with_its_gateways() {
    let namespace = partition(0);
    let mut world = node_here(&[HERE]);
    let mut peer = Peer::to(&mut world, namespace);
    world.storage_held = true;
    let call = peer.append(&mut world, place(namespace), &[b"x"]);
    world.shut_down();
    assert_eq!(peer.hear(&mut world), []);
    peer.append(&mut world, place(namespace), &[b"is not heard"]);
    world.release_storage();
    let (heard, last) = peer.hear_all(&mut world);
    let [ToGateway::Answer { call: of, result }] = &heard[..] else {
        panic!("{heard:?}");
    };
    assert_eq!(*of, call);
    assert!(matches!(result, Ok(Response::Appended { .. })));
    assert_eq!(last[..4], Status::DISCONNECTED.0.to_le_bytes());
    assert_eq!(last[4..], [0; 4]);
    assert!(world.is_closed(peer.link));
    world.close_partitions();
    assert!(world.is_stopped());
}
