//! Partitions that requests wait for and connections watch, counted by user.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_model::UserId;

/// Number of partitions that count against the limit of a shard.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    all: usize,
    by_user: HashMap<UserId, usize, FixedState>,
}

impl Costs {
    /// Count this many partitions for a user.
    pub(super) fn add(&mut self, user: UserId, count: usize) {
        self.all += count;
        *self.by_user.entry(user).or_default() += count;
    }

    /// Count this many partitions less for a user.
    pub(super) fn remove(&mut self, user: UserId, count: usize) {
        self.all -= count;
        if let Some(held) = self.by_user.get_mut(&user) {
            *held -= count;
            if *held == 0 {
                self.by_user.remove(&user);
            }
        }
    }

    /// Number of partitions of all users.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// Number of partitions of one user.
    pub(super) fn of(&self, user: UserId) -> usize {
        self.by_user.get(&user).copied().unwrap_or(0)
    }
}
