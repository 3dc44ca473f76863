//! A reading of a whole node.

use std::collections::BTreeMap;

use headrace_buffer::{BufferPool, Purpose};

use crate::{gauges::ShardReport, traffic::TrafficReport};

/// A reading of the whole node.
#[derive(Debug, Clone, serde::Serialize)]
pub struct NodeReport {
    /// By shard.
    pub shards: Vec<ShardReport>,
    /// Messages that wait for each shard.
    pub mailboxes: Vec<usize>,
    /// Bytes of the pool that are in use.
    pub pool_in_use_bytes: u64,
    /// Bytes of the pool that are kept for the next use.
    pub pool_cached_bytes: u64,
    /// The pool's budget.
    pub pool_capacity_bytes: u64,
    /// Buffers that came from the pool's free lists.
    pub pool_hits: u64,
    /// Buffers that had to be allocated.
    pub pool_misses: u64,
    /// Buffers that were refused because the budget was spent.
    pub pool_refusals: u64,
    /// Memory of the budget by what it is for: the purposes of [`Purpose`], `receive` and `reads`.
    pub memory_bytes: BTreeMap<&'static str, u64>,
    /// Client connections.
    pub connections: usize,
    /// Version of the catalogue that the shards act on.
    pub catalog_version: u64,
    /// Requests, connections and messages since the start.
    pub traffic: TrafficReport,
    /// Segments that retention has removed from the partitions that are open.
    pub retention_removed_segments: u64,
    /// Bytes in them.
    pub retention_removed_bytes: u64,
    /// Partitions of topics above their maximum size whose oldest segment cannot be removed.
    pub retention_held_partitions: u64,
    /// Log events that nobody took.
    pub events_dropped: u64,
}

/// Reads how the budget is used. `receive`: buffers of connections, and batches that are on their way in or are being sent;
/// `reads`: what was read from files and is being sent.
pub(crate) fn memory_by_purpose(pool: &BufferPool) -> BTreeMap<&'static str, u64> {
    let statistics = pool.statistics();
    let held = |purpose| pool.held_bytes(purpose);
    let reads = statistics
        .reads_bytes
        .saturating_sub(held(Purpose::ReadAhead));
    let counted = held(Purpose::Tail) + statistics.reads_bytes;
    let receive = statistics.in_use_bytes.saturating_sub(counted);
    let purposes = Purpose::ALL.map(|purpose| (purpose.name(), held(purpose)));
    [("receive", receive), ("reads", reads)]
        .into_iter()
        .chain(purposes)
        .collect()
}
