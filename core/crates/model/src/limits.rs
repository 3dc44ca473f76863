//! Limits that are part of the formats or guarantees.

use crate::Namespace;

/// Maximum number of streams of one server: ids 0 to 4095.
pub const STREAMS_MAX: u32 = 1 << Namespace::STREAM_BITS;
/// Maximum number of topics of one stream: ids 0 to 4095.
pub const TOPICS_PER_STREAM_MAX: u32 = 1 << Namespace::TOPIC_BITS;
/// Maximum number of partitions of one topic: ids 0 to 1,048,575.
pub const PARTITIONS_PER_TOPIC_MAX: u32 = 1 << Namespace::PARTITION_BITS;
/// Maximum number of partitions that one command may create.
pub const PARTITIONS_PER_COMMAND_MAX: u32 = 1000;
/// Maximum size of one message's payload.
pub const PAYLOAD_SIZE_BYTES_MAX: u32 = 64_000_000;
/// Maximum total size of one message's user headers.
pub const USER_HEADERS_SIZE_BYTES_MAX: u32 = 100_000;
/// Maximum size of the payload of a command other than `SendMessages`.
pub const CONTROL_PAYLOAD_SIZE_BYTES_MAX: u32 = 10 * 1024 * 1024;
/// Maximum size at which a segment is sealed: positions within a segment fit 32 bits with room to spare.
pub const SEGMENT_SIZE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Allowed length of a user name in bytes.
pub const USERNAME_BYTES: core::ops::RangeInclusive<usize> = 3..=50;
/// Allowed length of a password in bytes.
pub const PASSWORD_BYTES: core::ops::RangeInclusive<usize> = 3..=100;
/// Allowed length of an access token's name in bytes.
pub const ACCESS_TOKEN_NAME_BYTES: core::ops::RangeInclusive<usize> = 3..=30;
/// Maximum number of slices of one vectored write (the kernel's `IOV_MAX`).
pub const WRITE_SLICES_MAX: usize = 1024;
/// Maximum time that staged messages can wait for their commit.
pub const STAGE_LIFETIME_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// Maximum number of stages that one commit may name. A command of that size stays far below a mebibyte, the limit of
/// the replicated log.
pub const STAGES_PER_COMMAND_MAX: usize = 16_384;
/// Maximum size of what can be kept for a reader.
pub const PIN_SIZE_BYTES_MAX: usize = 256 * 1024;
