//! Consumer groups: who may read what at the time of reading, and when a partition can move (CTL-8).

use headrace_proto::{
    catalog::v1::{self as records, delta::Change},
    control::v1::request::Operation,
    metadata::v1::{CompleteRevocation, CompletedRevocation},
};
use headrace_wire::{
    Command, Consumer, ConsumerKind, Identifier, PollingStrategy, Status,
    command::{ConsumerOffsetPath, GroupPath, PollMessages, StoreConsumerOffset, TopicPath},
    response::{AssignedPartition, GroupDetails, Membership, Polled},
};

use crate::shards::sessions::with_heartbeat;
use crate::world::{GATEWAY_ID, MEMBER_SILENCE_MICROS, World, partition_of};

const GROUP: Identifier<'_> = Identifier::Named("g");
const KEY: u32 = 9;

/// Member, its partitions, and those being revoked: partition, new member, incarnation of the revocation.
pub type Owned<'a> = (u32, &'a [u32], &'a [(u32, u32, u64)]);

/// Record of the group. Member n is connection n; its incarnation is 100 + n.
pub fn group(key: u32, members: &[Owned<'_>]) -> Change {
    let member = |(client, partitions, revocations): &Owned<'_>| records::GroupMember {
        id: *client,
        gateway_id: GATEWAY_ID,
        client_id: *client,
        user_id: 0,
        incarnation: 100 + u64::from(*client),
        partitions: partitions.to_vec(),
        revocations: revocations
            .iter()
            .map(
                |(partition_id, to_member_id, incarnation)| records::Revocation {
                    partition_id: *partition_id,
                    to_member_id: *to_member_id,
                    incarnation: *incarnation,
                    deadline_micros: u64::MAX,
                },
            )
            .collect(),
    };
    Change::ConsumerGroupPut(records::ConsumerGroup {
        name: "g".into(),
        key,
        partitions_count: 8,
        members: members.iter().map(member).collect(),
        ..Default::default()
    })
}

/// Two connections to shard 0, clients 1 and 2, and five messages in the partition.
fn world_with_messages(partition: u32) -> (World, usize, usize) {
    let mut world = World::new().with_topic(8);
    let (first, second) = (world.login(0), world.login(0));
    assert_eq!(
        world.send(first, partition, &[b"0", b"1", b"2", b"3", b"4"]),
        Status::OK
    );
    (world, first, second)
}

fn consumer() -> Consumer<'static> {
    Consumer {
        kind: ConsumerKind::Group,
        id: GROUP,
    }
}

fn poll(partition_id: Option<u32>, count: u32) -> Command<'static> {
    Command::PollMessages(PollMessages {
        consumer: consumer(),
        stream: Identifier::Named("s"),
        topic: Identifier::Numeric(0),
        partition_id,
        strategy: PollingStrategy::Next,
        count,
        auto_commit: false,
    })
}

fn store(partition: u32, offset: u64) -> Command<'static> {
    Command::StoreConsumerOffset(StoreConsumerOffset {
        path: offset_of(partition),
        offset,
    })
}

fn offset_of(partition: u32) -> ConsumerOffsetPath<'static> {
    ConsumerOffsetPath {
        consumer: consumer(),
        stream: Identifier::Named("s"),
        topic: Identifier::Numeric(0),
        partition_id: Some(partition),
    }
}

fn path() -> GroupPath<'static> {
    GroupPath {
        stream: Identifier::Named("s"),
        topic: Identifier::Numeric(0),
        group: GROUP,
    }
}

fn join() -> Command<'static> {
    Command::JoinConsumerGroup(path())
}

/// Partitions of a member, each with whether it is leaving.
fn partitions(world: &mut World, link: usize, member_id: u32) -> Vec<(u32, bool)> {
    let reply = world.ask(link, &Command::GetMembership(path()));
    assert_eq!(reply.status, Status::OK);
    let membership = Membership::decode(&reply.payload).unwrap();
    assert_eq!(membership.member_id, member_id);
    let pair = |partition: &AssignedPartition| (partition.partition_id, partition.is_leaving);
    membership.partitions.iter().map(pair).collect()
}

/// Number of messages that a poll returns.
fn polled(world: &mut World, link: usize, partition: u32, count: u32) -> u32 {
    let reply = world.ask(link, &poll(Some(partition), count));
    assert_eq!(reply.status, Status::OK);
    Polled::decode(&reply.payload)
        .unwrap()
        .header
        .messages_count
}

fn completed(world: &mut World) -> Vec<CompleteRevocation> {
    std::mem::take(&mut world.notices)
        .into_iter()
        .map(|request| match request.operation {
            Some(Operation::CompleteRevocation(completed)) => completed,
            other => panic!("an unexpected notice: {other:?}"),
        })
        .collect()
}

/// No two members of a generation get the same messages: the shard that answers checks the owner of the partition.
#[test]
fn requests_on_their_way_when_the_partition_moves_are_too_late() {
    let partition = partition_of(1);
    let (mut world, first, second) = world_with_messages(partition);
    world.publish(vec![group(KEY, &[(1, &[partition], &[]), (2, &[], &[])])]);
    world.mail_held = true;
    world.request(first, &poll(Some(partition), 3));
    world.publish(vec![group(KEY, &[(1, &[], &[]), (2, &[partition], &[])])]);
    world.release_mail();
    let reply = world.reply(first);
    assert_eq!((reply.status, reply.payload), (Status::OK, vec![0; 16]));
    assert_eq!(polled(&mut world, second, partition, 3), 3);

    world.mail_held = true;
    world.request(second, &store(partition, 2));
    world.publish(vec![group(KEY, &[(1, &[partition], &[]), (2, &[], &[])])]);
    world.release_mail();
    assert_eq!(world.reply(second).status, Status::NOT_RESOLVED_CONSUMER);
    assert_eq!(polled(&mut world, first, partition, 10), 5);
}

/// A group, or a member, that has the numbers of an earlier one is a different one.
#[test]
fn requests_of_earlier_memberships_are_too_late() {
    let partition = partition_of(1);
    let (mut world, first, _) = world_with_messages(partition);
    for (before, after) in [(KEY, KEY + 1), (KEY + 1, KEY + 1)] {
        world.publish(vec![group(before, &[(1, &[partition], &[])])]);
        world.mail_held = true;
        world.request(first, &poll(Some(partition), 3));
        let Change::ConsumerGroupPut(mut record) = group(after, &[(1, &[partition], &[])]) else {
            unreachable!()
        };
        record.members[0].incarnation += u64::from(before == after);
        world.publish(vec![Change::ConsumerGroupPut(record)]);
        world.release_mail();
        assert_eq!(world.reply(first).payload, vec![0; 16]);
    }
}

/// The owner keeps a revoked partition until it has stored the last offset delivered, and gets no messages after that.
#[test]
fn a_partition_can_move_when_everything_given_is_stored() {
    for partition in 0..8 {
        let (mut world, first, _) = world_with_messages(partition);
        world.publish(vec![group(KEY, &[(1, &[partition], &[]), (2, &[], &[])])]);
        assert_eq!(polled(&mut world, first, partition, 3), 3);
        let moving = group(
            KEY,
            &[(1, &[partition], &[(partition, 2, 50)]), (2, &[], &[])],
        );
        world.publish(vec![moving.clone()]);
        let unasked = world.ask(first, &poll(None, 3));
        assert_eq!(unasked.payload, vec![0; 16], "it keeps none");
        assert_eq!(world.ask(first, &store(partition, 1)).status, Status::OK);
        assert_eq!(polled(&mut world, first, partition, 2), 2);
        assert_eq!(world.ask(first, &store(partition, 2)).status, Status::OK);
        assert_eq!(completed(&mut world), []);
        assert_eq!(world.ask(first, &store(partition, 3)).status, Status::OK);
        let expected = CompleteRevocation {
            stream_id: 0,
            topic_id: 0,
            group_id: 0,
            group_key: KEY,
            revocations: vec![CompletedRevocation {
                partition_id: partition,
                incarnation: 50,
            }],
        };
        assert_eq!(completed(&mut world), [expected]);
        assert_eq!(polled(&mut world, first, partition, 10), 0);
        world.publish(vec![moving]);
        assert_eq!(completed(&mut world), [], "said once");
        let again = group(
            KEY,
            &[(1, &[partition], &[(partition, 2, 51)]), (2, &[], &[])],
        );
        world.publish(vec![again]);
        assert_eq!(completed(&mut world)[0].revocations[0].incarnation, 51);
    }
}

/// Messages delivered to an earlier member do not delay the revocation of the present owner.
#[test]
fn a_partition_that_its_owner_never_polled_can_move_at_once() {
    let (mut world, first, _) = world_with_messages(3);
    world.publish(vec![group(KEY, &[(1, &[3], &[]), (2, &[], &[])])]);
    assert_eq!(polled(&mut world, first, 3, 5), 5);
    world.publish(vec![group(KEY, &[(1, &[], &[]), (2, &[3], &[(3, 1, 50)])])]);
    assert_eq!(completed(&mut world).len(), 1);
}

/// Deliveries of a deleted partition do not delay the revocation of its successor.
#[test]
fn a_partition_that_was_made_anew_can_move_when_everything_given_is_stored() {
    let (mut world, first, _) = world_with_messages(3);
    world.publish(vec![group(KEY, &[(1, &[3], &[]), (2, &[], &[])])]);
    assert_eq!(polled(&mut world, first, 3, 5), 5);
    let mut topic = World::topic(8, 3, 0);
    topic.partitions[3].incarnation = 7;
    world.publish(vec![Change::TopicPut(topic)]);
    assert_eq!(world.send(first, 3, &[b"new"]), Status::OK);
    assert_eq!(polled(&mut world, first, 3, 5), 1);
    assert_eq!(world.ask(first, &store(3, 0)).status, Status::OK);
    world.publish(vec![group(KEY, &[(1, &[3], &[(3, 2, 50)]), (2, &[], &[])])]);
    assert_eq!(completed(&mut world).len(), 1);
}

/// Partitions that can move at the same time are reported with one notice per shard and group.
#[test]
fn partitions_that_can_move_are_reported_together() {
    let (mut world, ..) = world_with_messages(0);
    let all: Vec<u32> = (0..8).collect();
    let moving: Vec<(u32, u32, u64)> = all.iter().map(|id| (*id, 2, 50)).collect();
    world.publish(vec![group(KEY, &[(1, &all, &moving), (2, &[], &[])])]);
    let reports = completed(&mut world);
    assert_eq!(reports.len(), 2);
    let mut reported: Vec<u32> = reports
        .iter()
        .flat_map(|report| report.revocations.iter().map(|of| of.partition_id))
        .collect();
    reported.sort_unstable();
    assert_eq!(reported, all);
}

/// A poll in flight may still return messages, so the partition cannot move yet.
#[test]
fn a_partition_with_a_poll_in_flight_does_not_move() {
    let mut world = World::new();
    world.storage_held = true;
    let mut world = world.with_topic(8);
    let (first, _) = (world.login(0), world.login(0));
    world.publish(vec![group(KEY, &[(1, &[5], &[]), (2, &[], &[])])]);
    world.request(first, &poll(Some(5), 3));
    world.publish(vec![group(KEY, &[(1, &[5], &[(5, 2, 50)]), (2, &[], &[])])]);
    assert_eq!(completed(&mut world), []);
    world.release_storage();
    assert_eq!(world.reply(first).status, Status::OK);
    assert_eq!(completed(&mut world).len(), 1);
}

/// A connection that asked to join is reported when it closes, on whichever shard; other connections are not.
#[test]
fn a_closed_connection_is_reported_if_it_may_be_a_member() {
    let (mut world, first, second) = world_with_messages(partition_of(1));
    world.publish(vec![group(KEY, &[])]);
    assert_eq!(world.ask(first, &join()).status, Status::OK);
    for _ in 0..40 {
        assert_eq!(world.send(first, partition_of(1), &[b"m"]), Status::OK);
    }
    assert_eq!(world.shard_of(first), 1);
    world.hang_up(second);
    assert!(world.notices.is_empty());
    world.hang_up(first);
    assert_eq!(world.notices.len(), 1);
    assert_eq!(world.notices[0].client_id, 1);
    assert!(matches!(
        world.notices[0].operation,
        Some(Operation::ClientGone(_))
    ));
}

/// A silent member is removed from its groups. Its requests as a member are refused as stale until it joins again,
/// under a number that the end of its earlier memberships does not affect.
#[test]
fn a_silent_member_leaves_its_groups_and_its_connection_stays() {
    let mut world = with_heartbeat().with_topic(8);
    let member = world.login(0);
    world.publish(vec![group(KEY, &[])]);
    assert_eq!(world.ask(member, &join()).status, Status::OK);
    world.publish(vec![group(KEY, &[(1, &[0], &[])])]);
    assert_eq!(world.ask(member, &poll(None, 1)).status, Status::OK);
    world.pass(6_100_000);
    assert_eq!(world.notices.len(), 1);
    assert_eq!(world.notices[0].client_id, 1);
    assert!(!world.is_closed(member));
    world.publish(vec![group(KEY, &[])]);
    for command in [poll(None, 1), store(0, 0), poll(None, 1)] {
        assert_eq!(world.ask(member, &command).status, Status::STALE_CLIENT);
    }
    assert_eq!(world.ask(member, &Command::Ping).status, Status::OK);
    assert_eq!(world.send(member, 0, &[b"m"]), Status::OK);
    assert_eq!(
        world.ask(member, &poll(None, 1)).status,
        Status::STALE_CLIENT
    );
    assert_eq!(world.ask(member, &join()).status, Status::OK);
    let request = world.control_requests.last();
    assert_eq!(request.map(|request| request.client_id), Some(2));
    world.publish(vec![group(KEY, &[(2, &[0], &[])])]);
    assert_eq!(world.ask(member, &poll(None, 1)).status, Status::OK);
    world.publish(vec![group(KEY, &[])]);
    assert_eq!(
        world.ask(member, &poll(None, 1)).status,
        Status::CONSUMER_GROUP_MEMBER_NOT_FOUND
    );
}

/// The closed connection of a member is reported until the membership has ended, even if the first notice was lost.
#[test]
fn members_without_a_connection_are_reported_again_and_again() {
    let (mut world, ..) = world_with_messages(0);
    let Change::ConsumerGroupPut(mut record) = group(KEY, &[(1, &[], &[]), (7, &[], &[])]) else {
        unreachable!()
    };
    record.members.push(records::GroupMember {
        id: 8,
        gateway_id: GATEWAY_ID + 1,
        client_id: 8,
        ..Default::default()
    });
    world.publish(vec![Change::ConsumerGroupPut(record)]);
    for _ in 0..3 {
        world.pass(5_000_000);
        let gone: Vec<u32> = std::mem::take(&mut world.notices)
            .iter()
            .map(|notice| notice.client_id)
            .collect();
        assert_eq!(gone, [7], "neither who is there nor another gateway's");
    }
    world.publish(vec![group(KEY, &[(1, &[], &[])])]);
    world.pass(5_000_000);
    assert!(world.notices.is_empty());
}

/// Deleting a group deletes its stored offsets.
#[test]
fn offsets_of_a_deleted_group_are_forgotten() {
    let (mut world, first, _) = world_with_messages(2);
    let members: &[Owned<'_>] = &[(1, &[2], &[])];
    world.publish(vec![group(KEY, members)]);
    assert_eq!(world.ask(first, &store(2, 4)).status, Status::OK);
    let asked = Command::GetConsumerOffset(offset_of(2));
    assert_eq!(world.ask(first, &asked).payload.len(), 20);
    world.publish(vec![Change::ConsumerGroupDeleted(
        records::ConsumerGroupKey {
            stream_id: 0,
            topic_id: 0,
            group_id: 0,
        },
    )]);
    world.publish(vec![group(KEY, members)]);
    assert_eq!(world.ask(first, &asked).payload.len(), 0);
}

#[test]
fn groups_are_shown_with_what_their_members_own() {
    let (mut world, first, _) = world_with_messages(0);
    world.publish(vec![group(
        KEY,
        &[(1, &[0, 4], &[(4, 2, 50)]), (2, &[1], &[])],
    )]);
    let path = GroupPath {
        stream: Identifier::Numeric(0),
        topic: Identifier::Named("t"),
        group: Identifier::Numeric(0),
    };
    let reply = world.ask(first, &Command::GetConsumerGroup(path));
    let details = GroupDetails::decode(&reply.payload).unwrap();
    assert_eq!(details.group.members_count, 2);
    assert_eq!(details.members[0].partitions, [0, 4]);
    assert_eq!(details.members[1].partitions, [1]);
    let all = Command::GetConsumerGroups(TopicPath {
        stream: path.stream,
        topic: path.topic,
    });
    assert_eq!(world.ask(first, &all).payload.len(), 13 + 1);
}

/// A member learns what it owns, and what it is about to lose, on whichever shard its connection is.
#[test]
fn a_member_learns_its_partitions() {
    let (mut world, first, second) = world_with_messages(partition_of(1));
    let not_a_member = Status::CONSUMER_GROUP_MEMBER_NOT_FOUND;
    let asked = Command::GetMembership(path());
    let missing = world.ask(first, &asked).status;
    assert_eq!(missing, Status::CONSUMER_GROUP_ID_NOT_FOUND);
    world.publish(vec![group(KEY, &[(1, &[], &[])])]);
    assert_eq!(world.ask(second, &asked).status, not_a_member);
    for is_moved in [false, true] {
        world.publish(vec![group(KEY, &[(1, &[], &[]), (2, &[], &[])])]);
        assert_eq!(partitions(&mut world, first, 1), []);
        world.publish(vec![group(KEY, &[(1, &[0, 3, 4], &[]), (2, &[1], &[])])]);
        let all = [(0, false), (3, false), (4, false)];
        assert_eq!(partitions(&mut world, first, 1), all);
        assert_eq!(partitions(&mut world, second, 2), [(1, false)]);
        world.publish(vec![group(
            KEY,
            &[(1, &[0, 3, 4], &[(3, 2, 50)]), (2, &[1], &[])],
        )]);
        let leaving = [(0, false), (3, true), (4, false)];
        assert_eq!(partitions(&mut world, first, 1), leaving);
        assert_eq!(partitions(&mut world, second, 2), [(1, false)], "not yet");
        world.publish(vec![group(KEY, &[(1, &[0, 4], &[]), (2, &[1, 3], &[])])]);
        assert_eq!(partitions(&mut world, first, 1), [(0, false), (4, false)]);
        assert_eq!(partitions(&mut world, second, 2), [(1, false), (3, false)]);
        assert_eq!(world.shard_of(first), usize::from(is_moved));
        for _ in 0..40 {
            assert_eq!(world.send(first, partition_of(1), &[b"m"]), Status::OK);
        }
    }
    world.publish(vec![group(KEY, &[(2, &[0, 1], &[])])]);
    assert_eq!(world.ask(first, &asked).status, not_a_member);
    let unauthenticated = world.connect(0);
    assert_eq!(
        world.ask(unauthenticated, &asked).status,
        Status::UNAUTHENTICATED
    );
}

/// Members that ask for their partitions need no other heartbeat; one that was silent is refused as stale.
#[test]
fn asking_for_partitions_is_a_heartbeat() {
    let mut world = with_heartbeat().with_topic(8);
    let (asks, silent) = (world.login(0), world.login(0));
    for link in [asks, silent] {
        world.publish(vec![group(KEY, &[])]);
        assert_eq!(world.ask(link, &join()).status, Status::OK);
    }
    world.publish(vec![group(KEY, &[(1, &[0], &[]), (2, &[1], &[])])]);
    for _ in 0..4 {
        world.pass(3_000_000);
        assert_eq!(partitions(&mut world, asks, 1), [(0, false)]);
    }
    // A notice is repeated until the membership has ended.
    assert!(!world.notices.is_empty());
    assert!(world.notices.iter().all(|notice| notice.client_id == 2));
    world.publish(vec![group(KEY, &[(1, &[0, 1], &[])])]);
    let asked = Command::GetMembership(path());
    for _ in 0..2 {
        assert_eq!(world.ask(silent, &asked).status, Status::STALE_CLIENT);
    }
    assert_eq!(partitions(&mut world, asks, 1), [(0, false), (1, false)]);
}

/// Without heartbeats, too, a member that has asked for its partitions leaves its group after a silence: its process may be
/// frozen. One that never asked, as those of existing clients, stays.
#[test]
fn a_frozen_member_leaves_its_group() {
    let mut world = World::new().with_topic(8);
    let (asks, frozen, existing) = (world.login(0), world.login(0), world.login(0));
    world.publish(vec![group(KEY, &[])]);
    for link in [asks, frozen, existing] {
        assert_eq!(world.ask(link, &join()).status, Status::OK);
    }
    let members: &[Owned<'_>] = &[(1, &[0], &[]), (2, &[1], &[]), (3, &[2], &[])];
    world.publish(vec![group(KEY, members)]);
    assert_eq!(partitions(&mut world, frozen, 2), [(1, false)]);
    let mut silence = 0;
    while world.notices.is_empty() {
        world.pass(1_000_000);
        silence += 1_000_000;
        assert_eq!(partitions(&mut world, asks, 1), [(0, false)]);
        assert!(silence <= MEMBER_SILENCE_MICROS + 2_000_000);
    }
    assert!(silence >= MEMBER_SILENCE_MICROS);
    assert!(world.notices.iter().all(|notice| notice.client_id == 2));
    world.publish(vec![group(KEY, &[(1, &[0, 1], &[]), (3, &[2], &[])])]);
    // It wakes up: its first request says that it has to join again.
    let asked = Command::GetMembership(path());
    assert_eq!(world.ask(frozen, &asked).status, Status::STALE_CLIENT);
}
