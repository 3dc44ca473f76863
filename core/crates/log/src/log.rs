//! A log as the composition of its parts: dispatch of calls and completions to them, and the order of their work.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;

use headrace_buffer::BufferPool;
use headrace_model::Timestamp;

use crate::config::LogConfig;
use crate::operations::pending::Pending;
use crate::reading::Reader;
use crate::recovery::Recovery;
use crate::removal::Remover;
use crate::removal::truncation::TruncationTurn;
use crate::state::{LogState, Phase};
use crate::storage::{StorageCompletion, StorageRequest};
use crate::writing::Writer;
use crate::writing::write::log_created;

mod calls;

/// A segmented append-only log.
///
/// The log is a step function: calls change its state and push the resulting storage requests; the host returns their
/// completions. Time and randomness are arguments. [`LogState`] has the accessors.
#[derive(Debug)]
pub struct Log {
    state: LogState,
    writer: Writer,
    reader: Reader,
    remover: Remover,
    /// Set while the phase is [`Phase::Opening`].
    recovery: Option<Box<Recovery>>,
}

/// A log shows its state, and changes it only by its own methods.
impl Deref for Log {
    type Target = LogState;

    fn deref(&self) -> &LogState {
        &self.state
    }
}

impl Log {
    /// Start to open the log from its files. Appends and reads are possible once [`LogState::is_open`] returns true.
    pub fn open(
        config: LogConfig,
        pool: BufferPool,
        seed: u64,
        out: &mut Vec<StorageRequest>,
    ) -> Self {
        let mut log = Self {
            state: LogState::new(config, pool),
            writer: Writer::new(seed),
            reader: Reader::default(),
            remover: Remover::default(),
            recovery: Some(Box::new(Recovery::new(false))),
        };
        Recovery::begin(&mut log.state, out);
        log
    }

    /// Handle the completion of a storage operation.
    pub fn complete(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
        out: &mut Vec<StorageRequest>,
    ) {
        let (state, writer) = (&mut self.state, &mut self.writer);
        state.now = now;
        let Some((pending, result)) = state.operations.end(now, completion) else {
            return self.start_due_work(now, out);
        };
        match pending {
            Pending::Recover(step) => {
                if !state.closing
                    && let Some(recovery) = &mut self.recovery
                {
                    recovery.advance(step, result, state, out);
                    self.end_recovery(now);
                }
            }
            Pending::Manifest => state.manifest_replaced(result.map(drop), now),
            Pending::ManifestCopy => state.record.copied(),
            Pending::Truncation => self.remover.truncation_marked(result.map(drop), state),
            Pending::CreateLog(base) => log_created(base, (now, state), result.map(drop)),
            Pending::CreateIndex(base) => writer.index_created(base, result.is_ok(), state),
            Pending::Write {
                segment,
                bytes,
                end,
            } => writer.written((segment, bytes, end), (now, state), result.map(drop)),
            Pending::Sync {
                segment,
                position,
                end,
            } => writer.synced((segment, position, end), (now, state), result.map(drop)),
            Pending::Save(saving) => writer.saved(&saving, result.is_ok(), state),
            Pending::Maintenance(base) => state.maintained(base),
            Pending::Remove => Remover::removed(result.map(drop), state),
            Pending::Wipe => self.remover.wipe_step_done(result.map(drop), state),
            Pending::Read(id) => self.reader.read_done(id, result, state, out),
            Pending::Load => self.reader.load_done(result, state, out),
            Pending::FirstMessage(base) => self.remover.first_message_read(base, result, state),
            Pending::Ignored => {}
        }
        self.start_due_work(now, out);
    }

    /// Go on from what recovery has found, once it has ended.
    fn end_recovery(&mut self, now: Timestamp) {
        if self.state.phase == Phase::Opening {
            return;
        }
        let recovery = self.recovery.take();
        if !self.state.is_open() {
            return;
        }
        if let Some(wipe) = recovery.and_then(|recovery| recovery.wipe) {
            self.remover.begin_wipe(wipe);
        }
        self.state.ends.commit(self.state.first_offset());
        self.writer.begin_at(self.state.ends.next);
        self.writer.schedule_sync(now, &self.state);
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
        let state = &self.state;
        let changes = if state.failure().is_some() {
            state.health.shortage_deadline()
        } else {
            // While the host lacks memory or handles, only the repetition of operations is scheduled.
            state.operations.repeat_deadline().or_else(|| {
                let [flush, sync] = self.writer.deadlines();
                earliest([flush, sync, state.record.deadline()])
            })
        };
        earliest([changes, self.reader.deadline()])
    }

    /// Return whether no operation is under way and no deadline is set.
    pub fn is_idle(&self) -> bool {
        self.state.operations.is_empty()
            && !self.remover.is_wiping()
            && self.state.phase != Phase::Truncating
            && self.next_deadline().is_none()
            && (self.state.failure().is_some() || self.state.tail.queued_bytes() == 0)
    }

    /// Close the log: write and sync everything, refuse new work, and let reads under way complete.
    pub fn close(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.remover.give_up_truncation(&mut self.state);
        self.state.closing = true;
        self.flush(true);
        if self.state.config.durability.delays_writes() {
            // Retry now: acknowledged messages may still be in memory only.
            self.state.health.retry_now();
        }
        self.start_due_work(now, out);
    }

    /// Drop all messages and restart at offset 0. No effect if this epoch has been reached before.
    pub fn purge(&mut self, epoch: u64, out: &mut Vec<StorageRequest>) {
        let state = &mut self.state;
        if epoch <= state.record.generation.purge_epoch || state.is_closed() {
            return;
        }
        if state.phase == Phase::Truncating {
            state.phase = Phase::Open;
        }
        state.record.generation.purge_epoch = epoch;
        state.config.purge_epoch = epoch;
        state.health.clear();
        state.operations.replace_purposes(|| Pending::Ignored);
        self.writer.clear();
        self.reader.abort_all();
        if state.is_open() {
            self.remover.purge(state);
            state.reset();
        } else {
            // Segments may have been recovered before a file of another component failed. All files are listed again.
            state.reset();
            self.recover(true, out);
        }
    }

    /// Open the log again from its files.
    fn recover(&mut self, drop_all: bool, out: &mut Vec<StorageRequest>) {
        self.state.removals.clear();
        self.remover.clear();
        self.state.phase = Phase::Opening;
        self.recovery = Some(Box::new(Recovery::new(drop_all)));
        Recovery::begin(&mut self.state, out);
    }

    /// Advance a truncation. Returns whether other work may begin.
    fn advance_truncation(&mut self, out: &mut Vec<StorageRequest>) -> bool {
        let has_messages = self.writer.has_messages(&self.state);
        let state = &mut self.state;
        match self.remover.advance_truncation(has_messages, state, out) {
            TruncationTurn::Writes => true,
            TruncationTurn::Waits => false,
            TruncationTurn::Reopens(end) => {
                // Only reads are under way.
                state.operations.replace_purposes(|| Pending::Ignored);
                state.forget_messages(end);
                self.writer.clear();
                self.reader.abort_all();
                self.recover(false, out);
                false
            }
        }
    }

    /// Start everything that the state allows to be started.
    fn start_due_work(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        let state = &mut self.state;
        state.now = now;
        self.reader.repeat_reads(now, state, out);
        if state.closing && !state.is_open() {
            state.operations.drop_waiting();
        }
        state.operations.repeat(now, out);
        let may_begin = match state.phase {
            Phase::Open => true,
            Phase::Truncating => self.advance_truncation(out),
            Phase::Opening | Phase::Failed | Phase::Closed => false,
        };
        if may_begin {
            let (state, writer) = (&mut self.state, &mut self.writer);
            let (reader, remover) = (&mut self.reader, &mut self.remover);
            remover.advance_wipe(now, state, out);
            if !remover.is_wiping() && state.failure().is_some() {
                if state.is_out_of_space() {
                    // Retention may free space.
                    remover.advance_retention(state, reader, out);
                    Remover::start_removal(state, out);
                }
                writer.retry_after_shortage(now, state, out);
            } else if !remover.is_wiping() {
                state
                    .record
                    .update(&state.segments, &mut state.operations, out);
                remover.advance_retention(state, reader, out);
                writer.start(now, state, out);
                Remover::start_removal(state, out);
                state.start_record(now, out);
            }
        }
        if self.state.closing && self.has_drained() {
            self.state.phase = Phase::Closed;
            self.recovery = None;
        }
        self.state.count_memory(self.reader.memory_bytes());
    }

    fn has_drained(&self) -> bool {
        let state = &self.state;
        let is_done = || {
            state.removals.is_empty() && state.record.is_complete() && Writer::has_drained(state)
        };
        state.operations.is_empty()
            && (!state.is_open()
                || state.failure().is_some()
                || !self.remover.is_wiping() && is_done())
    }
}

fn earliest<const N: usize>(deadlines: [Option<Timestamp>; N]) -> Option<Timestamp> {
    deadlines.into_iter().flatten().min()
}
