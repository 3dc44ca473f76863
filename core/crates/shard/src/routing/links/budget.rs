//! Back-pressure: the limit on bytes in flight to one shard of a node.
//!
//! An admitted request is always accepted, so the limit is exceeded by at most one request of each connection. Such a
//! connection starts no other request until half of the limit is free again.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::calls::{ConnectionKey, Peer};

/// Memory of a call besides its bytes.
const CALL_OVERHEAD_BYTES: u64 = 256;

/// Part of a budget that a call holds until it is answered. `None` if no node hosts the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Charge {
    peer: Option<Peer>,
    bytes: u64,
}

impl Charge {
    /// Charge of a poll that may wait. The number of partitions that are waited for has its own limit, and a wait says
    /// nothing about how busy the node is.
    pub(super) const fn none(peer: Option<Peer>) -> Self {
        Self { peer, bytes: 0 }
    }
}

#[derive(Debug, Default)]
struct Budget {
    bytes: u64,
    held: Vec<ConnectionKey>,
}

/// Budgets of all links.
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

    /// Charge a call of this many bytes. The connection is held if that exceeds the budget.
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

    /// Release the charge of a completed call. Returns the connections that may continue.
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

    /// Remove a closed connection.
    pub(super) fn forget(&mut self, connection: ConnectionKey) {
        if let Some(peer) = self.held.remove(&connection)
            && let Some(budget) = self.by_peer.get_mut(&peer)
        {
            budget.held.retain(|held| *held != connection);
        }
    }
}
