//! Log of a replica: its entries, how far they are committed, executed, verified and stored.

pub(crate) mod append;
mod chain;
mod entries;
mod journal;
mod recover;
mod repair;
mod succession;
mod time;

use alloc::collections::BTreeMap;

use crate::api::{FatalReason, Now, Output};
use crate::frame::{PIPELINE_MAX, PrepareFrame, PrepareHeader, Release};
use crate::rules::{BodyState, Evidence, may_cut};
use crate::superblock::Checkpoint;

use crate::replica::flow::{Flow, broken, must};
use crate::replica::outbox::Outbox;

use entries::Entries;
use journal::Journal;
use time::LogTime;

/// Number of executed operations whose bodies stay in memory, for replicas that lag slightly behind.
const CACHED_OPS: u64 = 64;

/// Superblocks by which records of the journal are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CutOrder {
    /// Sequence number of the one that justifies a cut made now.
    pub(crate) justified_by: u64,
    /// Sequence number of the newest durable one.
    pub(crate) durable: u64,
}

/// Numbers of a log that never decrease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    commit_min: u64,
    commit_max: u64,
    checkpoint: u64,
    floor: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    entries: Entries,
    journal: Journal,
    /// Newest operation of the log. Falls only when a view begins with a shorter log.
    head: u64,
    /// Newest operation that was executed here. Never decreases, and is at most `commit_max`.
    commit_min: u64,
    /// Newest operation known to be committed. Never decreases; once the log of the view is decided here, at most `head`.
    commit_max: u64,
    /// Lowest operation that the hash chain verifies from the head down. What lies below may belong to an abandoned view,
    /// and is neither executed nor requested by body.
    link_floor: u64,
    /// Newest checkpoint of this replica: of an operation that was executed, and never an older one than before. Durable
    /// once the superblock names it.
    checkpoint: Checkpoint,
    /// Lowest operation that the journal must still hold. Never decreases.
    floor: u64,
    /// Prepares of this view that lie above a gap: above the head, and at most a pipeline above it when they arrive.
    early: BTreeMap<u64, PrepareFrame>,
    time: LogTime,
    /// Release of this program. No entry needs a later one.
    release: Release,
}

impl Log {
    /// Create the log that consists of a checkpoint.
    pub(crate) fn new(
        checkpoint: &Checkpoint,
        commit_max: u64,
        release: Release,
        unstored_bytes_max: u64,
    ) -> Self {
        Self {
            entries: Entries::default(),
            journal: Journal::new(unstored_bytes_max),
            head: checkpoint.op,
            commit_min: checkpoint.op,
            commit_max: commit_max.max(checkpoint.op),
            link_floor: u64::MAX,
            checkpoint: *checkpoint,
            floor: 1,
            early: BTreeMap::new(),
            time: LogTime::default(),
            release,
        }
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn commit_min(&self) -> u64 {
        self.commit_min
    }

    pub(crate) fn commit_max(&self) -> u64 {
        self.commit_max
    }

    pub(crate) fn link_floor(&self) -> u64 {
        self.link_floor
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Header of an operation, if it is known: that of an entry, or of the checkpoint.
    pub(crate) fn header(&self, op: u64) -> Option<&PrepareHeader> {
        self.entry(op)
            .or_else(|| (op == self.checkpoint.op).then_some(&self.checkpoint.header))
    }

    pub(crate) fn checksum(&self, op: u64) -> Option<u128> {
        self.header(op).map(|header| header.checksum)
    }

    /// Header of an entry.
    pub(crate) fn entry(&self, op: u64) -> Option<&PrepareHeader> {
        self.entries.header(op)
    }

    /// Prepare with its body, if it is in memory.
    pub(crate) fn frame(&self, op: u64) -> Option<&PrepareFrame> {
        self.entries.frame(op)
    }

    pub(crate) fn body(&self, op: u64) -> BodyState {
        self.entries.body(op)
    }

    /// Return whether the body is available for execution and repair.
    pub(crate) fn is_available(&self, op: u64) -> bool {
        self.entries.is_available(op)
    }

    pub(crate) fn evidence(&self, op: u64, in_checkpoint: bool) -> Evidence {
        self.entries.evidence(op, in_checkpoint)
    }

    /// Return whether operations are not known to be committed.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.head > self.commit_max
    }

    pub(crate) fn pipeline_has_room(&self) -> bool {
        self.head - self.commit_max < PIPELINE_MAX
    }

    /// Release in force, as of the newest operation that was executed.
    pub(crate) fn release_in_force(&self) -> Release {
        self.header(self.commit_min)
            .map_or(Release::FIRST, PrepareHeader::release_in_force)
    }

    /// Release in force for the next operation; none if the newest one is not known.
    pub(crate) fn newest_release(&self) -> Option<Release> {
        self.header(self.head).map(PrepareHeader::release_in_force)
    }

    /// Stop if this program does not support the release of a prepare.
    pub(crate) fn must_know(&self, header: &PrepareHeader) -> Flow {
        let (needed, own) = (header.release_in_force(), self.release);
        if needed > own {
            return Err(FatalReason::Release { needed, own });
        }
        Ok(())
    }

    /// Timestamp that an operation prepared now would get.
    pub(crate) fn time_ns(&self, now: Now) -> u64 {
        self.time.next(now)
    }

    /// Record when the newest timestamp of the log was made or received.
    pub(crate) fn note_time(&mut self, now: Now) {
        if let Some(head) = self.header(self.head) {
            self.time.note(head.area.timestamp_ns, now);
        }
    }

    /// Record that operations up to `commit` are committed.
    pub(crate) fn learn_commit(&mut self, commit: u64) {
        self.commit_max = self.commit_max.max(commit);
    }

    /// Record that an operation was executed.
    pub(crate) fn executed(&mut self, op: u64) -> Flow {
        must(
            op == self.commit_min + 1 && op <= self.commit_max,
            "operations are executed in order",
        )?;
        self.commit_min = op;
        Ok(())
    }

    /// Release the bodies of operations that were executed a while ago.
    pub(crate) fn shrink_cache(&mut self) {
        if let Some(op) = self.commit_min.checked_sub(CACHED_OPS) {
            self.entries.uncache_through(op);
        }
    }

    /// Cache a body that was read from the journal.
    pub(crate) fn cache(&mut self, frame: PrepareFrame) {
        self.entries.cache(frame);
    }

    /// Mark a record as faulty because it could not be read or verified. Returns whether that is new.
    pub(crate) fn mark_faulty(&mut self, op: u64, checksum: u128) -> bool {
        self.entries.mark_faulty(op, checksum)
    }

    /// Return whether no more prepares should be accepted until the journal has stored others.
    pub(crate) fn is_full(&self) -> bool {
        self.journal.is_full(self.entries.unwritten_ops())
    }

    /// Append bodies to the journal, unless it is being cut.
    pub(crate) fn flush(&mut self, outbox: &mut Outbox) {
        if self.journal.is_being_cut() || self.entries.unwritten_ops() == 0 {
            return;
        }
        let token = outbox.next_token();
        let frames = self.entries.take_unwritten(token, self.commit_max);
        if !frames.is_empty() {
            let token = outbox.token();
            self.journal.append(token, frames, outbox);
        }
    }

    /// Complete an append.
    pub(crate) fn appended(&mut self, token: u64) -> Flow {
        let ops = self.journal.appended(token)?;
        self.entries.written(token, &ops);
        self.shrink_cache();
        Ok(())
    }

    /// Complete a cut.
    pub(crate) fn truncated(&mut self, token: u64) -> Flow {
        self.journal.truncated(token)
    }

    /// Cut the journal where a durable superblock, or the rules, allow the cut.
    pub(crate) fn cut(&mut self, durable: u64, outbox: &mut Outbox) {
        if let Some(from_op) = self.entries.cut(|sequence| may_cut(durable, sequence)) {
            self.journal.cut(from_op, outbox);
        }
    }

    /// Record a checkpoint of this replica, unless a transferred one is newer. Returns whether it is the newest one.
    pub(crate) fn set_checkpoint(&mut self, checkpoint: &Checkpoint) -> bool {
        let is_newer = checkpoint.op > self.checkpoint.op;
        if is_newer {
            self.checkpoint = *checkpoint;
        }
        is_newer
    }

    /// Discard the log up to `limit`: checkpoints cover it.
    pub(crate) fn compact(&mut self, limit: u64, outbox: &mut Outbox) {
        if limit < self.floor {
            return;
        }
        self.entries.forget_through(limit);
        self.floor = limit + 1;
        outbox.push(Output::GcLog {
            below_op: self.floor,
        });
    }

    pub(crate) fn marks(&self) -> Marks {
        Marks {
            commit_min: self.commit_min,
            commit_max: self.commit_max,
            checkpoint: self.checkpoint.op,
            floor: self.floor,
        }
    }

    /// Check the cheap invariants.
    pub(crate) fn check(&self, before: Marks) -> Flow {
        must(
            self.commit_min >= before.commit_min,
            "what is executed never goes back",
        )?;
        must(
            self.commit_max >= before.commit_max,
            "the commit point never goes back",
        )?;
        must(
            self.commit_min <= self.commit_max,
            "only what is committed is executed",
        )?;
        must(
            self.checkpoint.op >= before.checkpoint,
            "the checkpoint never goes back",
        )?;
        must(
            self.checkpoint.op <= self.commit_min,
            "a checkpoint is of what was executed",
        )?;
        must(
            self.floor >= before.floor,
            "the log's floor never goes back",
        )
    }

    /// Check the entries.
    pub(crate) fn check_entries(&self) -> Flow {
        self.entries.check()
    }

    /// Check that the verified part of the log is a chain.
    pub(crate) fn check_chain(&self) -> Flow {
        for op in self.link_floor.max(self.checkpoint.op + 1) + 1..=self.head {
            let (Some(header), Some(below)) = (self.entry(op), self.entry(op - 1)) else {
                return broken("the verified log has no gap");
            };
            must(
                header.parent() == below.checksum,
                "the verified log is a chain",
            )?;
            must(
                header.area.timestamp_ns > below.area.timestamp_ns,
                "timestamps grow along the log",
            )?;
        }
        Ok(())
    }
}
