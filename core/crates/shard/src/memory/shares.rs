//! Memory shares: limits on the large requests of one user and on his unread answers, so that other users proceed.
//!
//! A user may hold half of what others leave: the first user half, a second one half of the rest, and so on. A large
//! request claims its part before it enters the queue for a buffer, and releases it when it is answered. Any request
//! whose answer may be large claims a part for it before it starts, and its answer holds the part until the client has
//! taken it. A request without room waits among those of the same user, outside that queue. It blocks no other user, and
//! later requests of its connection stay behind it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use headrace_buffer::BufferPool;
use headrace_model::UserId;

use super::Memory;

/// Divisor of the budget for the answers of all users. Their buffers may be twice as large as what they contain, and
/// reads have half of the budget.
const ANSWERS_DIVISOR: u64 = 4;
/// Divisor of what a user has left: the maximum size of his next answer. Answers become smaller before they wait.
const ANSWER_DIVISOR: u64 = 4;
/// Size of the smallest part for an answer. A user who holds nothing always gets one.
pub(super) const ANSWER_BYTES_MIN: u64 = 64 << 10;
/// Size of the largest part for an answer that is not yet known.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Kind of memory that a user holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// Large requests that are not answered.
    Requests,
    /// Answers to come, and those that clients have not taken.
    Answers,
}

/// Shares of users, across all shards. A connection looks up its user's share here once.
#[derive(Debug, Default)]
pub(super) struct Shares {
    by_user: Mutex<BTreeMap<UserId, Share>>,
    totals: Arc<Totals>,
}

/// Memory that all users hold together, by kind.
#[derive(Debug, Default)]
struct Totals {
    bytes: [AtomicU64; 2],
    /// Number of requests that wait for a part of a share.
    waiting: AtomicUsize,
}

/// Memory that one user holds, on all connections.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Holder>);

#[derive(Debug)]
struct Holder {
    user: UserId,
    bytes: [AtomicU64; 2],
    bytes_max: [u64; 2],
    totals: Arc<Totals>,
}

/// Part of a share that one request or answer holds; released when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    share: Share,
    kind: Held,
    bytes: u64,
}

impl Shares {
    fn of(&self, user: UserId, pool: &BufferPool) -> Share {
        // Every change is one insert or remove, so a panic leaves the table consistent.
        let mut shares = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&user) {
            return share.clone();
        }
        shares.retain(|_, share| Arc::strong_count(&share.0) > 1);
        let capacity = pool.capacity_bytes();
        let holder = Holder {
            user,
            bytes: Default::default(),
            bytes_max: [capacity, capacity / ANSWERS_DIVISOR],
            totals: Arc::clone(&self.totals),
        };
        let share = Share(Arc::new(holder));
        shares.insert(user, share.clone());
        share
    }

    /// Return whether a request of any user waits, on any shard.
    pub(super) fn are_awaited(&self) -> bool {
        self.totals.waiting.load(Ordering::Relaxed) > 0
    }
}

impl Share {
    /// Bytes that the user may hold: half of what others leave.
    fn bytes_max(&self, kind: Held) -> u64 {
        let all = self.0.totals.bytes[kind as usize].load(Ordering::Relaxed);
        let others = all.saturating_sub(self.held(kind));
        self.0.bytes_max[kind as usize].saturating_sub(others) / 2
    }

    fn held(&self, kind: Held) -> u64 {
        self.0.bytes[kind as usize].load(Ordering::Relaxed)
    }

    /// Claim a part of the share. A user who holds nothing gets what is there, and more than can ever be there: it
    /// would wait forever.
    pub(super) fn claim(&self, kind: Held, bytes: u64) -> Option<Claim> {
        let bytes_max = self.bytes_max(kind);
        let is_small = kind == Held::Requests || bytes <= ANSWER_BYTES_MIN;
        let all_max = self.0.bytes_max[kind as usize];
        let is_there = is_small || bytes > all_max || bytes <= bytes_max * 2;
        let added = |held: u64| {
            let after = held + bytes;
            (after <= bytes_max || held == 0 && is_there).then_some(after)
        };
        let order = Ordering::Relaxed;
        let claimed = self.0.bytes[kind as usize].fetch_update(order, order, added);
        claimed.ok().map(|_| {
            self.0.totals.bytes[kind as usize].fetch_add(bytes, order);
            Claim {
                share: self.clone(),
                kind,
                bytes,
            }
        })
    }

    pub(super) fn user(&self) -> UserId {
        self.0.user
    }

    /// Count one more request (1), or one less (-1), that waits for a part of the share.
    pub(super) fn count_waiting(&self, change: isize) {
        let waiting = &self.0.totals.waiting;
        waiting.fetch_add(change.cast_unsigned(), Ordering::Relaxed);
    }

    /// Claim a part for an answer of unknown size: smaller, the less is left.
    pub(super) fn claim_answer(&self) -> Option<Claim> {
        let left = (self.bytes_max(Held::Answers)).saturating_sub(self.held(Held::Answers));
        let bytes = (left / ANSWER_DIVISOR).clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX);
        self.claim(Held::Answers, bytes)
    }
}

impl Claim {
    /// A claim that holds nothing yet.
    pub(super) fn empty(share: Share, kind: Held) -> Self {
        Self {
            share,
            kind,
            bytes: 0,
        }
    }

    pub(super) fn kind(&self) -> Held {
        self.kind
    }

    /// Number of bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hold this many bytes instead, whatever is left: they exist.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let change = bytes.wrapping_sub(self.bytes);
        self.bytes = bytes;
        let kind = self.kind as usize;
        self.share.0.bytes[kind].fetch_add(change, Ordering::Relaxed);
        self.share.0.totals.bytes[kind].fetch_add(change, Ordering::Relaxed);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl Memory {
    /// Return the share of a user; `known` is the one that was looked up last.
    pub(super) fn share_of(&self, user: UserId, known: &mut Option<Share>) -> Share {
        let found = known.take_if(|share| share.0.user == user);
        known
            .insert(found.unwrap_or_else(|| self.shares.of(user, &self.pool)))
            .clone()
    }

    /// Return whether a request of any user waits until that user holds less.
    pub(crate) fn has_excess(&self) -> bool {
        self.shares.are_awaited()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_holds_nothing_gets_whatever_it_is() {
        let memory = Memory::new(BufferPool::new(100));
        let share = memory.shares.of(UserId(7), memory.pool());
        let claim = |share: &Share, bytes| share.claim(Held::Requests, bytes);
        let first = claim(&share, 60).expect("nothing is held");
        assert!(claim(&share, 1).is_none(), "more than half is held");
        drop(first);
        assert!(claim(&share, 50).is_some());
    }

    /// Each user leaves half of the rest to the others, and each of them gets a small part.
    #[test]
    fn users_share_what_is_left() {
        let memory = Memory::new(BufferPool::new(64 << 20));
        let of = |user| memory.shares.of(UserId(user), memory.pool());
        let all = |share: &Share| -> Vec<Claim> {
            core::iter::from_fn(|| share.claim_answer()).collect()
        };
        let sum = |claims: &[Claim]| claims.iter().map(Claim::bytes).sum::<u64>();
        let held: Vec<Vec<Claim>> = (0..20).map(|user| all(&of(user))).collect();
        assert!(sum(&held[0]) > 7 << 20 && sum(&held[1]) > 3 << 20);
        assert!(held.iter().all(|claims| !claims.is_empty()));
        let everything: u64 = held.iter().map(|claims| sum(claims)).sum();
        assert!(everything <= (16 << 20) + 20 * ANSWER_BYTES_MIN);
        assert!(
            of(30).claim(Held::Answers, 1 << 20).is_none(),
            "that much is not left"
        );
        drop(held);
        assert!(of(30).claim(Held::Answers, 12 << 20).is_some());
        assert!(
            of(31).claim(Held::Answers, 20 << 20).is_some(),
            "more than there is"
        );
    }

    /// Shares of users without claims are dropped, and those in use stay the same objects.
    #[test]
    fn shares_last_as_long_as_their_claims() {
        let memory = Memory::new(BufferPool::new(100));
        let of = |user| memory.shares.of(UserId(user), memory.pool());
        let share = of(7);
        let _claim = share.claim(Held::Requests, 50);
        drop(of(8));
        drop(of(9));
        assert!(of(7).claim(Held::Requests, 1).is_none());
        let count = memory.shares.by_user.lock().expect("whole").len();
        assert_eq!(count, 2, "7, and 9 until the next comes");
    }
}
