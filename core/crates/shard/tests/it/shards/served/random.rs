//! Random schedules of a gateway and a node whose catalogs advance independently.

use std::collections::{BTreeMap, VecDeque};

use headrace_link::{PartitionRef, Refusal, RequestId, ToGateway, ToNode};
use headrace_partition::Response;
use headrace_proto::catalog::v1::delta::Change;
use headrace_wire::PollingStrategy;

use super::peer::{Peer, place, shard_of};
use crate::shards::{
    messages::{payloads, poll},
    nodes::{HERE, THERE, node_here},
};
use crate::world::{World, partition, placed};

const PARTITIONS: usize = 3;

/// One version of the catalog.
#[derive(Clone)]
struct Version {
    incarnation: u64,
    purge_epoch: u64,
    nodes: [u32; PARTITIONS],
}

impl Version {
    fn changes(&self) -> Vec<Change> {
        let count = u32::try_from(PARTITIONS).expect("few");
        vec![
            Change::TopicPut(World::topic(count, self.incarnation, self.purge_epoch)),
            placed(&self.nodes),
        ]
    }

    fn place(&self, id: usize) -> PartitionRef {
        PartitionRef {
            incarnation: self.incarnation,
            purge_epoch: self.purge_epoch,
            ..place(partition(u32::try_from(id).expect("few")))
        }
    }
}

/// Batches that one client has to append, in order.
#[derive(Default)]
struct Client {
    /// Batches not sent, or refused.
    queue: VecDeque<u32>,
    /// Batches sent and not answered.
    under_way: BTreeMap<RequestId, u32>,
    /// Catalog version that the gateway must have before it sends more.
    until: u64,
    /// Acknowledged batches with their offsets.
    stored: Vec<(u64, u32)>,
    /// Number of batches acknowledged by an earlier incarnation or purge epoch.
    lost: usize,
    asked: usize,
}

struct Gateway {
    links: [Option<Peer>; 2],
    version: usize,
    clients: Vec<Client>,
}

struct Run {
    seed: u64,
    world: World,
    history: Vec<Version>,
    /// Number of the first version in `history`.
    first: u64,
    /// Index in `history` of the node's version.
    node: usize,
    gateway: Gateway,
    next: u32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let world = node_here(&[HERE; PARTITIONS]);
        let first = world.version();
        Self {
            seed,
            first,
            world,
            history: vec![Version {
                incarnation: 3,
                purge_epoch: 0,
                nodes: [HERE; PARTITIONS],
            }],
            node: 0,
            gateway: Gateway {
                links: [None, None],
                version: 0,
                clients: (0..PARTITIONS).map(|_| Client::default()).collect(),
            },
            next: 0,
        }
    }

    fn link_of(id: usize) -> usize {
        usize::from(shard_of(partition(u32::try_from(id).expect("few"))))
    }

    fn number(&self, version: usize) -> u64 {
        self.first + version as u64
    }

    /// Process the frames to the gateway.
    fn hear(&mut self) {
        for shard in 0..2 {
            let Some(mut peer) = self.gateway.links[shard].take() else {
                continue;
            };
            let (heard, last) = peer.hear_all(&mut self.world);
            for frame in heard {
                self.heard(shard, frame);
            }
            if last.is_empty() {
                self.gateway.links[shard] = Some(peer);
                continue;
            }
            assert!(self.world.is_closed(peer.link), "seed {}", self.seed);
            for id in (0..PARTITIONS).filter(|id| Self::link_of(*id) == shard) {
                self.gateway.clients[id].take_back();
            }
        }
    }

    fn heard(&mut self, shard: usize, frame: ToGateway) {
        let seed = self.seed;
        let history = &self.history;
        let mut clients = (self.gateway.clients.iter_mut().enumerate())
            .filter(|(id, _)| Self::link_of(*id) == shard);
        match frame {
            ToGateway::Answer { call, result } => {
                let (_, client) = clients
                    .find(|(_, client)| client.under_way.contains_key(&call))
                    .unwrap_or_else(|| panic!("seed {seed}: {call:?} was not asked"));
                let text = client.under_way.remove(&call).expect("found by it");
                match result {
                    Ok(Response::Appended { base_offset, .. }) => {
                        client.stored.push((base_offset.0, text));
                    }
                    Err(Refusal::NotFound) => client.lost += 1,
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
            ToGateway::WrongNode { call, version } => {
                let (_, client) = clients
                    .find(|(_, client)| client.under_way.contains_key(&call))
                    .unwrap_or_else(|| panic!("seed {seed}: {call:?} was not asked"));
                let text = client.under_way.remove(&call).expect("found by it");
                let place = client.queue.partition_point(|other| *other < text);
                client.queue.insert(place, text);
                client.until = client.until.max(version);
                assert!(
                    version < self.first + history.len() as u64,
                    "seed {seed}: {version} does not exist"
                );
            }
            ToGateway::Welcome { .. } => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }

    /// Send what the gateway may send.
    fn send(&mut self) {
        self.hear();
        let version = self.number(self.gateway.version);
        let view = self.history[self.gateway.version].clone();
        for id in 0..PARTITIONS {
            let shard = Self::link_of(id);
            let client = &mut self.gateway.clients[id];
            let is_refused = client.until > 0;
            let may = client.until <= version && view.nodes[id] == HERE;
            // Refused calls are repeated once all of them are back.
            if !may || client.queue.is_empty() || is_refused && !client.under_way.is_empty() {
                continue;
            }
            let mut peer = self.gateway.links[shard].take().unwrap_or_else(|| {
                let shard = u16::try_from(shard).expect("two");
                Peer::ask(&mut self.world, 0, shard, version)
            });
            if is_refused {
                peer.say(&mut self.world, ToNode::CatalogVersion(version));
                client.until = 0;
            }
            for text in core::mem::take(&mut client.queue) {
                let payload = text.to_string();
                let call = RequestId(text.into());
                let place = view.place(id);
                peer.append_as(&mut self.world, call, place, &[payload.as_bytes()]);
                client.under_way.insert(call, text);
            }
            self.gateway.links[shard] = Some(peer);
        }
    }

    fn announce(&mut self) {
        self.hear();
        let version = self.number(self.gateway.version);
        for peer in self.gateway.links.iter_mut().flatten() {
            peer.say(&mut self.world, ToNode::CatalogVersion(version));
        }
    }

    fn node_follows(&mut self) {
        if self.node + 1 < self.history.len() {
            self.node += 1;
            let changes = self.history[self.node].changes();
            self.world.publish(changes);
            assert_eq!(self.world.version(), self.number(self.node));
        }
    }

    fn gateway_follows(&mut self) {
        if self.gateway.version + 1 < self.history.len() {
            self.gateway.version += 1;
            self.announce();
        }
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        let mut next = self.history.last().expect("never empty").clone();
        let id = random.usize(0..PARTITIONS);
        match random.u32(0..100) {
            0..45 => {
                self.next += 1;
                let client = &mut self.gateway.clients[id];
                client.asked += 1;
                client.queue.push_back(self.next);
                if random.bool() {
                    self.send();
                }
            }
            45..55 => self.send(),
            55..60 => {
                next.nodes[id] = if next.nodes[id] == HERE { THERE } else { HERE };
                self.history.push(next);
            }
            60..62 => {
                next.purge_epoch += 1;
                self.history.push(next);
            }
            62..64 => {
                next.incarnation += 1;
                next.purge_epoch = 0;
                self.history.push(next);
            }
            64..74 => self.node_follows(),
            74..84 => self.gateway_follows(),
            84..90 => self.world.storage_held = true,
            90..96 => self.world.release_storage(),
            96..98 => self.world.pass(random.u64(100_000..6_000_000)),
            _ => self.hear(),
        }
    }

    /// Deliver all changes, with every partition on this node.
    fn settle(&mut self) {
        let mut last = self.history.last().expect("never empty").clone();
        last.nodes = [HERE; PARTITIONS];
        self.history.push(last);
        self.world.release_storage();
        for _ in 0..self.history.len() {
            self.node_follows();
            self.gateway_follows();
        }
        for _ in 0..20 {
            self.send();
        }
        self.hear();
    }

    fn check(&mut self) {
        let seed = self.seed;
        let reader = self.world.login(0);
        for id in 0..PARTITIONS {
            let client = &self.gateway.clients[id];
            assert!(client.under_way.is_empty(), "seed {seed}: never answered");
            assert!(client.queue.is_empty(), "seed {seed}: never sent");
            assert_eq!(client.stored.len() + client.lost, client.asked);
            let in_order = client.stored.is_sorted_by_key(|(_, text)| *text);
            assert!(in_order, "seed {seed}: {:?}", client.stored);
            // Each log generation begins with offset 0; within it, no batch is missing or duplicated.
            let begins = client.stored.iter().rposition(|(offset, _)| *offset == 0);
            let life = &client.stored[begins.unwrap_or(client.stored.len())..];
            for (expected, (offset, _)) in (0..).zip(life) {
                assert_eq!(*offset, expected, "seed {seed}: {life:?}");
            }
            let id = u32::try_from(id).expect("few");
            let command = poll(id, PollingStrategy::First, 10_000);
            let found = payloads(&mut self.world, reader, &command);
            let expected: Vec<Vec<u8>> = life
                .iter()
                .map(|(_, text)| text.to_string().into_bytes())
                .collect();
            // The last log generation may be empty.
            assert!(
                found == expected || found.is_empty(),
                "seed {seed}: {found:?} is not {expected:?}"
            );
        }
    }
}

impl Client {
    /// Take back unanswered calls after a drained link: they were not executed.
    fn take_back(&mut self) {
        for text in core::mem::take(&mut self.under_way).into_values() {
            let place = self.queue.partition_point(|other| *other < text);
            self.queue.insert(place, text);
        }
        self.until = 0;
    }
}

/// Acknowledged batches are stored once and in order, whichever side has the newer catalog.
#[test]
fn appends_over_a_link_are_done_once_and_in_order() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut run = Run::new(seed);
        for _ in 0..150 {
            run.step(&mut random);
        }
        run.settle();
        run.check();
    }
}
