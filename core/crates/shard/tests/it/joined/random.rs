//! Random schedules in front of nodes that crash, end, restart and get partitions of others.

use headrace_wire::{Command, Status, response::Polled};

use crate::world::{World, acknowledged::compare, partition, poll_first};

fn fault(world: &mut World, node: u32) {
    match world.random.u32(0..13) {
        0..2 => world.restart(node),
        2..4 => {
            world.stop(node);
            world.restart(node);
        }
        4..7 => {
            let id = world.random.usize(0..4);
            world.move_partition(id);
        }
        _ => {
            world.processes[node as usize].hear();
        }
    }
}

fn read_all(world: &mut World, id: u32) -> Vec<Vec<u8>> {
    let client = world.client();
    let poll = poll_first(id, 100_000, false);
    world.request(client, &Command::PollMessages(poll));
    world.pass(1_000_000);
    let reply = world.reply(client);
    assert_eq!(reply.status, Status::OK);
    let polled = Polled::decode(&reply.payload).unwrap();
    let payloads = polled.messages().zip(0..).map(|(message, offset)| {
        let message = message.unwrap();
        assert_eq!(message.header().offset(), offset, "offsets have no gaps");
        message.payload().to_vec()
    });
    let payloads: Vec<_> = payloads.collect();
    let is_there = world.has_directory(partition(id));
    assert!(payloads.is_empty() || is_there, "nothing is ever deleted");
    payloads
}

/// GW-2: an acknowledged batch can be read once and in the order of its connection, and a refused one is absent,
/// regardless of faults of connections, nodes and catalogs.
#[test]
fn clients_read_what_was_acknowledged() {
    compare(150, World::cluster, fault, read_all);
}
