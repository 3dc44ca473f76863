//! Frames: what replicas and clients send one another, and what the journal holds.
//!
//! A frame is a header of 256 bytes and a body. All numbers are little-endian, nothing is padded by the compiler: each
//! field is written at its byte offset by [`Header::encode`]. Bytes that no field uses are zero, so that there is
//! exactly one encoding of a header, and its checksum is its identity: the same bytes go over the wire, into the
//! journal and out again for repair.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 16 | checksum: XXH3-128 over bytes 16..256 |
//! | 16 | 16 | checksum of the body: XXH3-128, also of an empty one |
//! | 32 | 16 | cluster |
//! | 48 | 4 | size: 256 and the body's length |
//! | 52 | 4 | view of the sender; of a prepare: the view that it was prepared in, for ever |
//! | 56 | 4 | release of the author |
//! | 60 | 1 | command |
//! | 61 | 1 | replica: the author's index; of a client's frame: 0 |
//! | 62 | 2 | protocol |
//! | 64 | 8 | group; 0 in frames of the node itself |
//! | 72 | 4 | epoch of the member list |
//! | 76 | 4 | flags |
//! | 80 | 8 | incarnation: how often the author has started |
//! | 88 | 40 | zero |
//! | 128 | 128 | the command's area, see [`area`] |

pub mod area;
pub mod body;
mod checksum;
mod command;
pub(crate) mod field;
mod flags;
mod header;
mod operation;
mod reject;
mod whole;

#[cfg(test)]
mod tests;

pub use area::{Area, CommandArea};
pub use checksum::{checksum_body, checksum_header, digest};
pub use command::Command;
pub use flags::{FrameFlags, PrepareFlags, Release};
pub use header::{Header, Origin, PrepareHeader};
pub use operation::Operation;
pub use reject::Reject;
pub use whole::{Frame, Intake, PrepareFrame};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 256;

/// The only version of the protocol.
pub const PROTOCOL: u16 = 1;

/// The group that holds the metadata.
pub const METADATA_GROUP: u64 = 1;

/// Uncommitted prepares that a primary has at most.
pub const PIPELINE_MAX: u64 = 32;

/// Headers of a suffix at most: the pipeline and the committed prepare below it.
pub const SUFFIX_MAX: usize = 33;

/// Members of a group at most, learners not counted.
pub const MEMBERS_MAX: usize = 7;

/// Learners of a group at most.
pub const LEARNERS_MAX: usize = 5;

/// "No replica" where a replica's index is expected.
pub const NO_REPLICA: u8 = u8::MAX;
