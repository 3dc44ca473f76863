//! State of publications, of which one is in progress.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_log::storage::{FileName, StorageError};
use headrace_model::{Offset, StageId};

use super::file::HEADER_BYTES;
use super::record::{Part, Record};
use crate::retry::FailingFile;

/// Publications of a partition.
#[derive(Debug, Default)]
pub(crate) struct Publishing {
    /// Publications not known to be complete.
    pub(super) pending: BTreeMap<u64, Vec<StageId>>,
    /// Contents of the file.
    pub(super) record: Record,
    /// Contents to be stored next.
    pub(super) wanted: Option<Record>,
    /// Contents being stored.
    pub(super) storing: Option<Record>,
    /// True until the intent in the file has been processed.
    pub(super) has_unprocessed_intent: bool,
    pub(super) current: Option<Current>,
    /// Number of the last publication that a purge has voided.
    pub(super) voided_up_to: u64,
    /// True after a purge: damage of the file is ignored.
    pub(super) ignores_damage: bool,
    /// The file, or a stage to be appended, while it cannot be written or read.
    pub(super) failing: Option<Box<FailingFile>>,
}

/// Publication in progress.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) number: u64,
    pub(super) parts: Vec<Part>,
    pub(super) base: Offset,
    pub(super) step: Step,
}

impl Current {
    pub(super) fn messages(&self) -> u64 {
        messages_of(&self.parts)
    }

    pub(super) fn stages_missing(&self) -> u32 {
        let missing = self.parts.iter().filter(|part| part.is_damaged).count();
        u32::try_from(missing).unwrap_or(u32::MAX)
    }
}

pub(super) fn messages_of(parts: &[Part]) -> u64 {
    parts.iter().filter_map(|part| part.messages).sum()
}

#[derive(Debug)]
pub(super) enum Step {
    /// The intent is being stored.
    Intending,
    Appending(Cursor),
    /// All messages up to this offset are in the log's queue; they are being synced.
    Syncing(Offset),
    /// The completion is being stored.
    Marking,
}

impl Publishing {
    pub(super) fn found(&mut self, record: Record) {
        self.has_unprocessed_intent = record.intent.is_some();
        self.record = record;
    }

    /// Number of the last publication whose completion is on the device.
    pub(crate) const fn applied(&self) -> u64 {
        self.record.applied
    }

    /// Return whether an incomplete publication names this stage.
    pub(super) fn is_stage_pending(&self, id: StageId) -> bool {
        let current = self.current.iter().flat_map(|current| &current.parts);
        let intents = self.record.intent.iter().flat_map(|intent| &intent.parts);
        let mut parts = current.chain(intents);
        parts.any(|part| part.stage == id)
            || self.pending.values().any(|stages| stages.contains(&id))
    }

    /// Return whether the next message belongs to a publication.
    pub(crate) fn holds_appends(&self) -> bool {
        match self.current.as_ref().map(|current| &current.step) {
            Some(Step::Intending | Step::Appending(_)) => true,
            Some(Step::Syncing(_) | Step::Marking) => false,
            None => self.record.intent.is_some(),
        }
    }

    /// Return whether no publication is in progress or pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.current.is_none()
            && self.pending.is_empty()
            && self.wanted.is_none()
            && self.storing.is_none()
    }

    /// File that cannot be written or read, with the reason.
    pub(crate) fn failure(&self) -> Option<(FileName, StorageError)> {
        let failing = self.failing.as_ref()?;
        Some((failing.file, failing.error))
    }

    /// Forget the failure: the file works, or nothing is to be published any more.
    pub(crate) fn recovered(&mut self) {
        self.failing = None;
    }

    pub(crate) fn add(&mut self, number: u64, stages: &[StageId]) -> bool {
        if number <= self.record.applied {
            return true;
        }
        let is_current = |current: &Current| current.number == number;
        if !self.current.as_ref().is_some_and(is_current) && !self.pending.contains_key(&number) {
            let mut unique = Vec::with_capacity(stages.len());
            for stage in stages {
                if !unique.contains(stage) {
                    unique.push(*stage);
                }
            }
            self.pending.insert(number, unique);
        }
        false
    }

    pub(super) fn is_stored(&self) -> bool {
        self.wanted.is_none() && self.storing.is_none()
    }

    /// Schedule the record without an intent.
    pub(super) fn mark(&mut self, applied: u64) {
        self.wanted = Some(Record {
            applied: applied.max(self.record.applied),
            intent: None,
        });
    }
}

/// Position of a publication in its stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Index of the current stage.
    pub(super) index: usize,
    /// Position in the stage's file.
    pub(super) position: u64,
    /// Size of the next block, if it is larger than a usual read.
    pub(super) needed: u64,
    /// Number of messages of the current stage, from here on, that are in the log already.
    pub(super) skip: u64,
    pub(super) is_reading: bool,
}

impl Cursor {
    /// Begin behind the first messages of these parts, which are in the log already.
    pub(super) fn after(parts: &[Part], messages: u64) -> Self {
        let (mut index, mut skip) = (0, messages);
        while let Some(part) = parts.get(index)
            && let Some(rest) = skip.checked_sub(part.messages.unwrap_or(0))
        {
            skip = rest;
            index += 1;
        }
        Self {
            index,
            position: HEADER_BYTES as u64,
            needed: 0,
            skip,
            is_reading: false,
        }
    }

    /// Go on with the next part. Returns the index of the part that ends.
    pub(super) const fn next_part(&mut self) -> usize {
        let index = self.index;
        self.index += 1;
        self.position = HEADER_BYTES as u64;
        self.needed = 0;
        self.skip = 0;
        index
    }
}
