//! Publishing: the intent is stored, the messages are appended and synced, and the publication is marked as complete.
//! Publications run one after the other, in ascending order of their numbers.
//!
//! From the intent until all of its messages are in the log's queue, no other appends are accepted. After a restart the
//! end of the log therefore shows how many of the messages were appended.

mod appending;

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_log::Log;
use headrace_log::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageRequest,
};
use headrace_model::{Offset, StageId, Timestamp};

use super::Stages;
use super::publication::{Current, Cursor, Step, messages_of};
use super::record::{Intent, Part, Record};
use super::state::{CompletionEffect, Purpose};
use crate::api::{Outbox, Published};
use crate::appends::Appends;
use crate::retry::{FailingFile, may_try};

impl Stages {
    /// Void all publications in progress and pending ones after a purge.
    pub(crate) fn purge(&mut self, out: &mut Vec<StorageRequest>) {
        for stage in core::mem::take(&mut self.set_aside) {
            self.remove(FileName::DamagedStage(stage), Purpose::Disowned, out);
        }
        let publishing = &mut self.publishing;
        let is_under_way = publishing.current.is_some() || !publishing.is_stored();
        if let Some(current) = publishing.current.take() {
            let stages = current.parts.iter().map(|part| part.stage).collect();
            publishing.pending.insert(current.number, stages);
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

    /// Part of a publication that this stage is.
    fn part(&self, stage: StageId) -> Part {
        let whole = self.all.get(&stage).filter(|stage| stage.is_whole());
        Part {
            stage,
            messages: Some(whole.map_or(0, |stage| stage.messages)),
            is_damaged: whole.is_none(),
        }
    }

    /// Drop the stages that cannot be published.
    fn drop_missing(&mut self, parts: &[Part]) {
        for part in parts.iter().filter(|part| part.is_damaged) {
            self.drop_damaged(part.stage);
        }
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

/// Publications of a partition, with its log.
pub(crate) struct Publisher<'a> {
    pub(crate) stages: &'a mut Stages,
    pub(crate) log: &'a mut Log,
    pub(crate) appends: &'a mut Appends,
    /// True until requests are handled: no publication begins.
    pub(crate) is_opening: bool,
    pub(crate) is_closing: bool,
    /// True while no messages may be appended, because another file does not permit it.
    pub(crate) is_withheld: bool,
}

impl Publisher<'_> {
    /// Resume the publication in progress once the log is open.
    pub(crate) fn resume(&mut self) {
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
        let end = self.log.next_offset();
        let is_begun = end > intent.base;
        let parts = if is_begun {
            self.counted_parts(&intent)
        } else {
            let stages = intent.parts.iter().map(|part| part.stage);
            stages.map(|stage| self.stages.part(stage)).collect()
        };
        let wanted_end = intent.base.advanced_by(messages_of(&parts));
        let step = if is_begun && end >= wanted_end {
            self.log.flush(true);
            Step::Syncing(wanted_end)
        } else if is_begun {
            Step::Appending(Cursor::after(&parts, end.0 - intent.base.0))
        } else {
            Step::Intending
        };
        let current = Current {
            number: intent.number,
            parts,
            base: if is_begun { intent.base } else { end },
            step,
        };
        if !is_begun {
            self.stages.drop_missing(&current.parts);
            self.store_intent(&current);
        }
        self.stages.publishing.current = Some(current);
    }

    /// Parts of a publication that has begun, with the messages that each has in the log. Records of the first version
    /// have only the sum: it is right if at most one stage is missing since then.
    fn counted_parts(&self, intent: &Intent) -> Vec<Part> {
        let mut parts = intent.parts.clone();
        if parts.iter().all(|part| part.messages.is_some()) {
            return parts;
        }
        for part in &mut parts {
            *part = self.stages.part(part.stage);
        }
        let rest = intent.messages.saturating_sub(messages_of(&parts));
        if let Some(missing) = parts.iter_mut().find(|part| part.is_damaged) {
            missing.messages = Some(rest);
        }
        parts
    }

    /// End the current part of the publication. If it has other messages than intended, which are known only now, the
    /// intent is corrected before those of the next part are appended: otherwise the end of the log would not show
    /// where to go on after a restart.
    fn end_part(&mut self, is_damaged: bool) {
        let end = self.log.next_offset();
        let Some(mut current) = self.stages.publishing.current.take() else {
            return;
        };
        if let Step::Appending(cursor) = &mut current.step {
            let index = cursor.next_part();
            let before = current
                .base
                .advanced_by(messages_of(&current.parts[..index]));
            let messages = Some(end.0.saturating_sub(before.0));
            let part = &mut current.parts[index];
            let is_news = part.messages != messages || is_damaged && !part.is_damaged;
            part.messages = messages;
            part.is_damaged |= is_damaged;
            if is_news {
                self.store_intent(&current);
            }
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
                messages: current.messages(),
                purge_epoch: self.log.generation().purge_epoch,
                parts: current.parts.clone(),
            }),
        });
    }

    /// Begin the next publication. Returns false if there is none.
    fn begin(&mut self) -> bool {
        let publishing = &mut self.stages.publishing;
        if self.is_opening || self.log.is_wiping() || !publishing.is_stored() {
            return false;
        }
        if publishing.voided_up_to > publishing.record.applied {
            publishing.mark(publishing.voided_up_to);
            return true;
        }
        let Some((number, ids)) = publishing.pending.pop_first() else {
            return false;
        };
        let parts: Vec<Part> = ids.iter().map(|id| self.stages.part(*id)).collect();
        let has_messages = messages_of(&parts) > 0;
        self.stages.drop_missing(&parts);
        let current = Current {
            number,
            parts,
            base: self.log.next_offset(),
            step: if has_messages {
                Step::Intending
            } else {
                Step::Marking
            },
        };
        if has_messages {
            self.store_intent(&current);
        } else {
            self.stages.publishing.mark(number);
        }
        self.stages.publishing.current = Some(current);
        true
    }

    /// Advance publishing as far as possible now.
    pub(crate) fn advance(&mut self, now: Timestamp, out: &mut Outbox) {
        if !self.stages.is_loaded() || self.stages.publishing.has_unprocessed_intent {
            return;
        }
        self.stages.skip_complete(out);
        let is_held = self.is_closing || self.is_withheld;
        while self.log.is_open() && !is_held && self.log.failure().is_none() {
            self.stages.store_record(&mut out.storage);
            let publishing = &mut self.stages.publishing;
            let is_stored = publishing.is_stored();
            let Some(current) = &mut publishing.current else {
                if self.begin() {
                    continue;
                }
                return;
            };
            match &mut current.step {
                Step::Intending if is_stored => {
                    current.step = Step::Appending(Cursor::after(&current.parts, 0));
                }
                Step::Appending(_) if !is_stored => return,
                Step::Appending(_) => match self.append_staged(now, out) {
                    Some(end) => {
                        self.log.flush(true);
                        self.log.end_of_turn(now, &mut out.storage);
                        if let Some(current) = &mut self.stages.publishing.current {
                            current.step = Step::Syncing(end);
                        }
                    }
                    None if !self.stages.publishing.is_stored() => {}
                    None => return,
                },
                Step::Syncing(end) if self.log.synced_end() >= *end => {
                    current.step = Step::Marking;
                    let number = current.number;
                    publishing.mark(number);
                }
                Step::Marking if is_stored => self.end(out),
                Step::Intending | Step::Syncing(_) | Step::Marking => return,
            }
        }
    }

    fn end(&mut self, out: &mut Outbox) {
        let Some(current) = self.stages.publishing.current.take() else {
            return;
        };
        self.stages.drop_missing(&current.parts);
        for part in &current.parts {
            self.stages.drop_stage(part.stage);
        }
        out.published.push(Published {
            number: current.number,
            base_offset: current.base,
            messages_count: current.messages(),
            stages_missing: current.stages_missing(),
        });
    }
}
