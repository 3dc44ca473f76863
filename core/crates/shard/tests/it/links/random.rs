//! Random schedules in front of models of nodes, which answer in any order and follow the catalog when they like.

use crate::world::{World, acknowledged::compare, partition};

fn fault(world: &mut World, node: u32) {
    match world.random.u32(0..13) {
        0..2 => {
            if let Some(link) = world.links_to(node).first() {
                world.drain_link(*link);
            }
        }
        2..5 => {
            let nodes: Vec<u32> = (0..4).map(|_| world.random.u32(1..3)).collect();
            world.place(&nodes);
        }
        _ => {
            let known = world.node(node).version;
            let version = world.random.u64(known..=world.version());
            world.follow(node, version);
        }
    }
}

/// GW-2: an acknowledged batch is in the node's partition exactly once, in the order of its connection, and a refused
/// one is absent, regardless of faults of links, nodes and the catalog.
#[test]
fn answers_to_clients_are_true() {
    compare(
        400,
        |_, partitions| World::gateway(partitions),
        fault,
        |world, id| world.truth.logs.remove(&partition(id)).unwrap_or_default(),
    );
}
