//! Statistics of requests on a shard's connections.

use std::time::{Duration, Instant};

use headrace_model::Timestamp;
use headrace_shard::Reading;
use headrace_wire::{Command, CommandCode, PollingStrategy, Status};

use crate::shards::messages::poll;
use crate::world::World;

fn reading(world: &World) -> Reading {
    let mut reading = Reading::default();
    for shard in 0..2 {
        world.meter(shard).add_to(&mut reading);
    }
    reading
}

fn answers(reading: &Reading, code: CommandCode) -> u64 {
    let of_command = reading
        .commands
        .iter()
        .filter(|it| it.command == Some(code));
    of_command.flat_map(|it| &it.classes).sum()
}

/// USE-6: every answer counts once, under its command and status, on whichever shard.
#[test]
fn answers_bytes_and_messages_are_counted() {
    let mut world = World::new().with_topic(4);
    let links = [world.login(0), world.login(1)];
    let before = reading(&world);
    assert_eq!(answers(&before, CommandCode::LoginUser), 2);
    assert_eq!(before.accepted_connections, 2);
    for link in links {
        for partition in 0..4 {
            assert_eq!(world.send(link, partition, &[b"one", b"two"]), Status::OK);
        }
        assert_eq!(
            world.send(link, 99, &[b"lost"]),
            Status::PARTITION_NOT_FOUND
        );
        world.ask(link, &poll(0, PollingStrategy::First, 3));
        world.ask(link, &Command::Ping);
    }
    // Unknown codes, in headers of 8 bytes.
    world.write(links[0], &[4, 0, 0, 0, 77, 77, 77, 77]);
    assert_eq!(world.reply(links[0]).status, Status::INVALID_COMMAND);

    let after = reading(&world);
    assert_eq!(answers(&after, CommandCode::SendMessages), 10);
    assert_eq!(answers(&after, CommandCode::PollMessages), 2);
    assert_eq!(answers(&after, CommandCode::Ping), 2);
    let unknown = after.commands.last().expect("there is one");
    assert_eq!(unknown.classes.iter().sum::<u64>(), 1);
    // The first poll preceded the second batch.
    assert_eq!((after.appended_messages, after.polled_messages), (16, 5));
    let statuses = [
        (Status::PARTITION_NOT_FOUND.0, 2),
        (Status::INVALID_COMMAND.0, 1),
    ];
    assert_eq!(after.refusals, statuses.into());
    assert!(after.received_bytes > before.received_bytes + after.appended_bytes);
    assert!(after.appended_bytes > 10 * 64 && after.polled_bytes > 5 * 64);
    assert!(after.sent_bytes > after.polled_bytes);
}

/// The latency is the time between a request and its answer, including all waits.
#[test]
fn latencies_hold_the_wait_for_the_storage() {
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    world.storage_held = true;
    world.post(link, 0, &[b"m"]);
    world.pass(1_000_000);
    assert_eq!(world.try_reply(link), None);
    world.release_storage();
    assert_eq!(world.reply(link).status, Status::OK);
    let reading = reading(&world);
    let sends = reading.commands.iter();
    let mut sends = sends.filter(|it| it.command == Some(CommandCode::SendMessages));
    let micros = sends.next().expect("it was asked for").sum_micros;
    assert!((1_000_000..1_100_000).contains(&micros), "{micros}");
}

/// Ticks and gauges take no time for idle partitions: the host calls both ten times a second, and a walk of all
/// partitions would take hundreds of times as long as this allows.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the time that the shard takes is measured"
)]
fn idle_partitions_cost_nothing() {
    let mut world = World::new().with_topic(20_000);
    world.pass(2_000_000);
    let shard = &mut world.processes[0].shards[0];
    let progress = shard.progress();
    assert!((5_000..15_000).contains(&progress.partitions));
    assert_eq!(progress.recovering, 0);
    let mut round = || {
        let begun = Instant::now();
        for tick in 0..100 {
            let mut effects = Vec::new();
            shard.tick(Timestamp(world.now + tick), &mut effects);
            assert!(effects.is_empty());
            assert_eq!((shard.progress(), shard.failures()), (progress, Vec::new()));
        }
        begun.elapsed()
    };
    let best = (0..5).map(|_| round()).min().expect("five rounds");
    assert!(best < Duration::from_millis(4), "{best:?} for 100 ticks");
}
