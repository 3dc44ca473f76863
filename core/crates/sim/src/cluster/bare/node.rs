//! Disk of a node, and the process that currently runs on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headrace_buffer::Slice;
use headrace_vsr::api::{Event as Input, Proposal, Report};
use headrace_vsr::frame::{Operation, PrepareFrame, Release};
use headrace_vsr::journal::RecordedLog;
use headrace_vsr::neighbours::Pings;
use headrace_vsr::replica::Replica;
use headrace_vsr::rules::Rules;
use headrace_vsr::trust::{MemberClaim, PeerMemory, Trust};

use super::store::{Place, Store};
use super::{Part, meeting};
use crate::client::since;
use crate::cluster::group::ReplicaStorage;
use crate::cluster::{self, CrashInStep, SUPERBLOCK, Storage, empty};
use crate::disk::{DamagedBytes, Disk};
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::network::FIRST_CLIENT;
use crate::options::Options;

/// Disk of a node, and what is expected of it.
#[derive(Debug)]
pub(crate) struct DiskState {
    pub(super) disk: Disk,
    /// Disk generation: number of times the disk was replaced.
    pub(super) disk_generation: u64,
    /// Disk generations of the others that this node has met. Frames of an earlier generation came over closed
    /// connections.
    pub(super) met_disk_generations: [u64; 8],
    /// True if the next record read returns bytes of another sector.
    pub(super) misreads: bool,
    pub(super) crash_in_step: Option<CrashInStep>,
    /// Damage to records: the operation, the place of its record, and the damaged bytes.
    pub(super) record_damage: Vec<(u64, Place, DamagedBytes)>,
    /// Damage to copies of the superblock.
    pub(super) superblock_scars: Vec<DamagedBytes>,
    /// Operations whose newest record is damaged.
    pub(super) damaged_ops: BTreeSet<u64>,
    /// Highest operation known to be committed to the last process, and its durable records.
    pub(super) last_committed: (u64, Vec<(u64, Place)>),
    /// Highest operation whose record was reported durable on this disk and was not cut since; `None` after the disk was
    /// rolled back.
    pub(super) held_through: Option<u64>,
    /// Operation whose record was damaged before any head stated that it was durable, until it is stored again. A start may
    /// take it for torn, and peers that remember its acknowledgement may take the directory for an older copy.
    pub(super) forgotten: Option<u64>,
    /// Damaged pair of superblock copies.
    pub(super) damaged_pair: Option<u8>,
    pub(super) damaged_checkpoint: bool,
}

impl DiskState {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            disk: empty(options),
            disk_generation: 0,
            met_disk_generations: [0; 8],
            misreads: false,
            crash_in_step: None,
            record_damage: Vec::new(),
            superblock_scars: Vec::new(),
            damaged_ops: BTreeSet::new(),
            last_committed: (0, Vec::new()),
            held_through: Some(0),
            forgotten: None,
            damaged_pair: None,
            damaged_checkpoint: false,
        }
    }
}

impl Storage for DiskState {
    fn misread(&mut self) {
        self.misreads = true;
    }

    fn spare(&mut self) {
        self.crash_in_step = None;
    }
}

impl ReplicaStorage for DiskState {
    fn copied(&self) -> Disk {
        self.disk.clone()
    }

    fn replace(&mut self, disk: Disk, is_empty: bool) {
        self.disk = disk;
        self.disk_generation += 1;
        self.record_damage.clear();
        self.superblock_scars.clear();
        self.damaged_ops.clear();
        self.last_committed = (0, Vec::new());
        self.held_through = is_empty.then_some(0);
        self.forgotten = None;
        self.damaged_pair = None;
        self.damaged_checkpoint = false;
    }

    fn has_met_all(&self) -> bool {
        self.disk.read(SUPERBLOCK).is_some() && !meeting::is_marked(&self.disk)
    }
}

/// Work queued for the journal, in order.
#[derive(Debug)]
pub(super) enum JournalWork {
    Append {
        tokens: Vec<u64>,
        frames: Vec<PrepareFrame>,
    },
    Truncate {
        token: u64,
        from_op: u64,
    },
    Collect {
        below_op: u64,
    },
}

/// Completions for the replica when disk requests are done.
#[derive(Debug)]
pub(super) enum Done {
    Appended {
        tokens: Vec<u64>,
        placed: Vec<(u64, Place)>,
    },
    Truncated {
        token: u64,
        from_op: u64,
    },
    Superblock {
        token: u64,
        sequence: u64,
        view: u32,
        log: RecordedLog,
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

/// Process of a replica.
#[derive(Debug)]
pub(crate) struct Process<R: Rules> {
    pub(super) incarnation: u64,
    pub(super) replica: Replica<R>,
    pub(super) machine: Machine,
    /// Trust in the state of this replica; an unproven replica withholds acknowledgements and votes.
    pub(super) trust: Trust,
    pub(super) neighbours: Pings,
    /// Number of process starts on its data directory, as recorded there.
    pub(super) boots: u64,
    /// True once the superblock of this start is durable, after which peers are contacted.
    pub(super) is_superblock_durable: bool,
    /// Last known standing of the others; `met` has the incarnations of their processes that completed a handshake.
    pub(super) memory: PeerMemory,
    pub(super) met: [u64; 8],
    /// Common release last passed to the replica.
    pub(super) common: Release,
    /// Operation executed last.
    pub(super) executed: u64,
    pub(super) executing: bool,
    pub(super) store: Store,
    pub(super) journal: Jobs<Done>,
    /// Work that waits until the disk has completed the current journal request.
    pub(super) queued: VecDeque<JournalWork>,
    pub(super) superblock: Jobs<Done>,
    pub(super) checkpoint: Jobs<Done>,
    /// Tokens not completed yet.
    pub(super) tokens: BTreeSet<u64>,
    /// Operations whose records could not be read.
    pub(super) unreadable: BTreeSet<u64>,
    /// Inputs for the next step.
    pub(super) inbox: Vec<Input>,
    /// Time of the next timer tick.
    pub(super) tick_ns: Option<u64>,
    /// Connection over which each session sent its last request.
    pub(super) sessions: BTreeMap<u128, u8>,
    calls: BTreeMap<u64, (u8, usize)>,
    reads: BTreeMap<u64, (u8, usize, u8)>,
    numbered: u64,
}

impl<R: Rules> Process<R> {
    /// `incarnation` counts the starts of the node, `boots` those on its data directory.
    pub(super) fn new(
        (incarnation, boots): (u64, u64),
        replica: Replica<R>,
        machine: Machine,
        trust: Trust,
        neighbours: Pings,
        executed: u64,
        store: Store,
    ) -> Self {
        Self {
            incarnation,
            replica,
            machine,
            trust,
            neighbours,
            common: Release::FIRST,
            boots,
            is_superblock_durable: false,
            memory: PeerMemory::default(),
            met: [0; 8],
            executed,
            executing: false,
            store,
            journal: Jobs::default(),
            queued: VecDeque::new(),
            superblock: Jobs::default(),
            checkpoint: Jobs::default(),
            tokens: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            inbox: Vec::new(),
            tick_ns: None,
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            reads: BTreeMap::new(),
            numbered: 0,
        }
    }

    /// Claim that the replica announces.
    pub(super) fn standing(&self) -> MemberClaim {
        self.trust
            .claim(&self.replica.report(), self.boots, self.incarnation)
    }

    pub(super) fn jobs(&mut self, part: Part) -> &mut Jobs<Done> {
        match part {
            Part::Journal => &mut self.journal,
            Part::Superblock => &mut self.superblock,
            Part::Checkpoint => &mut self.checkpoint,
        }
    }

    /// Take the next work of the journal. Consecutive appends become one write with one sync.
    pub(super) fn next_journal_work(&mut self) -> Option<JournalWork> {
        let mut work = self.queued.pop_front()?;
        while let JournalWork::Append { tokens, frames } = &mut work
            && matches!(self.queued.front(), Some(JournalWork::Append { .. }))
            && let Some(JournalWork::Append {
                tokens: more,
                frames: behind,
            }) = self.queued.pop_front()
        {
            tokens.extend(more);
            frames.extend(behind);
        }
        Some(work)
    }

    /// Register a command from a client of this process.
    pub(super) fn proposal(&mut self, from: u8, call: usize, body: Slice) -> Proposal {
        self.numbered += 1;
        self.calls.insert(self.numbered, (from, call));
        Proposal {
            request_id: self.numbered,
            operation: Operation::METADATA_FIRST,
            user_id: u32::from((from - FIRST_CLIENT) / 6),
            min_release: since(&body),
            body,
        }
    }

    /// Take the client that waits for the result of a proposal; `None` if the proposal has already ended.
    pub(super) fn proposed(&mut self, ticket: u64) -> Option<(u8, usize)> {
        self.calls.remove(&ticket)
    }

    /// Register a read from a client of this process.
    pub(super) fn read(&mut self, from: u8, call: usize, key: u8) -> u64 {
        self.numbered += 1;
        self.reads.insert(self.numbered, (from, call, key));
        self.numbered
    }

    /// Take the client that waits for a read.
    pub(super) fn read_ready(&mut self, id: u64) -> Option<(u8, usize, u8)> {
        self.reads.remove(&id)
    }

    /// Highest operation known to be committed, and the durable records.
    pub(super) fn records(&self) -> (u64, Vec<(u64, Place)>) {
        (
            self.replica.report().commit_max,
            self.store.durable_records(),
        )
    }
}

impl<R: Rules> cluster::Process for Process<R> {
    fn incarnation(&self) -> u64 {
        self.incarnation
    }
}

impl<R: Rules> cluster::group::ReplicaProcess for Process<R> {
    fn report(&self) -> Report {
        self.replica.report()
    }

    fn has_begun(&self) -> bool {
        self.is_superblock_durable
    }

    fn is_proven(&self) -> bool {
        self.trust.is_proven()
    }

    fn remembers_newer_state(&self, peer: u8, standing: MemberClaim) -> bool {
        self.memory.check(peer, standing).is_err()
    }

    fn executed(&self) -> Option<u64> {
        Some(self.executed)
    }

    fn waiting(&self) -> usize {
        self.calls.len() + self.reads.len()
    }
}
