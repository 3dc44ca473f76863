//! Sizes and numbers that frames of all commands share.

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 256;

/// Only version of the protocol.
pub const PROTOCOL: u16 = 1;

/// Number of the group that holds the metadata.
pub const METADATA_GROUP: u64 = 1;

/// Maximum number of uncommitted prepares of a primary.
pub const PIPELINE_MAX: u64 = 32;

/// Maximum number of headers in a suffix: the pipeline and the committed prepare below it.
pub const SUFFIX_MAX: usize = 33;

/// Maximum number of members of a group.
pub const MEMBERS_MAX: usize = 7;

/// Index that stands for "no replica".
pub const NO_REPLICA: u8 = u8::MAX;
