//! Configuration of runs of data nodes.

use headrace_model::Durability;
use serde::{Deserialize, Serialize};

use crate::random::Draw;

/// Configuration of data nodes and their partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataOptions {
    /// Durability levels of the topics, one bit each, from the weakest.
    pub levels: u8,
    /// Number of partitions of each topic.
    pub partitions: u8,
    /// Number of shards.
    pub shards: u8,
    /// Size from which a segment is sealed.
    pub segment_bytes: u64,
    /// Memory for messages that are already written.
    pub tail_cache_bytes: u64,
    /// Time between a write and the background sync.
    pub sync_interval_micros: u64,
    /// Maximum time for which messages are queued, with durability `memory`.
    pub flush_interval_micros: u64,
    /// Time for which messages found undamaged are not verified again.
    pub verified_micros: u64,
    /// Policy for indexes: of all segments, of the open one, or of none.
    pub index_caching: u8,
    /// Calls during or after which a client breaks its connection, per million.
    pub hangup_ppm: u32,
}

impl Default for DataOptions {
    fn default() -> Self {
        Self {
            levels: 0b111,
            partitions: 1,
            shards: 1,
            segment_bytes: 1 << 20,
            tail_cache_bytes: 1 << 20,
            sync_interval_micros: 1_000_000,
            flush_interval_micros: 1_000_000,
            verified_micros: 0,
            index_caching: 0,
            hangup_ppm: 0,
        }
    }
}

impl DataOptions {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let small = |number: u64| u8::try_from(number).expect("small");
        Self {
            levels: small(draw.within(1, 7)),
            partitions: small(draw.within(1, 2)),
            shards: small(draw.within(1, 2)),
            segment_bytes: draw.pick(&[2_000, 10_000, 60_000, 1 << 20]),
            tail_cache_bytes: draw.pick(&[0, 8_192, 1 << 20]),
            sync_interval_micros: draw.pick(&[100_000, 1_000_000]),
            flush_interval_micros: draw.pick(&[50_000, 1_000_000]),
            verified_micros: draw.pick(&[0, 500_000, 60_000_000]),
            index_caching: small(draw.below(3)),
            hangup_ppm: draw.pick(&[0, 10_000, 100_000]),
        }
    }

    /// Durability levels of the topics.
    pub fn levels(&self) -> impl Iterator<Item = Durability> {
        let levels = self.levels;
        let all = Durability::ALL.into_iter().enumerate();
        all.filter(move |(bit, _)| levels >> bit & 1 == 1)
            .map(|(_, level)| level)
    }
}
