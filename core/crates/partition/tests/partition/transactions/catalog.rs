//! Model of the metadata service for the transactions of one partition.

use std::collections::{BTreeMap, BTreeSet};

use headrace_model::{StageId, Timestamp};

#[derive(Debug, Default)]
pub struct Catalog {
    /// Number of the last operation.
    pub number: u64,
    /// Timestamp of the last operation, by the clock of the metadata service.
    pub timestamp: u64,
    /// Messages of all commits since the last purge, in order.
    pub committed: BTreeMap<u64, Vec<u64>>,
    /// Publications not reported as complete.
    pub pending: BTreeMap<u64, Vec<StageId>>,
    aborted: BTreeSet<StageId>,
    taken: BTreeSet<StageId>,
}

impl Catalog {
    pub fn new(timestamp: u64) -> Self {
        Self {
            timestamp,
            ..Self::default()
        }
    }

    /// Commit stages. Returns true if the commit was accepted.
    pub fn commit(&mut self, stages: Vec<StageId>, messages: Vec<u64>) -> bool {
        let is_fine = |stage: &StageId| {
            stage.expires_at() > Timestamp(self.timestamp)
                && !self.aborted.contains(stage)
                && !self.taken.contains(stage)
        };
        if !stages.iter().all(is_fine) {
            return false;
        }
        self.number += 1;
        self.taken.extend(&stages);
        self.pending.insert(self.number, stages);
        self.committed.insert(self.number, messages);
        true
    }

    /// Abort a stage. Returns true if the abort was accepted.
    pub fn abort(&mut self, stage: StageId) -> bool {
        self.number += 1;
        !self.taken.contains(&stage) && self.aborted.insert(stage)
    }

    pub fn purge(&mut self) {
        self.number += 1;
        self.committed.clear();
        self.pending.clear();
    }

    pub fn applied(&mut self, number: u64) {
        self.number += 1;
        self.pending.retain(|pending, _| *pending > number);
    }

    pub fn names(&self, stage: StageId) -> bool {
        self.pending.values().any(|stages| stages.contains(&stage))
    }
}
