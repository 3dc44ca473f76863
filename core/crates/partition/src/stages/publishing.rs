//! Publishing: the intent is stored, the messages are appended and synced, and the publication is marked as complete.
//! Publications run one after the other, in ascending order of their numbers.
//!
//! From the intent until all of its messages are in the log's queue, no other appends are accepted. After a restart the
//! end of the log therefore shows how many of the messages were appended.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_log::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageRequest,
};
use headrace_model::{Offset, StageId, Timestamp};

use super::appending::Cursor;
use super::record::{Intent, Record};
use super::writing::Stage;
use super::{CompletionEffect, Published, Purpose, Stages};
use crate::api::Outbox;
use crate::partition::Partition;
use crate::retry::{FailingFile, may_try};

#[derive(Debug, Default)]
pub(crate) struct Publishing {
    /// Publications not known to be complete.
    pending: BTreeMap<u64, Vec<StageId>>,
    /// Contents of the file.
    record: Record,
    /// Contents to be stored next.
    wanted: Option<Record>,
    /// Contents being stored.
    storing: Option<Record>,
    /// True until the intent in the file has been processed.
    pub(super) has_unprocessed_intent: bool,
    pub(super) current: Option<Current>,
    /// Number of the last publication that a purge has voided.
    voided_up_to: u64,
    /// True after a purge: damage of the file is ignored.
    pub(super) ignores_damage: bool,
    /// The file, or a stage to be appended, while it cannot be written or read.
    pub(super) failing: Option<Box<FailingFile>>,
}

/// Publication in progress.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) number: u64,
    /// Complete stages of the publication.
    pub(super) stages: Vec<StageId>,
    base: Offset,
    messages: u64,
    pub(super) stages_missing: u32,
    /// Stages that were not read to their end.
    pub(super) damaged: Vec<StageId>,
    pub(super) step: Step,
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
        let current = self.current.iter().map(|current| &current.stages);
        let intents = self.record.intent.iter().map(|intent| &intent.stages);
        let named = self.pending.values().chain(current).chain(intents);
        named.into_iter().any(|stages| stages.contains(&id))
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

    fn add(&mut self, number: u64, stages: &[StageId]) -> bool {
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

    fn is_stored(&self) -> bool {
        self.wanted.is_none() && self.storing.is_none()
    }

    /// Schedule the record without an intent.
    fn mark(&mut self, applied: u64) {
        self.wanted = Some(Record {
            applied: applied.max(self.record.applied),
            intent: None,
        });
    }
}

impl Stages {
    /// Void all publications in progress and pending ones after a purge.
    pub(crate) fn purge(&mut self, out: &mut Vec<StorageRequest>) {
        for stage in core::mem::take(&mut self.set_aside) {
            self.remove(FileName::DamagedStage(stage), Purpose::Disowned, out);
        }
        let publishing = &mut self.publishing;
        let is_under_way = publishing.current.is_some() || !publishing.is_stored();
        if let Some(current) = publishing.current.take() {
            publishing.pending.insert(current.number, current.stages);
        }
        let last = publishing.pending.keys().next_back().copied();
        publishing.voided_up_to = publishing.voided_up_to.max(last.unwrap_or(0));
        let is_news = publishing.voided_up_to > publishing.record.applied;
        if !publishing.has_unprocessed_intent && (is_under_way || is_news) {
            publishing.mark(publishing.voided_up_to);
        }
        let stages: Vec<StageId> = publishing.pending.values().flatten().copied().collect();
        for stage in stages {
            self.drop_stage(stage);
        }
    }

    fn store_record(&mut self, out: &mut Vec<StorageRequest>) {
        if self.publishing.storing.is_some() {
            return;
        }
        if self.publishing.wanted.is_none() || !may_try(&mut self.publishing.failing) {
            return;
        }
        let Some(record) = self.publishing.wanted.take() else {
            return;
        };
        let operation = StorageOperation::Replace {
            file: FileName::Transactions,
            contents: record.encode(self.incarnation),
        };
        self.publishing.storing = Some(record);
        self.operations
            .start_repeated(Purpose::StoreRecord, operation, out);
    }

    pub(super) fn record_stored(
        &mut self,
        now: Timestamp,
        result: Result<(), StorageError>,
    ) -> CompletionEffect {
        let publishing = &mut self.publishing;
        let Some(record) = publishing.storing.take() else {
            return CompletionEffect::Nothing;
        };
        match result {
            Ok(()) => {
                publishing.record = record;
                publishing.recovered();
                CompletionEffect::Nothing
            }
            Err(error) => {
                // The failed write may have stored either record: retry before anything else.
                publishing.wanted.get_or_insert(record);
                if error.kind == StorageErrorKind::NoSpace {
                    publishing.recovered();
                    return CompletionEffect::LacksSpace(error);
                }
                publishing.failing = Some(Box::new(FailingFile::new(
                    FileName::Transactions,
                    error,
                    now,
                )));
                CompletionEffect::Nothing
            }
        }
    }

    /// Complete stages among these, number of missing ones, and number of messages in the complete ones.
    fn look_up(&self, ids: &[StageId]) -> (Vec<StageId>, u32, u64) {
        let is_whole = |id: &StageId| self.all.get(id).is_some_and(Stage::is_whole);
        let (whole, missing): (Vec<_>, Vec<_>) = ids.iter().copied().partition(is_whole);
        let messages = whole.iter().map(|id| self.all[id].messages).sum();
        let missing = u32::try_from(missing.len()).unwrap_or(u32::MAX);
        (whole, missing, messages)
    }

    /// Report publications as complete that a purge or the file marks as such.
    fn skip_complete(&mut self, out: &mut Outbox) {
        let applied = self.publishing.record.applied;
        while let Some(first) = self.publishing.pending.first_entry()
            && *first.key() <= applied
        {
            let (number, stages) = first.remove_entry();
            for stage in stages {
                self.drop_stage(stage);
            }
            out.published.push(Published {
                number,
                base_offset: Offset(0),
                messages_count: 0,
                stages_missing: 0,
            });
        }
    }
}

impl Partition {
    /// Publish the stages of a committed transaction, once, in this order.
    ///
    /// `number` grows with every commit. The host calls this in ascending order, before the end of a turn, with
    /// everything pending in the catalog, as often as it likes; and after the purge that preceded the commit. Returns
    /// whether the publication is complete. If not, [`Outbox::published`] reports its completion.
    pub fn publish(&mut self, number: u64, stages: &[StageId]) -> bool {
        self.stages.publishing.add(number, stages)
    }

    /// Number of the last complete publication: messages of the publications up to it are on the device and are not
    /// published again. 0 before the first one, and before the partition is open.
    pub fn applied(&self) -> u64 {
        self.stages.publishing.applied()
    }

    /// Resume the publication in progress once the log is open.
    pub(crate) fn resume_publication(&mut self) {
        let publishing = &mut self.stages.publishing;
        if !core::mem::take(&mut publishing.has_unprocessed_intent) {
            return;
        }
        let Some(intent) = publishing.record.intent.clone() else {
            return;
        };
        let epoch = self.log.generation().purge_epoch;
        if intent.purge_epoch != epoch {
            // An intent of a later epoch has not begun to append: otherwise the manifest would have that epoch.
            if intent.purge_epoch < epoch {
                publishing.voided_up_to = publishing.voided_up_to.max(intent.number);
            }
            publishing.mark(publishing.voided_up_to);
            return;
        }
        let (stages, stages_missing, messages) = self.stages.look_up(&intent.stages);
        let end = self.log.next_offset();
        let wanted_end = intent.base.advanced_by(intent.messages);
        let is_begun = end > intent.base;
        let step = if end >= wanted_end {
            self.log.flush(true);
            Step::Syncing(wanted_end)
        } else if is_begun {
            Step::Appending(Cursor::after(end.0 - intent.base.0))
        } else {
            Step::Intending
        };
        let current = Current {
            number: intent.number,
            stages,
            base: if is_begun { intent.base } else { end },
            messages: if is_begun { intent.messages } else { messages },
            stages_missing,
            damaged: Vec::new(),
            step,
        };
        for id in &intent.stages {
            if !current.stages.contains(id) {
                self.stages.drop_damaged(*id);
            }
        }
        if !is_begun {
            self.store_intent(&current);
        }
        self.stages.publishing.current = Some(current);
    }

    fn store_intent(&mut self, current: &Current) {
        let publishing = &mut self.stages.publishing;
        publishing.wanted = Some(Record {
            applied: publishing.record.applied,
            intent: Some(Intent {
                number: current.number,
                base: current.base,
                messages: current.messages,
                purge_epoch: self.log.generation().purge_epoch,
                stages: current.stages.clone(),
            }),
        });
    }

    /// Begin the next publication. Returns false if there is none.
    fn begin_publication(&mut self) -> bool {
        let publishing = &mut self.stages.publishing;
        if self.waiting.is_some() || self.log.is_wiping() || !publishing.is_stored() {
            return false;
        }
        if publishing.voided_up_to > publishing.record.applied {
            publishing.mark(publishing.voided_up_to);
            return true;
        }
        let Some((number, ids)) = publishing.pending.pop_first() else {
            return false;
        };
        let (stages, stages_missing, messages) = self.stages.look_up(&ids);
        let current = Current {
            number,
            stages,
            base: self.log.next_offset(),
            messages,
            stages_missing,
            damaged: Vec::new(),
            step: if messages == 0 {
                Step::Marking
            } else {
                Step::Intending
            },
        };
        if messages == 0 {
            self.stages.publishing.mark(number);
        } else {
            self.store_intent(&current);
        }
        for id in ids {
            if !current.stages.contains(&id) {
                self.stages.drop_damaged(id);
            }
        }
        self.stages.publishing.current = Some(current);
        true
    }

    /// Advance publishing as far as possible now.
    pub(crate) fn advance_publishing(&mut self, now: Timestamp, out: &mut Outbox) {
        if !self.stages.is_loaded() || self.stages.publishing.has_unprocessed_intent {
            return;
        }
        self.stages.skip_complete(out);
        let is_held = self.is_closing() || self.offsets.withholds_messages().is_some();
        while self.log.is_open() && !is_held && self.log.failure().is_none() {
            self.stages.store_record(&mut out.storage);
            let publishing = &mut self.stages.publishing;
            let is_stored = publishing.is_stored();
            let Some(current) = &mut publishing.current else {
                if self.begin_publication() {
                    continue;
                }
                return;
            };
            match &mut current.step {
                Step::Intending if is_stored => current.step = Step::Appending(Cursor::after(0)),
                Step::Appending(_) => match self.append_staged(now, out) {
                    Some(end) => {
                        self.log.flush(true);
                        self.log.end_of_turn(now, &mut out.storage);
                        if let Some(current) = &mut self.stages.publishing.current {
                            current.step = Step::Syncing(end);
                        }
                    }
                    None => return,
                },
                Step::Syncing(end) if self.log.synced_end() >= *end => {
                    current.step = Step::Marking;
                    let number = current.number;
                    publishing.mark(number);
                }
                Step::Marking if is_stored => self.end_publication(out),
                Step::Intending | Step::Syncing(_) | Step::Marking => return,
            }
        }
    }

    fn end_publication(&mut self, out: &mut Outbox) {
        let Some(current) = self.stages.publishing.current.take() else {
            return;
        };
        for stage in &current.stages {
            if current.damaged.contains(stage) {
                self.stages.drop_damaged(*stage);
            } else {
                self.stages.drop_stage(*stage);
            }
        }
        out.published.push(Published {
            number: current.number,
            base_offset: current.base,
            messages_count: current.messages,
            stages_missing: current.stages_missing,
        });
    }
}
