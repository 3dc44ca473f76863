use proptest::prelude::*;

use super::*;

#[test]
fn memory_is_recycled_and_counted() {
    let pool = BufferPool::new(1 << 20);
    let buffer = pool.acquire(1000).expect("within the budget");
    assert_eq!((buffer.len(), buffer.capacity()), (1000, 1024));
    assert_eq!(pool.statistics().in_use_bytes, 1024);
    drop(buffer.freeze().slice(10..20));
    let statistics = pool.statistics();
    assert_eq!(
        (statistics.in_use_bytes, statistics.cached_bytes),
        (0, 1024)
    );
    drop(pool.acquire(600).expect("within the budget"));
    let statistics = pool.statistics();
    assert_eq!((statistics.hits, statistics.misses), (1, 1));
}

/// SHARD-8: buffers of any class are page-aligned.
#[test]
fn whole_pages_are_aligned() {
    let pool = BufferPool::new(64 << 20);
    for length in [4096, 10_000, 70_000, 1_080_020] {
        let buffer = pool.acquire(length).expect("within the budget");
        assert_eq!(buffer.as_ptr().addr() % 4096, 0);
    }
}

/// SHARD-12: the pool refuses requests beyond its budget and never grows.
#[test]
fn a_spent_budget_refuses_until_memory_returns() {
    let pool = BufferPool::new(8192);
    let first = pool.acquire(8192).expect("within the budget");
    let refusal = pool.acquire(1).expect_err("the budget is spent");
    assert_eq!(refusal.in_use_bytes, 8192);
    drop(first);
    assert!(pool.acquire(1).is_ok());
    assert!(pool.acquire(1 << 30).is_err());
    assert_eq!(pool.statistics().refusals, 2);
}

#[test]
fn trimming_gives_free_memory_back() {
    let pool = BufferPool::new(1 << 20);
    let buffers: Vec<_> = (0..4).map(|_| pool.acquire(4096)).collect();
    drop(buffers);
    pool.trim(8192);
    assert_eq!(pool.statistics().cached_bytes, 8192);
    pool.trim(0);
    assert_eq!(pool.statistics().cached_bytes, 0);
}

/// GW-2: after a peak, memory shrinks to what is needed.
#[test]
fn idle_buffers_are_released() {
    let pool = BufferPool::new(1 << 30);
    let acquire = |count: usize| -> Vec<_> {
        (0..count)
            .map(|_| pool.acquire(16 << 20).expect("within the budget"))
            .collect()
    };
    drop(acquire(3));
    drop(pool.acquire(1000));
    // All buffers were in use since the last call.
    assert!(pool.take_idle().is_empty());
    drop(acquire(1));
    // Two buffers were idle, the third was not.
    drop(pool.take_idle());
    assert_eq!(pool.statistics().cached_bytes, (16 << 20) + 1024);
    drop(pool.take_idle());
    // Small buffers stay cached.
    assert_eq!(pool.statistics().cached_bytes, 1024);
    assert!(pool.take_idle().is_empty());
}

proptest! {
    /// SHARD-12: memory in use and free memory stay within the budget, whatever is acquired and released.
    #[test]
    fn the_budget_holds(steps in proptest::collection::vec((0_usize..200_000, any::<bool>()), 1..200)) {
        let pool = BufferPool::new(1 << 20);
        let mut held = Vec::new();
        for (length, give_back) in steps {
            if give_back && !held.is_empty() {
                held.swap_remove(length % held.len());
            } else if let Ok(buffer) = pool.acquire(length) {
                prop_assert!(buffer.capacity() >= length);
                held.push(buffer);
            }
            let statistics = pool.statistics();
            prop_assert!(statistics.in_use_bytes + statistics.cached_bytes <= statistics.capacity_bytes);
            let capacities: usize = held.iter().map(Buffer::capacity).sum();
            prop_assert_eq!(statistics.in_use_bytes, capacities as u64);
        }
        drop(held);
        prop_assert_eq!(pool.statistics().in_use_bytes, 0);
    }
}

/// SHARD-12: receiving large batches leaves a reserve, without which waiting work could never proceed.
#[test]
fn large_batches_leave_a_reserve() {
    let pool = BufferPool::new(1 << 20);
    let mut held = Vec::new();
    while let Ok(buffer) = pool.acquire_to_receive(64 << 10) {
        held.push(buffer);
    }
    assert_eq!(pool.statistics().in_use_bytes, 7 << 17);
    assert!(!pool.has_room_to_receive(64 << 10) && pool.has_room(64 << 10));
    assert!(pool.acquire(128 << 10).is_ok());
    assert_eq!(pool.receivable_bytes_max(), 512 << 10);
}

/// SHARD-12: reads have a share, and do not take memory that is promised to a batch.
#[test]
fn reads_leave_room_for_others() {
    let pool = BufferPool::new(1 << 20);
    let mut held = Vec::new();
    while let Ok(buffer) = pool.acquire_to_read(64 << 10) {
        held.push(buffer.freeze());
    }
    assert_eq!(pool.statistics().reads_bytes, 512 << 10);
    assert!(pool.acquire_to_receive(384 << 10).is_ok());
    assert!(
        pool.acquire_to_read(16 << 10).is_ok(),
        "small ones have a reserve"
    );
    held.truncate(2);
    pool.reserve_against_reads(768 << 10);
    assert!(pool.acquire_to_read(32 << 10).is_err());
    pool.reserve_against_reads(0);
    assert!(pool.acquire_to_read(32 << 10).is_ok());
    drop(held);
    assert_eq!(pool.statistics().reads_bytes, 0);
    // A large message is read if no other read holds memory.
    assert!(pool.acquire_to_read(768 << 10).is_ok());
}

/// SHARD-12: answers of other processes get a part of the reserve, within the share of reads.
#[test]
fn answers_do_not_need_what_batches_hold() {
    let pool = BufferPool::new(1 << 20);
    let mut batches = Vec::new();
    while let Ok(buffer) = pool.acquire_to_receive(64 << 10) {
        batches.push(buffer);
    }
    let answer = pool.acquire_answer(64 << 10);
    assert!(answer.is_ok() && pool.acquire_answer(64 << 10).is_err());
    assert!(pool.acquire(64 << 10).is_ok());
    drop((batches, answer));
    let mut answers = Vec::new();
    while let Ok(buffer) = pool.acquire_answer(64 << 10) {
        answers.push(buffer);
    }
    assert_eq!(pool.statistics().reads_bytes, 512 << 10);
    while let Ok(buffer) = pool.acquire_answer_in_turn(64 << 10) {
        answers.push(buffer);
    }
    assert_eq!(pool.statistics().reads_bytes, 7 << 17);
    drop(answers);
    assert_eq!(pool.statistics().reads_bytes, 0);
}

/// SHARD-12: refusals are remembered; the largest one counts.
#[test]
fn what_was_refused_is_wanted() {
    let pool = BufferPool::new(8192);
    assert!(!pool.is_eviction_requested());
    let held = pool.acquire(8192).expect("within the budget");
    assert!(pool.acquire(300).is_err() && pool.acquire(3000).is_err());
    assert!(pool.acquire(200).is_err() && pool.is_eviction_requested());
    assert_eq!(
        (pool.take_eviction_request(), pool.take_eviction_request()),
        (4096, 0)
    );
    drop(held);
}

/// SHARD-12: memory outside buffers is part of the budget, and never takes most of it.
#[test]
fn memory_outside_buffers_is_within_the_budget() {
    let pool = BufferPool::new(1 << 20);
    let mut index = crate::MemoryAccount::new(pool.clone(), Purpose::Index);
    index.set(128 << 10);
    assert!(pool.acquire(1 << 20).is_err());
    assert!(pool.acquire(768 << 10).is_ok());
    assert!(!pool.has_too_many_indexes());
    index.set(1 << 30);
    assert!(pool.has_too_many_indexes());
    assert!(pool.acquire(768 << 10).is_ok());
    let mut tail = crate::MemoryAccount::new(pool.clone(), Purpose::Tail);
    tail.set(600 << 10);
    assert_eq!(pool.caches_excess_bytes(), 88 << 10);
    assert_eq!(pool.statistics().outside_bytes, 1 << 30);
}
