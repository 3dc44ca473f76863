//! Limits that are part of the formats or of the product's promises.

use crate::Namespace;

/// Streams of one server: ids 0 to 4095.
pub const STREAMS_MAX: u32 = 1 << Namespace::STREAM_BITS;
/// Topics of one stream: ids 0 to 4095.
pub const TOPICS_PER_STREAM_MAX: u32 = 1 << Namespace::TOPIC_BITS;
/// Partitions of one topic: ids 0 to 1,048,575.
pub const PARTITIONS_PER_TOPIC_MAX: u32 = 1 << Namespace::PARTITION_BITS;
/// Partitions that one command may create.
pub const PARTITIONS_PER_COMMAND_MAX: u32 = 1000;
/// Payload of one message.
pub const PAYLOAD_SIZE_BYTES_MAX: u32 = 64_000_000;
/// User headers of one message, all together.
pub const USER_HEADERS_SIZE_BYTES_MAX: u32 = 100_000;
/// Payload of a command other than `SendMessages`.
pub const CONTROL_PAYLOAD_SIZE_BYTES_MAX: u32 = 10 * 1024 * 1024;
/// A segment's size at which it is sealed, at most: positions within it fit 32 bits with room to spare.
pub const SEGMENT_SIZE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// User name length in bytes.
pub const USERNAME_BYTES: core::ops::RangeInclusive<usize> = 3..=50;
/// Password length in bytes.
pub const PASSWORD_BYTES: core::ops::RangeInclusive<usize> = 3..=100;
/// Access token name length in bytes.
pub const ACCESS_TOKEN_NAME_BYTES: core::ops::RangeInclusive<usize> = 3..=30;
/// Slices of one vectored write (the kernel's `IOV_MAX`).
pub const WRITE_SLICES_MAX: usize = 1024;
/// How long staged messages can wait for their commit, at most.
pub const STAGE_LIFETIME_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// Stages that one commit may name: a command with so many stays far below a mebibyte, which is as much as the replicated
/// log takes.
pub const STAGES_PER_COMMAND_MAX: usize = 16_384;
/// What can be kept for a reader.
pub const PIN_SIZE_BYTES_MAX: usize = 256 * 1024;
