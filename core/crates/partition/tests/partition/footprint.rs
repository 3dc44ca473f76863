//! Memory of an idle partition, and pool use of appends.

use std::sync::Arc;

use headrace_buffer::BufferPool;
use headrace_model::{Durability, PartitionStatistics, Timestamp};
use headrace_partition::storage::{StorageCompletion, StorageOutcome};
use headrace_partition::{Outbox, Partition, PollingStrategy, RequestId};

use crate::support::messages::{packed, sent};
use crate::support::world::{World, config};

/// An idle partition takes less than 4 KiB, no pool memory, and needs no timer.
#[test]
fn an_idle_partition_is_small() {
    let pool = BufferPool::new(1 << 20);
    let mut out = Outbox::default();
    let statistics = Arc::new(PartitionStatistics::default());
    let config = config(Durability::Os);
    let now = Timestamp(0);
    let mut partition = Partition::open(config.clone(), statistics, pool.clone(), 1, now, &mut out);
    let request = out.storage.pop().expect("the listing");
    let completion = StorageCompletion {
        id: request.id,
        result: Ok(StorageOutcome::Listed(Vec::new())),
    };
    partition.complete(now, completion, &mut out);
    assert!(partition.is_open() && partition.is_idle());
    assert_eq!(partition.next_deadline(), None);
    assert!(out.storage.is_empty() && out.responses.is_empty());
    assert_eq!(pool.statistics().misses, 0);
    // All members that could allocate are empty collections, except for two shared pointers.
    let size = size_of::<Partition>() + size_of::<PartitionStatistics>();
    assert!(size < 2464, "{size} bytes");

    // After use and eviction of caches, the partition is small again.
    let mut world = World::new(config);
    for number in 0..100 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.poll(PollingStrategy::First, 10);
    for _ in 0..2 {
        world.pass(2_000_000);
        world.settle();
    }
    assert!(world.partition.is_idle(), "synced, and that is recorded");
    assert_ne!(world.partition.memory_bytes(), 0);
    while world.partition.evict_oldest() > 0 {}
    assert_eq!(world.partition.memory_bytes(), 0);
}

/// Small batches share blocks, which grow while they are being filled: many batches take few buffers.
#[test]
fn small_batches_take_few_buffers() {
    let pool = BufferPool::new(1 << 30);
    let mut world = World::with_pool(config(Durability::Os), pool.clone());
    world.settle();
    let before = pool.statistics();
    for number in 0..1000 {
        let messages = packed(&[sent(number, 1000)]);
        world.append_bytes(RequestId(number), &messages, 1);
        world.settle();
    }
    let after = pool.statistics();
    let taken = after.hits + after.misses - before.hits - before.misses;
    assert!(
        taken <= 12,
        "{taken} buffers for a thousand batches, one MB in all"
    );
}
