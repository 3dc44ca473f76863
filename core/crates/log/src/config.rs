//! Settings of one log.

use headrace_model::{Durability, LogEnd, Namespace, limits};

/// Policy for keeping segment indexes in memory (LOG-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexCaching {
    /// Keep the index of every segment that was read.
    All,
    /// Keep the index of the open segment and those of the segments read last.
    #[default]
    OpenSegment,
    /// Keep only indexes needed by reads under way.
    None,
}

/// Limits on the messages staged for transactions in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLimits {
    /// Maximum number of stages at a time. Default 1024.
    pub count_max: u32,
    /// Maximum size in bytes of one stage's file. Default 1 GiB.
    pub stage_bytes_max: u64,
    /// Maximum size in bytes of all stages. Default 8 GiB.
    pub bytes_max: u64,
    /// Microseconds after which a stage expires. Default 7 days.
    pub lifetime_micros_max: u64,
}

impl StageLimits {
    /// Default limits.
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
    /// Partition of the log; named in errors.
    pub namespace: Namespace,
    /// Identity of the catalog that has the partition, 0 if unknown. Files of another catalog are not opened.
    pub catalog: u128,
    /// Incarnation of the partition. Files of an earlier incarnation are set aside, those of a later one not opened.
    pub incarnation: u64,
    /// Number of purges so far. Files of a smaller epoch are dropped.
    pub purge_epoch: u64,
    /// Durability that appended messages need before they are acknowledged and visible.
    pub durability: Durability,
    /// True if messages are acknowledged and visible once [`Log::commit`](crate::Log::commit) says so. Default false.
    pub replicated: bool,
    /// Size from which a segment is sealed; at most 1 GiB (default).
    pub segment_size_bytes: u64,
    /// Maximum number of messages queued before a write, with durability `memory`. Default 1024.
    pub flush_messages: u32,
    /// Maximum number of bytes queued before a write, with durability `memory`. Default 1 MiB.
    pub flush_bytes: u64,
    /// Maximum time in microseconds that messages are queued before a write, with durability `memory`. Default 30 s.
    pub flush_interval_micros: u64,
    /// Microseconds between a write and the background sync that covers it. Default 1 s; 0 disables background syncs by
    /// time.
    pub sync_interval_micros: u64,
    /// Number of written bytes that starts a background sync. Default 64 MiB; 0 disables background syncs by size.
    pub sync_bytes: u64,
    /// Memory for messages that are already written and are kept for polls. Default 4 MiB.
    pub tail_cache_bytes: u64,
    /// Maximum number of plain consumers with a stored offset. Default 100,000.
    pub consumers_max: u32,
    /// Maximum size in bytes of the messages of one poll; one message is always allowed. Default 16 MiB.
    pub poll_size_bytes_max: u32,
    /// Maximum number of bytes queued for writing before appends are refused as busy. Default 64 MiB.
    pub queue_bytes_max: u64,
    /// Microseconds for which messages read from storage and found undamaged are not verified again. Default 1 minute;
    /// 0 verifies them with every read.
    pub verified_micros: u64,
    /// Policy for keeping indexes in memory.
    pub index_caching: IndexCaching,
    /// Limits on staged messages.
    pub stages: StageLimits,
}

impl LogConfig {
    /// Settings with their defaults for this incarnation of a partition.
    pub const fn new(namespace: Namespace, incarnation: u64) -> Self {
        Self {
            namespace,
            catalog: 0,
            incarnation,
            purge_epoch: 0,
            durability: Durability::Os,
            replicated: false,
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
    /// End of the log before which messages are acknowledged and visible.
    #[inline]
    pub const fn visible_end(&self) -> LogEnd {
        if self.replicated {
            LogEnd::Committed
        } else {
            self.durability.acknowledged_end()
        }
    }
}
