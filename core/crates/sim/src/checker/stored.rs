//! Checker of the offsets that one consumer has stored in one partition: a register with one writer.

use std::collections::BTreeSet;

use super::messages::End;
use super::violation::{Check, Violation};

/// Offsets that a call stores: one of this range, or none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    range: Option<(u64, u64)>,
    is_acknowledged: bool,
    /// True if it certainly had no effect.
    is_void: bool,
    /// True if a later acknowledged change rules it out.
    is_over: bool,
    /// Severest end of a process that it survives.
    survives: Option<End>,
    /// Number of process ends before it.
    life: usize,
}

/// Changes of the stored offset.
#[derive(Debug)]
pub struct StoredOffset {
    changes: Vec<Change>,
    /// Ends of the process so far.
    ends: Vec<End>,
    /// Processes, by the number of ends before them, that could not write everything: they serve polls all the same, and
    /// drop the offsets that those store.
    failed: BTreeSet<usize>,
    /// True if a crash may have lost messages, so that the offset may have been reduced to the end of the log.
    may_be_clamped: bool,
    /// True if the file of stored offsets was damaged: any earlier value may be back.
    is_damaged: bool,
}

impl Default for StoredOffset {
    fn default() -> Self {
        Self::new()
    }
}

impl StoredOffset {
    /// An offset that was never stored.
    pub fn new() -> Self {
        Self {
            changes: vec![Change {
                range: None,
                is_acknowledged: true,
                is_void: false,
                is_over: false,
                survives: Some(End::Power),
                life: 0,
            }],
            ends: Vec::new(),
            failed: BTreeSet::new(),
            may_be_clamped: false,
            is_damaged: false,
        }
    }

    /// Record a call that stores one of these offsets. Returns its number.
    pub fn begun(&mut self, first: u64, last: u64) -> usize {
        self.changes.push(Change {
            range: Some((first, last)),
            is_acknowledged: false,
            is_void: false,
            is_over: false,
            survives: None,
            life: self.ends.len(),
        });
        self.changes.len() - 1
    }

    /// Record the success of a call, which has stored this offset, or none. `survives`: severest end of the process that the
    /// change survives. `life`: number of ends of the process before the one that has answered.
    pub fn succeeded(
        &mut self,
        number: usize,
        offset: Option<u64>,
        survives: Option<End>,
        life: usize,
    ) {
        let Some(offset) = offset else {
            return self.refused(number);
        };
        let change = &mut self.changes[number];
        change.range = Some((offset, offset));
        let ends = self.ends.get(life..).unwrap_or_default();
        if ends.iter().any(|end| survives.is_none_or(|it| it < *end)) {
            // The answer arrives after the end of its process, which may have taken the change with it.
            return;
        }
        change.is_acknowledged = true;
        change.survives = survives;
        for before in &mut self.changes[..number] {
            // Another call that has no answer yet may still be executed by the same process.
            before.is_over |= before.is_acknowledged || before.life < life;
        }
    }

    /// Record the success of a poll that stores the last offset it has read, as [`succeeded`](Self::succeeded) does.
    pub fn polled(
        &mut self,
        number: usize,
        offset: Option<u64>,
        survives: Option<End>,
        life: usize,
    ) {
        let survives = survives.filter(|_| !self.failed.contains(&life));
        self.succeeded(number, offset, survives, life);
    }

    /// Record that the running process has failed to write.
    pub fn failed(&mut self) {
        self.failed.insert(self.ends.len());
    }

    /// Record the failure of a call that certainly had no effect.
    pub fn refused(&mut self, number: usize) {
        self.changes[number].is_void = true;
    }

    /// Record the end of the process.
    pub fn ended(&mut self, end: End, may_lose_messages: bool) {
        let survives = |it: &Change| it.is_acknowledged && it.survives.is_some_and(|it| it >= end);
        let last = self.changes.iter().rposition(survives).unwrap_or_default();
        for change in &mut self.changes[last..] {
            change.is_over = false;
            // One that this end may have taken is no floor at the next.
            change.survives = change.survives.filter(|it| *it >= end);
        }
        self.ends.push(end);
        self.may_be_clamped |= may_lose_messages;
    }

    /// Record that the next start may find messages missing.
    pub const fn messages_damaged(&mut self) {
        self.may_be_clamped = true;
    }

    /// Record damage to the file of stored offsets.
    pub const fn damaged(&mut self) {
        self.is_damaged = true;
    }

    /// Check what a consumer finds: the stored offset, and the last offset of the partition.
    pub fn found(&self, stored: Option<u64>, last: Option<u64>) -> Result<(), Violation> {
        if let (Some(stored), Some(last)) = (stored, last)
            && stored > last
        {
            let what = format!("offset {stored} is stored, and the last message is {last}");
            return Err(Violation::new(Check::Progress, what));
        }
        let mut possible = self
            .changes
            .iter()
            .filter(|change| !change.is_void && (!change.is_over || self.is_damaged));
        let explains = |change: &Change| match (stored, change.range) {
            (None, None) => true,
            (Some(stored), Some((first, until))) => {
                (first..=until).contains(&stored) || (self.may_be_clamped && stored <= until)
            }
            (None, Some(_)) => self.may_be_clamped,
            (Some(_), None) => false,
        };
        if possible.any(explains) {
            return Ok(());
        }
        let what = format!("offset {stored:?} is stored, which no call explains");
        Err(Violation::new(Check::Linearizability, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(survives: End, offsets: &[u64]) -> StoredOffset {
        let mut register = StoredOffset::new();
        for offset in offsets {
            let number = register.begun(*offset, *offset);
            register.succeeded(number, Some(*offset), Some(survives), 0);
        }
        register
    }

    #[test]
    fn the_last_acknowledged_offset_is_found() {
        let mut register = stored(End::Kill, &[3, 5]);
        assert!(register.found(Some(5), Some(9)).is_ok());
        assert!(register.found(Some(3), Some(9)).is_err());
        assert!(register.found(None, None).is_err());
        assert!(register.found(Some(5), Some(4)).is_err());
        // A call without an answer may have been executed.
        register.begun(7, 8);
        assert!(register.found(Some(8), Some(9)).is_ok());
        assert!(register.found(Some(9), Some(9)).is_err());
    }

    #[test]
    fn an_offset_is_lowered_if_damage_has_taken_messages() {
        let mut register = stored(End::Power, &[5]);
        register.ended(End::Kill, false);
        assert!(register.found(Some(2), Some(2)).is_err());
        register.messages_damaged();
        assert!(register.found(Some(2), Some(2)).is_ok());
        assert!(register.found(None, None).is_ok());
    }

    #[test]
    fn an_offset_that_a_failed_process_has_dropped_is_not_expected() {
        let polled_by = |has_failed: bool| {
            let mut register = stored(End::Kill, &[2]);
            let number = register.begun(4, 9);
            if has_failed {
                register.failed();
            }
            register.ended(End::Kill, false);
            // The answer arrives after the end of its process.
            register.polled(number, Some(9), Some(End::Kill), 0);
            register
        };
        assert!(polled_by(true).found(Some(2), Some(9)).is_ok());
        assert!(polled_by(true).found(Some(9), Some(9)).is_ok());
        assert!(polled_by(false).found(Some(2), Some(9)).is_err());
        // The next process has not failed.
        let mut register = polled_by(true);
        let number = register.begun(5, 5);
        register.polled(number, Some(5), Some(End::Kill), 1);
        register.ended(End::Kill, false);
        assert!(register.found(Some(2), Some(9)).is_err());
    }

    #[test]
    fn a_crash_brings_back_only_what_the_level_allows() {
        let mut register = stored(End::Kill, &[3, 5]);
        register.ended(End::Kill, false);
        assert!(register.found(Some(3), Some(9)).is_err());
        register.ended(End::Power, false);
        assert!(register.found(Some(3), Some(9)).is_ok());
        let number = register.begun(6, 6);
        register.succeeded(number, Some(6), Some(End::Kill), 2);
        assert!(register.found(Some(5), Some(9)).is_err());
        let mut register = stored(End::Power, &[3, 5]);
        register.ended(End::Power, false);
        assert!(register.found(Some(3), Some(9)).is_err());
        // What a loss of power may have taken does not come back because a later change is lost.
        let mut register = stored(End::Kill, &[3, 5]);
        register.ended(End::Power, false);
        let number = register.begun(7, 7);
        register.succeeded(number, Some(7), None, 1);
        register.ended(End::Kill, false);
        assert!(register.found(Some(3), Some(9)).is_ok());
    }
}
