//! Random schedules of clients at a gateway: an acknowledged batch is in its partition once and in the order of its
//! connection, and a refused one is absent, regardless of faults.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
};

use headrace_wire::{Command, Status, command::WaitMessages};

use super::{GATEWAY, NODES, SILENCE_MICROS, TIMEOUT_MICROS, World, requests::poll_first};

const PARTITIONS: u32 = 4;

/// Kind of request whose answer a client waits for.
enum Sent {
    Batch(Vec<String>),
    Other,
}

struct Client {
    name: usize,
    link: usize,
    count: usize,
    waiting: VecDeque<Sent>,
}

struct Run {
    world: World,
    clients: Vec<Client>,
    names: usize,
    taken: BTreeMap<String, u32>,
    refused: BTreeSet<String>,
    partitions: BTreeMap<String, u32>,
    incarnation: u64,
}

/// Payloads of a partition, in order.
type Read = fn(&mut World, u32) -> Vec<Vec<u8>>;

/// Run schedules with these faults of nodes, and compare the contents of the partitions with the answers to clients.
pub fn compare(
    seeds: u64,
    world: impl Fn(u64, u32) -> World,
    fault: fn(&mut World, u32),
    read: Read,
) {
    let mut taken = 0;
    for_each_seed("LINKS_SEED", seeds, |seed| {
        let mut world = world(seed, PARTITIONS);
        world.is_calm = false;
        world.random = fastrand::Rng::with_seed(seed);
        let mut run = Run {
            world,
            clients: Vec::new(),
            names: 0,
            taken: BTreeMap::new(),
            refused: BTreeSet::new(),
            partitions: BTreeMap::new(),
            incarnation: 1,
        };
        run.hear();
        for _ in 0..300 {
            run.step(fault);
        }
        run.heal();
        run.check(read);
        taken += run.taken.len();
    });
    assert!(taken > 5_000, "only {taken} messages were acknowledged");
}

/// Run with many seeds, or with the one that a variable of the environment names.
pub fn for_each_seed(variable: &str, count: u64, mut run: impl FnMut(u64)) {
    let number = |name| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    let seeds = match number(variable) {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("PROPERTY_FACTOR").unwrap_or(1),
    };
    for seed in seeds {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(result.is_ok(), "repeat with {variable}={seed}");
    }
}

impl Run {
    fn join(&mut self) {
        self.names += 1;
        self.clients.push(Client {
            name: self.names,
            link: self.world.client(),
            count: 0,
            waiting: VecDeque::new(),
        });
    }

    fn send(&mut self, index: usize) {
        let random = &mut self.world.random;
        let id = random.u32(0..PARTITIONS);
        let client = &mut self.clients[index];
        let mut tags = Vec::new();
        for _ in 0..random.usize(1..4) {
            client.count += 1;
            let mut tag = format!("{:03} {:05}", client.name, client.count);
            if random.u32(0..20) == 0 {
                tag.push_str(&" ".repeat(random.usize(0..30_000)));
            }
            self.partitions.insert(tag.clone(), id);
            tags.push(tag);
        }
        let payloads: Vec<&[u8]> = tags.iter().map(String::as_bytes).collect();
        self.world.post(client.link, id, &payloads);
        client.waiting.push_back(Sent::Batch(tags));
    }

    fn read(&mut self, index: usize) {
        let random = &mut self.world.random;
        let poll = poll_first(random.u32(0..PARTITIONS), 10, random.bool());
        let command = if random.bool() {
            Command::PollMessages(poll)
        } else {
            Command::WaitMessages(WaitMessages {
                poll,
                minimum_bytes: random.u32(1..100_000),
                maximum_wait_micros: random.u64(1..3_000_000),
            })
        };
        let client = &mut self.clients[index];
        client.waiting.push_back(Sent::Other);
        self.world.request(client.link, &command);
    }

    fn step(&mut self, fault: fn(&mut World, u32)) {
        let index = self.world.random.usize(0..self.clients.len());
        let node = NODES[self.world.random.usize(0..2)];
        match self.world.random.u32(0..100) {
            0..45 => self.send(index),
            45..55 => self.read(index),
            55..59 => self.cut(),
            59..60 => {
                self.incarnation += 1;
                self.world
                    .change(vec![self.world.node_record(node, self.incarnation)]);
            }
            60..66 => {
                self.world.processes[GATEWAY].hear();
            }
            66..68 => self.world.down.push(node),
            68..71 => self.world.down.clear(),
            71..84 => {
                let micros = self.world.random.u64(0..300_000);
                self.world.pass(micros);
            }
            84..86 => self.world.wires[self.clients[index].link].is_ended[0] = true,
            86..87 => self.join(),
            _ => fault(&mut self.world, node),
        }
        for _ in 0..self.world.random.usize(0..6) {
            self.world.turn();
        }
        self.hear();
    }

    fn cut(&mut self) {
        let links = self.world.links();
        if links.is_empty() {
            return;
        }
        let link = links[self.world.random.usize(0..links.len())];
        let [to_gateway, to_node] = [0, 1].map(|side| {
            let all = self.world.wires[link].towards[side].len();
            self.world.random.usize(0..=all)
        });
        self.world.cut(link, to_node, to_gateway);
    }

    /// Process responses to clients, and replace disconnected clients.
    fn hear(&mut self) {
        for client in &mut self.clients {
            while let Some(reply) = self.world.try_reply(client.link) {
                match (client.waiting.pop_front().expect("asked for"), reply.status) {
                    (Sent::Batch(tags), Status::OK) => {
                        for tag in tags {
                            let id = self.partitions[&tag];
                            self.taken.insert(tag, id);
                        }
                    }
                    (Sent::Batch(tags), Status::PARTITION_UNAVAILABLE) => {
                        self.refused.extend(tags);
                    }
                    // A node that shuts down closes its partitions; parked calls are refused as unavailable at most.
                    (Sent::Other, Status::OK | Status::PARTITION_UNAVAILABLE) => {}
                    (_, status) => panic!("status {}", status.0),
                }
            }
        }
        let world = &self.world;
        self.clients.retain(|client| !world.is_closed(client.link));
        while self.clients.len() < 3 {
            self.join();
        }
    }

    /// End all faults: every client that is still connected gets its answers, and clients continue afterwards.
    fn heal(&mut self) {
        self.world.is_calm = true;
        self.world.down.clear();
        self.world.run();
        self.world.hear_all();
        self.world.follow_all();
        for _ in 0..10 {
            self.hear();
            self.world.pass(TIMEOUT_MICROS.max(SILENCE_MICROS));
        }
        self.assert_answered();
        for index in 0..self.clients.len() {
            self.send(index);
        }
        self.world.pass(1_000_000);
        self.assert_answered();
    }

    fn assert_answered(&mut self) {
        self.hear();
        for client in &self.clients {
            assert!(client.waiting.is_empty(), "client {} waits", client.name);
        }
    }

    fn check(&mut self, read: Read) {
        let mut found: BTreeMap<String, u32> = BTreeMap::new();
        for id in 0..PARTITIONS {
            let mut last: BTreeMap<String, String> = BTreeMap::new();
            for payload in read(&mut self.world, id) {
                let tag = String::from_utf8(payload).unwrap();
                let before = found.insert(tag.clone(), id);
                assert_eq!(before, None, "{tag:?} is there twice");
                if let Some(before) = last.insert(tag[..3].to_owned(), tag.clone()) {
                    assert!(before < tag, "{tag:?} stands behind {before:?}");
                }
            }
        }
        for (tag, id) in &self.taken {
            assert_eq!(found.get(tag), Some(id), "{tag:?} was acknowledged");
        }
        for tag in &self.refused {
            assert!(!found.contains_key(tag), "{tag:?} was refused");
        }
    }
}
