//! Shares of a turn: each user with requests has one, whatever the number of its connections.
//!
//! A shard looks for completions between two turns. So a turn must be short, and a user may not fill it with the
//! requests of many connections. A user whose share is used up waits for the next turn, with its connections in a queue;
//! a connection that has received more goes behind those that wait already. Without others the next turn begins at once.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_model::UserId;

use super::{Sessions, connection::Connection};
use crate::calls::ConnectionKey;

/// Share of one user of a turn: as many small requests, or this part of a millisecond at about a microsecond for each.
const SHARE: i64 = 256;
/// Bytes of requests and answers that take as long as one small request.
const BYTES_PER_UNIT: u64 = 4096;
/// Size up to which answers are sent at once: the answers to many small requests leave together.
const SMALL_ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Holder of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// The user on whose behalf the connection is used.
    User(UserId),
    /// All connections without a login together.
    Unauthenticated,
    /// A gateway, whose own shards give each user a share.
    Link(ConnectionKey),
}

impl Payer {
    /// Holder of the share that a connection uses.
    #[inline]
    pub(crate) fn of(connection: &Connection) -> Self {
        if connection.gateway_link.is_some() {
            return Self::Link(connection.key);
        }
        (connection.session.principal()).map_or(Self::Unauthenticated, Self::User)
    }
}

/// Share of one payer.
#[derive(Debug, Default)]
struct Share {
    /// Turn in which the share was used last.
    turn: u64,
    /// Rest of the share; negative if the last request was larger than the rest.
    left: i64,
    /// Connections that wait for the next turn, in order.
    waiting: VecDeque<ConnectionKey>,
    /// True if the payer is among those with waiting connections.
    is_listed: bool,
}

/// Shares of a shard's turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Number of the present turn.
    number: u64,
    by_payer: HashMap<Payer, Share, FixedState>,
    /// Payers with waiting connections, in the order in which they began to wait.
    awaiting: VecDeque<Payer>,
    /// Rest of the share of the connection that starts requests.
    left: i64,
    /// The connection whose turn has come.
    served: Option<ConnectionKey>,
}

impl Share {
    #[inline]
    fn refresh(&mut self, turn: u64) {
        if self.turn != turn {
            self.turn = turn;
            self.left = SHARE;
        }
    }
}

impl Turns {
    /// Begin to start requests of a connection. Returns false if it has to wait for its turn.
    #[inline]
    pub(crate) fn begin(&mut self, payer: Payer, connection: &mut Connection) -> bool {
        let share = self.by_payer.entry(payer).or_default();
        share.refresh(self.number);
        let is_next = share.waiting.is_empty() || self.served == Some(connection.key);
        if is_next && share.left > 0 && !connection.awaits_turn {
            self.left = share.left;
            return true;
        }
        self.postpone(payer, connection);
        false
    }

    /// Return whether one more request may start; otherwise the connection waits for its turn.
    #[inline]
    pub(crate) fn goes_on(&mut self, payer: Payer, connection: &mut Connection) -> bool {
        if self.left <= 0 {
            self.postpone(payer, connection);
        }
        self.left > 0
    }

    /// Count a request with a payload of this size.
    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.left -= 1 + units(bytes as u64);
    }

    /// End what [`Turns::begin`] has begun.
    #[inline]
    pub(crate) fn end(&mut self, payer: Payer) {
        if let Some(share) = self.by_payer.get_mut(&payer) {
            share.left = self.left;
        }
    }

    fn postpone(&mut self, payer: Payer, connection: &mut Connection) {
        if connection.awaits_turn {
            return;
        }
        connection.awaits_turn = true;
        let share = self.by_payer.entry(payer).or_default();
        if !share.is_listed {
            share.is_listed = true;
            self.awaiting.push_back(payer);
        }
        share.waiting.push_back(connection.key);
    }

    /// Count what a connection is about to send, at most `bytes_max`. Returns false if it has to wait for its turn.
    pub(crate) fn may_send(&mut self, connection: &mut Connection, bytes_max: u64) -> bool {
        let bytes = connection.pipeline.outgoing_bytes().min(bytes_max);
        let payer = Payer::of(connection);
        let share = self.by_payer.entry(payer).or_default();
        share.refresh(self.number);
        let is_next = share.waiting.is_empty() || self.served == Some(connection.key);
        if bytes > SMALL_ANSWER_BYTES_MAX && !(is_next && share.left > 0) {
            self.postpone(payer, connection);
            return false;
        }
        share.left -= units(bytes);
        true
    }

    /// Return whether connections wait for the next turn.
    pub(crate) fn are_awaited(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// Keep a payer listed while it has waiting connections.
    fn put_back(&mut self, payer: Payer) {
        self.served = None;
        if let Some(share) = self.by_payer.get_mut(&payer) {
            share.is_listed = !share.waiting.is_empty();
            if share.is_listed {
                self.awaiting.push_back(payer);
            }
        }
    }

    /// Return the next connection of a payer, while there is something left of its share.
    fn next(&mut self, payer: Payer) -> Option<ConnectionKey> {
        let share = self.by_payer.get_mut(&payer)?;
        share.refresh(self.number);
        if share.left <= 0 {
            return None;
        }
        share.waiting.pop_front()
    }

    /// Forget payers without work.
    pub(crate) fn forget_idle(&mut self) {
        let turn = self.number;
        self.by_payer
            .retain(|_, share| share.turn == turn || !share.waiting.is_empty());
    }
}

impl Sessions {
    /// Return a connection that is in the table, and the shares of its turn.
    pub(crate) fn connection_and_turns(
        &mut self,
        key: ConnectionKey,
    ) -> Option<(&mut Connection, &mut Turns)> {
        let place = self.connections.get_mut(key.index as usize)?;
        let connection = place.as_deref_mut().filter(|found| found.key == key)?;
        Some((connection, &mut self.turns))
    }

    /// Begin a turn. Returns the number of payers that have waited for it.
    pub(crate) fn begin_turn(&mut self) -> usize {
        self.turns.number += 1;
        self.turns.awaiting.len()
    }

    /// Take the payer that has waited longest.
    pub(crate) fn next_payer(&mut self) -> Option<Payer> {
        self.turns.awaiting.pop_front()
    }

    /// Take the next connection of a payer, while there is something left of its share.
    pub(crate) fn next_waiting(&mut self, payer: Payer) -> Option<ConnectionKey> {
        while let Some(key) = self.turns.next(payer) {
            self.turns.served = Some(key);
            if let Some(connection) = self.get_mut(key) {
                connection.awaits_turn = false;
                return Some(key);
            }
        }
        None
    }

    /// End what [`Sessions::next_payer`] has begun.
    pub(crate) fn end_payer(&mut self, payer: Payer) {
        self.turns.put_back(payer);
    }
}

/// Number of small requests that take as long as this many bytes.
fn units(bytes: u64) -> i64 {
    i64::try_from(bytes / BYTES_PER_UNIT).unwrap_or(i64::MAX)
}
