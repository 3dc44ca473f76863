//! Metrics of a whole node.

use std::collections::BTreeMap;

use headrace_buffer::{BufferPool, Purpose};

use crate::{metrics::gauges::ShardReport, metrics::traffic::TrafficReport, scrub::ScrubReport};

/// A snapshot of the metrics of the whole node.
#[derive(Debug, Clone, serde::Serialize)]
pub struct NodeReport {
    /// Reports by shard number.
    pub shards: Vec<ShardReport>,
    /// Number of messages that wait for each shard.
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
    /// Memory of the budget by purpose: those of [`Purpose`], `receive` and `reads`.
    pub memory_bytes: BTreeMap<&'static str, u64>,
    /// Number of client connections.
    pub connections: usize,
    /// Version of the catalog that the shards use.
    pub catalog_version: u64,
    /// Requests, connections and messages since the start.
    pub traffic: TrafficReport,
    /// Number of segments that retention has removed from the partitions that are open.
    pub retention_removed_segments: u64,
    /// Bytes in the removed segments.
    pub retention_removed_bytes: u64,
    /// Number of partitions of topics above their maximum size whose oldest segment cannot be removed.
    pub retention_held_partitions: u64,
    /// Number of directories in `streams/set-aside`, which no partition owns.
    pub set_aside_directories: usize,
    /// Report of the scrub; none if it is switched off.
    pub scrub: Option<ScrubReport>,
    /// Number of log events that were dropped because the queue was full.
    pub events_dropped: u64,
}

/// Read the use of the budget. `receive`: buffers of connections, and batches that are being received or sent; `reads`:
/// data read from files that is being sent.
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
