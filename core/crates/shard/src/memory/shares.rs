//! Memory shares: a limit on the large requests of one user, so that those of other users proceed.
//!
//! A request claims its part before it enters the queue for a buffer, and releases it when it is answered. A request
//! without room waits among those of the same user, outside that queue. It blocks no other user, and later requests of
//! its connection stay behind it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use headrace_buffer::BufferPool;
use headrace_model::UserId;

use super::Memory;
use crate::{
    Shard,
    api::ConnectionKey,
    sessions::connection::{Connection, Session},
};

/// Divisor of the budget that limits the large requests of one user.
const SHARE_DIVISOR: u64 = 2;

/// Shares of users with large requests, across all shards. A connection looks up its user's share here once.
#[derive(Debug, Default)]
pub(super) struct Shares(Mutex<BTreeMap<UserId, Share>>);

/// Memory that the large requests of one user hold, on all connections.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Held>);

#[derive(Debug)]
struct Held {
    user: UserId,
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Part of a share that one request holds; released when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    share: Share,
    bytes: u64,
}

/// Connections of a shard that wait until their users hold less.
#[derive(Debug, Default)]
pub(crate) struct Excess {
    last_turn: u64,
    by_user: BTreeMap<UserId, Waiting>,
}

/// Waiting requests of one user, in order of arrival.
#[derive(Debug)]
struct Waiting {
    share: Share,
    requests: VecDeque<Request>,
}

/// A large request that waits for a part of the share.
#[derive(Debug, Clone, Copy)]
struct Request {
    key: ConnectionKey,
    turn: u64,
    bytes: u64,
}

impl Excess {
    /// Return whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.by_user.is_empty()
    }
}

impl Shares {
    fn of(&self, user: UserId, pool: &BufferPool) -> Share {
        // Every change is one insert or remove, so a panic leaves the table consistent.
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&user) {
            return share.clone();
        }
        shares.retain(|_, share| Arc::strong_count(&share.0) > 1);
        let held = Held {
            user,
            bytes: AtomicU64::new(0),
            bytes_max: pool.capacity_bytes() / SHARE_DIVISOR,
        };
        let share = Share(Arc::new(held));
        shares.insert(user, share.clone());
        share
    }
}

impl Share {
    /// Claim a part of the share. A user who holds nothing always succeeds: a request larger than the share would wait
    /// forever.
    fn claim(&self, bytes: u64) -> Option<Claim> {
        let added = |held: u64| {
            let after = held + bytes;
            (held == 0 || after <= self.0.bytes_max).then_some(after)
        };
        let order = Ordering::Relaxed;
        let claimed = self.0.bytes.fetch_update(order, order, added);
        claimed.ok().map(|_| Claim {
            share: self.clone(),
            bytes,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.share.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Memory {
    /// Return the share of the session's user; `None` if the peer is a service.
    fn share_of(&self, session: &mut Session) -> Option<Share> {
        let user = session.principal()?;
        let known = session.share.take_if(|share| share.0.user == user);
        session.share = Some(known.unwrap_or_else(|| self.shares.of(user, &self.pool)));
        session.share.clone()
    }
}

impl Shard {
    /// Claim memory for a large payload on behalf of the session's user. Returns false if the request waits until
    /// others of the user are answered.
    pub(crate) fn claim_memory(&mut self, connection: &mut Connection, bytes: usize) -> bool {
        if connection.inbox.has_claim() {
            return true;
        }
        if connection.share_turn > 0 {
            return false;
        }
        let Some(share) = self.memory.shared.share_of(&mut connection.session) else {
            return true;
        };
        let bytes = BufferPool::size_bytes(bytes);
        let user = share.0.user;
        // Earlier requests of the user come first.
        if !self.memory.excess.by_user.contains_key(&user)
            && let Some(claim) = share.claim(bytes)
        {
            connection.inbox.hold(Some(claim));
            return true;
        }
        self.memory.excess.last_turn += 1;
        connection.share_turn = self.memory.excess.last_turn;
        let waiting = self
            .memory
            .excess
            .by_user
            .entry(user)
            .or_insert_with(|| Waiting {
                share,
                requests: VecDeque::new(),
            });
        waiting.requests.push_back(Request {
            key: connection.key,
            turn: connection.share_turn,
            bytes,
        });
        false
    }

    /// Resume requests whose users have room in their shares again.
    pub(super) fn serve_excess(&mut self) {
        let mut by_user = core::mem::take(&mut self.memory.excess.by_user);
        by_user.retain(|_, waiting| {
            while let Some(first) = waiting.requests.front().copied() {
                let waits = |connection: &&mut Connection| {
                    connection.share_turn == first.turn && !connection.closing
                };
                if let Some(connection) = self.sessions.get_mut(first.key).filter(waits) {
                    let Some(claim) = waiting.share.claim(first.bytes) else {
                        return true;
                    };
                    connection.share_turn = 0;
                    connection.inbox.hold(Some(claim));
                    self.sessions.touch(first.key);
                }
                waiting.requests.pop_front();
            }
            false
        });
        self.memory.excess.by_user = by_user;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_holds_nothing_gets_whatever_it_is() {
        let memory = Memory::new(BufferPool::new(100));
        let share = memory.shares.of(UserId(7), memory.pool());
        let first = share.claim(60).expect("nothing is held");
        assert!(share.claim(1).is_none(), "more than half is held");
        let other = memory.shares.of(UserId(8), memory.pool());
        let claims = [other.claim(30), other.claim(20), other.claim(1)];
        assert_eq!(claims.map(|claim| claim.is_some()), [true, true, false]);
        drop(first);
        assert!(share.claim(50).is_some());
    }

    /// Shares of users without claims are dropped, and those in use stay the same objects.
    #[test]
    fn shares_last_as_long_as_their_claims() {
        let memory = Memory::new(BufferPool::new(100));
        let share = memory.shares.of(UserId(7), memory.pool());
        let _claim = share.claim(50);
        drop(memory.shares.of(UserId(8), memory.pool()));
        drop(memory.shares.of(UserId(9), memory.pool()));
        assert!(
            memory
                .shares
                .of(UserId(7), memory.pool())
                .claim(1)
                .is_none()
        );
        let count = memory.shares.0.lock().expect("whole").len();
        assert_eq!(count, 2, "7, and 9 until the next comes");
    }
}
