//! State of a log, and dispatch of calls and completions to the other modules.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fastrand::Rng;
use headrace_buffer::BufferPool;
use headrace_model::{Offset, Opening, Timestamp};

use crate::config::LogConfig;
use crate::error::{Failure, Notice};
use crate::manifest::Generation;
use crate::operations::Operations;
use crate::reading::caches::MemoryAccounts;
use crate::reading::read::Reads;
use crate::record::{ManifestFile, Record};
use crate::recovery::recover::{Recovery, Step};
use crate::removal::remove::{Removals, Wipe};
use crate::removal::retention::{Removed, RetentionRequest};
use crate::segment::Segment;
use crate::storage::{
    FileName, StorageCompletion, StorageError, StorageErrorKind, StorageOperation, StorageRequest,
};
use crate::writing::shortage::OutOfSpace;
use crate::writing::sync::Saving;
use crate::writing::tail::Tail;

/// A segmented append-only log.
///
/// The log is a step function: calls change its state and push the resulting storage requests; the host returns their
/// completions. Time and randomness are arguments.
#[derive(Debug)]
pub struct Log {
    pub(crate) config: LogConfig,
    pub(crate) generation: Generation,
    pub(crate) pool: BufferPool,
    pub(crate) held: MemoryAccounts,
    /// Time of the last call that carried one.
    pub(crate) now: Timestamp,
    pub(crate) random: Rng,
    pub(crate) phase: Phase,
    pub(crate) closing: bool,
    pub(crate) failure: Option<Arc<Failure>>,
    /// Set if the failure is a lack of space.
    pub(crate) shortage: Option<OutOfSpace>,

    pub(crate) operations: Operations<Pending>,
    pub(crate) under_way: InFlight,

    /// Segments, oldest first; the last one is open. Empty before the first message.
    pub(crate) segments: VecDeque<Segment>,
    pub(crate) size_bytes: u64,
    pub(crate) tail: Tail,
    pub(crate) next_offset: Offset,
    pub(crate) last_timestamp: u64,
    /// End of the messages handed to a write.
    pub(crate) issued_end: Offset,
    /// End of the messages in the log file.
    pub(crate) written_end: Offset,
    /// End of the messages on the device.
    pub(crate) synced_end: Offset,
    /// End of the messages to be written without waiting for more.
    pub(crate) flush_target: Offset,
    /// End of the messages to be synced without waiting for more.
    pub(crate) sync_target: Offset,
    pub(crate) flush_deadline: Option<Timestamp>,
    pub(crate) sync_deadline: Option<Timestamp>,

    pub(crate) manifest_file: ManifestFile,
    pub(crate) record: Record,
    /// Number of this opening.
    pub(crate) epoch: u64,
    /// Openings up to this one.
    pub(crate) openings: Arc<[Opening]>,
    /// True if the directory is another partition's.
    pub(crate) is_foreign: bool,
    pub(crate) wipe: Option<Box<Wipe>>,
    pub(crate) wipe_held: bool,
    pub(crate) offsets_bytes_found: Option<u64>,
    pub(crate) transaction_files: Option<Vec<(FileName, u64)>>,
    pub(crate) removals: Removals,
    pub(crate) reads: Reads,
    /// Retention request that is being applied.
    pub(crate) retention_request: Option<Box<RetentionRequest>>,
    pub(crate) removed: Removed,
    /// Files of bytes cut from segments, and foreign logs.
    pub(crate) set_aside_files: Vec<FileName>,
    /// Findings of recovery.
    pub(crate) notices: Vec<Notice>,
}

/// Phase of the log between opening and closing.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Recovering the state from the files.
    Opening(Box<Recovery>),
    /// Serving.
    Open,
    /// Out of service; see `failure`.
    Failed,
    /// Closed on request.
    Closed,
}

/// Operations of which at most one each is under way.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Messages are being written.
    pub(crate) write: bool,
    /// A log file is being synced.
    pub(crate) sync: bool,
    /// An index file is being created or written to.
    pub(crate) save: bool,
}

/// Purpose of an operation under way.
#[derive(Debug)]
pub(crate) enum Pending {
    Recover(Step),
    Manifest,
    ManifestCopy,
    CreateLog(Offset),
    CreateIndex(Offset),
    Write {
        segment: Offset,
        bytes: u64,
        end: Offset,
    },
    Sync {
        segment: Offset,
        position: u64,
        end: Offset,
    },
    Save(Saving),
    /// Space is being reserved or released, or an index file is being replaced. Nothing depends on the outcome.
    Maintenance(Offset),
    Remove,
    Wipe,
    Read(crate::reading::read::ReadId),
    Load,
    /// The header of a segment's first message is being read.
    FirstMessage(Offset),
    /// The outcome makes no difference.
    Ignored,
}

impl Log {
    /// Start to open the log from its files. Appends and reads are possible once [`Log::is_open`] returns true.
    pub fn open(
        config: LogConfig,
        pool: BufferPool,
        seed: u64,
        out: &mut Vec<StorageRequest>,
    ) -> Self {
        let life = Generation {
            incarnation: config.incarnation,
            purge_epoch: config.purge_epoch,
            partition: Some(config.namespace),
        };
        let mut log = Self {
            generation: life,
            held: MemoryAccounts::new(&pool),
            pool,
            now: Timestamp(0),
            random: Rng::with_seed(seed),
            phase: Phase::Opening(Box::new(Recovery::new(false))),
            closing: false,
            failure: None,
            shortage: None,
            operations: Operations::new(0),
            under_way: InFlight::default(),
            segments: VecDeque::new(),
            size_bytes: 0,
            tail: Tail::new(config.tail_cache_bytes),
            next_offset: Offset(0),
            last_timestamp: 0,
            issued_end: Offset(0),
            written_end: Offset(0),
            synced_end: Offset(0),
            flush_target: Offset(0),
            sync_target: Offset(0),
            flush_deadline: None,
            sync_deadline: None,
            manifest_file: ManifestFile::Outdated,
            record: Record::default(),
            epoch: 1,
            openings: Arc::default(),
            is_foreign: false,
            wipe: None,
            wipe_held: false,
            offsets_bytes_found: None,
            transaction_files: None,
            removals: Removals::default(),
            reads: Reads::default(),
            retention_request: None,
            removed: Removed::default(),
            set_aside_files: Vec::new(),
            notices: Vec::new(),
            config,
        };
        log.begin_recovery(out);
        log
    }

    /// Handle the completion of a storage operation.
    pub fn complete(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Vec<StorageRequest>,
    ) {
        self.now = now;
        let Some((pending, result)) = self.operations.end(now, completion) else {
            return self.start_due_work(now, out);
        };
        match pending {
            Pending::Recover(step) => {
                self.recover(step, result, out);
                if self.is_open() {
                    self.schedule_sync(now);
                }
            }
            Pending::Manifest => self.manifest_replaced(result.map(drop), now),
            Pending::ManifestCopy => self.record.copied(),
            Pending::CreateLog(segment) => self.log_created(segment, result.map(drop), now),
            Pending::CreateIndex(segment) => self.index_created(segment, result.is_ok()),
            Pending::Write {
                segment,
                bytes,
                end,
            } => self.written(segment, bytes, end, result.map(drop), now),
            Pending::Sync {
                segment,
                position,
                end,
            } => self.synced(segment, position, end, result.map(drop), now),
            Pending::Save(saving) => self.saved(&saving, result.is_ok()),
            Pending::Maintenance(segment) => self.reshaped(segment),
            Pending::Remove => self.removed(result.map(drop)),
            Pending::Wipe => self.wipe_step_done(result.map(drop)),
            Pending::Read(id) => {
                self.reads.now = now;
                self.read_done(id, result, out);
            }
            Pending::Load => self.load_done(result, out),
            Pending::FirstMessage(segment) => self.first_message_read(segment, result),
            Pending::Ignored => {}
        }
        self.start_due_work(now, out);
    }

    /// End a turn: write everything appended since the last one as one group.
    pub fn end_of_turn(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.start_due_work(now, out);
    }

    /// Handle the deadline that [`Log::next_deadline`] returned.
    pub fn tick(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.start_due_work(now, out);
    }

    /// Time of the next required call of [`Log::tick`].
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let changes = if self.failure.is_some() {
            self.shortage_deadline()
        } else {
            // While the host lacks memory or handles, only the repetition of operations is scheduled.
            self.operations.repeat_deadline().or_else(|| {
                let deadlines = [
                    self.flush_deadline,
                    self.sync_deadline,
                    self.record.deadline(),
                ];
                deadlines.into_iter().flatten().min()
            })
        };
        [changes, self.reads.repeat_at].into_iter().flatten().min()
    }

    /// Write all messages, and sync them if `fsync`. Complete once [`Log::written_end`] or [`Log::synced_end`] has
    /// reached the present [`Log::next_offset`].
    pub fn flush(&mut self, fsync: bool) {
        self.flush_target = self.next_offset;
        if fsync {
            self.sync_target = self.next_offset;
        }
    }

    /// Close the log: write and sync everything, refuse new work, and let reads under way complete.
    pub fn close(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.closing = true;
        self.flush(true);
        if self.config.durability.delays_writes() {
            // Retry now: acknowledged messages may still be in memory only.
            self.retry_now();
        }
        self.start_due_work(now, out);
    }

    /// Request an operation on a file of this segment of which only the end matters, not the outcome.
    pub(crate) fn start_maintenance(
        &mut self,
        base: Offset,
        operation: StorageOperation,
        out: &mut Vec<StorageRequest>,
    ) {
        if let Some(segment) = self.segment_mut(base) {
            segment.maintenance_in_flight += 1;
            self.operations
                .start(Pending::Maintenance(base), operation, out);
        }
    }

    fn reshaped(&mut self, base: Offset) {
        if let Some(segment) = self.segment_mut(base) {
            segment.maintenance_in_flight -= 1;
        }
    }

    /// Ignore the outcome of all operations under way.
    pub(crate) fn ignore_operations_in_flight(&mut self) {
        self.operations.replace_purposes(|| Pending::Ignored);
        self.under_way = InFlight::default();
    }

    /// Index of the segment that starts at `base`, unless it was removed.
    pub(crate) fn segment_index(&self, base: Offset) -> Option<usize> {
        let index = self.segments.partition_point(|segment| segment.base < base);
        (self.segments.get(index)?.base == base).then_some(index)
    }

    pub(crate) fn segment_mut(&mut self, base: Offset) -> Option<&mut Segment> {
        let index = self.segment_index(base)?;
        self.segments.get_mut(index)
    }

    /// Make the log read-only after a failed write.
    pub(crate) fn fail_writes(&mut self, what: &str, file: FileName, error: StorageError) {
        let space = match error.kind {
            StorageErrorKind::NoSpace => "; free some space and restart",
            _ => "",
        };
        self.fail(true, format!("{what} {file} failed: {error}{space}"));
    }

    /// Make the log read-only, or wait if only space is missing. Returns true if the caller shall retry later.
    pub(crate) fn fail_unless_out_of_space(
        &mut self,
        now: Timestamp,
        what: &str,
        file: FileName,
        error: StorageError,
    ) -> bool {
        let waits = error.kind == StorageErrorKind::NoSpace;
        if waits {
            self.enter_out_of_space(now, what, file, error);
        } else {
            self.fail_writes(what, file, error);
        }
        waits
    }

    /// Put the log out of service: neither appends nor reads are possible.
    pub(crate) fn fail_open(&mut self, reason: String) {
        self.phase = Phase::Failed;
        self.fail(false, reason);
    }

    /// Handle the failure of a file that another component keeps in the directory. The log becomes read-only: for good,
    /// unless the operation is `repeatable` and only space was missing. While the log is opening, it goes out of
    /// service, because the contents of that file have to be known.
    pub fn fail_companion_file(
        &mut self,
        now: Timestamp,
        (what, file): (&str, FileName),
        error: StorageError,
        repeatable: bool,
        is_opening: bool,
    ) {
        if is_opening {
            self.fail_open(format!("{file}: {error}"));
        } else if repeatable {
            self.fail_unless_out_of_space(now, what, file, error);
        } else {
            self.fail_writes(what, file, error);
        }
    }

    /// Refuse to open the log, because a file that another component keeps in the directory is not valid.
    pub fn refuse_to_open(&mut self, reason: String) {
        self.fail_open(reason);
    }

    fn fail(&mut self, readable: bool, reason: String) {
        // Replace the reason of a shortage: a shortage passes, this failure does not.
        if self.shortage.take().is_some() {
            self.failure = None;
        }
        self.note_failure(readable, reason);
        self.operations.drop_waiting();
    }

    pub(crate) fn note_failure(&mut self, readable: bool, reason: String) {
        // Keep the first reason: later failures are its consequences.
        if self.failure.is_none() {
            self.failure = Some(Arc::new(Failure {
                namespace: self.config.namespace,
                readable,
                reason,
            }));
        }
    }

    /// Start everything that the state allows to be started.
    fn start_due_work(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.now = now;
        self.repeat_reads(now, out);
        if self.closing && !self.is_open() {
            self.operations.drop_waiting();
        }
        self.operations.repeat(now, out);
        if self.is_open() {
            self.advance_wipe(now, out);
            if self.wipe.is_none() && self.failure.is_some() {
                if self.is_out_of_space() {
                    // Retention may free space.
                    self.advance_retention(out);
                    self.start_removal(out);
                }
                self.retry_after_shortage(now, out);
            } else if self.wipe.is_none() {
                self.update_manifest(out);
                self.advance_retention(out);
                self.start_write(now, out);
                self.start_sync(now, out);
                self.start_trim(out);
                self.start_save(out);
                self.start_allocate(out);
                self.start_removal(out);
                self.start_record(now, out);
            }
        }
        if self.closing && self.has_drained() {
            self.phase = Phase::Closed;
        }
        self.count_memory();
    }

    fn has_drained(&self) -> bool {
        if !self.operations.is_empty() {
            return false;
        }
        match self.phase {
            Phase::Opening(_) | Phase::Failed | Phase::Closed => true,
            Phase::Open => {
                self.failure.is_some()
                    || self.wipe.is_none()
                        && self.tail.queued_bytes() == 0
                        && self.removals.is_empty()
                        && self.record.is_complete()
                        && self.segments.iter().rev().all(|segment| {
                            segment.synced == segment.size && self.is_index_up_to_date(segment)
                        })
            }
        }
    }
}
