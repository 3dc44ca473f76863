//! CTL-1, CTL-4, CTL-5, CTL-6: a random walk through all possible events, in any order, followed by a healing phase.
//!
//! The walk follows the protocol's executable model: it has no realistic timings and therefore covers every timing. A
//! failing walk prints its seed; `WALK_SEEDS=4711..4712` repeats it.

#![allow(clippy::print_stdout, reason = "a walk says what it did")]

use headrace_vsr::api::Status;
use headrace_vsr::rules::Standard;

use crate::world::World;

struct Chances {
    crash: u32,
    loss: u32,
    rot: u32,
    checkpoint_ops: u64,
    keep_ops: u64,
    unstored_bytes: u64,
    superblock: u32,
    tick: u32,
    duplicate: u32,
    propose: u32,
}

fn pick<T: Copy>(random: &mut fastrand::Rng, from: &[T]) -> T {
    from[random.usize(..from.len())]
}

/// Moderate probabilities for every event.
fn plain(random: &mut fastrand::Rng) -> Chances {
    Chances {
        crash: pick(random, &[0, 2, 8, 30]),
        loss: pick(random, &[0, 100, 300]),
        rot: pick(random, &[0, 4]),
        checkpoint_ops: pick(random, &[5, 20, 1024]),
        keep_ops: pick(random, &[0, 5, 1024]),
        unstored_bytes: pick(random, &[1, 1000, 1 << 20]),
        superblock: pick(random, &[1000, 300, 50]),
        tick: pick(random, &[30, 100, 250]),
        duplicate: 5,
        propose: 1000,
    }
}

/// Probabilities for few operations, many views, slow superblocks and many duplicates.
fn duel(random: &mut fastrand::Rng) -> Chances {
    Chances {
        crash: pick(random, &[10, 30, 33]),
        loss: pick(random, &[0, 100, 300]),
        rot: pick(random, &[0, 4, 10]),
        checkpoint_ops: pick(random, &[2, 5, 1024]),
        keep_ops: pick(random, &[0, 1, 1024]),
        unstored_bytes: pick(random, &[1, 1000, 1 << 20]),
        superblock: pick(random, &[20, 50, 150]),
        tick: pick(random, &[300, 600, 1000]),
        duplicate: 30,
        propose: 200,
    }
}

fn walk(seed: u64, steps: u32, chances: fn(&mut fastrand::Rng) -> Chances) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let members = pick(&mut random, &[3, 3, 5, 1]);
    let chances = chances(&mut random);
    let rotten = random.u8(0..members);
    let mut world = World::new(members, Standard);
    world.checkpoint_ops = chances.checkpoint_ops;
    world.keep_ops = chances.keep_ops;
    world.unstored_bytes = chances.unstored_bytes;
    world.start_all();
    let mut cut: Option<u8> = None;
    for _ in 0..steps {
        let index = random.u8(0..members);
        if random.u32(0..1000) < 2 {
            cut = match cut {
                None => Some(random.u8(0..members)),
                Some(_) => None,
            };
        }
        match random.u32(0..1000) {
            0..450 => {
                if world.net.is_empty() {
                    continue;
                }
                let at = random.usize(..world.net.len());
                let flying = world.net.swap_remove(at);
                let crosses = cut.is_some_and(|node| (flying.from == node) != (flying.to == node));
                if crosses || random.u32(0..1000) < chances.loss {
                    continue;
                }
                if random.u32(0..100) < chances.duplicate {
                    world.net.push(flying.clone());
                }
                world.deliver(flying);
                if world.net.len() > 400 {
                    world.net.drain(..200);
                }
            }
            450..600 => {
                world.write_journal(index);
            }
            600..700 => {
                if random.u32(0..1000) < chances.superblock {
                    world.write_superblock(index);
                }
            }
            700..800 => {
                world.complete(index);
            }
            800..880 => {
                if random.u32(0..1000) >= chances.propose {
                    continue;
                }
                let body = random.u64(..).to_le_bytes();
                let newest = (0..members)
                    .filter(|node| world.up(*node))
                    .map(|node| world.replica(node).report())
                    .max_by_key(|report| report.view);
                let likely = newest.map_or(index, |report| report.primary);
                let target = if random.u32(0..10) < 8 { likely } else { index };
                world.propose(target, &body);
            }
            880..990 => {
                if random.u32(0..1000) < chances.tick {
                    world.now_ms += random.u64(1..300);
                }
                world.tick(index);
            }
            990..995 => {
                if random.u32(0..100) >= chances.crash * 3 {
                    continue;
                }
                if world.up(index) {
                    let appended = random.usize(0..3);
                    world.crash(index, appended, random.bool());
                } else {
                    world.start(index);
                }
            }
            _ => damage_record(&mut world, &mut random, rotten, chances.rot),
        }
        check(&world, seed);
    }
    heal(&mut world, seed);
    world
}

/// Damage one durable record of one replica, if other replicas still have it intact.
fn damage_record(world: &mut World, random: &mut fastrand::Rng, rotten: u8, chance: u32) {
    if world.members() == 1 || random.u32(0..10) >= chance {
        return;
    }
    let ops: Vec<u64> = world.node(rotten).disk.journal.keys().copied().collect();
    if ops.is_empty() {
        return;
    }
    let op = ops[random.usize(..ops.len())];
    let checksum = world.node(rotten).disk.journal[&op].0.header.checksum;
    let elsewhere = (0..world.members())
        .filter(|node| *node != rotten)
        .any(|node| {
            let held = world.node(node).disk.journal.get(&op);
            held.is_some_and(|(frame, intact)| *intact && frame.header.checksum == checksum)
        });
    if elsewhere && let Some(record) = world.node_mut(rotten).disk.journal.get_mut(&op) {
        record.1 = false;
    }
}

fn check(world: &World, seed: u64) {
    for (index, node) in world.nodes.iter().enumerate() {
        assert!(
            node.fatal.is_none(),
            "seed {seed}: replica {index} stopped: {:?}",
            node.fatal
        );
    }
}

/// Start all nodes with a lossless network: all must reach the same state, and new commands must commit.
fn heal(world: &mut World, seed: u64) {
    world.net.clear();
    for index in 0..world.members() {
        if !world.up(index) {
            world.start(index);
        }
    }
    for round in 0..4000u64 {
        world.pass(10, &[]);
        check(world, seed);
        if round % 20 != 0 {
            continue;
        }
        let first = world.history.keys().next_back().copied().unwrap_or(0);
        for index in 0..world.members() {
            let report = world.replica(index).report();
            if report.status == Status::Normal && report.primary == index {
                world.propose(index, b"healed");
            }
        }
        world.settle();
        check(world, seed);
        let newest = world.history.keys().next_back().copied().unwrap_or(0);
        let states: Vec<_> = world
            .nodes
            .iter()
            .map(|node| (node.replica.as_ref().unwrap().report(), node.state))
            .collect();
        let same = states
            .iter()
            .all(|(report, _)| report.status == Status::Normal && report.commit_min == newest);
        if newest > first && same {
            assert!(states.iter().all(|(_, state)| *state == states[0].1));
            return;
        }
    }
    let reports: Vec<_> = (0..world.members())
        .map(|index| format!("{:?}", world.replica(index).report()))
        .collect();
    panic!("seed {seed}: no convergence:\n{}", reports.join("\n"));
}

fn sweep(default: &str, steps: u32, chances: fn(&mut fastrand::Rng) -> Chances) {
    let seeds = std::env::var("WALK_SEEDS").unwrap_or_else(|_| default.to_owned());
    let (from, to) = seeds.split_once("..").unwrap();
    let mut totals = std::collections::BTreeMap::<&str, u64>::new();
    for seed in from.parse::<u64>().unwrap()..to.parse::<u64>().unwrap() {
        let world = walk(seed, steps, chances);
        *totals.entry("commits").or_default() += world.history.len() as u64;
        for (name, count) in world.notices {
            *totals.entry(name).or_default() += count;
        }
    }
    println!("{totals:?}");
}

#[test]
fn ctl_1_random_walks_agree_and_converge() {
    sweep("0..1000", 2500, plain);
}

#[test]
fn ctl_1_random_duels_agree_and_converge() {
    sweep("0..2000", 800, duel);
}

/// CTL-7: equal inputs give equal outputs, to the last byte.
#[test]
fn ctl_7_a_walk_repeats_itself() {
    for seed in 0..20 {
        let traces = [0, 1].map(|_| {
            let world = walk(seed, 800, plain);
            let states: Vec<u128> = world.nodes.iter().map(|node| node.state).collect();
            (world.sent, states, world.history)
        });
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}
