//! Calls that concern one part of a log: each is handed to that part.

use alloc::string::String;
use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};

use crate::batch::{Batch, Run};
use crate::error::{AppendError, Notice, ReadError, RunError, TruncateError};
use crate::log::Log;
use crate::operations::pending::ReadId;
use crate::reading::job::{Messages, ReadFrom, Started};
use crate::reading::plan::{PlanId, RangePlan, RangeToPlan};
use crate::removal::Remover;
use crate::removal::retention::{RemovalProgress, Removed, Retention};
use crate::removal::truncation::Truncation;
use crate::storage::{FileName, StorageError, StorageRequest};
use crate::writing::append::{Appended, has_room_for};

impl Log {
    /// Append a batch atomically. The log keeps the buffer unless the batch is small.
    ///
    /// # Panics
    /// If the log is not open.
    pub fn append(&mut self, now: Timestamp, batch: Batch) -> Result<Appended, AppendError> {
        self.writer
            .append(now, batch, &mut self.state, &mut self.reader)
    }

    /// Append a batch atomically by copying its messages.
    ///
    /// If the pool has no memory for the copy, memory outside the pool is used. A refusal would let the next batch of
    /// the same producer, which may get memory, overtake this one. Hosts bound the number of batches in flight.
    ///
    /// # Panics
    /// If the log is not open.
    pub fn append_copied(
        &mut self,
        now: Timestamp,
        messages: &[u8],
        messages_count: u32,
    ) -> Result<Appended, AppendError> {
        let (state, reader) = (&mut self.state, &mut self.reader);
        self.writer
            .append_copied(now, messages, messages_count, state, reader)
    }

    /// Append a run of a leader's log as it is, or nothing of it: the segments get the bytes that those of the leader have.
    /// The log begins no segment by itself.
    ///
    /// # Panics
    /// If the log is not open.
    pub fn append_stamped(&mut self, now: Timestamp, run: Run) -> Result<Appended, RunError> {
        self.writer.append_stamped(now, run, &mut self.state)
    }

    /// Note that the messages before this offset are committed: readers see them if the log is replicated. An end behind
    /// the log's own counts as that, and one before an earlier one has no effect.
    pub fn commit(&mut self, end: Offset) {
        self.state.ends.commit(end);
    }

    /// Seal the open segment if it has messages: the next one begins another.
    ///
    /// # Panics
    /// If the log is not open.
    pub fn roll(&mut self) {
        assert!(self.state.is_open(), "only an open log begins a segment");
        if self.state.segments.back().is_some_and(|open| open.size > 0) {
            self.state.begin_segment();
        }
    }

    /// Drop the messages from `end` on, which is the offset of a message or of the next one. The last segment with messages
    /// becomes the open one.
    ///
    /// The log is not open meanwhile. It is again once nothing of that can be undone by a crash; it then ends at `end`, or
    /// before it if messages before it were lost. Reads under way end, perhaps without a message.
    pub fn truncate(&mut self, end: Offset) -> Result<(), TruncateError> {
        let truncation = Truncation::to(end, &self.state)?;
        self.remover.truncate(truncation, &mut self.state)?;
        self.flush(false);
        Ok(())
    }

    /// Drop all messages: the next one has this offset. The log is not open meanwhile, as with
    /// [`truncate`](Self::truncate).
    pub fn start_at(&mut self, first: Offset) -> Result<(), TruncateError> {
        let truncation = Truncation::to_nothing(first);
        self.remover.truncate(truncation, &mut self.state)?;
        self.flush(false);
        Ok(())
    }

    /// Return true if `length` more bytes may be queued for writing and memory is available for them. An empty queue
    /// takes a batch of any size.
    pub fn has_room_for(&self, length: usize) -> bool {
        has_room_for(length, &self.state)
    }

    /// Write all messages, and sync them if `fsync`. Complete once [`written_end`](crate::LogState::written_end) or
    /// [`synced_end`](crate::LogState::synced_end) has reached the present end.
    pub fn flush(&mut self, fsync: bool) {
        self.writer.flush(fsync, self.state.ends.next);
    }

    /// Read up to `count` visible messages, within the configured size, but at least one.
    pub fn read(&mut self, from: ReadFrom, count: u32, out: &mut Vec<StorageRequest>) -> Started {
        self.read_within(from, count, u64::MAX, out)
    }

    /// Read as [`read`](Self::read) does, but at most `bytes_max` bytes, also if the first message is larger:
    /// [`ReadError::TooLarge`] then names its size.
    pub fn read_within(
        &mut self,
        from: ReadFrom,
        count: u32,
        bytes_max: u64,
        out: &mut Vec<StorageRequest>,
    ) -> Started {
        self.reader
            .read(from, (count, bytes_max), &mut self.state, out)
    }

    /// Take a finished read, in no particular order.
    pub fn take_finished_read(&mut self) -> Option<(ReadId, Result<Messages, ReadError>)> {
        self.reader.take_finished()
    }

    /// Plan how a range may be split. [`Log::take_finished_plan`] returns the plan, at once or after indexes were
    /// loaded.
    pub fn plan(&mut self, id: PlanId, range: RangeToPlan, out: &mut Vec<StorageRequest>) {
        self.reader.plan(id, range, &mut self.state, out);
    }

    /// Take a finished plan, in no particular order.
    pub fn take_finished_plan(&mut self) -> Option<(PlanId, Result<RangePlan, ReadError>)> {
        self.reader.take_finished_plan()
    }

    /// Time at which the data that [`Log::evict_oldest`] would evict was appended or read. None if nothing is cached.
    pub fn oldest_cached(&self) -> Option<Timestamp> {
        self.reader.oldest_cached(&self.state)
    }

    /// Evict the oldest cached data. Returns the memory it occupied; a response being sent may keep that memory a
    /// little longer.
    pub fn evict_oldest(&mut self) -> u64 {
        self.reader.evict_oldest(&mut self.state)
    }

    /// Evict indexes that can be loaded again, except the entries needed to look up messages in memory.
    pub fn unload_indexes(&mut self) {
        self.reader.unload_indexes(&mut self.state);
    }

    /// Memory in bytes that holds messages or speeds up reads.
    pub fn memory_bytes(&self) -> u64 {
        self.state.tail.memory_bytes() + self.reader.memory_bytes()
    }

    /// Remove up to `count` sealed segments, oldest first, whose last message is not beyond `barrier`.
    pub fn delete_segments(&mut self, count: u32, barrier: Option<Offset>) -> RemovalProgress {
        Remover::delete_segments(count, barrier, &mut self.state, &mut self.reader)
    }

    /// Try again to remove files of removed segments whose removal failed.
    pub fn retry_removals(&mut self) {
        Remover::retry_removals(&mut self.state);
    }

    /// Result of the removals up to `mark`, or the file that could not be removed. None while they are under way.
    pub fn removals_done(&self, mark: u64) -> Option<Result<(), (FileName, StorageError)>> {
        self.state.removals.done(mark)
    }

    /// Apply these bounds from the next [`Log::end_of_turn`] on. Segments with messages beyond `barrier` stay. A
    /// request replaces the one before. Removals that failed before are tried again.
    pub fn retain(&mut self, retention: Retention, barrier: Option<Offset>) {
        self.remover.retain(retention, barrier, &mut self.state);
    }

    /// Removals by [`Log::retain`] and [`Log::remove_oldest`].
    pub fn removed_by_retention(&self) -> Removed {
        self.remover.removed_by_retention()
    }

    /// Remove the oldest segment if it is sealed, on the device and not beyond `barrier`. Returns true if it was
    /// removed.
    pub fn remove_oldest(&mut self, barrier: Option<Offset>) -> bool {
        self.remover
            .remove_oldest(barrier, &mut self.state, &mut self.reader)
    }

    /// Defer the removal of files by a purge while other files in the directory are still being written (`held`).
    pub fn defer_wipe(&mut self, held: bool) {
        self.remover.defer_wipe(held);
    }

    /// Return whether a purge is still in progress.
    pub fn is_wiping(&self) -> bool {
        self.remover.is_wiping()
    }

    /// Take the findings of recovery.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        core::mem::take(&mut self.state.findings.notices)
    }

    /// Size of the file of stored offsets, 0 if there is none. None until the file is known to belong to this
    /// generation.
    pub fn offsets_bytes(&self) -> Option<u64> {
        match &self.recovery {
            Some(recovery) => recovery.offsets_bytes,
            None => self.state.findings.offsets_bytes,
        }
    }

    /// Take the list of transaction files with their sizes, once known. The log itself leaves these files alone.
    pub fn take_transaction_files(&mut self) -> Option<Vec<(FileName, u64)>> {
        self.state.findings.transaction_files.take()
    }

    /// Return whether a write of changed offsets may be tried now; true once per retry.
    pub fn take_offsets_retry(&mut self) -> bool {
        self.state.health.take_offsets_retry()
    }

    /// Note that changed offsets were written.
    pub fn offsets_written(&mut self) {
        self.state.health.offsets_written();
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
        let state = &mut self.state;
        if is_opening {
            self.refuse_to_open(alloc::format!("{file}: {error}"));
        } else if repeatable {
            state.fail_unless_out_of_space(now, what, file, error);
        } else {
            state.fail_writes(what, file, error);
        }
    }

    /// Refuse to open the log, because a file that another component keeps in the directory is not valid.
    pub fn refuse_to_open(&mut self, reason: String) {
        self.state.fail_open(reason);
        self.recovery = None;
    }
}
