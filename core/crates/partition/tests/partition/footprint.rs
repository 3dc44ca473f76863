//! What a partition at rest costs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use headrace_model::Durability;
use headrace_partition::{Partition, PollingStrategy, Request};

use crate::support::messages::{batch, packed, sent};
use crate::support::world::{World, config, poll};

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Counts per thread, because tests run side by side.
struct Counting;

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size().cast_signed()));
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - layout.size().cast_signed()));
        // SAFETY: the pointer came from `alloc`, that is from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An idle partition takes less than 4 KiB, all of it counted, and wants no timer.
#[test]
fn an_idle_partition_is_small() {
    let mut world = World::new(config(Durability::Os));
    world.settle();
    assert!(world.partition.is_idle());
    assert_eq!(world.partition.next_deadline(), None);
    let own = std::mem::size_of::<Partition>();
    let before = BYTES.get();
    let mut out = headrace_partition::Outbox::default();
    let statistics = std::sync::Arc::clone(&world.statistics);
    let pool = headrace_buffer::BufferPool::new(0);
    let pool_bytes = BYTES.get() - before;
    let mut partition = Partition::open(
        world.config.clone(),
        statistics,
        pool,
        1,
        world.now,
        &mut out,
    );
    let request = out.storage.pop().expect("the listing");
    let listed = headrace_partition::storage::StorageOutcome::Listed(Vec::new());
    let completion = headrace_partition::storage::StorageCompletion {
        id: request.id,
        result: Ok(listed),
    };
    partition.complete(world.now, completion, &mut out);
    assert!(partition.is_open() && partition.is_idle());
    drop(out);
    let heap = BYTES.get() - before - pool_bytes;
    assert!(
        own.cast_signed() + heap < 2048,
        "{own} bytes and {heap} on the heap"
    );

    // After use, and with the memory that only speeds up polls let go, it is small again.
    for number in 0..100 {
        world.append(&[sent(number, 1000)]).expect("appended");
    }
    world.poll(PollingStrategy::First, 10);
    world.pass(2_000_000);
    world.settle();
    world.partition.trim_memory();
    assert!(world.partition.is_idle());
    assert_eq!(world.partition.memory_bytes(), 0);
}

/// The hot path: no allocation per message, and per batch only those of its buffer and its answer.
#[test]
fn appends_and_polls_do_not_allocate_per_message() {
    let mut world = World::new(config(Durability::Memory));
    world.settle();
    let calls = |work: &mut dyn FnMut()| {
        let before = CALLS.get();
        work();
        CALLS.get() - before
    };
    let mut out = headrace_partition::Outbox::default();
    out.answers.reserve(64);
    let now = world.now;
    let ticket = headrace_partition::Ticket(1_000_000);
    let small = packed(&(0..10).map(|number| sent(number, 100)).collect::<Vec<_>>());
    let mut append = |world: &mut World, out: &mut headrace_partition::Outbox| {
        let mut bytes = small.clone();
        calls(&mut || {
            world
                .partition
                .append_in_place(now, ticket, &mut bytes, 10, out)
        })
    };
    append(&mut world, &mut out);
    let steady: usize = (0..10).map(|_| append(&mut world, &mut out)).sum();
    assert!(steady <= 6, "{steady} allocations for ten small batches");

    let thousand: Vec<_> = (0..1000).map(|number| sent(number, 1000)).collect();
    let large = batch(&thousand);
    let request = Request::Append { batch: large };
    let mut request = Some(request);
    let appended = calls(&mut || {
        let request = request.take().expect("once");
        world.partition.submit(now, ticket, request, &mut out);
    });
    assert!(
        appended <= 6,
        "{appended} allocations for a batch of a thousand messages"
    );
    let polled = calls(&mut || {
        let request = poll(PollingStrategy::Offset(110), 1000, None, false);
        world.partition.submit(now, ticket, request, &mut out);
    });
    assert!(
        polled <= 2,
        "{polled} allocations for a poll of a thousand messages"
    );
}
