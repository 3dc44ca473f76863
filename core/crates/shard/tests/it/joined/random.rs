//! Random schedules: clients later read exactly what was acknowledged.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
};

use headrace_wire::{
    Command, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, Status,
    batch::BatchBuilder,
    command::{PollMessages, WaitMessages},
    response::Polled,
};

use crate::joined::{
    process::{SILENCE_MICROS, TIMEOUT_MICROS},
    world::{GATEWAY, NODES, World, node_record},
};

const PARTITIONS: u32 = 4;
const SEEDS: u64 = 150;
const STEPS: usize = 250;

/// Kind of request whose answer a client waits for.
enum Sent {
    Batch(Vec<String>),
    Other,
}

struct Client {
    name: usize,
    wire: usize,
    count: usize,
    waiting: VecDeque<Sent>,
}

struct Run {
    world: World,
    clients: Vec<Client>,
    names: usize,
    taken: BTreeMap<String, u32>,
    refused: BTreeSet<String>,
    places: BTreeMap<String, u32>,
    incarnation: u64,
}

fn poll(id: u32, count: u32, auto_commit: bool) -> PollMessages<'static> {
    PollMessages {
        consumer: Consumer {
            kind: ConsumerKind::Consumer,
            id: Identifier::Numeric(1),
        },
        stream: Identifier::Numeric(0),
        topic: Identifier::Named("t"),
        partition_id: Some(id),
        strategy: PollingStrategy::First,
        count,
        auto_commit,
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed, PARTITIONS);
        world.is_calm = false;
        let mut run = Self {
            world,
            clients: Vec::new(),
            names: 0,
            taken: BTreeMap::new(),
            refused: BTreeSet::new(),
            places: BTreeMap::new(),
            incarnation: 1,
        };
        run.hear();
        run
    }

    fn send(&mut self, index: usize) {
        let random = &mut self.world.random;
        let id = random.u32(0..PARTITIONS);
        let client = &mut self.clients[index];
        let mut batch = BatchBuilder::new();
        let mut tags = Vec::new();
        for _ in 0..random.usize(1..4) {
            client.count += 1;
            let mut tag = format!("{:03} {:05}", client.name, client.count);
            if random.u32(0..20) == 0 {
                tag.push_str(&" ".repeat(random.usize(0..30_000)));
            }
            batch.push(0, 1, tag.as_bytes(), &[]).unwrap();
            self.places.insert(tag.clone(), id);
            tags.push(tag);
        }
        let request = batch.request(
            Identifier::Numeric(0),
            Identifier::Numeric(0),
            Partitioning::PartitionId(id),
        );
        let wire = client.wire;
        client.waiting.push_back(Sent::Batch(tags));
        self.world.request(wire, &Command::SendMessages(request));
    }

    fn read(&mut self, index: usize) {
        let random = &mut self.world.random;
        let poll = poll(random.u32(0..PARTITIONS), 10, random.bool());
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
        self.world.request(client.wire, &command);
    }

    fn step(&mut self) {
        let index = self.world.random.usize(0..self.clients.len());
        let node = NODES[self.world.random.usize(0..2)];
        match self.world.random.u32(0..100) {
            0..45 => self.send(index),
            45..55 => self.read(index),
            55..59 => self.cut(),
            59..61 => self.world.restart(node),
            61..63 => {
                self.world.stop(node);
                self.world.restart(node);
            }
            63..66 => {
                let id = self.world.random.usize(0..PARTITIONS as usize);
                self.world.move_partition(id);
            }
            66..67 => {
                self.incarnation += 1;
                let change = node_record(u32::try_from(node).unwrap(), self.incarnation);
                self.world.change(vec![change]);
            }
            67..73 => {
                self.world.processes[GATEWAY].hear();
            }
            73..79 => {
                self.world.processes[node].hear();
            }
            79..81 => self.world.is_down[node] = true,
            81..84 => self.world.is_down = [false; 3],
            84..97 => {
                let micros = self.world.random.u64(0..300_000);
                self.world.pass(micros);
            }
            _ => {
                let wire = self.clients[index].wire;
                self.world.wires[wire].is_ended[0] = true;
            }
        }
        for _ in 0..self.world.random.usize(0..6) {
            self.world.run();
        }
        self.hear();
    }

    fn cut(&mut self) {
        let links = self.world.links();
        if links.is_empty() {
            return;
        }
        let link = links[self.world.random.usize(0..links.len())];
        let counts = [0, 1].map(|side| {
            let all = self.world.wires[link].towards[side].len();
            self.world.random.usize(0..=all)
        });
        self.world.wires[link].cut(counts);
    }

    /// Process responses to clients, and replace disconnected clients.
    fn hear(&mut self) {
        for client in &mut self.clients {
            while let Some(reply) = self.world.try_reply(client.wire) {
                match (client.waiting.pop_front().expect("asked for"), reply.status) {
                    (Sent::Batch(tags), Status::OK) => {
                        for tag in tags {
                            let id = self.places[&tag];
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
        self.clients.retain(|client| !world.is_closed(client.wire));
        while self.clients.len() < 3 {
            self.names += 1;
            let wire = self.world.client();
            self.clients.push(Client {
                name: self.names,
                wire,
                count: 0,
                waiting: VecDeque::new(),
            });
        }
    }

    /// End all faults: every client that is still connected gets its answers.
    fn heal(&mut self) {
        self.world.is_calm = true;
        self.world.is_down = [false; 3];
        self.world.run();
        self.world.hear_all();
        for _ in 0..6 {
            self.hear();
            self.world.pass(TIMEOUT_MICROS.max(SILENCE_MICROS));
        }
        self.hear();
        for client in &self.clients {
            assert!(client.waiting.is_empty(), "client {} waits", client.name);
        }
    }

    fn read_all(&mut self, id: u32) -> Vec<String> {
        let client = self.world.client();
        let poll = poll(id, 100_000, false);
        self.world.request(client, &Command::PollMessages(poll));
        self.world.pass(1_000_000);
        let reply = self.world.try_reply(client).expect("an answer");
        assert_eq!(reply.status, Status::OK);
        let polled = Polled::decode(&reply.payload).unwrap();
        polled
            .messages()
            .zip(0..)
            .map(|(message, offset)| {
                let message = message.unwrap();
                assert_eq!(message.header().offset(), offset, "offsets have no gaps");
                String::from_utf8(message.payload().to_vec()).unwrap()
            })
            .collect()
    }

    fn check(&mut self) {
        let mut found: BTreeMap<String, u32> = BTreeMap::new();
        for id in 0..PARTITIONS {
            let is_empty = !self.taken.values().any(|taken| *taken == id);
            assert!(
                is_empty || self.world.has_directory(id),
                "nothing is ever deleted"
            );
            let mut last: BTreeMap<String, String> = BTreeMap::new();
            for tag in self.read_all(id) {
                assert_eq!(
                    found.insert(tag.clone(), id),
                    None,
                    "{tag:?} is there twice"
                );
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

fn run(seed: u64) -> usize {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.heal();
    run.check();
    run.taken.len()
}

/// GW-2: an acknowledged batch can be read once and in the order of its connection, and a refused one is absent,
/// regardless of faults of connections, nodes and catalogs.
#[test]
fn clients_read_what_was_acknowledged() {
    let number = |name| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    if let Some(seed) = number("LINKS_SEED") {
        run(seed);
        return;
    }
    let mut taken = 0;
    for seed in 0..SEEDS * number("PROPERTY_FACTOR").unwrap_or(1) {
        let count = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(count.is_ok(), "repeat with LINKS_SEED={seed}");
        taken += count.unwrap_or_default();
    }
    assert!(taken > 5_000, "only {taken} messages were acknowledged");
}
