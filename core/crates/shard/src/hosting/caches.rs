//! Release of cache memory of a shard's partitions.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::Partitions;

impl Partitions {
    /// Release this shard's part of `bytes`, oldest first: in proportion to what its partitions hold of `held_bytes`.
    pub(crate) fn reclaim(&mut self, bytes: u64, held_bytes: u64) {
        let partitions = (self.hosted.iter()).filter_map(|(namespace, hosted)| {
            let partition = hosted.state.partition()?;
            (partition.memory_bytes() > 0).then_some((*namespace, partition))
        });
        let mut own_bytes = 0;
        let mut oldest = BinaryHeap::new();
        for (namespace, partition) in partitions {
            own_bytes += partition.memory_bytes();
            let age = partition.oldest_cached();
            oldest.extend(age.map(|age| Reverse((age, namespace))));
        }
        let part = u128::from(bytes) * u128::from(own_bytes) / u128::from(held_bytes.max(1));
        let mut left = u64::try_from(part).unwrap_or(u64::MAX).max(1);
        while let Some(Reverse((_, namespace))) = oldest.pop() {
            let Some(hosted) = self.hosted.get_mut(&namespace) else {
                continue;
            };
            let evicted = self.steps.take(&mut hosted.state, |partition, _| {
                (partition.evict_oldest(), partition.oldest_cached())
            });
            let Some((bytes, age)) = evicted else {
                continue;
            };
            left = left.saturating_sub(bytes);
            if left == 0 {
                return;
            }
            oldest.extend(age.map(|age| Reverse((age, namespace))));
        }
    }

    /// Unload indexes that can be loaded again.
    pub(crate) fn unload_indexes(&mut self) {
        for hosted in self.hosted.values_mut() {
            self.steps.take(&mut hosted.state, |partition, _| {
                partition.unload_indexes();
            });
        }
    }
}
