//! Connections that log in at a node with a ticket.

use headrace_model::{Namespace, StreamId, TopicId};
use headrace_proto::catalog::v1::delta::Change;
use headrace_shard::Hosting;
use headrace_ticket::{Access, Scope};
use headrace_wire::{
    Command, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, Status,
    command::{
        ConsumerOffsetPath, FlushUnsavedBuffer, LoginWithTicket, PollMessages, StoreConsumerOffset,
        WaitMessages,
    },
};

use crate::shards::{
    messages::{payloads, poll},
    nodes::{HERE, THERE, node_here},
    served::peer::{INCARNATION, ticket},
};
use crate::world::{World, batch, partition, partition_of, placed};

fn topic(access: Access) -> Scope {
    Scope::Topic {
        stream: StreamId(0),
        topic: TopicId(0),
        incarnation: INCARNATION,
        access,
    }
}

fn one(namespace: Namespace, access: Access) -> Scope {
    Scope::Partition {
        namespace,
        incarnation: INCARNATION,
        access,
    }
}

fn log_in(world: &mut World, scope: Scope) -> usize {
    let ticket = ticket(world, scope);
    let link = world.connect(0);
    let login = Command::LoginWithTicket(LoginWithTicket { ticket: &ticket });
    let reply = world.ask(link, &login);
    assert_eq!((reply.status, reply.payload), (Status::OK, Vec::new()));
    link
}

fn status(world: &mut World, link: usize, command: &Command<'_>) -> Status {
    world.ask(link, command).status
}

fn path(partition_id: u32, kind: ConsumerKind) -> ConsumerOffsetPath<'static> {
    ConsumerOffsetPath {
        consumer: Consumer {
            kind,
            id: Identifier::Numeric(1),
        },
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        partition_id: Some(partition_id),
    }
}

fn flush(partition_id: u32) -> Command<'static> {
    Command::FlushUnsavedBuffer(FlushUnsavedBuffer {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        partition_id,
        fsync: false,
    })
}

fn wait(partition: u32) -> Command<'static> {
    let Command::PollMessages(request) = poll(partition, PollingStrategy::First, 10) else {
        unreachable!("made for this");
    };
    Command::WaitMessages(WaitMessages {
        poll: PollMessages { ..request },
        minimum_bytes: 1,
        maximum_wait_micros: 1_000_000,
    })
}

/// Send every request that a ticket may permit to a partition.
fn everything(world: &mut World, link: usize, id: u32) -> [Status; 7] {
    let store = Command::StoreConsumerOffset(StoreConsumerOffset {
        path: path(id, ConsumerKind::Consumer),
        offset: 0,
    });
    [
        world.send(link, id, &[b"x"]),
        status(world, link, &flush(id)),
        status(world, link, &poll(id, PollingStrategy::First, 10)),
        status(world, link, &wait(id)),
        status(world, link, &store),
        status(
            world,
            link,
            &Command::GetConsumerOffset(path(id, ConsumerKind::Consumer)),
        ),
        status(
            world,
            link,
            &Command::DeleteConsumerOffset(path(id, ConsumerKind::Consumer)),
        ),
    ]
}

/// The holder of a ticket gets the offsets of its batches at the node if it has asked for them.
#[test]
fn a_ticket_holder_learns_offsets() {
    let mut world = node_here(&[HERE]);
    let (asks, plain) = (
        log_in(&mut world, topic(Access::WRITE)),
        log_in(&mut world, topic(Access::WRITE)),
    );
    assert_eq!(
        status(&mut world, asks, &Command::ReportOffsets),
        Status::OK
    );
    for base_offset in [0, 3] {
        for (link, expected) in [
            (asks, [&[0; 4], &u64::to_le_bytes(base_offset)[..]].concat()),
            (plain, Vec::new()),
        ] {
            let messages: &[&[u8]] = if link == asks { &[b"1", b"2"] } else { &[b"3"] };
            let one = batch(messages);
            let request = one.request(
                Identifier::Numeric(0),
                Identifier::Numeric(0),
                Partitioning::Balanced,
            );
            let reply = world.ask(link, &Command::SendMessages(request));
            assert_eq!((reply.status, reply.payload), (Status::OK, expected));
        }
    }
}

/// CTL-9: the holder of a ticket sends and polls directly at the node; all other commands are refused.
#[test]
fn a_ticket_opens_what_it_is_for() {
    let mut world = node_here(&[HERE, HERE, THERE]);
    let user = world.login(0);
    assert_eq!(world.send(user, 0, &[b"1"]), Status::OK);
    assert_eq!(world.send(user, 1, &[b"1"]), Status::OK);
    let no = Status::UNAUTHORIZED;
    let cases = [
        (topic(Access::ALL), [[Status::OK; 7], [Status::OK; 7]]),
        (
            topic(Access::WRITE),
            [[Status::OK, Status::OK, no, no, no, no, no]; 2],
        ),
        (
            topic(Access::READ),
            [[
                no,
                no,
                Status::OK,
                Status::OK,
                Status::OK,
                Status::OK,
                Status::OK,
            ]; 2],
        ),
        (one(partition(1), Access::ALL), [[no; 7], [Status::OK; 7]]),
        (
            one(partition(0), Access::WRITE),
            [[Status::OK, Status::OK, no, no, no, no, no], [no; 7]],
        ),
        (Scope::Cluster, [[Status::OK; 7], [Status::OK; 7]]),
    ];
    for (scope, expected) in cases {
        let link = log_in(&mut world, scope);
        for (id, expected) in (0..).zip(expected) {
            assert_eq!(
                everything(&mut world, link, id),
                expected,
                "{scope:?}, partition {id}"
            );
        }
    }
    let link = log_in(&mut world, topic(Access::ALL));
    assert_eq!(
        everything(&mut world, link, 2),
        [Status::PARTITION_ELSEWHERE; 7]
    );
}

#[test]
fn a_ticket_is_for_messages_alone() {
    let mut world = node_here(&[HERE]);
    for scope in [topic(Access::ALL), Scope::Cluster] {
        let link = log_in(&mut world, scope);
        for command in [
            Command::GetMe,
            Command::GetClients,
            Command::GetStats,
            Command::GetStreams,
            Command::GetUsers,
            Command::GetPersonalAccessTokens,
            Command::GetClusterMetadata,
            Command::GetConsumerOffset(path(0, ConsumerKind::Group)),
            Command::StoreConsumerOffset(StoreConsumerOffset {
                path: path(0, ConsumerKind::Group),
                offset: 0,
            }),
        ] {
            assert_eq!(
                status(&mut world, link, &command),
                Status::UNAUTHORIZED,
                "{command:?}"
            );
        }
        assert!(
            world.control_requests.is_empty(),
            "the control plane is not asked"
        );
        assert_eq!(status(&mut world, link, &Command::Ping), Status::OK);
        assert_eq!(status(&mut world, link, &Command::LogoutUser), Status::OK);
        let sent = world.send(link, 0, &[b"x"]);
        assert_eq!(sent, Status::UNAUTHENTICATED);
        // A later login as a user grants that user's permissions.
        assert_eq!(
            status(
                &mut world,
                link,
                &crate::world::login(crate::world::PASSWORD)
            ),
            Status::OK
        );
        assert_eq!(status(&mut world, link, &Command::GetMe), Status::OK);
        world.control_requests.clear();
    }
}

/// A login by ticket ends the user's permissions.
#[test]
fn a_ticket_takes_the_place_of_a_user() {
    let mut world = node_here(&[HERE]);
    let link = world.login(0);
    assert_eq!(world.send(link, 0, &[b"x"]), Status::OK);
    let text = ticket(&world, topic(Access::READ));
    let login = Command::LoginWithTicket(LoginWithTicket { ticket: &text });
    assert_eq!(status(&mut world, link, &login), Status::OK);
    assert_eq!(world.send(link, 0, &[b"x"]), Status::UNAUTHORIZED);
    assert_eq!(
        status(&mut world, link, &Command::GetMe),
        Status::UNAUTHORIZED
    );
}

/// A ticket is not valid for a later partition with the same number.
#[test]
fn a_ticket_is_for_one_life_of_a_partition() {
    let mut world = node_here(&[HERE]);
    for scope in [topic(Access::ALL), one(partition(0), Access::ALL)] {
        let link = log_in(&mut world, scope);
        assert_eq!(everything(&mut world, link, 0), [Status::OK; 7]);
        let waits = log_in(&mut world, scope);
        let Command::WaitMessages(request) = wait(0) else {
            unreachable!("made above");
        };
        let request = WaitMessages {
            poll: PollMessages {
                strategy: PollingStrategy::Offset(1000),
                ..request.poll
            },
            ..request
        };
        world.request(waits, &Command::WaitMessages(request));
        assert_eq!(world.try_reply(waits), None);
        let topic = World::topic(1, INCARNATION + 1, 0);
        world.publish(vec![Change::TopicPut(topic), placed(&[HERE])]);
        assert_eq!(world.reply(waits).status, Status::UNAUTHORIZED);
        assert_eq!(everything(&mut world, link, 0), [Status::UNAUTHORIZED; 7]);
        let topic = World::topic(1, INCARNATION, 0);
        world.publish(vec![Change::TopicPut(topic), placed(&[HERE])]);
    }
}

#[test]
fn what_is_no_ticket_opens_nothing() {
    let mut world = node_here(&[HERE]);
    let good = ticket(&world, topic(Access::ALL));
    world.pass(11_000_000);
    for text in ["", "hrt1.", "root", &good] {
        let link = world.connect(0);
        let login = Command::LoginWithTicket(LoginWithTicket { ticket: text });
        assert_eq!(status(&mut world, link, &login), Status::INVALID_TICKET);
        let sent = world.send(link, 0, &[b"x"]);
        assert_eq!(sent, Status::UNAUTHENTICATED);
    }
    for hosting in [Hosting::Everything, Hosting::Nothing] {
        let mut world = World::hosting(&hosting);
        let good = ticket(&world, Scope::Cluster);
        let link = world.connect(0);
        let login = Command::LoginWithTicket(LoginWithTicket { ticket: &good });
        assert_eq!(status(&mut world, link, &login), Status::INVALID_TICKET);
    }
}

/// Unauthenticated connections do not use up the connection slots of gateways.
#[test]
fn who_shows_a_node_no_ticket_has_to_leave() {
    let mut world = node_here(&[HERE]);
    let unauthenticated = world.connect(0);
    let holder = log_in(&mut world, topic(Access::READ));
    let user = world.login(0);
    let gateway = crate::shards::served::peer::Peer::open(&mut world, 0, 1);
    world.pass(9_900_000);
    assert_eq!(
        status(&mut world, unauthenticated, &Command::Ping),
        Status::OK
    );
    world.pass(200_000);
    assert!(world.is_closed(unauthenticated));
    for link in [holder, user, gateway.link] {
        assert!(!world.is_closed(link));
    }
}

/// SHARD-6: after some requests such a connection moves to the shard that owns its partition.
#[test]
fn the_connection_of_a_holder_moves_to_the_owner() {
    let mut world = node_here(&[HERE; 4]);
    let far = partition_of(1);
    let link = log_in(&mut world, one(partition(far), Access::ALL));
    for _ in 0..40 {
        assert_eq!(world.send(link, far, &[b"x"]), Status::OK);
    }
    assert_eq!(world.shard_of(link), 1);
    let command = poll(far, PollingStrategy::First, 1000);
    assert_eq!(payloads(&mut world, link, &command).len(), 40);
    // Without a partition in the request, any partition may be chosen.
    let batch = batch(&[b"x"]);
    let request = batch.request(
        Identifier::Numeric(0),
        Identifier::Numeric(0),
        Partitioning::Balanced,
    );
    let statuses: Vec<Status> = (0..4)
        .map(|_| status(&mut world, link, &Command::SendMessages(request)))
        .collect();
    let allowed = statuses.iter().filter(|status| status.is_ok());
    assert_eq!(allowed.count(), 1, "{statuses:?}");
}
