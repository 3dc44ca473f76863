//! One replica of one replicated log.
//!
//! The protocol is Viewstamped Replication Revisited (Liskov & Cowling 2012) with the changes explained in
//! `PROTOCOL.md` of this crate. Each directory holds a part of the protocol, each file one phase.

mod durable;
mod invariants;
mod log;
mod normal;
mod recent;
mod recovery;
mod release;
mod repair;
mod requests;
mod sending;
mod starting;
mod state_transfer;
mod step;
mod timers;
mod view_changes;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use fastrand::Rng;

use crate::api::{Config, FatalReason, Now, Output, Report, Status};
use crate::clients::ClientTable;
use crate::frame::{PrepareFrame, PrepareHeader, Release};
use crate::quorum::Quorums;
use crate::rules::{Rules, Standard};
use crate::superblock::Checkpoint;

pub use recent::{Input, InputKind};
pub use recovery::OpenError;
pub use requests::replies::REQUEST_REUSED;

use durable::checkpoint::Checkpointing;
use durable::superblock_order::SuperblockOrder;
use log::Log;
use normal::execution::Executing;
use recent::Recent;
use repair::body_repair::BodyRepair;
use repair::header_repair::HeaderRepair;
use requests::admission::Admission;
use requests::reads::Reads;
use state_transfer::transfer::Transfer;
use state_transfer::transfer_service::ChunkLoad;
use timers::Timers;
use view_changes::view_change::ViewChanging;
use view_changes::votes::Votes;

/// Result of part of a step; the rest of the step is skipped after an invariant violation.
type Flow = Result<(), FatalReason>;

/// Operations that the journal is writing.
#[derive(Debug)]
struct Append {
    ops: Vec<u64>,
    bytes: u64,
}

/// One replica of one replicated log: a step function without I/O, clocks or threads.
#[derive(Debug)]
pub struct Replica<R: Rules = Standard> {
    rules: R,
    config: Config,
    quorums: Quorums,
    incarnation: u64,
    now: Now,
    random: Rng,
    out: Vec<Output>,
    recent: Recent,
    next_token: u64,

    status: Status,
    view: u32,
    log_view: u32,
    /// Head with which `log_view` began.
    view_start_op: u64,
    loss_view: u32,
    /// Suffix of the log as the superblock records it for the current view, together with the head.
    view_headers: Vec<PrepareHeader>,
    view_head_op: u64,
    superblock: SuperblockOrder,

    log: Log,
    /// Newest operation of the logical log.
    head: u64,
    commit_min: u64,
    commit_max: u64,
    /// Lowest operation verified by the hash chain, see `header_repair`.
    link_floor: u64,
    /// Newest checkpoint of this replica; durable once the superblock names it.
    checkpoint: Checkpoint,
    /// Lowest operation that the journal must still hold.
    log_floor: u64,

    clients: ClientTable,
    executing: Option<Executing>,
    checkpointing: Checkpointing,
    admission: Admission,
    /// Newest operation acknowledged in this view, per member.
    acks: Vec<u64>,
    /// Last operation that this replica acknowledged in this view.
    acknowledged: Option<u64>,
    /// Time at which the primary last heard from each member.
    last_heard_ns: Vec<u64>,
    /// True if the primary has abdicated its view.
    abdicated: bool,
    /// Newest timestamp of the log, and the monotonic time at which it was made or received.
    log_time: (u64, u64),
    /// Release that all members support, as reported by the host.
    common_release: Release,
    /// True if the commit point must be announced at the end of the step.
    announce_commit: bool,
    /// Prepares of this view that lie above a gap.
    early: BTreeMap<u64, PrepareFrame>,
    appends: BTreeMap<u64, Append>,
    /// Number of bytes of prepares in `appends`.
    appending_bytes: u64,
    truncating: VecDeque<u64>,

    votes: Votes,
    view_changing: ViewChanging,
    header_repair: HeaderRepair,
    body_repair: BodyRepair,
    transfer: Option<Transfer>,
    /// Members whose checkpoints arrived damaged.
    damaged_sources: BTreeSet<u8>,
    transfer_loads: BTreeMap<u64, ChunkLoad>,
    reads: Reads,
    timers: Timers,
}

impl<R: Rules> Replica<R> {
    /// State of the replica for inspection and tests.
    pub fn report(&self) -> Report {
        Report {
            status: self.status,
            view: self.view,
            log_view: self.log_view,
            primary: self.primary_of(self.view),
            op: self.head,
            commit_min: self.commit_min,
            commit_max: self.commit_max,
            checkpoint_op: self.superblock.durable_checkpoint(),
            log_floor: self.log_floor,
            link_floor: self.link_floor,
            syncing: self.transfer.is_some(),
            release: self.release_in_force(),
            queued: self.admission.queued(),
            clients: self.clients.len(),
        }
    }

    /// Client table, for tests and inspection.
    pub fn clients(&self) -> &ClientTable {
        &self.clients
    }

    /// Last inputs, oldest first: for the analysis after [`Output::Fatal`].
    pub fn recent_inputs(&self) -> impl Iterator<Item = &Input> {
        self.recent.iter()
    }

    /// Header of an operation of the logical log, if it is known.
    pub fn header(&self, op: u64) -> Option<&PrepareHeader> {
        self.log
            .header(op)
            .or_else(|| (op == self.checkpoint.op).then_some(&self.checkpoint.header))
    }

    fn primary_of(&self, view: u32) -> u8 {
        let index = view % u32::from(self.config.replica_count);
        u8::try_from(index).expect("below the number of members")
    }

    fn is_primary(&self) -> bool {
        self.primary_of(self.view) == self.config.replica
    }

    /// Return whether this replica is the primary of a view whose log it has decided and which it serves.
    fn leads(&self) -> bool {
        self.status == Status::Normal && self.is_primary()
    }

    fn follows(&self) -> bool {
        self.status == Status::Normal && !self.is_primary()
    }

    /// Return whether the log is that of the current view, so that it may be linked, repaired and executed.
    fn in_log_view(&self) -> bool {
        matches!(self.status, Status::Normal | Status::Starting)
    }

    fn peers(&self) -> impl Iterator<Item = u8> + use<R> {
        let own = self.config.replica;
        (0..self.config.replica_count).filter(move |peer| *peer != own)
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}
