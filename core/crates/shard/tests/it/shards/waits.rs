//! Requests that wait for messages (GW-7): when they are answered, and with what.

mod model;

use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_wire::{
    Command, CommandCode, Consumer, ConsumerKind, Identifier, PollingStrategy, Status,
    command::{StoreConsumerOffset, WaitMessages},
    message::HEADER_BYTES,
    response::{Capabilities, LimitKind, Polled},
};

use crate::shards::groups;
use crate::world::{
    WAIT_MICROS_MAX, WAITED_PARTITIONS_MAX, World, offset_path, partition_of, polling, user,
};

const SECOND: u64 = 1_000_000;

/// A wait as a consumer outside a group, with automatic commit of the offset.
pub fn wait(
    partition: u32,
    strategy: PollingStrategy,
    minimum_bytes: u32,
    micros: u64,
) -> WaitMessages<'static> {
    WaitMessages {
        poll: polling(partition, strategy, 100),
        minimum_bytes,
        maximum_wait_micros: micros,
    }
}

fn next(partition: u32) -> Command<'static> {
    Command::WaitMessages(wait(partition, PollingStrategy::Next, 1, 10 * SECOND))
}

/// One partition of each shard.
fn one_of_each() -> [u32; 2] {
    [0, 1].map(partition_of)
}

/// Waits work for every combination of the shards of connection and partition.
#[test]
fn an_append_wakes_waiting_polls() {
    for partition in one_of_each() {
        for shard in [0, 1] {
            let mut world = World::new().with_topic(8);
            let (waiting, sending) = (world.login(shard), world.login(0));
            world.request(waiting, &next(partition));
            assert_eq!(world.try_reply(waiting), None);
            world.pass(SECOND);
            assert_eq!(world.try_reply(waiting), None);
            assert_eq!(world.send(sending, partition, &[b"a", b"b"]), Status::OK);
            assert_eq!(world.reply(waiting).payloads(), [b"a", b"b"]);
            // The offset of the delivered message is stored, and available messages are delivered at once.
            assert_eq!(world.send(sending, partition, &[b"c"]), Status::OK);
            let reply = world.ask(waiting, &next(partition));
            assert_eq!(reply.payloads(), [b"c"]);
            assert_eq!(world.next_deadline(), None);
        }
    }
}

/// Messages are delivered only after they are as durable as configured.
#[test]
fn an_append_wakes_when_it_is_durable() {
    let mut world = World::new().with_topic(1);
    let (waiting, sending) = (world.login(0), world.login(1));
    assert_eq!(world.send(sending, 0, &[b"first"]), Status::OK);
    let first = world.ask(waiting, &next(0)).payloads();
    assert_eq!(first, [b"first"]);
    world.request(waiting, &next(0));
    world.storage_held = true;
    world.post(sending, 0, &[b"second"]);
    world.pass(SECOND);
    assert_eq!(world.try_reply(waiting), None);
    world.release_storage();
    assert_eq!(world.reply(waiting).payloads(), [b"second"]);
}

#[test]
fn the_minimum_is_counted_in_bytes_of_messages() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (waiting, sending) = (world.login(0), world.login(1));
        let size = u32::try_from(HEADER_BYTES + 10).unwrap();
        let wanted = wait(partition, PollingStrategy::First, 3 * size, 10 * SECOND);
        world.request(waiting, &Command::WaitMessages(wanted));
        for _ in 0..2 {
            assert_eq!(world.send(sending, partition, &[b"0123456789"]), Status::OK);
            assert_eq!(world.try_reply(waiting), None);
        }
        assert_eq!(world.send(sending, partition, &[b"0123456789"]), Status::OK);
        assert_eq!(world.reply(waiting).payloads().len(), 3);

        // The requested number of messages suffices as well.
        let mut few = wait(partition, PollingStrategy::Offset(3), u32::MAX, 10 * SECOND);
        few.poll.count = 2;
        world.request(waiting, &Command::WaitMessages(few));
        assert_eq!(world.send(sending, partition, &[b"x"]), Status::OK);
        assert_eq!(world.try_reply(waiting), None);
        assert_eq!(world.send(sending, partition, &[b"y", b"z"]), Status::OK);
        assert_eq!(world.reply(waiting).payloads(), [b"x", b"y"]);
    }
}

#[test]
fn when_the_time_is_up_the_answer_is_what_there_is() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (waiting, sending) = (world.login(0), world.login(0));
        world.request(waiting, &next(partition));
        let deadline = world.next_deadline().expect("it waits");
        world.pass(deadline - world.now - 1_000);
        assert_eq!(world.try_reply(waiting), None);
        world.pass(1_000);
        assert!(world.reply(waiting).payloads().is_empty());

        let wanted = wait(partition, PollingStrategy::Next, 4096, SECOND);
        world.request(waiting, &Command::WaitMessages(wanted));
        assert_eq!(world.send(sending, partition, &[b"little"]), Status::OK);
        assert_eq!(world.try_reply(waiting), None);
        world.pass(SECOND);
        assert_eq!(world.reply(waiting).payloads(), [b"little"]);
        // The offset of messages delivered at the deadline is stored as well.
        let none = wait(partition, PollingStrategy::Next, 0, SECOND);
        let reply = world.ask(waiting, &Command::WaitMessages(none));
        assert!(reply.payloads().is_empty(), "no minimum, no wait");
        let none = wait(partition, PollingStrategy::Next, 1, 0);
        let reply = world.ask(waiting, &Command::WaitMessages(none));
        assert!(reply.payloads().is_empty(), "no time, no wait");
    }
}

#[test]
fn no_wait_is_longer_than_the_server_says() {
    let mut world = World::new().with_topic(1);
    let waiting = world.login(0);
    let forever = wait(0, PollingStrategy::Next, 1, u64::MAX);
    world.request(waiting, &Command::WaitMessages(forever));
    world.pass(WAIT_MICROS_MAX - SECOND);
    assert_eq!(world.try_reply(waiting), None);
    world.pass(SECOND);
    assert!(world.reply(waiting).payloads().is_empty());
}

/// A waiting request runs alone: later requests of its connection are answered after it.
#[test]
fn later_requests_of_a_connection_wait_behind() {
    let mut world = World::new().with_topic(1);
    let (waiting, sending) = (world.login(0), world.login(0));
    world.request(waiting, &next(0));
    world.request(waiting, &Command::Ping);
    assert_eq!(world.try_reply(waiting), None);
    assert_eq!(world.send(sending, 0, &[b"now"]), Status::OK);
    assert_eq!(world.reply(waiting).payloads(), [b"now"]);
    assert_eq!(world.reply(waiting).status, Status::OK);
}

/// Each user may have half of what the others leave, and one wait as long as there is room for one.
#[test]
fn waits_of_one_user_leave_room_for_others() {
    let mut world = World::new().with_topic(8);
    let may_poll = records::GlobalPermissions {
        poll_messages: true,
        ..Default::default()
    };
    let users = (5..10).map(|id| user(id, &format!("user-{id}"), Some(may_poll)));
    world.publish(users.collect());
    let waits = (5..10).map(|user| {
        let mut count = 0;
        loop {
            let link = world.in_process(0, user);
            world.request(link, &next(0));
            if let Some(refused) = world.try_reply(link) {
                assert_eq!(refused.status, Status::TOO_MANY_WAITS);
                return count;
            }
            count += 1;
        }
    });
    assert_eq!(waits.collect::<Vec<_>>(), [8, 4, 2, 1, 1]);
}

#[test]
fn the_bound_of_waits_refuses_with_a_status_of_its_own() {
    let mut world = World::new().with_topic(8);
    let links: Vec<_> = (0..10).map(|_| world.login(0)).collect();
    let all: Vec<u32> = (0..6).collect();
    world.publish(vec![group(&[(1, &all)])]);
    // A member waits for each of its partitions, any other consumer for one. One user has half.
    world.request(links[0], &member_wait(None));
    let rest = WAITED_PARTITIONS_MAX / 2 - all.len();
    for link in &links[1..=rest] {
        world.request(*link, &next(0));
    }
    assert!(links.iter().all(|link| world.try_reply(*link).is_none()));
    let refused = world.ask(links[rest + 1], &next(0));
    assert_eq!(refused.status, Status::TOO_MANY_WAITS);
    world.hang_up(links[1]);
    world.request(links[rest + 1], &next(0));
    world.pass(10 * SECOND);
    for link in links
        .iter()
        .filter(|link| **link != links[1])
        .take(rest + 1)
    {
        assert_eq!(world.reply(*link).status, Status::OK);
    }
}

#[test]
fn a_purge_is_no_reason_to_stop_waiting() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (waiting, sending) = (world.login(0), world.login(0));
        assert_eq!(world.send(sending, partition, &[b"a", b"b"]), Status::OK);
        assert_eq!(world.ask(waiting, &next(partition)).payloads().len(), 2);
        world.request(waiting, &next(partition));
        world.publish(vec![Change::TopicPut(World::topic(8, 3, 1))]);
        assert_eq!(world.try_reply(waiting), None);
        // The partition starts anew, and so does the consumer.
        assert_eq!(world.send(sending, partition, &[b"c"]), Status::OK);
        assert_eq!(world.reply(waiting).payloads(), [b"c"]);
    }
}

/// The position of a consumer may be set back while it waits.
#[test]
fn a_stored_offset_that_moves_back_wakes() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (waiting, other) = (world.login(0), world.login(1));
        assert_eq!(
            world.send(other, partition, &[b"a", b"b", b"c"]),
            Status::OK
        );
        assert_eq!(world.ask(waiting, &next(partition)).payloads().len(), 3);
        world.request(waiting, &next(partition));
        assert_eq!(world.try_reply(waiting), None);
        let back = Command::StoreConsumerOffset(StoreConsumerOffset {
            path: offset_path(partition),
            offset: 1,
        });
        assert_eq!(world.ask(other, &back).status, Status::OK);
        assert_eq!(world.reply(waiting).payloads(), [b"c"]);
    }
}

#[test]
fn what_is_waited_for_may_go_away() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let waiting = world.login(0);
        world.request(waiting, &next(partition));
        let key = records::TopicKey {
            stream_id: 0,
            topic_id: 0,
        };
        world.publish(vec![Change::TopicDeleted(key)]);
        assert_eq!(world.reply(waiting).status, Status::TOPIC_ID_NOT_FOUND);
        assert_eq!(world.next_deadline(), None);
    }
}

/// A topic with the same name, or a partition with the same number, is a different one: the wait continues there.
#[test]
fn a_wait_goes_on_at_the_successor() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (waiting, sending) = (world.login(0), world.login(0));
        assert_eq!(world.send(sending, partition, &[b"old"]), Status::OK);
        assert_eq!(world.ask(waiting, &next(partition)).payloads(), [b"old"]);
        world.request(waiting, &next(partition));
        world.publish(vec![Change::TopicPut(World::topic(8, 9, 0))]);
        assert_eq!(world.try_reply(waiting), None);
        assert_eq!(world.send(sending, partition, &[b"new"]), Status::OK);
        assert_eq!(world.reply(waiting).payloads(), [b"new"]);
    }
}

#[test]
fn who_may_not_poll_any_more_does_not_wait_any_more() {
    let user = |id, poll_messages| {
        let permissions = records::GlobalPermissions {
            poll_messages,
            ..Default::default()
        };
        user(id, &format!("user-{id}"), Some(permissions))
    };
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        world.publish(vec![user(1, true), user(2, true)]);
        let (one, two) = (world.in_process(0, 1), world.in_process(0, 2));
        world.request(one, &next(partition));
        world.request(two, &next(partition));
        world.publish(vec![user(1, false)]);
        assert_eq!(world.reply(one).status, Status::UNAUTHORIZED);
        world.publish(vec![Change::UserDeleted(2)]);
        assert_eq!(world.reply(two).status, Status::UNAUTHENTICATED);
        assert_eq!(world.next_deadline(), None);
    }
}

/// The wait of a closed connection ends: its messages are available to the next poll.
#[test]
fn a_closed_connection_waits_no_longer() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (waiting, other) = (world.login(0), world.login(1));
        world.request(waiting, &next(partition));
        world.hang_up(waiting);
        assert_eq!(world.next_deadline(), None);
        assert_eq!(world.send(other, partition, &[b"kept"]), Status::OK);
        assert_eq!(world.ask(other, &next(partition)).payloads(), [b"kept"]);
    }
}

/// SHARD-6: a connection moves to the partition that it waits for. A close by the client is still noticed before the
/// move.
#[test]
fn a_connection_leaves_between_its_waits() {
    let [_, partition] = one_of_each();
    for waits_before in [20, 31, 32, 40] {
        let mut world = World::new().with_topic(8);
        let (waiting, sending) = (world.login(0), world.login(1));
        for _ in 0..waits_before {
            world.request(waiting, &next(partition));
            assert_eq!(world.send(sending, partition, &[b"m"]), Status::OK);
            assert_eq!(world.reply(waiting).payloads(), [b"m"]);
        }
        world.request(waiting, &next(partition));
        assert_eq!(world.shard_of(waiting), usize::from(waits_before >= 32));
        world.hang_up(waiting);
        assert_eq!(world.next_deadline(), None);
        assert_eq!(world.send(sending, partition, &[b"kept"]), Status::OK);
        let reply = world.ask(sending, &next(partition));
        assert_eq!(reply.payloads(), [b"kept"]);
    }
}

/// Waiting requests are answered on shutdown with the available messages, followed by the final frame.
#[test]
fn a_shutdown_ends_every_wait() {
    let [here, there] = one_of_each();
    let mut world = World::new().with_topic(8);
    let (one, two, three) = (world.login(0), world.login(0), world.login(0));
    world.publish(vec![group(&[(3, &[here, there])])]);
    assert_eq!(world.send(three, there, &[b"little"]), Status::OK);
    world.request(one, &next(here));
    let much = wait(there, PollingStrategy::First, 4096, 10 * SECOND);
    world.request(two, &Command::WaitMessages(much));
    let mut as_member = wait(0, PollingStrategy::Next, 4096, 10 * SECOND);
    as_member.poll.consumer = member();
    as_member.poll.partition_id = None;
    world.request(three, &Command::WaitMessages(as_member));
    world.shut_down();
    assert!(world.reply(one).payloads().is_empty());
    assert_eq!(world.reply(two).payloads(), [b"little"]);
    assert_eq!(world.reply(three).payloads(), [b"little"]);
    for link in [one, two, three] {
        assert_eq!(world.reply(link).status, Status::DISCONNECTED);
    }
    world.close_partitions();
    assert!(world.is_stopped());
}

#[test]
fn capabilities_need_no_login() {
    let mut world = World::new();
    let link = world.connect(0);
    let reply = world.ask(link, &Command::Capabilities);
    assert_eq!(reply.status, Status::OK);
    let capabilities = Capabilities::decode(&reply.payload).unwrap();
    assert_eq!(capabilities.version, 1);
    for code in [
        CommandCode::Capabilities,
        CommandCode::WaitMessages,
        CommandCode::WatchPartitions,
        CommandCode::SetTraceContext,
    ] {
        assert!(capabilities.codes.contains(&code.code()));
    }
    assert_eq!(
        capabilities.limit(LimitKind::WaitMicros),
        Some(WAIT_MICROS_MAX)
    );
    let refused = world.ask(link, &next(0));
    assert_eq!(refused.status, Status::UNAUTHENTICATED);
}

fn member() -> Consumer<'static> {
    Consumer {
        kind: ConsumerKind::Group,
        id: Identifier::Named("g"),
    }
}

fn member_wait(partition_id: Option<u32>) -> Command<'static> {
    let mut request = wait(0, PollingStrategy::Next, 1, 10 * SECOND);
    request.poll.consumer = member();
    request.poll.partition_id = partition_id;
    Command::WaitMessages(request)
}

/// Group with the partitions of each client.
fn group(members: &[(u32, &[u32])]) -> Change {
    let members: Vec<_> = (members.iter())
        .map(|(client, partitions)| (*client, *partitions, &[][..]))
        .collect();
    groups::group(9, &members)
}

/// A member that names no partition waits for all of its own, on any shard, and gets each message once.
#[test]
fn a_member_waits_for_all_of_its_partitions() {
    let mut world = World::new().with_topic(8);
    let (waiting, sending) = (world.login(0), world.login(1));
    let all: Vec<u32> = (0..8).collect();
    world.publish(vec![group(&[(1, &all)])]);
    for partition in all.iter().chain(&all) {
        world.request(waiting, &member_wait(None));
        assert_eq!(world.try_reply(waiting), None);
        let text = format!("{partition}");
        assert_eq!(
            world.send(sending, *partition, &[text.as_bytes()]),
            Status::OK
        );
        let reply = world.reply(waiting);
        assert_eq!(reply.payloads(), [text.as_bytes()]);
        let header = Polled::decode(&reply.payload).unwrap().header;
        assert_eq!(header.partition_id, *partition);
    }
    world.request(waiting, &member_wait(None));
    world.pass(10 * SECOND);
    assert!(world.reply(waiting).payloads().is_empty());
}

/// Partitions that always have messages do not starve the others.
#[test]
fn a_member_is_served_by_all_of_its_partitions_in_turn() {
    let mut world = World::new().with_topic(8);
    let (waiting, sending) = (world.login(0), world.login(1));
    let all: Vec<u32> = (0..8).collect();
    world.publish(vec![group(&[(1, &all)])]);
    for partition in &all {
        let text = format!("{partition}");
        let messages = [text.as_bytes(); 3];
        assert_eq!(world.send(sending, *partition, &messages), Status::OK);
    }
    let mut one = wait(0, PollingStrategy::Next, 1, 10 * SECOND);
    (one.poll.consumer, one.poll.partition_id, one.poll.count) = (member(), None, 1);
    let one = Command::WaitMessages(one);
    for _ in 0..3 {
        let mut seen: Vec<_> = (all.iter())
            .flat_map(|_| world.ask(waiting, &one).payloads())
            .collect();
        seen.sort();
        let expected: Vec<_> = all.iter().map(|id| format!("{id}").into_bytes()).collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_member_follows_what_it_is_given_and_loses() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (one, two) = (world.login(0), world.login(0));
        world.publish(vec![group(&[(1, &[partition]), (2, &[])])]);
        world.request(one, &member_wait(None));
        world.request(two, &member_wait(None));
        world.publish(vec![group(&[(1, &[]), (2, &[partition])])]);
        assert_eq!(world.try_reply(one), None);
        let sending = world.login(1);
        assert_eq!(world.send(sending, partition, &[b"for two"]), Status::OK);
        assert_eq!(world.try_reply(one), None);
        assert_eq!(world.reply(two).payloads(), [b"for two"]);
        world.publish(vec![group(&[(1, &[partition]), (2, &[])])]);
        assert_eq!(world.send(sending, partition, &[b"for one"]), Status::OK);
        assert_eq!(world.reply(one).payloads(), [b"for one"]);
    }
}

/// A member that names a partition gets an answer at once when it loses it, and waits for one that it does not own yet.
#[test]
fn a_member_that_names_its_partition_is_answered_when_it_loses_it() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let (one, two) = (world.login(0), world.login(0));
        world.publish(vec![group(&[(1, &[partition]), (2, &[])])]);
        world.request(one, &member_wait(Some(partition)));
        world.request(two, &member_wait(Some(partition)));
        assert_eq!(world.try_reply(one), None);
        assert_eq!(world.try_reply(two), None);
        world.publish(vec![group(&[(1, &[]), (2, &[partition])])]);
        assert_eq!(world.reply(one).payload, [0; 16]);
        assert_eq!(world.try_reply(two), None);
        let sending = world.login(1);
        assert_eq!(world.send(sending, partition, &[b"m"]), Status::OK);
        assert_eq!(world.reply(two).payloads(), [b"m"]);
        world.publish(vec![group(&[(1, &[partition])])]);
        let left = world.ask(two, &member_wait(None));
        assert_eq!(left.status, Status::CONSUMER_GROUP_MEMBER_NOT_FOUND);
    }
}

/// A wait does not hold a partition: it moves to another member while its owner waits there.
#[test]
fn a_wait_does_not_hold_a_revocation_up() {
    for partition in one_of_each() {
        let mut world = World::new().with_topic(8);
        let one = world.login(0);
        world.publish(vec![group(&[(1, &[partition]), (2, &[])])]);
        world.request(one, &member_wait(Some(partition)));
        let moving: &[groups::Owned<'_>] =
            &[(1, &[partition], &[(partition, 2, 50)]), (2, &[], &[])];
        world.publish(vec![groups::group(9, moving)]);
        assert_eq!(world.notices.len(), 1, "it can move at once");
        // No member gets messages of the partition before the move is complete.
        let sending = world.login(1);
        assert_eq!(world.send(sending, partition, &[b"m"]), Status::OK);
        assert_eq!(world.reply(one).payload, [0; 16]);
    }
}

/// A wait on a partition that is still opening ends at its deadline, and waits that remain are served after the
/// opening.
#[test]
fn a_wait_may_begin_before_the_partition_is_open() {
    for partition in one_of_each() {
        let mut world = World::new();
        world.storage_held = true;
        let mut world = world.with_topic(8);
        let links: Vec<_> = (0..8).map(|_| world.login(0)).collect();
        for link in &links {
            world.request(*link, &next(partition));
        }
        let soon = Command::WaitMessages(wait(partition, PollingStrategy::Next, 1, SECOND));
        let (waiting, sending) = (world.login(1), world.login(1));
        world.request(waiting, &soon);
        world.pass(SECOND);
        assert!(world.reply(waiting).payloads().is_empty());
        world.release_storage();
        assert!(links.iter().all(|link| world.try_reply(*link).is_none()));
        assert_eq!(world.send(sending, partition, &[b"x"]), Status::OK);
        // All clients share one stored offset: all but the first may come too late.
        let served: usize = (links.iter())
            .filter_map(|link| world.try_reply(*link))
            .map(|reply| reply.payloads().len())
            .sum();
        assert!(served >= 1);
    }
}
