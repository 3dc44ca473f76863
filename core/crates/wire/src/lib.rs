//! Codec of the Iggy binary protocol (0.8) in both directions: frames, commands, responses, message views and status
//! codes.
//!
//! Decoding borrows from the input and never panics, whatever the input; an announced count never causes an allocation
//! beyond the bytes that are present. Requests fail with the [`Status`] that the protocol documents for the defect,
//! responses with [`Malformed`]. Encoding appends to a `Vec` and panics only on a value that has no encoding (a name of
//! 0 or of more than 255 bytes); [`Command::try_encode`] is for untrusted values.
//!
//! The crate itself needs `core` and `alloc` only; the hash behind [`hash`] depends on the standard library, because it
//! selects vector instructions at run time.
//!
//! Requests tolerate bytes after a complete payload, because some official clients pad; responses do not, because some
//! official clients refuse them.
#![no_std]

extern crate alloc;

pub mod batch;
mod codes;
pub mod command;
mod consumer;
pub mod frame;
pub mod hash;
pub mod headers;
mod identifier;
mod malformed;
pub mod message;
pub mod newer;
mod partitioning;
pub mod permissions;
mod polling;
mod quota;
mod reader;
pub mod response;
#[cfg(test)]
mod samples;
mod status;
mod writer;

pub use codes::{
    CompressionAlgorithm, NodeRole, NodeStatus, PartitionState, SnapshotCompression, SnapshotKind,
    TransactionOutcome, Transport, UserStatus, WatchAction,
};
pub use command::{Command, CommandCode, SendMessages, SendMetadata};
pub use consumer::{Consumer, ConsumerKind};
pub use identifier::{Identifier, NAME_BYTES_MAX, check_name};
pub use malformed::Malformed;
pub use partitioning::Partitioning;
pub use polling::PollingStrategy;
pub use quota::Quota;
pub use response::Response;
pub use status::{Origin, Status, StatusInfo};
