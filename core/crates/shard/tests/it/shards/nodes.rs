//! Shards that host some partitions, or none: the others are on other nodes.

use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_shard::Hosting;
use headrace_wire::{
    Command, PollingStrategy, Status,
    command::{PollMessages, WaitMessages},
};

use crate::shards::messages::{payloads, poll};
use crate::world::{Setup, TIMEOUT_MICROS, World, partition, placed};

/// Ids of this node, and of another one.
pub const HERE: u32 = 1;
pub const THERE: u32 = 2;

/// This node of two, with a topic whose partitions are placed on either.
pub fn node_here(placement: &[u32]) -> World {
    world(World::hosting(&here()), placement)
}

/// Such a node with this much memory.
pub fn node_within(memory_bytes: u64, placement: &[u32]) -> World {
    world(
        World::of(Setup {
            hosting: here(),
            tracing: true,
            memory_bytes,
            ..Setup::default()
        }),
        placement,
    )
}

/// Hosting of this node.
pub fn here() -> Hosting {
    Hosting::Placed { node: "n1".into() }
}

fn world(mut world: World, placement: &[u32]) -> World {
    world.publish(vec![
        world.node_record(HERE, 1),
        world.node_record(THERE, 1),
    ]);
    let count = u32::try_from(placement.len()).expect("few");
    let mut world = world.with_topic(count);
    world.publish(vec![placed(placement)]);
    world
}

fn all(world: &mut World, link: usize, id: u32) -> Vec<Vec<u8>> {
    payloads(world, link, &poll(id, PollingStrategy::First, 1000))
}

/// GW-8: a node serves the partitions placed on it, and refuses all others as elsewhere.
#[test]
fn a_node_has_what_is_placed_on_it() {
    let placement = [HERE, THERE, HERE, THERE, HERE, HERE, THERE, THERE];
    let mut world = node_here(&placement);
    for shard in 0..2 {
        let link = world.login(shard);
        for (id, node) in (0..).zip(placement) {
            let expected = if node == HERE {
                Status::OK
            } else {
                Status::PARTITION_ELSEWHERE
            };
            assert_eq!(world.send(link, id, &[b"x"]), expected);
            let polled = world.ask(link, &poll(id, PollingStrategy::First, 10));
            assert_eq!(polled.status, expected);
            assert_eq!(world.has_directory(partition(id)), node == HERE);
        }
        assert_eq!(world.send(link, 8, &[b"x"]), Status::PARTITION_NOT_FOUND);
    }
}

#[test]
fn what_is_placed_nowhere_is_nowhere() {
    let mut world = World::hosting(&here()).with_topic(1);
    let link = world.login(0);
    let refused = Status::PARTITION_UNAVAILABLE;
    assert_eq!(world.send(link, 0, &[b"x"]), refused);
    assert!(!world.has_directory(partition(0)));
    world.publish(vec![world.node_record(HERE, 1), placed(&[THERE])]);
    assert_eq!(world.send(link, 0, &[b"x"]), refused);
    world.publish(vec![placed(&[HERE])]);
    assert_eq!(world.send(link, 0, &[b"x"]), Status::OK);
}

#[test]
fn who_hosts_nothing_opens_nothing() {
    let mut world = world(World::hosting(&Hosting::Nothing), &[HERE, THERE]);
    let link = world.login(0);
    for id in 0..2 {
        world.post(link, id, &[b"x"]);
        assert_eq!(world.try_reply(link), None);
    }
    // This world has no reachable nodes.
    world.pass(TIMEOUT_MICROS);
    for id in 0..2 {
        assert_eq!(world.reply(link).status, Status::PARTITION_UNAVAILABLE);
        assert!(!world.has_directory(partition(id)));
    }
}

/// A partition that comes back has its data, regardless of its node's state when it left.
#[test]
fn a_partition_that_leaves_keeps_its_directory() {
    let mut world = node_here(&[HERE]);
    let link = world.login(0);
    assert_eq!(world.send(link, 0, &[b"1", b"2"]), Status::OK);
    world.storage_held = true;
    world.post(link, 0, &[b"3"]);
    world.publish(vec![placed(&[THERE])]);
    assert_eq!(world.try_reply(link), None, "it is being written");
    let other = world.login(0);
    assert_eq!(world.send(other, 0, &[b"4"]), Status::PARTITION_ELSEWHERE);
    // The partition is to come back before it has left: new requests wait for that.
    world.publish(vec![placed(&[HERE])]);
    world.request(other, &poll(0, PollingStrategy::First, 10));
    assert_eq!(world.try_reply(other), None);
    world.release_storage();
    assert_eq!(world.reply(link).status, Status::OK);
    assert_eq!(world.reply(other).status, Status::OK);
    assert_eq!(all(&mut world, link, 0), [b"1", b"2", b"3"]);

    world.publish(vec![placed(&[THERE])]);
    assert!(world.has_directory(partition(0)));
    assert_eq!(world.send(link, 0, &[b"x"]), Status::PARTITION_ELSEWHERE);
    world.publish(vec![placed(&[HERE])]);
    assert_eq!(all(&mut world, link, 0), [b"1", b"2", b"3"]);
}

#[test]
fn a_directory_goes_with_the_partition_that_it_is_of() {
    let mut world = node_here(&[HERE, HERE]);
    let link = world.login(0);
    for id in 0..2 {
        assert_eq!(world.send(link, id, &[b"x"]), Status::OK);
    }
    world.publish(vec![placed(&[THERE, HERE])]);
    assert!(world.has_directory(partition(0)));
    // Recreated elsewhere: the local data belongs to a partition that no longer exists.
    world.publish(vec![
        Change::TopicPut(World::topic(2, 9, 0)),
        placed(&[THERE, HERE]),
    ]);
    assert!(!world.has_directory(partition(0)));
    // The partition was deleted while it was leaving.
    assert_eq!(world.send(link, 1, &[b"x"]), Status::OK);
    world.storage_held = true;
    world.request(link, &poll(1, PollingStrategy::First, 10));
    world.publish(vec![placed(&[THERE, THERE])]);
    world.publish(vec![Change::TopicDeleted(records::TopicKey::default())]);
    world.release_storage();
    assert!(!world.has_directory(partition(1)));
}

#[test]
fn polls_that_wait_at_a_partition_that_leaves_are_refused() {
    let mut world = node_here(&[HERE]);
    let links = [world.login(0), world.login(1)];
    let Command::PollMessages(request) = poll(0, PollingStrategy::Next, 10) else {
        unreachable!("made above");
    };
    for link in links {
        let wait = Command::WaitMessages(WaitMessages {
            poll: PollMessages { ..request },
            minimum_bytes: 1,
            maximum_wait_micros: 10_000_000,
        });
        world.request(link, &wait);
        assert_eq!(world.try_reply(link), None);
    }
    world.publish(vec![placed(&[THERE])]);
    for link in links {
        let reply = world.reply(link);
        assert_eq!(reply.status, Status::PARTITION_ELSEWHERE);
    }
    assert_eq!(world.next_deadline(), None);
}

/// Acknowledged messages are present as long as their partition exists and was not purged, regardless of the catalog's
/// changes and of slow storage.
#[test]
fn nothing_is_lost_by_moving() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = node_here(&[HERE]);
        let link = world.login(random.usize(0..2));
        let (mut incarnation, mut epoch) = (3, 0);
        let mut stored: Vec<Vec<u8>> = Vec::new();
        let mut asked: Option<Vec<u8>> = None;
        for step in 0..60_u32 {
            match random.u32(0..10) {
                0..4 if asked.is_none() => {
                    let text = step.to_string().into_bytes();
                    world.post(link, 0, &[&text]);
                    asked = Some(text);
                }
                0..4 => {}
                4 => world.publish(vec![placed(&[THERE])]),
                5 => world.publish(vec![placed(&[HERE])]),
                6 => world.storage_held = true,
                7 => world.release_storage(),
                8 if asked.is_none() && random.bool() => {
                    epoch += 1;
                    stored.clear();
                    world.publish(vec![Change::TopicPut(World::topic(1, incarnation, epoch))]);
                }
                8 if asked.is_none() => {
                    (incarnation, epoch) = (incarnation + 1, 0);
                    stored.clear();
                    let topic = Change::TopicPut(World::topic(1, incarnation, epoch));
                    world.publish(vec![
                        topic,
                        placed(&[*random.choice(&[HERE, THERE]).unwrap()]),
                    ]);
                }
                _ => world.pass(100_000),
            }
            if let Some(reply) = world.try_reply(link) {
                let text = asked.take().expect("answers one request");
                match reply.status {
                    Status::OK => stored.push(text),
                    Status::PARTITION_ELSEWHERE => {}
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
        }
        world.publish(vec![placed(&[HERE])]);
        world.release_storage();
        if let Some(text) = asked {
            let status = world.reply(link).status;
            if status == Status::OK {
                stored.push(text);
            }
        }
        assert_eq!(all(&mut world, link, 0), stored, "seed {seed}");
        assert_eq!(world.send(link, 0, &[b"last"]), Status::OK);
        world.publish(vec![placed(&[THERE])]);
        assert!(world.has_directory(partition(0)), "seed {seed}");
        world.publish(vec![Change::TopicDeleted(records::TopicKey::default())]);
        assert!(!world.has_directory(partition(0)), "seed {seed}");
    }
}
