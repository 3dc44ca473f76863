//! Back-pressure: how much may be on its way to one node's shard.
//!
//! A request that was let in is always taken, so that the bound is passed by at most what one request of each connection
//! brings. Its connection then starts no other until half of the bound is free again.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Peer;
use crate::api::ConnectionKey;

/// What a call takes beside its bytes.
const CALL_OVERHEAD_BYTES: u64 = 256;

/// What a call takes of a budget, for as long as it is not answered. `None`: nobody has the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Charge {
    peer: Option<Peer>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Budget {
    bytes: u64,
    held: Vec<ConnectionKey>,
}

/// The budgets of all links.
#[derive(Debug)]
pub(super) struct Budgets {
    bytes_max: u64,
    by_peer: BTreeMap<Option<Peer>, Budget>,
    held: HashMap<ConnectionKey, Option<Peer>, FixedState>,
}

impl Budgets {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            by_peer: BTreeMap::new(),
            held: HashMap::default(),
        }
    }

    /// A call of so many bytes begins. Its connection is held when that is too much.
    pub(super) fn begin(
        &mut self,
        peer: Option<Peer>,
        bytes: usize,
        connection: ConnectionKey,
    ) -> Charge {
        let bytes = bytes as u64 + CALL_OVERHEAD_BYTES;
        let budget = self.by_peer.entry(peer).or_default();
        budget.bytes += bytes;
        if budget.bytes >= self.bytes_max && self.held.insert(connection, peer).is_none() {
            budget.held.push(connection);
        }
        Charge { peer, bytes }
    }

    /// It has ended. Returns the connections that may go on.
    pub(super) fn end(&mut self, charge: Charge) -> Vec<ConnectionKey> {
        let Some(budget) = self.by_peer.get_mut(&charge.peer) else {
            return Vec::new();
        };
        budget.bytes -= charge.bytes;
        if budget.held.is_empty() || budget.bytes > self.bytes_max / 2 {
            return Vec::new();
        }
        let released = core::mem::take(&mut budget.held);
        for connection in &released {
            self.held.remove(connection);
        }
        released
    }

    #[inline]
    pub(super) fn holds(&self, connection: ConnectionKey) -> bool {
        !self.held.is_empty() && self.held.contains_key(&connection)
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, connection: ConnectionKey) {
        if let Some(peer) = self.held.remove(&connection)
            && let Some(budget) = self.by_peer.get_mut(&peer)
        {
            budget.held.retain(|held| *held != connection);
        }
    }
}
