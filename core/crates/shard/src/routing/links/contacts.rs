//! Contact of this process with the partition nodes, for lists of nodes and of partitions.
//!
//! Accessed when a link opens or is lost, when statistics were gathered, and for lists: never on the data path, so one
//! lock serves all shards.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use headrace_catalog::Node;
use headrace_model::NodeId;

/// Newest experience of each run of a node, by its id and incarnation, of all shards of a process.
///
/// A run without an entry was not tried yet, or the attempt is in progress.
#[derive(Debug, Clone, Default)]
pub struct NodeContacts {
    reached: Arc<Mutex<BTreeMap<(NodeId, u64), bool>>>,
}

impl NodeContacts {
    /// Return whether each run of a node that was tried is reached.
    pub fn all(&self) -> Vec<((NodeId, u64), bool)> {
        let reached = self.lock();
        reached.iter().map(|(run, found)| (*run, *found)).collect()
    }

    pub(super) fn reaches(&self, node: &Node) -> bool {
        let run = (node.id, node.incarnation);
        self.lock().get(&run).copied().unwrap_or(false)
    }

    pub(super) fn note(&self, run: (NodeId, u64), is_reached: bool) {
        self.lock().insert(run, is_reached);
    }

    pub(super) fn forget(&self, run: (NodeId, u64)) {
        self.lock().remove(&run);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(NodeId, u64), bool>> {
        // Poisoned locks are accepted: each change is one operation of the map.
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
