//! Transactional writes: messages are staged in files of their own and appended to the log once their transaction is
//! committed.
//!
//! | phase | module |
//! |---|---|
//! | taking chunks, making a stage durable, dropping it | `writing`, `file` |
//! | opening: existing stages and the publication in progress | `recovery` |
//! | publishing: intent, append, sync, mark | `publishing` and `appending` in it, `publication`, `record` |
//!
//! A stage belongs to an incarnation and outlives purges: its transaction may be committed after one.

pub(crate) mod check;
mod file;
mod publication;
pub(crate) mod publishing;
mod record;
mod recovery;
pub(crate) mod stage;
pub(crate) mod state;
mod writing;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fastrand::Rng;
use headrace_log::storage::{StorageCompletion, StorageRequest};
use headrace_log::{LogConfig, Operations, StageLimits};
use headrace_model::{Namespace, StageId, Timestamp};

use self::publication::Publishing;
use self::stage::Stage;
use self::state::{CompletionEffect, Loading, Purpose};
use crate::api::Outbox;

/// Id bit that distinguishes operations of these files from those of the log and of stored offsets.
const ID_BIT: u64 = 1 << 62;

/// Stages and publications of a partition.
#[derive(Debug)]
pub(crate) struct Stages {
    namespace: Namespace,
    incarnation: u64,
    limits: StageLimits,
    queue_bytes_max: u64,
    random: Rng,
    operations: Operations<Purpose>,
    loading: Loading,
    all: BTreeMap<StageId, Stage>,
    /// Damaged stages whose files are kept under another name.
    set_aside: Vec<StageId>,
    /// Total size of the files in bytes.
    bytes: u64,
    /// Size of the messages queued for writing in bytes.
    queued_bytes: u64,
    /// Stages with operations to start or requests to answer.
    ready_to_advance: Vec<StageId>,
    pub(crate) publishing: Publishing,
}

impl Stages {
    pub(crate) fn new(config: &LogConfig, seed: u64) -> Self {
        Self {
            namespace: config.namespace,
            incarnation: config.incarnation,
            limits: config.stages,
            queue_bytes_max: config.queue_bytes_max,
            random: Rng::with_seed(seed),
            operations: Operations::new(ID_BIT),
            loading: Loading::NotStarted,
            all: BTreeMap::new(),
            set_aside: Vec::new(),
            bytes: 0,
            queued_bytes: 0,
            ready_to_advance: Vec::new(),
            publishing: Publishing::default(),
        }
    }

    /// Return whether an operation is one of these files. Operations of stored offsets have to be excluded before.
    pub(crate) const fn owns(id: u64) -> bool {
        id & ID_BIT != 0
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of damaged stages whose files are kept under another name.
    pub(crate) const fn set_aside_count(&self) -> usize {
        self.set_aside.len()
    }

    /// Return whether no operation is under way or due.
    pub(crate) fn is_drained(&self) -> bool {
        self.operations.is_empty() && self.ready_to_advance.is_empty()
    }

    /// Repeat operations that lacked memory or handles, if they are due.
    pub(crate) fn repeat(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.operations.repeat(now, out);
        if let Some(failing) = &mut self.publishing.failing {
            failing.pass(now);
        }
    }

    pub(crate) fn give_up_waiting(&mut self) {
        self.operations.drop_waiting();
    }

    /// Time of the next call of [`repeat`](Self::repeat).
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let failing = self.publishing.failing.as_ref();
        let deadlines = [
            self.operations.repeat_deadline(),
            failing.map(|it| it.retry_at),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Handle the completion of an operation.
    pub(crate) fn complete(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Outbox,
    ) -> CompletionEffect {
        let Some((purpose, result)) = self.operations.end(now, completion) else {
            return CompletionEffect::Nothing;
        };
        match purpose {
            Purpose::ReadRecord => return self.record_read(result),
            Purpose::ReadEnd { stage, length } => {
                return self.end_read((stage, length), result, &mut out.storage);
            }
            Purpose::StoreRecord => return self.record_stored(now, result.map(drop)),
            Purpose::ReadBlocks(blocks) => return CompletionEffect::Read(blocks, result),
            Purpose::Create(stage) => self.created(stage, result.map(drop), out),
            Purpose::Write { stage, bytes } => {
                self.written((stage, bytes), result.map(drop), out);
            }
            Purpose::Sync(stage) => self.synced(stage, result.map(drop), out),
            Purpose::Uncache(stage) => self.uncached(stage, result.map(drop)),
            Purpose::ReadEndAgain(stage) => self.end_read_again(stage, result),
            // A file that could not be removed is found again at the next start.
            Purpose::Remove(stage) => drop(self.all.remove(&stage)),
            Purpose::SetAside(stage) => self.was_set_aside(stage, result.map(drop), out),
            Purpose::Disowned => {}
        }
        CompletionEffect::Nothing
    }
}
