//! State of the first process and its partitions.

use std::sync::Arc;

use headrace_model::{Namespace, PartitionStatistics};
use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_shard::{ClockState, Meter, Shard};

use super::{GATEWAY, Process, World};

impl World {
    fn process(&self) -> &Process {
        &self.processes[GATEWAY]
    }

    fn all_shards(&self) -> impl Iterator<Item = &Shard> {
        self.processes.iter().flat_map(|process| &process.shards)
    }

    /// Statistics of a shard.
    pub fn meter(&self, shard: usize) -> &Meter {
        self.process().shards[shard].meter()
    }

    /// Numbers of the clients in the registry.
    pub fn registered(&self) -> Vec<u32> {
        let clients = self.process().clients.clients();
        clients.iter().map(|client| client.id.0).collect()
    }

    /// Number of bytes in live buffers.
    pub fn memory_in_use(&self) -> u64 {
        self.process().memory.pool().statistics().in_use_bytes
    }

    /// Earliest deadline of a waiting request on any shard.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadlines = self.all_shards().filter_map(Shard::next_deadline);
        deadlines.map(|deadline| deadline.0).min()
    }

    /// Return whether every shard has no connections left.
    pub fn is_drained(&self) -> bool {
        self.all_shards().all(Shard::is_drained)
    }

    /// Return whether every shard has stopped.
    pub fn is_stopped(&self) -> bool {
        self.all_shards().all(Shard::is_stopped)
    }

    /// Return whether a partition has files.
    pub fn has_directory(&self, namespace: Namespace) -> bool {
        self.files.has_directory(namespace)
    }

    /// Statistics of the topic's partitions.
    pub fn statistics(&self) -> Vec<Arc<PartitionStatistics>> {
        let catalog = self.process().writer.current();
        let records = catalog.partitions();
        records
            .map(|(_, record)| Arc::clone(&record.statistics))
            .collect()
    }

    /// Set the topic's expiry and maximum size.
    pub fn bound_topic(&mut self, expiry_micros: u64, max_size_bytes: u64) {
        let catalog = self.catalog.current();
        let topic = catalog.topics().next().expect("a topic");
        self.publish(vec![Change::TopicPut(records::Topic {
            message_expiry_micros: expiry_micros,
            max_size_bytes,
            ..Self::topic(topic.partitions_count(), 3, 0)
        })]);
    }

    /// Set the relation of the shards' time to the wall clock.
    pub fn set_clock(&mut self, clock: ClockState) {
        for shard in &mut self.processes[GATEWAY].shards {
            shard.set_clock(clock);
        }
    }

    /// Give the next operation of this partition another id, which makes the partition panic at its completion.
    pub fn confuse(&mut self, namespace: Namespace) {
        let held = self
            .storage
            .iter_mut()
            .find(|(_, _, of, _)| *of == namespace);
        held.expect("an operation under way").3.id = 1 << 40;
    }
}
