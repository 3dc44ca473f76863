//! Connections that watch partitions and get notifications of changes (GW-7).

use std::collections::BTreeMap;

use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_wire::{
    Command, Identifier, Partitioning, Status, WatchAction,
    command::{TopicPath, WatchPartitions, WatchedTopic},
    response::{WatchedLog, WatchedPartition, decode_list},
};
use proptest::prelude::*;

use crate::world::{Reply, WAITED_PARTITIONS_MAX, World, batch, user};

fn watch(action: WatchAction, partition_ids: &[u32]) -> Command<'static> {
    Command::WatchPartitions(WatchPartitions {
        action,
        topics: vec![WatchedTopic {
            stream: Identifier::Named("s"),
            topic: Identifier::Numeric(0),
            partition_ids: partition_ids.to_vec(),
        }],
    })
}

fn add(partition_ids: &[u32]) -> Command<'static> {
    watch(WatchAction::Add, partition_ids)
}

fn entries(reply: &Reply) -> Vec<WatchedPartition> {
    assert_eq!(reply.status, Status::OK);
    assert!(!reply.payload.is_empty(), "a notification is never empty");
    decode_list(&reply.payload).expect("entries")
}

/// Take all notifications to a connection since the last call.
fn notifications(world: &mut World, link: usize) -> Vec<WatchedPartition> {
    let mut notifications = Vec::new();
    while let Some(reply) = world.try_reply(link) {
        notifications.extend(entries(&reply));
    }
    notifications
}

fn ends(notifications: &[WatchedPartition]) -> Vec<(u32, u64)> {
    notifications
        .iter()
        .inspect(|entry| assert_eq!(entry.status, Status::OK))
        .map(|entry| (entry.partition_id, entry.next_offset))
        .collect()
}

/// LOG-21: a connection that asks for it gets the openings of logs. Those of others are as they were.
#[test]
fn openings_are_named_to_those_who_ask() {
    for shard in [0, 1] {
        let mut world = World::new().with_topic(1);
        let (earlier, asking) = (world.login(shard), world.login(shard));
        assert_eq!(world.send(earlier, 0, &[b"a", b"b"]), Status::OK);
        assert_eq!(world.ask(earlier, &add(&[0])).payload, []);
        let naming = watch(WatchAction::AddNamingOpenings, &[0]);
        assert_eq!(world.ask(asking, &naming).payload, []);
        let reply = world.try_reply(asking).expect("a notification");
        let logs: Vec<WatchedLog> = decode_list(&reply.payload).expect("entries");
        assert_eq!((logs.len(), logs[0].state.next_offset), (1, 2));
        let [opening] = logs[0].openings[..] else {
            panic!("{logs:?}");
        };
        assert!(opening.epoch > 0 && opening.end.0 == 0, "{opening:?}");
        assert_eq!(ends(&notifications(&mut world, earlier)), [(0, 2)]);
    }
}

#[test]
fn watchers_are_notified_at_once_and_of_every_change() {
    for shard in [0, 1] {
        let mut world = World::new().with_topic(8);
        let (watching, sending) = (world.login(shard), world.login(0));
        assert_eq!(world.send(sending, 3, &[b"a", b"b"]), Status::OK);
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(world.ask(watching, &add(&all)).payload, []);
        let mut first = ends(&notifications(&mut world, watching));
        first.sort_unstable();
        let expected: Vec<_> = all
            .iter()
            .map(|id| (*id, if *id == 3 { 2 } else { 0 }))
            .collect();
        assert_eq!(first, expected);
        for partition in all {
            assert_eq!(world.send(sending, partition, &[b"c"]), Status::OK);
            let end = if partition == 3 { 3 } else { 1 };
            assert_eq!(
                ends(&notifications(&mut world, watching)),
                [(partition, end)]
            );
        }
        assert_eq!(notifications(&mut world, watching), []);
    }
}

/// Messages that cannot be polled yet cause no notification.
#[test]
fn an_append_is_notified_when_it_is_durable() {
    let mut world = World::new().with_topic(1);
    let (watching, sending) = (world.login(0), world.login(1));
    assert_eq!(world.send(sending, 0, &[b"a"]), Status::OK);
    assert_eq!(world.ask(watching, &add(&[0])).status, Status::OK);
    assert_eq!(ends(&notifications(&mut world, watching)), [(0, 1)]);
    world.storage_held = true;
    world.post(sending, 0, &[b"b"]);
    assert_eq!(notifications(&mut world, watching), []);
    world.release_storage();
    assert_eq!(ends(&notifications(&mut world, watching)), [(0, 2)]);
}

/// A connection that reads nothing meanwhile later gets the newest view of each partition, once.
#[test]
fn who_does_not_read_is_owed_one_entry_per_partition() {
    let mut world = World::new().with_topic(4);
    let (slow, fast, sending) = (world.login(0), world.login(0), world.login(1));
    let all: Vec<u32> = (0..4).collect();
    for link in [slow, fast] {
        assert_eq!(world.ask(link, &add(&all)).status, Status::OK);
        notifications(&mut world, link);
    }
    world.hold_sends(slow);
    for round in 0..20 {
        for partition in 0..4 {
            assert_eq!(world.send(sending, partition, &[b"x"]), Status::OK);
            assert_eq!(
                ends(&notifications(&mut world, fast)),
                [(partition, round + 1)],
                "a connection that reads gets every notification"
            );
        }
    }
    // One frame was in flight when the socket filled up, followed by each partition once.
    assert_eq!(notifications(&mut world, slow).len(), 1);
    world.release_sends(slow);
    let mut last = ends(&notifications(&mut world, slow));
    last.sort_unstable();
    assert_eq!(last, all.iter().map(|id| (*id, 20)).collect::<Vec<_>>());

    // Without a reader no view is requested and no notification is sent.
    for link in [slow, fast] {
        world.hold_sends(link);
    }
    for partition in 0..4 {
        for _ in 0..3 {
            assert_eq!(world.send(sending, partition, &[b"x"]), Status::OK);
        }
    }
    let before = world.watch_mails;
    for _ in 0..50 {
        for partition in 0..4 {
            assert_eq!(world.send(sending, partition, &[b"x"]), Status::OK);
        }
    }
    assert_eq!(world.watch_mails, before);
}

#[test]
fn watchers_are_notified_of_a_purge_and_of_a_new_topic() {
    for shard in [0, 1] {
        let mut world = World::new().with_topic(2);
        let (watching, sending) = (world.login(shard), world.login(0));
        for partition in [0, 1] {
            assert_eq!(world.send(sending, partition, &[b"a"]), Status::OK);
        }
        assert_eq!(world.ask(watching, &add(&[0, 1])).status, Status::OK);
        let before = notifications(&mut world, watching);
        assert_eq!(before[0].incarnation, 3);
        world.publish(vec![Change::TopicPut(World::topic(2, 3, 1))]);
        let after = notifications(&mut world, watching);
        assert_eq!(after.len(), 2);
        for entry in after {
            assert_eq!((entry.purge_epoch, entry.next_offset), (1, 0));
        }
        // The topic is deleted and created again: the watched partition is gone, although the number exists.
        world.publish(vec![Change::TopicPut(World::topic(2, 9, 0))]);
        let gone = notifications(&mut world, watching);
        assert_eq!(gone.len(), 2);
        for entry in gone {
            assert_eq!(entry.status, Status::PARTITION_NOT_FOUND);
        }
        assert_eq!(world.send(sending, 1, &[b"b"]), Status::OK);
        assert_eq!(notifications(&mut world, watching), []);
        assert_eq!(world.ask(watching, &add(&[1])).status, Status::OK);
        let again = notifications(&mut world, watching);
        assert_eq!(ends(&again), [(1, 1)]);
        assert_eq!(again[0].incarnation, 9);
    }
}

#[test]
fn watchers_are_notified_when_a_watch_ends() {
    let user = |poll_messages| {
        let permissions = records::GlobalPermissions {
            poll_messages,
            ..Default::default()
        };
        user(1, "ann", Some(permissions))
    };
    let statuses = |notifications: Vec<WatchedPartition>| -> Vec<Status> {
        notifications.iter().map(|entry| entry.status).collect()
    };
    let mut world = World::new().with_topic(8);
    world.publish(vec![user(true)]);
    let link = world.in_process(0, 1);
    assert_eq!(world.ask(link, &add(&[0, 1])).status, Status::OK);
    notifications(&mut world, link);
    world.publish(vec![Change::TopicPut(World::topic(1, 3, 0))]);
    assert_eq!(
        statuses(notifications(&mut world, link)),
        [Status::PARTITION_NOT_FOUND]
    );
    world.publish(vec![user(false)]);
    assert_eq!(
        statuses(notifications(&mut world, link)),
        [Status::UNAUTHORIZED]
    );
    assert_eq!(world.ask(link, &add(&[0])).status, Status::UNAUTHORIZED);
    world.publish(vec![user(true)]);
    assert_eq!(world.ask(link, &add(&[0])).status, Status::OK);
    notifications(&mut world, link);
    let key = records::TopicKey {
        stream_id: 0,
        topic_id: 0,
    };
    world.publish(vec![Change::TopicDeleted(key)]);
    assert_eq!(
        statuses(notifications(&mut world, link)),
        [Status::TOPIC_ID_NOT_FOUND]
    );
    world.publish(vec![Change::TopicPut(World::topic(8, 5, 0))]);
    assert_eq!(world.ask(link, &add(&[2])).status, Status::OK);
    notifications(&mut world, link);
    world.publish(vec![Change::UserDeleted(1)]);
    assert_eq!(
        statuses(notifications(&mut world, link)),
        [Status::UNAUTHENTICATED]
    );
}

/// A watching connection accepts pings and changes of its watches; afterwards it is an ordinary one again.
#[test]
fn a_watching_connection_is_good_for_nothing_else() {
    let mut world = World::new().with_topic(4);
    let (link, sending) = (world.login(0), world.login(1));
    assert_eq!(world.ask(link, &add(&[0, 1])).status, Status::OK);
    notifications(&mut world, link);
    let topic = Command::GetTopic(TopicPath {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
    });
    assert_eq!(world.ask(link, &topic).status, Status::INVALID_COMMAND);
    assert_eq!(world.send(link, 0, &[b"x"]), Status::INVALID_COMMAND);
    assert_eq!(world.ask(link, &Command::Ping).payload, []);
    let remove = |ids: &[u32]| watch(WatchAction::Remove, ids);
    assert_eq!(world.ask(link, &remove(&[1, 3, 99])).status, Status::OK);
    assert_eq!(world.send(sending, 1, &[b"x"]), Status::OK);
    assert_eq!(notifications(&mut world, link), []);
    assert_eq!(world.send(sending, 0, &[b"x"]), Status::OK);
    assert_eq!(ends(&notifications(&mut world, link)), [(0, 1)]);
    assert_eq!(world.ask(link, &remove(&[0])).status, Status::OK);
    assert_eq!(world.ask(link, &topic).status, Status::OK);
}

#[test]
fn a_request_to_watch_is_taken_whole_or_not_at_all() {
    let share = WAITED_PARTITIONS_MAX / 2;
    let count = u32::try_from(share).unwrap() + 1;
    let mut world = World::new().with_topic(count);
    let link = world.login(0);
    assert_eq!(
        world.ask(link, &add(&[0, 1, 99])).status,
        Status::PARTITION_NOT_FOUND
    );
    let missing = Command::WatchPartitions(WatchPartitions {
        action: WatchAction::Add,
        topics: vec![WatchedTopic {
            stream: Identifier::Named("s"),
            topic: Identifier::Named("none"),
            partition_ids: vec![0],
        }],
    });
    assert_eq!(world.ask(link, &missing).status, Status::TOPIC_ID_NOT_FOUND);
    let most: Vec<u32> = (0..count).collect();
    assert_eq!(world.ask(link, &add(&most)).status, Status::TOO_MANY_WAITS);
    assert_eq!(notifications(&mut world, link), []);
    assert_eq!(world.ask(link, &add(&most[1..])).status, Status::OK);
    assert_eq!(notifications(&mut world, link).len(), share);
    assert_eq!(world.ask(link, &add(&[0])).status, Status::TOO_MANY_WAITS);
    world.hang_up(link);
    let other = world.login(0);
    assert_eq!(world.ask(other, &add(&most[1..])).status, Status::OK);
}

#[derive(Debug, Clone)]
enum Step {
    Append { partition: u32 },
    Add { who: usize, partition: u32 },
    Remove { who: usize, partition: u32 },
    Purge,
    HoldSends { who: usize },
    ReleaseSends { who: usize },
    HoldMail,
    ReleaseMail,
    HoldStorage,
    ReleaseStorage,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let partition = || 0_u32..3;
    let who = || 0_usize..3;
    let step = prop_oneof![
        8 => partition().prop_map(|partition| Step::Append { partition }),
        4 => (who(), partition()).prop_map(|(who, partition)| Step::Add { who, partition }),
        2 => (who(), partition()).prop_map(|(who, partition)| Step::Remove { who, partition }),
        1 => Just(Step::Purge),
        2 => who().prop_map(|who| Step::HoldSends { who }),
        2 => who().prop_map(|who| Step::ReleaseSends { who }),
        1 => Just(Step::HoldMail),
        2 => Just(Step::ReleaseMail),
        1 => Just(Step::HoldStorage),
        2 => Just(Step::ReleaseStorage),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// All interleavings of appends, purges, watch changes, slow readers, mail and storage: in the end every connection
    /// has the newest view of everything it watches, and gets no notifications about anything else.
    #[test]
    fn every_watcher_gets_the_newest_view_in_the_end(steps in steps()) {
        let mut world = World::new().with_topic(3);
        let sender = world.login(0);
        let links = [world.login(0), world.login(1), world.login(1)];
        let mut watched: Vec<BTreeMap<u32, Option<(u64, u64)>>> = vec![BTreeMap::new(); links.len()];
        let mut ends = [0_u64; 3];
        let mut purge_epoch = 0;
        let learn = |world: &mut World, watched: &mut Vec<BTreeMap<u32, Option<(u64, u64)>>>| {
            for (link, watched) in links.iter().zip(watched) {
                while let Some(reply) = world.try_reply(*link) {
                    assert_eq!(reply.status, Status::OK);
                    for entry in decode_list::<WatchedPartition>(&reply.payload).expect("entries") {
                        assert_eq!(entry.status, Status::OK);
                        if let Some(known) = watched.get_mut(&entry.partition_id) {
                            *known = Some((entry.purge_epoch, entry.next_offset));
                        }
                    }
                }
            }
            while let Some(reply) = world.try_reply(sender) {
                assert_eq!(reply.status, Status::OK);
            }
        };
        for step in steps {
            match step {
                Step::Append { partition } => {
                    ends[partition as usize] += 1;
                    let batch = batch(&[b"x"]);
                    let to = Partitioning::PartitionId(partition);
                    let (stream, topic) = (Identifier::Numeric(0), Identifier::Numeric(0));
                    world.request(sender, &Command::SendMessages(batch.request(stream, topic, to)));
                }
                Step::Add { who, partition } => {
                    watched[who].entry(partition).or_insert(None);
                    world.request(links[who], &add(&[partition]));
                }
                Step::Remove { who, partition } => {
                    watched[who].remove(&partition);
                    world.request(links[who], &watch(WatchAction::Remove, &[partition]));
                }
                Step::Purge => {
                    world.release_storage();
                    world.release_mail();
                    world.release_storage();
                    purge_epoch += 1;
                    ends = [0; 3];
                    world.publish(vec![Change::TopicPut(World::topic(3, 3, purge_epoch))]);
                }
                Step::HoldSends { who } => world.hold_sends(links[who]),
                Step::ReleaseSends { who } => world.release_sends(links[who]),
                Step::HoldMail => world.mail_held = true,
                Step::ReleaseMail => world.release_mail(),
                Step::HoldStorage => world.storage_held = true,
                Step::ReleaseStorage => world.release_storage(),
            }
            learn(&mut world, &mut watched);
        }
        for link in links {
            world.release_sends(link);
        }
        world.release_storage();
        world.release_mail();
        world.release_storage();
        learn(&mut world, &mut watched);
        for watched in &watched {
            for (partition, known) in watched {
                prop_assert_eq!(*known, Some((purge_epoch, ends[*partition as usize])));
            }
        }
    }
}
