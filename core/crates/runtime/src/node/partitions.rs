//! Partitions of a node: how far they are, and the check of their files beside the service.

use std::time::Duration;

use headrace_model::{Level, Namespace, NodeId};
use headrace_shard::Hosting;

use super::{Node, lock};
use crate::scrub::{Scrub, ScrubConfig};

impl Node {
    /// Number of partitions of all shards, and the number of those that still recover.
    pub fn recovery(&self) -> (usize, usize) {
        let running = lock(&self.running);
        running
            .shards
            .iter()
            .fold((0, 0), |(partitions, recovering), handle| {
                let report = handle.gauges.report();
                (
                    partitions + report.partitions,
                    recovering + report.recovering,
                )
            })
    }

    /// Partitions that closed themselves after a failure, with the reason.
    pub fn failures(&self) -> Vec<(Namespace, String)> {
        lock(&self.running)
            .shards
            .iter()
            .flat_map(|handle| handle.gauges.failures())
            .collect()
    }

    /// Runs of partition nodes that were tried, by id and incarnation, with true for those that are reached.
    pub fn contacts(&self) -> Vec<((NodeId, u64), bool)> {
        self.contacts.all()
    }

    /// Start to read the files of partitions again, if there are any here.
    pub(super) fn start_scrub(&self) -> Option<Scrub> {
        let config = ScrubConfig {
            data_path: self.config.data_path.clone(),
            catalog: *lock(&self.catalog_identity),
            bytes_per_second: self.config.scrub_bytes_per_second,
            interval: Duration::from_micros(self.config.scrub_interval_micros),
        };
        if config.bytes_per_second == 0 || self.hosting == Hosting::Nothing {
            return None;
        }
        let started = Scrub::start(config, self.events.clone());
        let report = |error| {
            let message = format!("the files of partitions are not read again: {error}");
            self.events.push(Level::Warning, message);
        };
        started.map_err(report).ok()
    }
}
