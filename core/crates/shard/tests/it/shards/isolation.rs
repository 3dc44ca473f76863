//! Panic in a step of one partition: that partition is out of service, and all others continue (LOG-14).

use headrace_proto::catalog::v1::delta::Change;
use headrace_wire::{Command, PollingStrategy, Status};

use crate::shards::{
    messages::{payloads, poll},
    waits::wait,
};
use crate::world::{World, partition};

fn send(world: &mut World, link: usize, number: u32, payload: &[u8]) {
    world.post(link, number, &[payload]);
}

/// A world with two partitions. A write to the first is in flight, and its completion causes a panic.
fn about_to_panic() -> (World, usize) {
    let mut world = World::new().with_topic(2);
    let link = world.login(0);
    assert_eq!(world.send(link, 0, &[b"before"]), Status::OK);
    assert_eq!(world.send(link, 1, &[b"elsewhere"]), Status::OK);
    world.storage_held = true;
    send(&mut world, link, 0, b"under way");
    assert_eq!(world.try_reply(link), None, "it is being written");
    world.confuse(partition(0));
    (world, link)
}

#[test]
fn a_panic_in_a_step_closes_one_partition() {
    let (mut world, link) = about_to_panic();
    let (waiting, other) = (world.login(0), world.login(1));
    let next = wait(0, PollingStrategy::Offset(1), 1, 10_000_000);
    world.request(waiting, &Command::WaitMessages(next));
    assert_eq!(
        world.try_reply(waiting),
        None,
        "there is nothing for it yet"
    );
    world.release_storage();
    // Pending and new requests are refused, and the reason is reported.
    for asker in [link, waiting] {
        assert_eq!(world.reply(asker).status, Status::CANNOT_READ_PARTITIONS);
    }
    let status = world.send(link, 0, &[b"after"]);
    assert_eq!(status, Status::CANNOT_READ_PARTITIONS);
    let refused = [
        poll(0, PollingStrategy::First, 10),
        Command::WaitMessages(wait(0, PollingStrategy::First, 1, 10_000_000)),
    ];
    for command in refused {
        let status = world.ask(other, &command).status;
        assert_eq!(status, Status::CANNOT_READ_PARTITIONS);
    }
    let report = world.reports.iter().find(|line| line.contains("0/0/0"));
    let report = report.expect("a report that names the partition");
    assert!(report.contains("completes each operation once"), "{report}");
    // The other partition is unaffected.
    assert_eq!(world.send(link, 1, &[b"goes on"]), Status::OK);
    let all = payloads(&mut world, link, &poll(1, PollingStrategy::First, 10));
    assert_eq!(all, [b"elsewhere".to_vec(), b"goes on".to_vec()]);
}

#[test]
fn a_partition_that_broke_is_removed_when_its_operations_have_ended() {
    let (mut world, link) = about_to_panic();
    // A second operation is in flight, which reads the stored offsets.
    let asking = world.login(0);
    world.request(asking, &poll(0, PollingStrategy::First, 1));
    world.release_one();
    assert_eq!(world.reply(link).status, Status::CANNOT_READ_PARTITIONS);
    world.publish(vec![Change::TopicPut(World::topic(2, 4, 0))]);
    assert!(
        world.has_directory(partition(0)),
        "an operation is under way"
    );
    world.release_storage();
    // The successor with the same number starts empty.
    assert_eq!(world.send(link, 0, &[b"successor"]), Status::OK);
    let all = payloads(&mut world, link, &poll(0, PollingStrategy::First, 10));
    assert_eq!(all, [b"successor".to_vec()]);
}

#[test]
fn a_shard_stops_with_a_partition_that_broke() {
    let (mut world, link) = about_to_panic();
    world.release_storage();
    assert_eq!(world.reply(link).status, Status::CANNOT_READ_PARTITIONS);
    world.shut_down();
    world.close_partitions();
    assert!(world.is_stopped());
}
