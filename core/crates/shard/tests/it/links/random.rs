//! Random schedules: answers to clients match the contents of the partitions.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
};

use headrace_proto::catalog::v1::delta::Change;
use headrace_wire::{Command, Status, command::WaitMessages};

use crate::links::{
    losses::poll,
    world::{SILENCE_MICROS, TIMEOUT_MICROS, World, node_record, partition},
};

const PARTITIONS: u32 = 4;
const SEEDS: u64 = 400;
const STEPS: usize = 300;

/// Kind of request whose answer a client waits for.
enum Sent {
    Batch(Vec<String>),
    Other,
}

struct Client {
    name: usize,
    socket: usize,
    count: usize,
    waiting: VecDeque<Sent>,
}

#[derive(Default)]
struct Known {
    taken: BTreeMap<String, u32>,
    refused: BTreeSet<String>,
    places: BTreeMap<String, u32>,
}

struct Run {
    world: World,
    random: fastrand::Rng,
    clients: Vec<Client>,
    names: usize,
    known: Known,
    /// Catalog changes that the gateway has yet to receive.
    news: VecDeque<Change>,
    incarnation: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::new(PARTITIONS);
        world.random = Some(fastrand::Rng::with_seed(seed ^ 0x5eed));
        Self {
            world,
            random: fastrand::Rng::with_seed(seed),
            clients: Vec::new(),
            names: 0,
            known: Known::default(),
            news: VecDeque::new(),
            incarnation: 1,
        }
    }

    fn join(&mut self) {
        self.names += 1;
        let socket = self.world.client();
        self.clients.push(Client {
            name: self.names,
            socket,
            count: 0,
            waiting: VecDeque::new(),
        });
    }

    fn send(&mut self, index: usize) {
        let id = self.random.u32(0..PARTITIONS);
        let client = &mut self.clients[index];
        let mut tags = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            client.count += 1;
            let mut tag = format!("{:03} {:05}", client.name, client.count);
            if self.random.u32(0..20) == 0 {
                tag.push_str(&" ".repeat(self.random.usize(0..30_000)));
            }
            self.known.places.insert(tag.clone(), id);
            tags.push(tag);
        }
        let payloads: Vec<&[u8]> = tags.iter().map(String::as_bytes).collect();
        let socket = client.socket;
        self.world.send(socket, id, &payloads);
        self.clients[index].waiting.push_back(Sent::Batch(tags));
    }

    fn read(&mut self, index: usize) {
        let id = self.random.u32(0..PARTITIONS);
        let command = match poll(id, self.random.bool()) {
            Command::PollMessages(poll) if self.random.bool() => {
                Command::WaitMessages(WaitMessages {
                    poll,
                    minimum_bytes: 1,
                    maximum_wait_micros: self.random.u64(1..3_000_000),
                })
            }
            command => command,
        };
        let client = &mut self.clients[index];
        self.world.request(client.socket, &command);
        client.waiting.push_back(Sent::Other);
    }

    fn step(&mut self) {
        let index = self.random.usize(0..self.clients.len());
        let node = self.random.usize(0..2);
        match self.random.u32(0..100) {
            0..45 => self.send(index),
            45..55 => self.read(index),
            55..60 => self.cut(node),
            60..62 => {
                if let Some(link) = self.link(node) {
                    self.world.drain_link(node, link);
                }
            }
            62..65 => {
                let nodes: Vec<u32> = (0..PARTITIONS).map(|_| self.random.u32(1..3)).collect();
                let change = self.world.place(&nodes);
                self.news.push_back(change);
            }
            65..66 => {
                self.incarnation += 1;
                let change = node_record(u32::try_from(node).unwrap() + 1, self.incarnation);
                self.world.newest += 1;
                self.news.push_back(change);
            }
            66..72 => {
                if let Some(change) = self.news.pop_front() {
                    self.world.publish(vec![change]);
                }
            }
            72..80 => {
                let (known, newest) = (self.world.nodes[node].version, self.world.newest);
                let version = self.random.u64(known..=newest);
                self.world.nodes[node].follow(version, &self.world.truth);
            }
            80..82 => self.world.down.push(node),
            82..85 => self.world.down.clear(),
            85..97 => {
                let micros = self.random.u64(0..300_000);
                self.world.pass(micros);
            }
            97..98 => {
                self.world.sockets[self.clients[index].socket].is_ended = true;
            }
            _ => self.join(),
        }
        for _ in 0..self.random.usize(0..6) {
            self.world.turn();
        }
        self.hear();
    }

    fn link(&mut self, node: usize) -> Option<usize> {
        let links = self.world.links_to(node);
        let is_served = |link: &usize| self.world.nodes[node].links.contains_key(link);
        links.into_iter().find(is_served)
    }

    fn cut(&mut self, node: usize) {
        let Some(link) = self.link(node) else {
            return;
        };
        let wire = &self.world.sockets[link];
        let to_node = self.random.usize(0..=wire.back.len());
        let to_gateway = self.random.usize(0..=wire.towards.len());
        self.world.cut(link, to_node, to_gateway);
    }

    /// Process responses to clients, and replace disconnected clients.
    fn hear(&mut self) {
        for client in &mut self.clients {
            while let Some(reply) = self.world.try_reply(client.socket) {
                match (client.waiting.pop_front().expect("asked for"), reply.status) {
                    (Sent::Batch(tags), Status::OK) => {
                        for tag in tags {
                            let id = self.known.places[&tag];
                            self.known.taken.insert(tag, id);
                        }
                    }
                    (Sent::Batch(tags), Status::PARTITION_UNAVAILABLE) => {
                        self.known.refused.extend(tags);
                    }
                    (Sent::Other, Status::OK | Status::PARTITION_UNAVAILABLE) => {}
                    (_, status) => panic!("status {}", status.0),
                }
            }
        }
        let world = &self.world;
        self.clients
            .retain(|client| !world.is_closed(client.socket));
        while self.clients.len() < 3 {
            self.join();
        }
    }

    /// End all faults: every client that is still connected gets its answers.
    fn heal(&mut self) {
        self.world.random = None;
        self.world.down.clear();
        self.world.run();
        while let Some(change) = self.news.pop_front() {
            self.world.publish(vec![change]);
        }
        self.world.follow_all();
        for _ in 0..10 {
            self.hear();
            self.world.pass(TIMEOUT_MICROS.max(SILENCE_MICROS));
        }
        self.hear();
        for client in &self.clients {
            assert!(client.waiting.is_empty(), "client {} waits", client.name);
        }
        // Clients continue afterwards.
        for index in 0..self.clients.len() {
            self.send(index);
        }
        self.world.pass(1_000_000);
        self.hear();
        for client in &self.clients {
            assert!(client.waiting.is_empty(), "client {} waits", client.name);
        }
    }

    fn check(&self) {
        let mut found: BTreeMap<String, u32> = BTreeMap::new();
        for id in 0..PARTITIONS {
            let mut last: BTreeMap<String, String> = BTreeMap::new();
            let log = self.world.truth.logs.get(&partition(id));
            for payload in log.into_iter().flatten() {
                let tag = String::from_utf8(payload.clone()).unwrap();
                assert_eq!(
                    found.insert(tag.clone(), id),
                    None,
                    "{tag:?} is there twice"
                );
                let client = tag[..3].to_owned();
                if let Some(before) = last.insert(client, tag.clone()) {
                    assert!(before < tag, "{tag:?} stands behind {before:?}");
                }
            }
        }
        for (tag, id) in &self.known.taken {
            assert_eq!(found.get(tag), Some(id), "{tag:?} was acknowledged");
        }
        for tag in &self.known.refused {
            assert!(!found.contains_key(tag), "{tag:?} was refused");
        }
    }
}

fn run(seed: u64) -> usize {
    let mut run = Run::new(seed);
    run.hear();
    for _ in 0..STEPS {
        run.step();
    }
    run.heal();
    run.check();
    run.known.taken.len()
}

/// GW-2: an acknowledged batch is in the node's partition exactly once, in the order of its connection, and a refused
/// one is absent, regardless of faults of links, nodes and the catalog.
#[test]
fn answers_to_clients_are_true() {
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
