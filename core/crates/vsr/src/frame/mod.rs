//! Frames: the messages between replicas and clients, and the records of the journal.
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
//! | 52 | 4 | view of the sender; of a prepare: the view in which it was prepared, never changed |
//! | 56 | 4 | release of the author |
//! | 60 | 1 | command |
//! | 61 | 1 | replica: the author's index; of a client's frame: 0 |
//! | 62 | 2 | protocol |
//! | 64 | 8 | group; 0 in frames of the node itself |
//! | 72 | 4 | epoch of the member list |
//! | 76 | 4 | flags |
//! | 80 | 8 | incarnation: number of starts of the author |
//! | 88 | 40 | zero |
//! | 128 | 128 | the command's area, see [`area`] |

pub mod area;
pub mod body;
mod checksum;
mod command;
pub(crate) mod field;
mod flags;
mod header;
mod layout;
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
pub use layout::{
    HEADER_BYTES, MEMBERS_MAX, METADATA_GROUP, NO_REPLICA, PIPELINE_MAX, PROTOCOL, SUFFIX_MAX,
};
pub use operation::Operation;
pub use reject::Reject;
pub use whole::{Frame, Intake, PrepareFrame};
