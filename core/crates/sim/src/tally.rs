//! How often things happened: what a sweep reports, and how a path that nobody walks any more is noticed.

use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// One more of `name`.
    pub fn add(&mut self, name: &'static str) {
        self.add_many(name, 1);
    }

    /// Many more of `name`.
    pub fn add_many(&mut self, name: &'static str, many: u64) {
        *self.counts.entry(name).or_default() += many;
    }

    /// How many there are of `name`.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or_default()
    }

    /// Takes over the counts of another run.
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
