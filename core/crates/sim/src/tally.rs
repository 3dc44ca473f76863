//! Event counts: reported by a sweep, and used to detect code paths that are not exercised any more.

use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Count one event `name`.
    pub fn add(&mut self, name: &'static str) {
        self.add_many(name, 1);
    }

    /// Count `many` events `name`.
    pub fn add_many(&mut self, name: &'static str, many: u64) {
        *self.counts.entry(name).or_default() += many;
    }

    /// Number of events `name`.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or_default()
    }

    /// Add the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (name, many) in &other.counts {
            self.add_many(name, *many);
        }
    }

    /// All counts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(name, many)| (*name, *many))
    }
}
