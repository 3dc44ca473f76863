//! A reading of a whole node.

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
    /// Client connections.
    pub connections: usize,
    /// Version of the catalogue that the shards act on.
    pub catalog_version: u64,
    /// Requests, connections and messages since the start.
    pub traffic: TrafficReport,
    /// Log events that nobody took.
    pub events_dropped: u64,
}
