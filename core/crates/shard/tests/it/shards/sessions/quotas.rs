//! Quotas: users and topics get their rate and no more, and no other user waits for them.

use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_shard::Reading;
use headrace_wire::{
    Command, PollingStrategy, Status,
    batch::BatchBuilder,
    command::{StageMessages, WaitMessages},
};

use crate::shards::waits::wait;
use crate::world::{Setup, World, batch, poll_first, to_partition, user};

/// A user with a quota, and one without.
const LIMITED: u32 = 5;
const FREE: u32 = 6;
const RATE: u64 = 1 << 20;
/// Size of the free burst.
const BURST: u64 = 1 << 20;
const PAYLOAD_BYTES: usize = 100_000;
static PAYLOAD: [u8; PAYLOAD_BYTES] = [7; PAYLOAD_BYTES];
/// More answers than any rate of these tests allows.
const ANSWERS_MAX: u64 = 2_000;
const SECOND: u64 = 1_000_000;

fn sending(rate: u64) -> records::Quota {
    records::Quota {
        sent_bytes_per_second: rate,
        ..Default::default()
    }
}

fn reading(rate: u64) -> records::Quota {
    records::Quota {
        read_bytes_per_second: rate,
        ..Default::default()
    }
}

fn user_with(id: u32, quota: records::Quota) -> Change {
    let rights = records::GlobalPermissions {
        poll_messages: true,
        send_messages: true,
        ..Default::default()
    };
    let Change::UserPut(record) = user(id, &format!("u{id}"), Some(rights)) else {
        unreachable!("a user");
    };
    Change::UserPut(records::User {
        quota: Some(quota),
        ..record
    })
}

fn topic_with(quota: records::Quota) -> Change {
    Change::TopicPut(records::Topic {
        quota: Some(quota),
        ..World::topic(2, 3, 0)
    })
}

/// A world with both users, of whom one has this quota.
fn with_quota(quota: records::Quota) -> World {
    let mut world = World::of(Setup {
        connections_max: 1000,
        waited_partitions_max: 1000,
        ..Setup::default()
    })
    .with_topic(2);
    world.publish(vec![
        user_with(LIMITED, quota),
        user_with(FREE, records::Quota::default()),
    ]);
    world
}

/// Request that a client repeats.
#[derive(Clone, Copy)]
enum Load {
    Send,
    Poll,
    Wait,
    /// A stage with a message of this size.
    Stage(usize),
}

impl Load {
    fn bytes(self) -> u64 {
        match self {
            Self::Send | Self::Poll | Self::Wait => PAYLOAD_BYTES as u64,
            Self::Stage(bytes) => bytes as u64,
        }
    }
}

fn stage(bytes: usize) -> BatchBuilder {
    batch(&[&PAYLOAD[..bytes]])
}

fn staging(stage: &BatchBuilder) -> Command<'_> {
    Command::StageMessages(StageMessages {
        batch: to_partition(stage, 1),
        stage: 0,
        lifetime_seconds: 0,
        chunk: 0,
        is_last: true,
    })
}

fn begin(world: &mut World, link: usize, load: Load) {
    match load {
        Load::Send => world.post(link, 0, &[&PAYLOAD]),
        Load::Poll => world.request(link, &Command::PollMessages(poll_first(0, 1, false))),
        Load::Wait => {
            let wait = WaitMessages {
                poll: poll_first(0, 1, false),
                ..wait(0, PollingStrategy::First, 1, SECOND)
            };
            world.request(link, &Command::WaitMessages(wait));
        }
        Load::Stage(bytes) => world.request(link, &staging(&stage(bytes))),
    }
}

/// Run clients, each of which repeats its request as soon as it is answered, for some seconds in steps of a tick.
/// Returns the number of answers.
fn run(world: &mut World, links: &[usize], load: Load, seconds: u64) -> u64 {
    let mut answers = 0;
    for _ in 0..seconds * 10 {
        loop {
            let before = answers;
            for link in links {
                while let Some(reply) = world.try_reply(*link) {
                    assert_eq!(reply.status, Status::OK);
                    answers += 1;
                    assert!(answers < ANSWERS_MAX, "nothing is limited");
                    begin(world, *link, load);
                }
            }
            if answers == before {
                break;
            }
        }
        world.pass(100_000);
    }
    answers
}

/// Check that this many answers are what the rate allows in some seconds, within a twentieth.
fn check_rate(answers: u64, load: Load, seconds: u64) {
    let bytes = answers * load.bytes();
    let allowed = BURST + RATE * seconds;
    assert!(bytes < allowed * 21 / 20, "{bytes} of {allowed}");
    assert!(bytes > allowed * 19 / 20, "{bytes} of {allowed}");
}

fn delayed_micros(world: &World) -> u64 {
    let mut counts = Reading::default();
    for shard in 0..2 {
        world.meter(shard).add_to(&mut counts);
    }
    counts.quota_delayed_micros
}

/// Clients of a user on both shards, with their first requests.
fn clients(world: &mut World, user: u32, load: Load, count: usize) -> Vec<usize> {
    let links: Vec<usize> = (0..count)
        .map(|index| {
            let link = world.in_process(index % 2, user);
            begin(world, link, load);
            link
        })
        .collect();
    links
}

fn fill(world: &mut World) {
    let producer = world.client();
    assert_eq!(world.send(producer, 0, &[&PAYLOAD]), Status::OK);
}

/// CTL-13: all connections of a user together send at the rate of its quota, and another user is answered at once.
#[test]
fn a_user_sends_at_its_rate_whatever_the_number_of_its_connections() {
    for (connections, load, seconds) in [
        (1, Load::Send, 20),
        (20, Load::Send, 20),
        (2, Load::Stage(15_000), 5),
    ] {
        let mut world = with_quota(sending(RATE));
        let links = clients(&mut world, LIMITED, load, connections);
        check_rate(run(&mut world, &links, load, seconds), load, seconds);
        assert!(delayed_micros(&world) > SECOND);

        let other = world.in_process(0, FREE);
        for _ in 0..100 {
            assert_eq!(world.send(other, 0, &[&PAYLOAD]), Status::OK);
        }
        // The limited user reads without a limit.
        let reader = world.in_process(0, LIMITED);
        for _ in 0..100 {
            begin(&mut world, reader, Load::Poll);
            assert_eq!(world.reply(reader).payloads()[0].len(), PAYLOAD_BYTES);
        }
    }
}

/// CTL-13: what a user polls, and what it waits for, is limited to the rate of its quota.
#[test]
fn a_user_reads_at_its_rate() {
    for load in [Load::Poll, Load::Wait] {
        let mut world = with_quota(reading(RATE));
        fill(&mut world);
        let links = clients(&mut world, LIMITED, load, 20);
        check_rate(run(&mut world, &links, load, 20), load, 20);
        let others = clients(&mut world, FREE, load, 1);
        assert_eq!(world.reply(others[0]).payloads().len(), 1);
        // Sending is not limited.
        let sender = world.in_process(0, LIMITED);
        for _ in 0..100 {
            assert_eq!(world.send(sender, 0, &[&PAYLOAD]), Status::OK);
        }
    }
}

/// CTL-13: the rate of a topic applies to all users together, whatever partition they use.
#[test]
fn a_topic_is_used_at_its_rate_by_all_users_together() {
    for (load, quota) in [
        (Load::Send, sending(RATE)),
        (Load::Poll, reading(RATE)),
        (Load::Wait, reading(RATE)),
        // One stage has a buffer of its own, the other one lies in the receive buffer.
        (Load::Stage(17_000), sending(RATE)),
        (Load::Stage(15_000), sending(RATE)),
    ] {
        let mut world = with_quota(records::Quota::default());
        fill(&mut world);
        world.publish(vec![topic_with(quota)]);
        let links = [
            clients(&mut world, LIMITED, load, 1),
            clients(&mut world, FREE, load, 1),
        ]
        .concat();
        check_rate(run(&mut world, &links, load, 5), load, 5);
        assert!(world.reports[0].contains("topic t of stream s"));
    }
}

/// A request counts as a KiB at least: many small ones use up a rate as well.
#[test]
fn small_requests_use_up_the_rate() {
    let mut world = with_quota(sending(RATE));
    let link = world.in_process(0, LIMITED);
    let mut answers: u64 = 0;
    loop {
        world.post(link, 0, &[b"x"]);
        if world.try_reply(link).is_none() {
            break;
        }
        answers += 1;
        assert!(answers < ANSWERS_MAX, "nothing is limited");
    }
    // A little time passes with each.
    let free = BURST / 1024;
    assert!((free..free + 200).contains(&answers), "{answers}");
}

/// Requests that carry no messages are answered, and a delayed client is a living one.
#[test]
fn a_delayed_client_is_alive() {
    let mut world = World::of(Setup {
        heartbeat_interval_micros: Some(5 * SECOND),
        ..Setup::default()
    })
    .with_topic(2);
    world.publish(vec![user_with(LIMITED, sending(1024))]);
    let link = world.client_of(LIMITED);
    assert_eq!(
        world.send(link, 0, &[&vec![7; (1 << 20) + 60 * 1024]]),
        Status::OK
    );
    assert_eq!(world.ask(link, &Command::Ping).status, Status::OK);
    world.post(link, 0, &[b"waits"]);
    let registered = world.registered();
    for _ in 0..50 {
        world.pass(SECOND);
        assert!(world.try_reply(link).is_none());
        assert_eq!(world.registered(), registered);
    }
    world.pass(15 * SECOND);
    assert_eq!(world.reply(link).status, Status::OK);
}

/// A large request has no buffer while its user waits.
#[test]
fn a_delayed_request_holds_no_memory() {
    let mut world = with_quota(sending(1024));
    let link = world.in_process(0, LIMITED);
    assert_eq!(world.send(link, 0, &[&vec![7; 2 << 20]]), Status::OK);
    let before = world.memory_in_use();
    for _ in 0..20 {
        let other = world.in_process(1, LIMITED);
        world.post(other, 0, &[&vec![7; 2 << 20]]);
        assert!(world.bytes_towards(other) > 1 << 20, "left in the socket");
    }
    let after = world.memory_in_use();
    assert!(after < before + (1 << 20), "{before} and {after}");
}

/// A quota applies to connections as soon as it is set, and no longer when it is removed or raised.
#[test]
fn a_quota_is_changed_and_removed_while_its_user_is_connected() {
    let mut world = with_quota(records::Quota::default());
    let link = world.in_process(0, LIMITED);
    let large = vec![7; 2 << 20];
    assert_eq!(world.send(link, 0, &[&large]), Status::OK);
    world.publish(vec![user_with(LIMITED, sending(1024))]);
    assert_eq!(world.send(link, 0, &[&large]), Status::OK, "without debt");
    for quota in [sending(2048), records::Quota::default()] {
        world.post(link, 0, &[&large]);
        world.pass(10 * SECOND);
        assert!(world.try_reply(link).is_none());
        // Other changes do not forgive what is owed.
        world.publish(vec![user_with(FREE, sending(1024))]);
        world.renew(0);
        world.pass(10 * SECOND);
        assert!(world.try_reply(link).is_none());
        world.publish(vec![user_with(LIMITED, quota)]);
        world.pass(SECOND);
        assert_eq!(world.reply(link).status, Status::OK);
    }
    for _ in 0..20 {
        assert_eq!(world.send(link, 0, &[&large]), Status::OK);
    }
}

/// A topic that owes does not hold up requests for other topics on other connections, and pipelined batches to it are
/// limited as well.
#[test]
fn pipelined_batches_are_limited() {
    let mut world = with_quota(records::Quota::default());
    world.publish(vec![topic_with(sending(RATE))]);
    let link = world.in_process(0, FREE);
    for _ in 0..60 {
        world.post(link, 0, &[&PAYLOAD]);
    }
    let mut answers = 0;
    for second in 0..6 {
        while world.try_reply(link).is_some() {
            answers += 1;
        }
        let bytes = answers * PAYLOAD_BYTES as u64;
        let allowed = BURST + RATE * second + 2 * PAYLOAD_BYTES as u64;
        assert!(bytes <= allowed, "{bytes} of {allowed}");
        world.pass(SECOND);
    }
    assert!(answers >= 50, "{answers}");
}

/// The log names once a minute whose requests are delayed.
#[test]
fn a_delay_is_reported_once_a_minute() {
    let mut world = with_quota(sending(RATE));
    let links = clients(&mut world, LIMITED, Load::Send, 4);
    run(&mut world, &links, Load::Send, 50);
    let words = "the quota of user u5 delays requests: 1048576 bytes may be sent per second";
    assert_eq!(world.reports, [format!("warning: {words}")]);
    run(&mut world, &links, Load::Send, 20);
    assert_eq!(world.reports.len(), 2);
}

/// CTL-13: a gateway limits its clients, and a partition node does not charge the same messages again.
#[test]
fn a_gateway_charges_its_clients_once() {
    let mut world = World::cluster(7, 2);
    let charged = world.client();
    assert_eq!(world.send(charged, 0, &[b"x"]), Status::OK);
    let mut topic = World::topic(2, 3, 0);
    topic.quota = Some(sending(RATE));
    world.publish(vec![
        user_with(LIMITED, sending(RATE)),
        Change::TopicPut(topic),
    ]);
    let link = world.in_process(0, LIMITED);
    begin(&mut world, link, Load::Send);
    check_rate(run(&mut world, &[link], Load::Send, 20), Load::Send, 20);
}

/// An end of a session while a request waits: the request is refused, not executed.
#[test]
fn a_user_who_is_deleted_while_a_request_waits_is_refused() {
    let mut world = with_quota(sending(1024));
    let link = world.client_of(LIMITED);
    assert_eq!(world.send(link, 0, &[&vec![7; 2 << 20]]), Status::OK);
    world.post(link, 0, &[b"waits"]);
    world.publish(vec![Change::UserDeleted(LIMITED)]);
    world.pass(SECOND);
    assert_eq!(world.reply(link).status, Status::UNAUTHENTICATED);
}

fn holding(held_bytes: u64, purge_epoch: u64) -> Change {
    Change::TopicPut(records::Topic {
        quota: Some(records::Quota {
            held_bytes,
            ..Default::default()
        }),
        ..World::topic(2, 3, purge_epoch)
    })
}

/// CTL-13: a topic that holds as much as its quota allows refuses batches and stages to all of its partitions, and
/// takes them again when there is room.
#[test]
fn a_full_topic_takes_no_messages_until_there_is_room() {
    let mut world = with_quota(records::Quota::default());
    let link = world.login(0);
    world.publish(vec![holding(1 << 20, 0)]);
    let mut statuses = Vec::new();
    for partition in [0, 1].repeat(10) {
        statuses.push(world.send(link, partition, &[&PAYLOAD]));
    }
    let full = Status::TOPIC_FULL;
    let accepted = (1 << 20) / PAYLOAD_BYTES + 1;
    assert_eq!(statuses[..accepted], vec![Status::OK; accepted]);
    assert_eq!(statuses[accepted..], vec![full; 20 - accepted]);
    // A batch with a buffer of its own, one in the receive buffer, and a stage.
    assert_eq!(world.send(link, 0, &[b"x"]), full);
    for bytes in [1, PAYLOAD_BYTES] {
        let staged = stage(bytes);
        assert_eq!(world.ask(link, &staging(&staged)).status, full);
    }
    begin(&mut world, link, Load::Poll);
    assert_eq!(world.reply(link).payloads()[0].len(), PAYLOAD_BYTES);

    world.publish(vec![holding(2 << 20, 0)]);
    assert_eq!(world.send(link, 0, &[&PAYLOAD]), Status::OK);
    world.publish(vec![holding(1 << 20, 0)]);
    assert_eq!(world.send(link, 0, &[&PAYLOAD]), full);
    world.publish(vec![holding(1 << 20, 1)]);
    assert_eq!(world.send(link, 0, &[&PAYLOAD]), Status::OK, "purged");
    world.publish(vec![topic_with(records::Quota::default())]);
    for _ in 0..20 {
        assert_eq!(world.send(link, 0, &[&PAYLOAD]), Status::OK);
    }
}

/// A partition node refuses what is beyond the share of its partitions, and the gateway's client learns why.
#[test]
fn a_node_keeps_its_share_of_a_topic() {
    let mut world = World::cluster(7, 2);
    world.place_everywhere(&[1, 2]);
    world.publish(vec![holding(1 << 20, 0)]);
    let link = world.client();
    let mut sent = [0; 2];
    for partition in [0, 0, 1].repeat(10) {
        match world.send(link, partition, &[&PAYLOAD]) {
            Status::OK => sent[partition as usize] += 1,
            status => assert_eq!(status, Status::TOPIC_FULL),
        }
    }
    assert_eq!(sent, [6, 6]);
}

/// Callers inside the process that have gone leave connections that are noticed only when their delay is over. Their
/// number is limited for each user.
#[test]
fn delayed_connections_inside_the_process_are_limited() {
    const MAX: usize = 1024;
    let mut world = with_quota(sending(1024));
    let link = world.in_process(0, LIMITED);
    assert_eq!(world.send(link, 0, &[&vec![7; 2 << 20]]), Status::OK);
    let links: Vec<usize> = (0..MAX + 10)
        .map(|_| world.in_process(0, LIMITED))
        .collect();
    for link in &links {
        world.post(*link, 0, &[b"waits"]);
    }
    let closed = |world: &World| links.iter().filter(|link| world.is_closed(**link)).count();
    assert_eq!(closed(&world), 10);
    world.publish(vec![user_with(LIMITED, records::Quota::default())]);
    world.pass(SECOND);
    assert_eq!(world.reply(links[0]).status, Status::OK);
    assert_eq!(world.reply(links[MAX - 1]).status, Status::OK);
    assert_eq!(closed(&world), 10);
}
