//! Tickets that users issue to third parties.

use headrace_model::{StreamId, TopicId};
use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_shard::Hosting;
use headrace_ticket::{Access, Scope, Ticket};
use headrace_wire::{
    Command, CommandCode, Identifier, Status,
    command::{IssueTicket, LoginWithTicket},
    response::{Capabilities, IssuedTicket},
};

use crate::shards::{
    nodes::{HERE, node_here},
    served::peer::INCARNATION,
};
use crate::world::{Reply, Setup, TICKET_SECONDS_MAX, World, ticket_key, user};

const TEN_MINUTES: u64 = 600;
const LIMITED: u32 = 7;

fn request(read: bool, write: bool, lifetime_seconds: u32) -> Command<'static> {
    Command::IssueTicket(IssueTicket {
        stream: Identifier::Named("s"),
        topic: Identifier::Named("t"),
        read,
        write,
        lifetime_seconds,
    })
}

/// Decode the ticket, and check that the response contains the same values.
fn issued(world: &World, reply: &Reply) -> Ticket {
    assert_eq!(reply.status, Status::OK);
    let answer = IssuedTicket::decode(&reply.payload).unwrap();
    let now = world.now / 1_000_000;
    let ticket = Ticket::verify(answer.ticket, &ticket_key(), now).expect("one of this cluster");
    assert_eq!(ticket.not_after, answer.not_after);
    ticket
}

/// A user with no other permissions than these.
fn limited(poll_messages: bool, send_messages: bool) -> Change {
    let permissions = records::GlobalPermissions {
        poll_messages,
        send_messages,
        ..Default::default()
    };
    user(LIMITED, "limited", Some(permissions))
}

#[test]
fn a_ticket_says_what_was_asked_for() {
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    let mut ids = Vec::new();
    for (read, write) in [(true, false), (false, true), (true, true)] {
        let reply = world.ask(link, &request(read, write, 60));
        let ticket = issued(&world, &reply);
        let scope = Scope::Topic {
            stream: StreamId(0),
            topic: TopicId(0),
            incarnation: INCARNATION,
            access: Access { read, write },
        };
        assert_eq!((ticket.scope, &*ticket.holder), (scope, "root"));
        assert_eq!(ticket.not_after, world.now / 1_000_000 + 60);
        ids.push(ticket.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_ticket_does_not_live_for_ever() {
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    let capped = u32::try_from(TICKET_SECONDS_MAX).unwrap();
    for (asked, expected) in [
        (0, TEN_MINUTES),
        (1, 1),
        (capped, TICKET_SECONDS_MAX),
        (capped + 1, TICKET_SECONDS_MAX),
        (u32::MAX, TICKET_SECONDS_MAX),
    ] {
        let reply = world.ask(link, &request(true, false, asked));
        let lives = issued(&world, &reply).not_after - world.now / 1_000_000;
        assert_eq!(lives, expected, "{asked}");
    }
    // A ticket ends with the login of its issuer.
    world.credential.expires_at_micros = world.now + 90_000_000;
    let link = world.login(0);
    let reply = world.ask(link, &request(true, false, 0));
    let not_after = issued(&world, &reply).not_after;
    assert_eq!(not_after, world.credential.expires_at_micros / 1_000_000);
}

#[test]
fn a_ticket_grants_no_more_than_its_issuer_may_do() {
    for (poll, send) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = World::new().with_topic(1);
        world.publish(vec![limited(poll, send)]);
        let link = world.in_process(0, LIMITED);
        for (read, write) in [(true, false), (false, true), (true, true)] {
            let reply = world.ask(link, &request(read, write, 0));
            if (poll || !read) && (send || !write) {
                assert_eq!(issued(&world, &reply).holder, "limited");
            } else {
                assert_eq!(reply.status, Status::UNAUTHORIZED);
            }
        }
    }
}

#[test]
fn what_does_not_exist_has_no_ticket() {
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    let ask = |world: &mut World, stream, topic| {
        let command = Command::IssueTicket(IssueTicket {
            stream: Identifier::Named(stream),
            topic: Identifier::Named(topic),
            read: true,
            write: false,
            lifetime_seconds: 0,
        });
        world.ask(link, &command).status
    };
    assert_eq!(ask(&mut world, "x", "t"), Status::STREAM_ID_NOT_FOUND);
    assert_eq!(ask(&mut world, "s", "x"), Status::TOPIC_ID_NOT_FOUND);
    let unauthenticated = world.connect(0);
    let reply = world.ask(unauthenticated, &request(true, false, 0));
    assert_eq!(reply.status, Status::UNAUTHENTICATED);
}

fn is_named(world: &mut World) -> bool {
    let link = world.connect(0);
    let reply = world.ask(link, &Command::Capabilities);
    let capabilities = Capabilities::decode(&reply.payload).unwrap();
    (capabilities.codes).contains(&CommandCode::IssueTicket.code())
}

#[test]
fn it_is_named_where_it_is_served() {
    assert!(is_named(&mut World::new()));
    assert!(is_named(&mut World::hosting(&Hosting::Nothing)));
    assert!(!is_named(&mut node_here(&[HERE])));
    let mut world = World::of(Setup {
        ticket_key: None,
        ..Setup::default()
    })
    .with_topic(1);
    assert!(!is_named(&mut world));
    let link = world.login(0);
    let reply = world.ask(link, &request(true, false, 0));
    assert_eq!(reply.status, Status::FEATURE_UNAVAILABLE);
}

/// A gateway issues a ticket and a node accepts it; the holder of a ticket cannot issue another.
#[test]
fn a_ticket_opens_a_node() {
    let mut gateway = World::hosting(&Hosting::Nothing).with_topic(1);
    let link = gateway.login(0);
    let reply = gateway.ask(link, &request(true, false, 60));
    let issued = IssuedTicket::decode(&reply.payload).unwrap();
    let mut node = node_here(&[HERE]);
    let link = node.connect(0);
    let login = Command::LoginWithTicket(LoginWithTicket {
        ticket: issued.ticket,
    });
    assert_eq!(node.ask(link, &login).status, Status::OK);
    assert_eq!(node.send(link, 0, &[b"x"]), Status::UNAUTHORIZED);
    let again = node.ask(link, &request(true, false, 0));
    assert_eq!(again.status, Status::UNAUTHORIZED);
}
