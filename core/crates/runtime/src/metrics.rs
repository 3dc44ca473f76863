//! Counters and gauges of a node: shards, traffic, reports.

pub(crate) mod gauges;
pub(crate) mod report;
pub(crate) mod traffic;
