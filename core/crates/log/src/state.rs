//! State that all parts of a log work on: its messages, its files, and the operations under way.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_buffer::BufferPool;
use headrace_model::{LogEnd, Offset, Opening, Timestamp, limits};

use crate::batch::LogPlace;
use crate::config::{IndexCaching, LogConfig};
use crate::error::{Failure, Notice};
use crate::manifest::{Generation, Owner};
use crate::operations::Operations;
use crate::operations::pending::Pending;
use crate::record::{Record, Replaced};
use crate::removal::queue::Removals;
use crate::removal::retention::RetentionRule;
use crate::segment::Segment;
use crate::state::accounts::MemoryAccounts;
use crate::state::ends::Ends;
use crate::state::health::Health;
use crate::state::segments::Segments;
use crate::storage::{FileName, StorageError, StorageErrorKind, StorageOperation, StorageRequest};
use crate::writing::tail::Tail;

pub(crate) mod accounts;
pub(crate) mod ends;
pub(crate) mod health;
pub(crate) mod segments;

/// Maximum number of sealed segments' indexes in memory, by default.
const LOADED_MAX: usize = 2;

/// State of a log at a moment. [`Log`](crate::Log) shows it read-only; its parts change it.
#[derive(Debug)]
pub struct LogState {
    pub(crate) config: LogConfig,
    pub(crate) pool: BufferPool,
    /// Memory held out of the budget that all logs share.
    pub(crate) accounts: MemoryAccounts,
    /// Time of the last call that carried one.
    pub(crate) now: Timestamp,
    pub(crate) phase: Phase,
    /// True once the log is to be closed: nothing new is begun.
    pub(crate) closing: bool,
    pub(crate) health: Health,
    pub(crate) operations: Operations<Pending>,
    pub(crate) segments: Segments,
    /// The newest messages; they end at `ends.next`.
    pub(crate) tail: Tail,
    pub(crate) ends: Ends,
    pub(crate) record: Record,
    /// Files that are to be removed: no file of such a name is created before.
    pub(crate) removals: Removals,
    /// Findings of recovery.
    pub(crate) findings: Findings,
}

/// Phase of the log between opening and closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Recovering the state from the files.
    Opening,
    /// Serving.
    Open,
    /// Messages are about to be dropped, or all; then the log is opened again.
    Truncating,
    /// Out of service; see `health`.
    Failed,
    /// Closed on request.
    Closed,
}

/// Findings of recovery that outlast it.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// True if the directory is another partition's.
    pub(crate) is_foreign: bool,
    /// Size of the file of stored offsets, once it is known to belong to this generation.
    pub(crate) offsets_bytes: Option<u64>,
    /// Transaction files with their sizes, until they are taken.
    pub(crate) transaction_files: Option<Vec<(FileName, u64)>>,
    pub(crate) notices: Vec<Notice>,
}

impl LogState {
    pub(crate) fn new(config: LogConfig, pool: BufferPool) -> Self {
        let generation = Generation {
            incarnation: config.incarnation,
            purge_epoch: config.purge_epoch,
            partition: Some(config.namespace),
        };
        let owner = Owner {
            catalog: config.catalog,
            namespace: config.namespace,
        };
        Self {
            accounts: MemoryAccounts::new(&pool),
            pool,
            now: Timestamp(0),
            phase: Phase::Opening,
            closing: false,
            health: Health::default(),
            operations: Operations::new(0),
            segments: Segments::default(),
            tail: Tail::new(config.tail_cache_bytes),
            ends: Ends::default(),
            record: Record::new(generation, owner),
            removals: Removals::default(),
            findings: Findings::default(),
            config,
        }
    }

    /// Drop all messages, for a purge.
    pub(crate) fn reset(&mut self) {
        self.segments.clear();
        self.tail.clear();
        self.ends = Ends::default();
        self.record.reset();
        self.record.note_opening(self.ends.next);
        self.findings.offsets_bytes = Some(0);
    }

    /// Forget the messages, which are recovered from the files. The log ends at this offset meanwhile.
    pub(crate) fn forget_messages(&mut self, end: Offset) {
        self.segments.clear();
        self.tail.clear();
        let committed = self.ends.committed.min(end);
        self.ends = Ends {
            committed,
            ..Ends::default()
        };
        self.ends.begin_at(end);
        self.record.reset();
        self.accounts.indexes_changed();
    }

    /// Begin another segment. The one before, if any, is sealed.
    pub(crate) fn begin_segment(&mut self) {
        let next = Segment::new(self.ends.next, self.ends.last_timestamp);
        self.segments.push_back(next);
    }

    pub(crate) fn segment_size_bytes(&self) -> u64 {
        self.config
            .segment_size_bytes
            .clamp(1, limits::SEGMENT_SIZE_BYTES_MAX)
    }

    /// Request an operation on a file of this segment of which only the end matters, not the outcome.
    pub(crate) fn start_maintenance(
        &mut self,
        base: Offset,
        operation: StorageOperation,
        out: &mut Vec<StorageRequest>,
    ) {
        if let Some(segment) = self.segments.at_mut(base) {
            segment.maintenance_in_flight += 1;
            self.operations
                .start(Pending::Maintenance(base), operation, out);
        }
    }

    pub(crate) fn maintained(&mut self, base: Offset) {
        if let Some(segment) = self.segments.at_mut(base) {
            segment.maintenance_in_flight -= 1;
        }
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
            let reason = format!("{what} {file} failed: {error}; it goes on when there is some");
            let is_of_offsets = file == FileName::Offsets;
            self.health
                .enter_shortage(self.config.namespace, reason, is_of_offsets, now);
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

    fn fail(&mut self, readable: bool, reason: String) {
        self.health.fail(self.config.namespace, readable, reason);
        self.operations.drop_waiting();
    }

    /// Handle the end of a replacement of the manifest.
    pub(crate) fn manifest_replaced(&mut self, result: Result<(), StorageError>, now: Timestamp) {
        match self.record.replaced(result.is_ok(), self.closing) {
            Replaced::Current => self.health.retry_now(),
            Replaced::KeptEarlier => {}
            Replaced::Missing => {
                let error = result.expect_err("only a failure leaves it missing");
                if self.fail_unless_out_of_space(now, "replacing", FileName::Manifest, error) {
                    self.record.outdate();
                }
            }
        }
    }

    /// Record what is on the device if that is due.
    pub(crate) fn start_record(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        let is_last = self.closing && self.is_synced();
        let (segments, operations) = (&self.segments, &mut self.operations);
        self.record.start((now, is_last), segments, operations, out);
    }

    /// Return whether every message was written and synced.
    fn is_synced(&self) -> bool {
        self.tail.queued_bytes() == 0
            && self
                .segments
                .iter()
                .all(|segment| segment.synced == segment.size)
    }

    /// Unload the least recently used indexes beyond the limit (LOG-5).
    pub(crate) fn unload_beyond_limit(&mut self) {
        self.accounts.indexes_changed();
        let limit = match self.config.index_caching {
            IndexCaching::All => return,
            IndexCaching::OpenSegment => LOADED_MAX,
            IndexCaching::None => 1,
        };
        self.segments.unload_beyond(limit);
    }

    /// Evict entries of the open segment that its index file holds.
    pub(crate) fn evict_saved_entries(&mut self) {
        let front = self.tail.front();
        let front = front.map(|chunk| (chunk.segment, chunk.position));
        if let Some(open) = self.segments.back_mut() {
            let position = match front {
                Some((base, position)) if base == open.base => position,
                _ => open.written,
            };
            open.index.forget_saved_before(position);
        }
    }

    /// Recount the memory held; `ahead_bytes` were read ahead.
    pub(crate) fn count_memory(&mut self, ahead_bytes: u64) {
        let tail_bytes = self.tail.memory_bytes();
        self.accounts.count(tail_bytes, ahead_bytes, &self.segments);
    }

    /// Return whether messages can be appended and read.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Return whether closing is complete: no operation is under way and none will follow.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Return whether the directory is another partition's, so that the log is out of service.
    pub const fn is_foreign(&self) -> bool {
        self.findings.is_foreign
    }

    /// Number of files that were set aside: bytes cut from segments, and foreign logs.
    pub fn set_aside_count(&self) -> usize {
        self.removals.set_aside.len()
    }

    /// Reason why the log is read-only or out of service.
    pub fn failure(&self) -> Option<&Arc<Failure>> {
        self.health.failure.as_ref()
    }

    /// Return whether the log is read-only only until space is found.
    pub fn is_out_of_space(&self) -> bool {
        self.health.is_out_of_space()
    }

    /// Settings of the log.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Generation of the log. The one on disk may have a later purge epoch than the settings.
    pub fn generation(&self) -> Generation {
        self.record.generation
    }

    /// Openings, ascending, up to the present one. See [`headrace_model::cut_since`].
    pub fn openings(&self) -> &Arc<[Opening]> {
        self.record.openings()
    }

    /// First offset retained.
    pub fn first_offset(&self) -> Offset {
        self.segments
            .front()
            .map_or(self.ends.next, |segment| segment.base)
    }

    /// Offset of the next message.
    pub fn next_offset(&self) -> Offset {
        self.ends.next
    }

    /// Place of the next message, unless it begins another segment.
    pub fn end_place(&self) -> LogPlace {
        let next = self.ends.next;
        let open = self.segments.back();
        let (segment, position) = open.map_or((next, 0), |open| (open.base, open.size));
        LogPlace {
            segment,
            position,
            base: next,
        }
    }

    /// End of the messages in the log file.
    pub fn written_end(&self) -> Offset {
        self.ends.written
    }

    /// End of the messages on the device.
    pub fn synced_end(&self) -> Offset {
        self.ends.synced
    }

    /// End of the committed messages that the log has, if it is replicated.
    pub fn committed_end(&self) -> Offset {
        self.ends.at(LogEnd::Committed)
    }

    /// End of the messages that are as durable as promised: those before it are acknowledged and can be read (LOG-15).
    pub fn visible_end(&self) -> Offset {
        self.ends.at(self.config.visible_end())
    }

    /// Number of bytes retained, including those still in memory.
    pub fn size_bytes(&self) -> u64 {
        self.segments.size_bytes()
    }

    /// Number of segments, including the open one; 1 for an empty log.
    pub fn segments_count(&self) -> usize {
        self.segments.len().max(1)
    }

    /// Number of bytes written and not known to be on the device.
    pub fn unsynced_bytes(&self) -> u64 {
        self.segments.unsynced_bytes()
    }

    /// Number of bytes appended and not handed to a write yet.
    pub fn queued_bytes(&self) -> u64 {
        self.tail.queued_bytes()
    }

    /// Memory of the indexes in bytes.
    pub fn index_bytes(&self) -> u64 {
        let indexes = self.segments.iter().map(|segment| &segment.index);
        indexes.map(crate::index::Index::memory_bytes).sum()
    }

    /// Timestamp of the newest message in the oldest segment, which retention by age compares. None if the log is
    /// empty, or until the timestamp was read.
    pub fn oldest_segment_timestamp(&self) -> Option<Timestamp> {
        let oldest = self.segments.front().filter(|oldest| oldest.size > 0)?;
        oldest.last_timestamp.map(Timestamp)
    }

    /// Time from which [`Log::retain`](crate::Log::retain) with the bounds of this rule may have something to do, never
    /// a later one. None as long as only new messages could change that.
    pub fn retention_due(&self, rule: &RetentionRule) -> Option<Timestamp> {
        if self.removals.has_given_up() {
            return Some(Timestamp(0));
        }
        let after = |timestamp: u64, age: u64| timestamp.saturating_add(age).saturating_add(1);
        let open = self.segments.back().filter(|open| open.size > 0);
        let sealed_at = open.map(|open| match open.first_timestamp {
            _ if open.size >= rule.roll_bytes => 0,
            // A timestamp that is unknown is read as soon as any message could be old enough.
            first => after(first.unwrap_or(0), rule.roll_micros),
        });
        let removed_at = (self.segments.len() > 1).then(|| {
            let last = self.segments.last_timestamp_of_oldest();
            last.map_or(0, |last| after(last, rule.expiry_micros))
        });
        let due = sealed_at.into_iter().chain(removed_at).min()?;
        (due < u64::MAX).then_some(Timestamp(due))
    }
}
