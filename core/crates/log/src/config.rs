//! Settings of one log.

use headrace_model::{Durability, Namespace, limits};

/// Which indexes of segments stay in memory (LOG-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexCaching {
    /// Those of every segment that was read.
    All,
    /// That of the open segment, and those of the segments read last.
    #[default]
    OpenSegment,
    /// Only what readers that are under way need.
    None,
}

/// What messages that wait for their transaction may take of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLimits {
    /// Stages at a time, at most. Default 1024.
    pub count_max: u32,
    /// Bytes of one stage's file, at most. Default 1 GiB.
    pub stage_bytes_max: u64,
    /// Bytes of all of them, at most. Default 8 GiB.
    pub bytes_max: u64,
    /// Microseconds until a stage expires, at most. Default 7 days.
    pub lifetime_micros_max: u64,
}

impl StageLimits {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        count_max: 1024,
        stage_bytes_max: 1 << 30,
        bytes_max: 8 << 30,
        lifetime_micros_max: limits::STAGE_LIFETIME_SECONDS_MAX as u64 * 1_000_000,
    };
}

/// Settings of one log. Made with [`LogConfig::new`], which fills in the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// Whose log it is; named in errors.
    pub namespace: Namespace,
    /// Which life of the partition this is. Files of another one are dropped.
    pub incarnation: u64,
    /// How often it was purged. Files of a smaller epoch are dropped.
    pub purge_epoch: u64,
    /// When appended messages count as acknowledged and become visible.
    pub durability: Durability,
    /// Size from which a segment is sealed; at most 1 GiB (default).
    pub segment_size_bytes: u64,
    /// With `memory`: messages that wait before they are written, at most. Default 1024.
    pub flush_messages: u32,
    /// With `memory`: bytes that wait before they are written, at most. Default 1 MiB.
    pub flush_bytes: u64,
    /// With `memory`: microseconds that messages wait before they are written. Default 30 s.
    pub flush_interval_micros: u64,
    /// Microseconds between a write and the background sync that covers it. Default 1 s; 0 is never.
    pub sync_interval_micros: u64,
    /// Written bytes that start a background sync. Default 64 MiB; 0 is never.
    pub sync_bytes: u64,
    /// Memory for messages that were written already and are kept for polls. Default 4 MiB.
    pub tail_cache_bytes: u64,
    /// Plain consumers that may have a stored offset. Default 100,000.
    pub consumers_max: u32,
    /// Messages of one poll, at most, in bytes; one message is always allowed. Default 16 MiB.
    pub poll_size_bytes_max: u32,
    /// Bytes that wait to be written, at most, before appends are refused as busy. Default 64 MiB.
    pub queue_bytes_max: u64,
    /// Microseconds for which messages that were read from storage and found undamaged are not verified again. Default
    /// 1 minute; 0: they are verified with every read.
    pub verified_micros: u64,
    /// Which indexes stay in memory.
    pub index_caching: IndexCaching,
    /// What stages may take.
    pub stages: StageLimits,
}

impl LogConfig {
    /// The defaults for this life of this partition.
    pub const fn new(namespace: Namespace, incarnation: u64) -> Self {
        Self {
            namespace,
            incarnation,
            purge_epoch: 0,
            durability: Durability::Os,
            segment_size_bytes: limits::SEGMENT_SIZE_BYTES_MAX,
            flush_messages: 1024,
            flush_bytes: 1 << 20,
            flush_interval_micros: 30_000_000,
            sync_interval_micros: 1_000_000,
            sync_bytes: 64 << 20,
            tail_cache_bytes: 4 << 20,
            consumers_max: 100_000,
            poll_size_bytes_max: 16 << 20,
            queue_bytes_max: 64 << 20,
            verified_micros: 60_000_000,
            index_caching: IndexCaching::OpenSegment,
            stages: StageLimits::DEFAULT,
        }
    }
}
