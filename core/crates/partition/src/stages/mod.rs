//! Transactional writes: messages are staged in files of their own and appended to the log once their transaction is
//! committed.
//!
//! | phase | module |
//! |---|---|
//! | taking chunks, making a stage durable, dropping it | `writing`, `file` |
//! | opening: existing stages and the publication in progress | `recovery` |
//! | publishing: intent, append, sync, mark | `publishing`, `appending`, `record` |
//!
//! A stage belongs to an incarnation and outlives purges: its transaction may be committed after one.

mod appending;
pub(crate) mod check;
mod file;
mod publishing;
mod record;
mod recovery;
mod writing;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use fastrand::Rng;
use headrace_log::storage::{
    FileName, StorageCompletion, StorageError, StorageOutcome, StorageRequest,
};
use headrace_log::{LogConfig, Operations, StageLimits};
use headrace_model::{Namespace, Offset, StageId, Timestamp};

use self::publishing::Publishing;
use self::recovery::Loading;
use self::writing::Stage;
use crate::api::{Outbox, PartitionError, RequestId};
use crate::partition::{Partition, respond};

pub(crate) use self::writing::Chunk;

/// Id bit that distinguishes operations of these files from those of the log and of stored offsets.
const ID_BIT: u64 = 1 << 62;

/// A complete publication: its messages are on the device and will not be published again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Number of the publication.
    pub number: u64,
    /// Offset of the first message.
    pub base_offset: Offset,
    /// Number of messages. 0 if a purge followed, or if the publication was complete before the request.
    pub messages_count: u64,
    /// Number of stages named by the publication that are missing or incomplete: their messages are lost.
    pub stages_missing: u32,
}

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

/// Purpose of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    ReadRecord,
    ReadEnd {
        stage: StageId,
        length: u64,
    },
    Create(StageId),
    Write {
        stage: StageId,
        bytes: u64,
    },
    Sync(StageId),
    Uncache(StageId),
    ReadEndAgain(StageId),
    Remove(StageId),
    SetAside(StageId),
    StoreRecord,
    ReadBlocks(BlockRead),
    /// The outcome makes no difference.
    Disowned,
}

/// Part of a stage that is read to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRead {
    number: u64,
    stage: StageId,
    asked: u64,
    /// Number of bytes from there to the end of the messages.
    left: u64,
}

/// Effect of a completed operation on the partition.
#[derive(Debug)]
pub(crate) enum CompletionEffect {
    Nothing,
    /// A file cannot be read that the partition needs to be opened.
    NotLoaded(FileName, StorageError),
    /// Space is missing for the record of publications.
    LacksSpace(StorageError),
    /// A file is not valid.
    FileInvalid(String),
    /// Messages were read to be appended.
    Read(BlockRead, Result<StorageOutcome, StorageError>),
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

impl Partition {
    /// Drop the stages of aborted transactions, except those being published. Returns true if the next
    /// [`end_of_turn`](Self::end_of_turn) has work to do.
    pub fn drop_stages(&mut self, stages: &[StageId]) -> bool {
        self.stages.drop_unpublished(stages);
        !self.stages.is_drained()
    }

    /// Drop expired stages, except those that a pending publication of the catalog names.
    ///
    /// `horizon` is the timestamp of an operation of the metadata log; the catalog behind `is_named` contains all
    /// changes up to that operation. A commit that is not contained yet comes later and is refused for such a stage.
    /// Returns what [`drop_stages`](Self::drop_stages) returns.
    pub fn drop_expired_stages(
        &mut self,
        horizon: Timestamp,
        is_named: impl Fn(StageId) -> bool,
    ) -> bool {
        let mut expired = self.stages.expired(horizon);
        expired.retain(|stage| !is_named(*stage));
        !expired.is_empty() && self.drop_stages(&expired)
    }

    /// Number of stages, complete or not.
    pub fn stages_count(&self) -> usize {
        self.stages.count()
    }

    /// Number of files that were set aside: bytes cut from the log, foreign logs and damaged stages.
    pub fn set_aside_count(&self) -> usize {
        self.log.set_aside_count() + self.stages.set_aside.len()
    }

    /// Total size of the stage files in bytes.
    pub fn staged_bytes(&self) -> u64 {
        self.stages.bytes()
    }

    pub(crate) fn stage(
        &mut self,
        now: Timestamp,
        request_id: RequestId,
        chunk: Chunk,
        out: &mut Outbox,
    ) {
        let taken = match self.log.failure() {
            Some(failure) => Err(PartitionError::Failed(failure.clone())),
            None => self.stages.take(now, request_id, chunk),
        };
        if let Err(error) = taken {
            respond(out, request_id, Err(error));
        }
    }

    /// Handle the completion of an operation of these files.
    pub(crate) fn complete_stages(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Outbox,
    ) {
        let mut happened = self.stages.complete(now, completion, out);
        if let CompletionEffect::Read(blocks, result) = happened {
            happened = self.staged_read(now, blocks, result, out);
        }
        match happened {
            CompletionEffect::NotLoaded(file, error) => {
                (self.log).fail_companion_file(now, ("reading", file), error, false, true);
            }
            CompletionEffect::LacksSpace(error) => {
                let what = ("replacing", FileName::Transactions);
                (self.log).fail_companion_file(now, what, error, true, false);
            }
            CompletionEffect::FileInvalid(reason) => self.log.refuse_to_open(reason),
            CompletionEffect::Nothing | CompletionEffect::Read(..) => {}
        }
    }
}
