//! The classic binary protocol, both directions: frames, commands, responses, message views and status codes.
//!
//! Decoding borrows from the bytes it is given and never panics, whatever they hold; nothing is allocated by a
//! count that the bytes do not back. Requests fail with the [`Status`] that the protocol documents for the
//! defect, responses with [`Malformed`]. Encoding appends to a `Vec` and panics only on a value that has no
//! encoding (a name of 0 or of more than 255 bytes); [`Command::try_encode`] is for values from outside.
//!
//! The crate itself needs `core` and `alloc` only; the hash behind [`hash`] brings the standard library along, because
//! choosing vector instructions at run time needs it.
//!
//! Requests tolerate bytes after a complete payload, because some official clients pad; responses do not,
//! because some official clients refuse them.
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
mod partitioning;
pub mod permissions;
mod polling;
mod reader;
pub mod response;
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
pub use response::Response;
pub use status::{Origin, Status, StatusInfo};
