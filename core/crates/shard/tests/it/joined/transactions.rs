//! Staged messages from a client through a gateway into partitions: each is appended once or never, and is invisible
//! before the commit.

use std::collections::{BTreeMap, BTreeSet};

use headrace_model::{StageId, Timestamp};
use headrace_proto::control::v1 as control;
use headrace_shard::Input;
use headrace_wire::{
    Command, Identifier, Status, TransactionOutcome,
    batch::BatchBuilder,
    command::{AbortTransaction, CommitTransaction, StageMessages, StagedAt},
    response::{Polled, StagedMessages, TransactionResult},
};

use crate::joined::machine::{INCARNATION, Machine};
use crate::world::{
    GATEWAY, NODES, World, acknowledged::for_each_seed, batch, poll_first, to_partition,
};

const PARTITIONS: u32 = 3;
const SEEDS: u64 = 60;
const STEPS: usize = 600;
const SECOND: u64 = 1_000_000;

/// Messages of one staged batch.
struct Wanted {
    partition: u32,
    chunks: Vec<Vec<String>>,
    stage: Option<u128>,
    /// Number of accepted chunks.
    taken: usize,
}

enum Asked {
    Stage(usize),
    Commit,
    Abort,
}

/// A client that writes one batch after the other, despite all faults.
struct Writer {
    wire: usize,
    batch: u64,
    wanted: Vec<Wanted>,
    asked: Option<Asked>,
    gives_up: bool,
}

struct Run {
    world: World,
    machine: Machine,
    writer: Writer,
    tags: usize,
    /// Content of every staged batch that was acknowledged as complete.
    staged: BTreeMap<u128, (u32, Vec<String>)>,
    plain: usize,
    poller: Option<(usize, u32)>,
    /// Replies of the metadata service in transit.
    replies: Vec<Input>,
    notices: Vec<control::Request>,
    seen: BTreeMap<(u32, u64), String>,
    /// Messages that a reader has seen before a purge.
    gone: BTreeSet<String>,
    outcomes: BTreeMap<&'static str, usize>,
}

fn poll(id: u32) -> Command<'static> {
    Command::PollMessages(poll_first(id, 100_000, false))
}

fn of_tags(tags: &[String]) -> BatchBuilder {
    let payloads: Vec<&[u8]> = tags.iter().map(String::as_bytes).collect();
    batch(&payloads)
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::cluster(seed, PARTITIONS);
        world.move_partition(1);
        world.hear_all();
        world.is_calm = false;
        world.is_storage_slow = true;
        world.control_held = true;
        let wire = world.in_process(0, 0);
        let mut run = Self {
            writer: Writer {
                wire,
                batch: 0,
                wanted: Vec::new(),
                asked: None,
                gives_up: false,
            },
            world,
            machine: Machine::default(),
            tags: 0,
            staged: BTreeMap::new(),
            plain: 0,
            poller: None,
            replies: Vec::new(),
            notices: Vec::new(),
            seen: BTreeMap::new(),
            gone: BTreeSet::new(),
            outcomes: BTreeMap::new(),
        };
        run.begin_attempt();
        run
    }

    fn count(&mut self, what: &'static str) {
        *self.outcomes.entry(what).or_default() += 1;
    }

    /// Begin an attempt with other messages than those of earlier attempts.
    fn begin_attempt(&mut self) {
        let random = &mut self.world.random;
        let mut wanted = Vec::new();
        for _ in 0..random.usize(1..3) {
            let mut chunks = Vec::new();
            for _ in 0..random.usize(1..4) {
                let mut tags = Vec::new();
                for _ in 0..random.usize(1..4) {
                    self.tags += 1;
                    tags.push(format!("t{:03} {:06}", self.writer.batch, self.tags));
                }
                chunks.push(tags);
            }
            wanted.push(Wanted {
                partition: random.u32(0..PARTITIONS),
                chunks,
                stage: None,
                taken: 0,
            });
        }
        self.writer.wanted = wanted;
        self.writer.gives_up = random.u32(0..8) == 0;
    }

    /// Send the writer's next request, unless it waits for an answer.
    fn write(&mut self) {
        if self.writer.asked.is_some() {
            return;
        }
        let lifetime_seconds = self.world.random.u32(1..6);
        let writer = &mut self.writer;
        let is_open = |wanted: &Wanted| wanted.taken < wanted.chunks.len();
        if let Some(index) = writer.wanted.iter().position(is_open) {
            let wanted = &writer.wanted[index];
            let batch = of_tags(&wanted.chunks[wanted.taken]);
            let command = Command::StageMessages(StageMessages {
                stage: wanted.stage.unwrap_or(0),
                lifetime_seconds,
                chunk: u32::try_from(wanted.taken).unwrap(),
                is_last: wanted.taken + 1 == wanted.chunks.len(),
                batch: to_partition(&batch, wanted.partition),
            });
            writer.asked = Some(Asked::Stage(index));
            self.world.request(writer.wire, &command);
            return;
        }
        let stages = writer.wanted.iter().map(|wanted| StagedAt {
            topic_id: 0,
            partition_id: wanted.partition,
            incarnation: INCARNATION,
            stage: wanted.stage.expect("all of it was taken"),
        });
        let (stream, stages) = (Identifier::Numeric(0), stages.collect());
        let command = if writer.gives_up {
            writer.asked = Some(Asked::Abort);
            Command::AbortTransaction(AbortTransaction {
                stream,
                transaction: "t",
                query_id: "q",
                batch_id: writer.batch,
                stages,
            })
        } else {
            writer.asked = Some(Asked::Commit);
            Command::CommitTransaction(CommitTransaction {
                stream,
                transaction: "t",
                query_id: "q",
                batch_id: writer.batch,
                fence: false,
                stages,
            })
        };
        self.world.request(writer.wire, &command);
    }

    /// Process the writer's answer. After the loss of its connection it repeats the request.
    fn take(&mut self) {
        let Some(reply) = self.world.try_reply(self.writer.wire) else {
            if self.world.is_closed(self.writer.wire) {
                self.writer.wire = self.world.in_process(0, 0);
                self.writer.asked = None;
                self.count("disconnected");
            }
            return;
        };
        let asked = self.writer.asked.take().expect("asked for");
        match (asked, reply.status) {
            (Asked::Stage(index), Status::OK) => {
                let staged = StagedMessages::decode(&reply.payload).unwrap();
                let wanted = &mut self.writer.wanted[index];
                wanted.stage.get_or_insert(staged.stage);
                assert_eq!(wanted.stage, Some(staged.stage));
                wanted.taken += 1;
                if wanted.taken == wanted.chunks.len() {
                    let tags: Vec<String> = wanted.chunks.concat();
                    assert_eq!(staged.messages, tags.len() as u64);
                    self.staged.insert(staged.stage, (wanted.partition, tags));
                }
            }
            // The batch was incomplete when its node crashed, or it has expired meanwhile.
            (Asked::Stage(_), Status::STAGE_NOT_FOUND | Status::INVALID_STAGE_CHUNK) => {
                self.count("stage lost");
                self.begin_attempt();
            }
            (Asked::Stage(_), Status::PARTITION_UNAVAILABLE | Status::TASK_TIMEOUT) => {
                self.count("unavailable");
            }
            (Asked::Commit | Asked::Abort, Status::OK) => {
                let result = TransactionResult::decode(&reply.payload).unwrap();
                let is_abort = self.writer.gives_up;
                if result.outcome == TransactionOutcome::AlreadyCommitted || !is_abort {
                    self.count(if is_abort {
                        "too late to give up"
                    } else {
                        "committed"
                    });
                    self.writer.batch += 1;
                } else {
                    self.count("given up");
                }
                self.begin_attempt();
            }
            (Asked::Commit, Status::STAGE_EXPIRED | Status::STAGE_ABORTED) => {
                self.count("expired");
                self.begin_attempt();
            }
            (_, status) => panic!("status {}", status.0),
        }
    }

    /// Append a batch outside of transactions.
    fn send(&mut self) {
        let id = self.world.random.u32(0..PARTITIONS);
        self.plain += 1;
        let tags = [0, 1].map(|part| format!("p{:06} {part}", self.plain));
        let wire = self.world.in_process(0, 0);
        let payloads: Vec<&[u8]> = tags.iter().map(String::as_bytes).collect();
        self.world.post(wire, id, &payloads);
    }

    /// Tags that the partition may contain by now.
    fn committed(&self, id: u32) -> BTreeSet<&str> {
        let publications = (self.machine.committed.iter()).filter(|of| of.partition == id);
        let stages = publications.flat_map(|publication| &publication.stages);
        stages
            .flat_map(|stage| self.staged[stage].1.iter().map(String::as_str))
            .collect()
    }

    fn read(&mut self) {
        if let Some((wire, id)) = self.poller.take() {
            match self.world.try_reply(wire) {
                Some(reply) if reply.status == Status::OK => {
                    self.look_at(id, &reply.payload);
                }
                Some(_) => {}
                None if self.world.is_closed(wire) => {}
                None => self.poller = Some((wire, id)),
            }
            return;
        }
        let wire = self.world.in_process(0, 0);
        let id = self.world.random.u32(0..PARTITIONS);
        self.world.request(wire, &poll(id));
        self.poller = Some((wire, id));
    }

    fn look_at(&mut self, id: u32, payload: &[u8]) -> Vec<String> {
        let polled = Polled::decode(payload).unwrap();
        let mut found = Vec::new();
        for (message, expected) in polled.messages().zip(0..) {
            let message = message.unwrap();
            let offset = message.header().offset();
            assert_eq!(offset, expected, "offsets have no gaps");
            let tag = String::from_utf8(message.payload().to_vec()).unwrap();
            assert!(
                !self.gone.contains(&tag),
                "{id}: {tag:?} is there again after a purge"
            );
            let before = self.seen.insert((id, offset), tag.clone());
            assert!(
                before.is_none_or(|before| before == tag),
                "{id}: offset {offset} is {tag:?} now"
            );
            found.push(tag);
        }
        let committed = self.committed(id);
        for tag in found.iter().filter(|tag| tag.starts_with('t')) {
            assert!(committed.contains(&**tag), "{tag:?} is seen early in {id}");
        }
        found
    }

    /// Let the metadata service execute some of its requests and send its replies.
    fn decide(&mut self) {
        if let Some((_, _, origin, request)) = self.world.asked.pop_front() {
            self.machine.command(self.world.now);
            let (reply, changes) = self.machine.ask(&request);
            self.change(changes);
            self.replies.push(Input::ControlReply { origin, reply });
        }
        if !self.replies.is_empty() && self.world.random.bool() {
            let reply = self.replies.remove(0);
            self.world.processes[GATEWAY].inputs[0].push_back(reply);
        }
        self.notices.append(&mut self.world.notices);
        if self.notices.is_empty() {
            return;
        }
        let index = self.world.random.usize(0..self.notices.len());
        match self.world.random.u32(0..4) {
            0 => drop(self.notices.swap_remove(index)),
            1 => {}
            // The notice is duplicated or delayed.
            fate => {
                let notice = if fate == 2 {
                    self.notices[index].clone()
                } else {
                    self.notices.swap_remove(index)
                };
                self.machine.command(self.world.now);
                let changes = self.machine.hear(&notice);
                self.change(changes);
            }
        }
    }

    fn change(&mut self, changes: Vec<headrace_proto::catalog::v1::delta::Change>) {
        if !changes.is_empty() {
            self.world.change(changes);
        }
        self.machine.applied(self.world.version());
    }

    fn purge(&mut self) {
        self.machine.command(self.world.now);
        self.machine.purged = self.machine.time;
        self.world.purge();
        self.machine.applied(self.world.version());
        // A poll in flight may return messages from before the purge.
        self.poller = None;
        let seen = std::mem::take(&mut self.seen);
        self.gone.extend(seen.into_values());
        self.count("purged");
    }

    fn pass_horizon(&mut self, node: u32) {
        let version = self.world.processes[node as usize]
            .writer
            .current()
            .version();
        let horizon = self.machine.horizon(version);
        let horizon = || Input::StageHorizon(Timestamp(horizon));
        self.world.processes[node as usize].put(horizon);
    }

    fn step(&mut self) {
        let node = NODES[self.world.random.usize(0..2)];
        match self.world.random.u32(0..100) {
            0..50 => self.write(),
            50..54 => self.send(),
            54..60 => self.read(),
            60..62 => {
                self.count("died");
                self.world.restart(node);
            }
            62..74 => {
                self.world.processes[node as usize].hear();
            }
            74..77 => {
                self.world.processes[GATEWAY].hear();
            }
            77..79 => self.world.renew(node as usize),
            79..84 => self.pass_horizon(node),
            84..94 => {
                let micros = self.world.random.u64(0..500_000);
                self.world.pass(micros);
            }
            94..97 => {
                // Time advances even without requests.
                self.machine.command(self.world.now);
                self.machine.applied(self.world.version());
            }
            97 => match self.world.random.u32(0..8) {
                0 => self.purge(),
                1 | 2 => {
                    let id = self.world.random.usize(0..PARTITIONS as usize);
                    self.world.move_partition(id);
                    self.machine.applied(self.world.version());
                    self.count("moved");
                }
                _ => {}
            },
            98 => {
                let wire = self.writer.wire;
                self.world.wires[wire].is_ended[0] = true;
            }
            _ => {
                let links = self.world.links();
                if !links.is_empty() {
                    let link = links[self.world.random.usize(0..links.len())];
                    self.world.cut(link, 0, 0);
                }
            }
        }
        for _ in 0..self.world.random.usize(0..12) {
            self.world.turn();
        }
        self.decide();
        self.take();
    }

    /// End all faults, and deliver everything.
    fn heal(&mut self) {
        self.world.is_calm = true;
        self.world.is_storage_slow = false;
        for _ in 0..12 {
            self.world.hear_all();
            self.world.pass(SECOND);
            while let Some((_, _, origin, request)) = self.world.asked.pop_front() {
                self.machine.command(self.world.now);
                let (reply, changes) = self.machine.ask(&request);
                self.change(changes);
                self.replies.push(Input::ControlReply { origin, reply });
            }
            let replies = std::mem::take(&mut self.replies);
            self.world.processes[GATEWAY].inputs[0].extend(replies);
            self.notices.append(&mut self.world.notices);
            for notice in std::mem::take(&mut self.notices) {
                self.machine.command(self.world.now);
                let changes = self.machine.hear(&notice);
                self.change(changes);
            }
        }
        let is_loss = |report: &&String| report.contains("are lost");
        assert_eq!(self.world.reports.iter().find(is_loss), None);
        let pending = self.machine.pending.values().map(BTreeMap::len);
        assert_eq!(pending.sum::<usize>(), 0, "all was appended and reported");
    }

    fn check(&mut self) {
        for id in 0..PARTITIONS {
            let client = self.world.in_process(0, 0);
            self.world.request(client, &poll(id));
            self.world.pass(SECOND);
            let reply = self.world.try_reply(client).expect("an answer");
            assert_eq!(reply.status, Status::OK);
            let found = self.look_at(id, &reply.payload);
            let mut rest = &found[..];
            for publication in (self.machine.committed.iter()).filter(|of| of.partition == id) {
                let stages = publication.stages.iter();
                let tags: Vec<&String> = stages.flat_map(|id| &self.staged[id].1).collect();
                let first = rest.iter().position(|tag| tag.starts_with('t'));
                let is_next = first.is_some_and(|first| Some(&&rest[first]) == tags.first());
                if publication.number < self.machine.purged && !is_next {
                    continue;
                }
                let first = first.unwrap_or_else(|| panic!("{tags:?} are missing in {id}"));
                let block: Vec<&String> = rest[first..].iter().take(tags.len()).collect();
                assert_eq!(block, tags, "publication {} in {id}", publication.number);
                rest = &rest[first + tags.len()..];
            }
            let more = rest.iter().find(|tag| tag.starts_with('t'));
            assert_eq!(more, None, "is there twice, or was never committed");
        }
        // Staged batches that can no longer be committed are removed.
        self.machine.command(self.world.now + 60 * SECOND);
        let latest = self
            .staged
            .keys()
            .map(|id| StageId(*id).expires_at().0)
            .max();
        assert!(latest.unwrap_or(0) <= self.machine.time);
        self.machine.applied(self.world.version());
        for node in NODES {
            self.pass_horizon(node);
        }
        self.world.pass(SECOND);
        for node in NODES {
            for shard in &self.world.processes[node as usize].shards {
                assert_eq!(shard.progress().stages, 0);
            }
        }
    }
}

fn run(seed: u64) -> BTreeMap<&'static str, usize> {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.heal();
    run.check();
    run.outcomes
}

/// A committed batch is appended once, contiguously and in order; an uncommitted one is never visible, regardless of
/// faults of nodes, connections, catalogs and notices.
#[test]
fn what_is_committed_is_appended_once() {
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for_each_seed("TRANSACTIONS_SEED", SEEDS, |seed| {
        for (what, count) in run(seed) {
            *outcomes.entry(what).or_default() += count;
        }
    });
    for what in [
        "committed",
        "expired",
        "given up",
        "stage lost",
        "disconnected",
        "moved",
        "purged",
    ] {
        let count = outcomes.get(what).copied().unwrap_or(0);
        assert!(count >= 20, "{what}: {outcomes:?}");
    }
}
