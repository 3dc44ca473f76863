//! Group of replicas in one process, with a disk each and a network between them; the test controls every step.

pub mod disk;
pub mod script;
pub mod trace;

use std::collections::BTreeMap;

use headrace_buffer::Slice;
use headrace_vsr::api::{
    CommandReply, Config, Event, FatalReason, Notice, Now, Outcome, Output, Proposal, ReadOutcome,
    Status,
};
use headrace_vsr::clocks::Window;
use headrace_vsr::frame::{Frame, Operation, Release, checksum_body};
use headrace_vsr::replica::Replica;
use headrace_vsr::rules::{Rules, Standard};
use headrace_vsr::superblock::Superblock;
use headrace_vsr::timeouts::Profile;

use disk::{Disk, Image, Write, Writes};

pub const CLUSTER: u128 = 0xc1;

/// Replica with its storage and its state machine.
pub struct Node<R: Rules> {
    pub replica: Option<Replica<R>>,
    pub disk: Disk,
    pub writes: Writes,
    /// Completions to report to the replica.
    pub done: Vec<Event>,
    /// State machine: a hash over all executed operations.
    pub state: u128,
    pub starts: u64,
    pub fatal: Option<FatalReason>,
}

/// Frame in flight.
#[derive(Debug, Clone)]
pub struct Flying {
    pub from: u8,
    pub to: u8,
    pub frame: Frame,
}

pub struct World<R: Rules = Standard> {
    pub rules: R,
    pub nodes: Vec<Node<R>>,
    pub net: Vec<Flying>,
    pub now_ms: u64,
    /// Executed operations: checksum of the prepare and state after it.
    pub history: BTreeMap<u64, (u128, u128)>,
    pub outcomes: BTreeMap<u64, Outcome>,
    pub reads: BTreeMap<u64, ReadOutcome>,
    pub replies: Vec<(u128, Frame)>,
    pub notices: BTreeMap<&'static str, u64>,
    pub checkpoint_ops: u64,
    pub keep_ops: u64,
    pub unstored_bytes: u64,
    pub trace: trace::Trace,
    /// Nodes that receive nothing, although they can send.
    pub deaf: Vec<u8>,
    /// Nodes whose checkpoints are not completed.
    pub slow: Vec<u8>,
    /// Hash over the headers of all frames that were sent.
    pub sent: u128,
    next_ticket: u64,
}

impl<R: Rules + Clone> World<R> {
    pub fn new(members: u8, rules: R) -> Self {
        let mut world = Self {
            rules,
            nodes: Vec::new(),
            net: Vec::new(),
            now_ms: 1,
            history: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            reads: BTreeMap::new(),
            replies: Vec::new(),
            notices: BTreeMap::new(),
            checkpoint_ops: 1024,
            keep_ops: 1024,
            unstored_bytes: 1 << 20,
            trace: trace::Trace::default(),
            deaf: Vec::new(),
            slow: Vec::new(),
            sent: 0,
            next_ticket: 0,
        };
        for replica in 0..members {
            let ids = (0..u64::from(members)).collect();
            let superblock = Superblock::new(CLUSTER, 1, u64::from(replica), replica, ids, 0);
            world.nodes.push(Node {
                replica: None,
                disk: Disk::new(superblock),
                writes: Writes::default(),
                done: Vec::new(),
                state: 0,
                starts: 0,
                fatal: None,
            });
        }
        world
    }

    pub fn start_all(&mut self) {
        for index in 0..self.members() {
            self.start(index);
        }
    }

    pub fn members(&self) -> u8 {
        u8::try_from(self.nodes.len()).unwrap()
    }

    pub fn now(&self) -> Now {
        Now {
            monotonic_ns: self.now_ms * 1_000_000,
            wall: Window::exact(self.now_ms * 1_000_000),
        }
    }

    pub fn node(&self, index: u8) -> &Node<R> {
        &self.nodes[usize::from(index)]
    }

    pub fn node_mut(&mut self, index: u8) -> &mut Node<R> {
        &mut self.nodes[usize::from(index)]
    }

    pub fn replica(&self, index: u8) -> &Replica<R> {
        self.node(index).replica.as_ref().unwrap()
    }

    pub fn up(&self, index: u8) -> bool {
        self.node(index).replica.is_some()
    }

    fn config(&self, index: u8) -> Config {
        Config {
            cluster: CLUSTER,
            group: 1,
            replica: index,
            replica_count: self.members(),
            release: Release::new(0, 1, 0),
            timeouts: Profile::Default.timeouts(),
            request_queue_max: 64,
            batch_bytes_max: 256 * 1024,
            batch_requests_max: 256,
            unstored_bytes_max: self.unstored_bytes,
            checkpoint_ops: self.checkpoint_ops,
            checkpoint_bytes: 16 * 1024 * 1024,
            log_keep_ops: self.keep_ops,
            clients_max: 4,
            chunk_bytes: 40,
            seed: u64::from(index) * 1000 + self.node(index).starts,
        }
    }

    pub fn start(&mut self, index: u8) {
        self.node_mut(index).starts += 1;
        let (config, now, rules) = (self.config(index), self.now(), self.rules.clone());
        let node = &mut self.nodes[usize::from(index)];
        let superblock = node.disk.superblock.clone();
        let image = node.disk.checkpoints.get(&superblock.checkpoint.op);
        let clients = image.map(Image::clients).unwrap_or_default();
        node.state = image.map_or(0, Image::state);
        let mut out = Vec::new();
        let replica = Replica::open(
            config,
            rules,
            superblock,
            &node.disk.recovered(),
            &clients,
            now,
            &mut out,
        )
        .expect("a replica opens what it has written");
        node.replica = Some(replica);
        self.carry_out(index, out);
    }

    /// Crash the process. `appended` of the journal writes in flight have reached the disk, and the superblock if
    /// `superblock`.
    pub fn crash(&mut self, index: u8, appended: usize, superblock: bool) {
        let node = &mut self.nodes[usize::from(index)];
        node.replica = None;
        node.done.clear();
        let writes = std::mem::take(&mut node.writes);
        for write in writes.journal.into_iter().take(appended) {
            match write {
                Write::Append { frames, .. } => node.disk.append(&frames),
                Write::Truncate { from_op, .. } => node.disk.truncate(from_op),
            }
        }
        if let Some((_, image)) = writes.superblock.filter(|_| superblock) {
            node.disk.superblock = image;
        }
    }

    pub fn step(&mut self, index: u8, events: Vec<Event>) {
        let now = self.now();
        let mut out = Vec::new();
        if let Some(replica) = &mut self.nodes[usize::from(index)].replica {
            replica.step(now, events, &mut out);
        }
        self.carry_out(index, out);
    }

    pub fn tick(&mut self, index: u8) {
        let now = self.now();
        let mut out = Vec::new();
        if let Some(replica) = &mut self.nodes[usize::from(index)].replica {
            replica.tick(now, &mut out);
        }
        self.carry_out(index, out);
    }

    pub fn propose(&mut self, index: u8, body: &[u8]) -> u64 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let proposal = Proposal {
            request_id: ticket,
            operation: Operation::METADATA_FIRST,
            user_id: 0,
            min_release: Release::FIRST,
            body: Slice::from_vec(body.to_vec()),
        };
        self.step(index, vec![Event::Propose(proposal)]);
        ticket
    }

    pub fn read(&mut self, index: u8, id: u64) {
        let now = self.now();
        let mut out = Vec::new();
        if let Some(replica) = &mut self.nodes[usize::from(index)].replica {
            replica.read_index(now, id, &mut out);
        }
        self.carry_out(index, out);
    }

    fn carry_out(&mut self, index: u8, out: Vec<Output>) {
        for output in out {
            self.trace.note(index, &output);
            self.carry_out_one(index, output);
        }
        if let Some(replica) = &self.node(index).replica
            && replica.report().status != Status::Halted
        {
            replica.check_invariants().unwrap();
        }
    }

    fn carry_out_one(&mut self, index: u8, output: Output) {
        let node = &mut self.nodes[usize::from(index)];
        match output {
            Output::Send { to, frame } => {
                let mut bytes = self.sent.to_le_bytes().to_vec();
                bytes.extend_from_slice(&frame.header.checksum.to_le_bytes());
                self.sent = checksum_body(&bytes);
                self.net.push(Flying {
                    from: index,
                    to,
                    frame,
                });
            }
            Output::Append { token, frames } => {
                node.writes
                    .journal
                    .push_back(Write::Append { token, frames });
            }
            Output::Truncate { token, from_op } => {
                node.writes
                    .journal
                    .push_back(Write::Truncate { token, from_op });
            }
            Output::Read {
                token,
                op,
                checksum,
            } => {
                let frame = node
                    .disk
                    .journal
                    .get(&op)
                    .filter(|(frame, intact)| *intact && frame.header.checksum == checksum)
                    .map(|(frame, _)| frame.clone());
                node.done.push(Event::ReadDone { token, frame });
            }
            Output::Superblock { token, image } => {
                assert!(node.writes.superblock.is_none(), "one superblock at a time");
                node.writes.superblock = Some((token, *image));
            }
            Output::Apply(operation) => self.apply(index, &operation),
            Output::Checkpoint { op, clients } => {
                let image = Image::new(&clients, node.state);
                node.done.push(Event::CheckpointDone {
                    op,
                    length: image.bytes.len() as u64,
                    digest: image.digest(),
                });
                node.disk.checkpoints.insert(op, image);
            }
            Output::GcLog { below_op } => {
                node.disk.journal = node.disk.journal.split_off(&below_op);
            }
            Output::ReadChunk {
                token,
                op,
                offset,
                length,
            } => {
                let bytes = node.disk.checkpoints.get(&op).map(|image| {
                    let from = usize::try_from(offset).unwrap();
                    Slice::from_vec(image.bytes[from..from + length as usize].to_vec())
                });
                node.done.push(Event::ChunkRead { token, bytes });
            }
            Output::WriteChunk {
                token,
                offset,
                bytes,
                ..
            } => {
                node.disk
                    .incoming
                    .truncate(usize::try_from(offset).unwrap());
                node.disk.incoming.extend_from_slice(&bytes);
                node.done.push(Event::ChunkWritten { token });
            }
            Output::Install {
                token, op, digest, ..
            } => self.install(index, token, op, digest),
            Output::Reply { client, frame } => self.replies.push((client, frame)),
            Output::Proposed {
                request_id: ticket,
                outcome,
            } => {
                let before = self.outcomes.insert(ticket, outcome);
                assert!(before.is_none(), "a proposal is answered once");
            }
            Output::ReadReady { id, outcome } => {
                let before = self.reads.insert(id, outcome);
                assert!(before.is_none(), "a read is answered once");
            }
            Output::Notice(notice) => *self.notices.entry(name(notice)).or_default() += 1,
            Output::Fatal(reason) => node.fatal = Some(reason),
        }
    }

    fn apply(&mut self, index: u8, operation: &headrace_vsr::api::ApplyOperation) {
        let node = &mut self.nodes[usize::from(index)];
        let mut bytes = node.state.to_le_bytes().to_vec();
        bytes.extend_from_slice(&operation.op.to_le_bytes());
        let mut replies = Vec::new();
        for command in &operation.commands {
            bytes.extend_from_slice(&command.body);
            replies.push(CommandReply {
                status: 0,
                body: Slice::from_vec(checksum_body(&bytes).to_le_bytes().to_vec()),
            });
        }
        node.state = checksum_body(&bytes);
        let executed = (operation.checksum, node.state);
        node.done.push(Event::Applied {
            op: operation.op,
            replies,
        });
        let before = self.history.entry(operation.op).or_insert(executed);
        assert_eq!(
            *before, executed,
            "replica {index} executed another history at {}",
            operation.op
        );
    }

    fn install(&mut self, index: u8, token: u64, op: u64, digest: u128) {
        let node = &mut self.nodes[usize::from(index)];
        let image = Image {
            bytes: std::mem::take(&mut node.disk.incoming),
        };
        if image.digest() != digest {
            node.done.push(Event::Installed {
                token,
                clients: None,
            });
            return;
        }
        node.state = image.state();
        assert_eq!(
            self.history.get(&op).map(|(_, state)| *state),
            Some(image.state()),
            "a transferred state is of the history"
        );
        node.done.push(Event::Installed {
            token,
            clients: Some(image.clients()),
        });
        node.disk.checkpoints.insert(op, image);
    }

    /// Complete the first write of the journal.
    pub fn write_journal(&mut self, index: u8) -> bool {
        let node = &mut self.nodes[usize::from(index)];
        let event = match node.writes.journal.pop_front() {
            None => return false,
            Some(Write::Append { token, frames }) => {
                node.disk.append(&frames);
                Event::Appended { token }
            }
            Some(Write::Truncate { token, from_op }) => {
                node.disk.truncate(from_op);
                Event::LogTruncated { token }
            }
        };
        self.step(index, vec![event]);
        true
    }

    pub fn write_superblock(&mut self, index: u8) -> bool {
        let node = &mut self.nodes[usize::from(index)];
        let Some((token, image)) = node.writes.superblock.take() else {
            return false;
        };
        let keep = image.checkpoint.op;
        node.disk.superblock = image;
        node.disk.checkpoints = node.disk.checkpoints.split_off(&keep);
        self.step(index, vec![Event::SuperblockWritten { token }]);
        true
    }

    /// Complete the outstanding work of the state machine and of the files.
    pub fn complete(&mut self, index: u8) -> bool {
        let held = self.slow.contains(&index);
        let is_held = |event: &Event| held && matches!(event, Event::CheckpointDone { .. });
        let node = self.node_mut(index);
        let (later, done): (Vec<_>, Vec<_>) = std::mem::take(&mut node.done)
            .into_iter()
            .partition(is_held);
        node.done = later;
        let any = !done.is_empty();
        if any {
            self.step(index, done);
        }
        any
    }

    /// Complete the outstanding storage and state machine work of all nodes until none is left.
    pub fn settle_storage(&mut self) {
        loop {
            let mut busy = false;
            for index in 0..self.members() {
                if self.up(index) {
                    busy |= self.write_superblock(index);
                    busy |= self.write_journal(index);
                    busy |= self.complete(index);
                }
            }
            if !busy {
                return;
            }
        }
    }

    pub fn deliver(&mut self, flying: Flying) {
        self.step(flying.to, vec![Event::Frame(flying.frame)]);
    }

    /// Deliver all frames in order and complete storage work, until nothing is left to do.
    pub fn settle(&mut self) {
        self.settle_except(&[]);
    }

    /// Run `settle` with some nodes cut off.
    pub fn settle_except(&mut self, cut: &[u8]) {
        loop {
            self.settle_storage();
            if self.net.is_empty() {
                return;
            }
            for flying in std::mem::take(&mut self.net) {
                let reached = !cut.contains(&flying.to) && !self.deaf.contains(&flying.to);
                if reached && !cut.contains(&flying.from) {
                    self.deliver(flying);
                }
            }
        }
    }

    /// Advance the time, in ticks of 10 ms, with immediate delivery.
    pub fn pass(&mut self, ms: u64, cut: &[u8]) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms += 10;
            for index in 0..self.members() {
                self.tick(index);
            }
            self.settle_except(cut);
        }
    }
}

fn name(notice: Notice) -> &'static str {
    match notice {
        Notice::View { .. } => "view",
        Notice::Dropped(_) => "dropped",
        Notice::Truncated { .. } => "truncated",
        Notice::HeaderRepaired { .. } => "header_repaired",
        Notice::BodyRepaired { .. } => "body_repaired",
        Notice::Faulty { .. } => "faulty",
        Notice::Checkpointed { .. } => "checkpointed",
        Notice::StateTransferred { .. } => "state_transferred",
        Notice::Deadlock { .. } => "deadlock",
        Notice::Abdicated { .. } => "abdicated",
        Notice::ReleaseInForce { .. } => "release_in_force",
        Notice::DuplicateRequest => "duplicate_request",
    }
}
