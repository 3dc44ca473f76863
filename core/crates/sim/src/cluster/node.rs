//! A node: its disk and clock, and the process that runs on it now and then.

use std::collections::{BTreeMap, BTreeSet};

use headrace_buffer::Slice;
use headrace_vsr::api::{Event as Input, Proposal};
use headrace_vsr::frame::Operation;
use headrace_vsr::replica::Replica;
use headrace_vsr::rules::Rules;

use super::Part;
use super::store::{Place, Store};
use crate::checker::Progress;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::network::FIRST_CLIENT;
use crate::options::Options;
use crate::plan::Loss;
use crate::random::Fates;

/// What a crash in the middle of a step leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrashInStep {
    pub(super) outputs: u8,
    pub(super) power: Option<Loss>,
    pub(super) down_ns: u64,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node<R: Rules> {
    pub(super) disk: Disk,
    pub(super) clock: Clock,
    /// How often a process has started here.
    pub(super) starts: u64,
    pub(super) process: Option<Process<R>>,
    /// Why no process can start here any more.
    pub(super) refused: Option<String>,
    /// The process does nothing until then.
    pub(super) busy_until_ns: u64,
    pub(super) slow_until_ns: u64,
    pub(super) slow_factor: u32,
    pub(super) full_until_ns: u64,
    /// The next sync of the journal fails; the process is down for so long.
    pub(super) sync_error: Option<u64>,
    pub(super) crash_in_step: Option<CrashInStep>,
    pub(super) progress: Progress,
    /// Operations whose newest record is damaged.
    pub(super) damaged_ops: BTreeSet<u64>,
    /// What the last process knew to be committed, and its durable records.
    pub(super) left: (u64, Vec<(u64, Place)>),
    /// The pair of superblock copies that is damaged.
    pub(super) damaged_pair: Option<u8>,
    pub(super) damaged_checkpoint: bool,
    /// Nobody starts it again.
    pub(super) gone: bool,
}

impl<R: Rules> Node<R> {
    pub(super) fn new(fates: Fates, options: &Options, replica: u8) -> Self {
        Self {
            disk: Disk::new(options.disk.weak_names, options.disk.weak_size),
            clock: Clock::new(&fates, replica, options.clock_skew_ppm),
            starts: 0,
            process: None,
            refused: None,
            busy_until_ns: 0,
            slow_until_ns: 0,
            slow_factor: 1,
            full_until_ns: 0,
            sync_error: None,
            crash_in_step: None,
            progress: Progress::default(),
            damaged_ops: BTreeSet::new(),
            left: (0, Vec::new()),
            damaged_pair: None,
            damaged_checkpoint: false,
            gone: false,
        }
    }
}

/// What is to be told to the replica when disk requests are done.
#[derive(Debug)]
pub(super) enum Done {
    Appended {
        token: u64,
        placed: Vec<(u64, Place)>,
    },
    Truncated {
        token: u64,
    },
    Superblock {
        token: u64,
        sequence: u64,
        view: u32,
        log_view: u32,
        checkpoint_op: u64,
    },
    Checkpoint {
        op: u64,
        length: u64,
        digest: u128,
    },
    ChunkWritten {
        token: u64,
    },
    Install {
        token: u64,
        op: u64,
        length: u64,
        digest: u128,
    },
    Read {
        token: u64,
        op: u64,
        checksum: u128,
    },
    ChunkRead {
        token: u64,
        op: u64,
        offset: u64,
        length: u32,
    },
    Nothing,
}

/// A process of a replica.
#[derive(Debug)]
pub(super) struct Process<R: Rules> {
    pub(super) incarnation: u64,
    pub(super) replica: Replica<R>,
    pub(super) machine: Machine,
    /// The operation that was executed last.
    pub(super) executed: u64,
    pub(super) executing: bool,
    pub(super) store: Store,
    pub(super) journal: Jobs<Done>,
    pub(super) superblock: Jobs<Done>,
    pub(super) checkpoint: Jobs<Done>,
    /// Tokens that are not completed yet.
    pub(super) tokens: BTreeSet<u64>,
    /// What arrived for the next step.
    pub(super) inbox: Vec<Input>,
    /// When the timers are looked at next.
    pub(super) tick_ns: Option<u64>,
    /// Through which connection a session was heard last.
    pub(super) sessions: BTreeMap<u128, u8>,
    calls: BTreeMap<u64, (u8, usize)>,
    reads: BTreeMap<u64, (u8, usize, u8)>,
    numbered: u64,
}

impl<R: Rules> Process<R> {
    pub(super) fn new(
        incarnation: u64,
        replica: Replica<R>,
        machine: Machine,
        executed: u64,
        store: Store,
    ) -> Self {
        Self {
            incarnation,
            replica,
            machine,
            executed,
            executing: false,
            store,
            journal: Jobs::default(),
            superblock: Jobs::default(),
            checkpoint: Jobs::default(),
            tokens: BTreeSet::new(),
            inbox: Vec::new(),
            tick_ns: None,
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            reads: BTreeMap::new(),
            numbered: 0,
        }
    }

    pub(super) fn jobs(&mut self, part: Part) -> &mut Jobs<Done> {
        match part {
            Part::Journal => &mut self.journal,
            Part::Superblock => &mut self.superblock,
            Part::Checkpoint => &mut self.checkpoint,
        }
    }

    /// A command of a client of this process.
    pub(super) fn proposal(&mut self, from: u8, call: usize, body: Slice) -> Proposal {
        self.numbered += 1;
        self.calls.insert(self.numbered, (from, call));
        Proposal {
            ticket: self.numbered,
            operation: Operation::METADATA_FIRST,
            user_id: u32::from((from - FIRST_CLIENT) / 6),
            body,
        }
    }

    /// Who waits for the end of a proposal; nobody, when it has ended before.
    pub(super) fn proposed(&mut self, ticket: u64) -> Option<(u8, usize)> {
        self.calls.remove(&ticket)
    }

    /// A read of a client of this process.
    pub(super) fn read(&mut self, from: u8, call: usize, key: u8) -> u64 {
        self.numbered += 1;
        self.reads.insert(self.numbered, (from, call, key));
        self.numbered
    }

    /// Who waits for a read.
    pub(super) fn read_ready(&mut self, id: u64) -> Option<(u8, usize, u8)> {
        self.reads.remove(&id)
    }

    /// What it knows to be committed, and its durable records.
    pub(super) fn records(&self) -> (u64, Vec<(u64, Place)>) {
        (
            self.replica.report().commit_max,
            self.store.durable_records(),
        )
    }

    /// Proposals and reads without an answer.
    pub(super) fn waiting(&self) -> usize {
        self.calls.len() + self.reads.len()
    }
}
