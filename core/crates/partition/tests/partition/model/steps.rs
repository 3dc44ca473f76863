//! Steps of a test case, and settings of the partition.

use headrace_model::Durability;
use headrace_partition::{IndexCaching, PartitionConfig};
use proptest::prelude::*;

use crate::support::world::config;

#[derive(Debug, Clone)]
pub enum Step {
    /// Append messages of this size, and wait for the response or not.
    Append {
        count: u8,
        length: usize,
        in_place: bool,
        wait: bool,
    },
    Poll {
        strategy: Start,
        count: u32,
        consumer: u8,
        auto_commit: bool,
    },
    /// Poll without waiting for the response.
    PollLater {
        strategy: Start,
        count: u32,
    },
    Store {
        consumer: u8,
        back: u64,
        wait: bool,
    },
    Delete {
        consumer: u8,
        wait: bool,
    },
    Flush {
        fsync: bool,
    },
    DeleteSegments {
        count: u32,
    },
    Purge,
    Time {
        micros: u64,
    },
    /// Set the clock back.
    ClockBack {
        micros: u64,
    },
    Disk {
        steps: u8,
    },
    TrimMemory,
    /// Deny memory or handles to the next operations.
    Exhaust {
        count: usize,
    },
    /// Apply retention by age and by size, followed by that many disk steps.
    Retain {
        age: u64,
        roll_bytes: u64,
        remove_oldest: bool,
        keeps_unread: bool,
        steps: u8,
    },
    Restart,
    Crash {
        power: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub enum Start {
    First,
    Last,
    Next,
    /// Offset relative to the end, so that it is often valid.
    Offset {
        back: u64,
    },
    Timestamp {
        index: u64,
        later: u64,
    },
}

fn starts() -> impl Strategy<Value = Start> {
    prop_oneof![
        1 => Just(Start::First),
        1 => Just(Start::Last),
        3 => Just(Start::Next),
        3 => (0_u64..80).prop_map(|back| Start::Offset { back }),
        3 => (0_u64..80, 0_u64..3).prop_map(|(index, later)| Start::Timestamp { index, later }),
    ]
}

pub fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_u8..6, 0_usize..400, any::<bool>(), any::<bool>())
            .prop_map(|(count, length, in_place, wait)| Step::Append { count, length, in_place, wait }),
        2 => (1_u8..4, 5_000_usize..40_000, any::<bool>())
            .prop_map(|(count, length, wait)| Step::Append { count, length, in_place: false, wait }),
        8 => (starts(), 0_u32..30, 0_u8..3, any::<bool>())
            .prop_map(|(strategy, count, consumer, auto_commit)| Step::Poll { strategy, count, consumer, auto_commit }),
        1 => (starts(), 0_u32..30).prop_map(|(strategy, count)| Step::PollLater { strategy, count }),
        2 => (0_u8..3, 0_u64..20, any::<bool>())
            .prop_map(|(consumer, back, wait)| Step::Store { consumer, back, wait }),
        1 => (0_u8..3, any::<bool>()).prop_map(|(consumer, wait)| Step::Delete { consumer, wait }),
        1 => any::<bool>().prop_map(|fsync| Step::Flush { fsync }),
        1 => (1_u32..4).prop_map(|count| Step::DeleteSegments { count }),
        1 => Just(Step::Purge),
        2 => (0_u64..2_000_000).prop_map(|micros| Step::Time { micros }),
        1 => (0_u64..1000).prop_map(|micros| Step::ClockBack { micros }),
        3 => (1_u8..20).prop_map(|steps| Step::Disk { steps }),
        1 => Just(Step::TrimMemory),
        1 => (1_usize..5).prop_map(|count| Step::Exhaust { count }),
        2 => (0_u64..4_000_000, 1_u64..30_000, any::<bool>(), any::<bool>(), 0_u8..12).prop_map(
            |(age, roll_bytes, remove_oldest, keeps_unread, steps)|
            Step::Retain { age, roll_bytes, remove_oldest, keeps_unread, steps },
        ),
        1 => Just(Step::Restart),
        2 => any::<bool>().prop_map(|power| Step::Crash { power }),
    ]
}

pub fn settings() -> impl Strategy<Value = PartitionConfig> {
    let durability = prop_oneof![
        Just(Durability::Memory),
        Just(Durability::Os),
        Just(Durability::Fsync)
    ];
    let caching = prop_oneof![
        Just(IndexCaching::All),
        Just(IndexCaching::OpenSegment),
        Just(IndexCaching::None)
    ];
    let tail = prop_oneof![Just(0_u64), Just(8_192), Just(1 << 20)];
    let segment = prop_oneof![Just(600_u64), Just(20_000), Just(200_000)];
    (
        durability,
        caching,
        tail,
        segment,
        500_u32..50_000,
        any::<bool>(),
    )
        .prop_map(
            |(
                durability,
                index_caching,
                tail_cache_bytes,
                segment_size_bytes,
                poll_size_bytes_max,
                background,
            )| {
                PartitionConfig {
                    index_caching,
                    tail_cache_bytes,
                    segment_size_bytes,
                    poll_size_bytes_max,
                    flush_messages: 20,
                    flush_bytes: 30_000,
                    sync_interval_micros: if background { 500_000 } else { 0 },
                    ..config(durability)
                }
            },
        )
}
