//! Node: its disk and clock, and the process that currently runs on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headrace_buffer::Slice;
use headrace_vsr::api::{Event as Input, Proposal};
use headrace_vsr::frame::{Operation, PrepareFrame, Release};
use headrace_vsr::journal::RecordedLog;
use headrace_vsr::neighbours::Pings;
use headrace_vsr::replica::Replica;
use headrace_vsr::rules::Rules;
use headrace_vsr::trust::{PeerMemory, Standing, Trust};

use super::store::{Place, Store};
use super::{Part, SUPERBLOCK, meeting};
use crate::checker::Progress;
use crate::client::since;
use crate::clock::Clock;
use crate::disk::{DamagedBytes, Disk};
use crate::jobs::Jobs;
use crate::machine::{Machine, NEWER, OLDER};
use crate::network::FIRST_CLIENT;
use crate::options::Options;
use crate::plan::Loss;
use crate::random::Fates;

/// Planned crash in the middle of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrashInStep {
    pub(super) outputs: u8,
    pub(super) power: Option<Loss>,
    pub(super) down_ns: u64,
}

/// Copy of a data directory.
#[derive(Clone, Debug)]
pub(super) struct DirectoryCopy {
    pub(super) disk: Disk,
    /// Upper bound of the log view in the copy.
    pub(super) log_view: u32,
    /// Upper bound of the newest operation in that log.
    pub(super) op: u64,
}

/// A node.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a machine, its disk and its release"
)]
pub(super) struct Node<R: Rules> {
    pub(super) disk: Disk,
    pub(super) clock: Clock,
    /// Disk generation: number of times the disk was replaced.
    pub(super) disk_generation: u64,
    /// Disk generations of the others that this node has met. Frames of an earlier generation came over closed
    /// connections.
    pub(super) met_disk_generations: [u64; 8],
    /// Installed release; `has_run_newer` is set once the newer one has run on this disk.
    pub(super) release: Release,
    pub(super) has_run_newer: bool,
    /// Copy of the data directory, with upper bounds on the log of its replica.
    pub(super) copy: Option<DirectoryCopy>,
    /// Number of process starts on this node.
    pub(super) starts: u64,
    pub(super) process: Option<Process<R>>,
    /// Reason why no process can start on this node any more.
    pub(super) refused: Option<String>,
    /// End of the pause of the process.
    pub(super) busy_until_ns: u64,
    pub(super) slow_until_ns: u64,
    pub(super) slow_factor: u32,
    pub(super) full_until_ns: u64,
    /// Downtime of the process after the next sync of the journal, which fails.
    pub(super) sync_error: Option<u64>,
    /// True if the next record read returns bytes of another sector.
    pub(super) misreads: bool,
    pub(super) crash_in_step: Option<CrashInStep>,
    pub(super) progress: Progress,
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
    /// True if the node stays down permanently.
    pub(super) is_removed: bool,
}

impl<R: Rules> Node<R> {
    /// Replace the disk by an empty one and reset all expectations about its contents.
    pub(super) fn replace_disk(&mut self, weak_names: bool, weak_size: bool) {
        self.disk = Disk::new(weak_names, weak_size);
        self.reset_expectations();
        self.held_through = Some(0);
    }

    /// Return whether the replica is proven and needs no more handshakes with all others.
    pub(super) fn has_met_all(&self) -> bool {
        self.disk.read(SUPERBLOCK).is_some() && !meeting::is_marked(&self.disk)
    }

    /// Reset the expectations about the contents of the data directory.
    pub(super) fn reset_expectations(&mut self) {
        self.disk_generation += 1;
        self.progress = Progress::default();
        self.record_damage.clear();
        self.superblock_scars.clear();
        self.damaged_ops.clear();
        self.last_committed = (0, Vec::new());
        self.held_through = None;
        self.forgotten = None;
        self.damaged_pair = None;
        self.damaged_checkpoint = false;
    }

    pub(super) fn new(fates: Fates, options: &Options, replica: u8) -> Self {
        Self {
            disk: Disk::new(options.disk.weak_names, options.disk.weak_size),
            clock: Clock::new(&fates, replica, options.clock_skew_ppm),
            disk_generation: 0,
            met_disk_generations: [0; 8],
            release: if options.old_releases >> replica & 1 == 1 {
                OLDER
            } else {
                NEWER
            },
            has_run_newer: false,
            copy: None,
            starts: 0,
            process: None,
            refused: None,
            busy_until_ns: 0,
            slow_until_ns: 0,
            slow_factor: 1,
            full_until_ns: 0,
            sync_error: None,
            misreads: false,
            crash_in_step: None,
            progress: Progress::default(),
            record_damage: Vec::new(),
            superblock_scars: Vec::new(),
            damaged_ops: BTreeSet::new(),
            last_committed: (0, Vec::new()),
            held_through: Some(0),
            forgotten: None,
            damaged_pair: None,
            damaged_checkpoint: false,
            is_removed: false,
        }
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
pub(super) struct Process<R: Rules> {
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

    /// Standing that the replica announces.
    pub(super) fn standing(&self) -> Standing {
        self.trust
            .standing(&self.replica.report(), self.boots, self.incarnation)
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

    /// Number of proposals and reads without an answer.
    pub(super) fn waiting(&self) -> usize {
        self.calls.len() + self.reads.len()
    }
}
