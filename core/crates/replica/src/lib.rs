//! Production host of a metadata replica.
//!
//! One thread waits for sockets, timers and its mailbox, passes events to the core and carries out the core's outputs.
//! Separate threads write files, so that a slow disk delays acknowledgements but not heartbeats. The state machine is
//! external: it receives [`ReplicaEvent`]s and answers them.
#![allow(
    clippy::disallowed_methods,
    reason = "the host reads the clock that everything below it is given"
)]

mod config;
mod errors;
mod events;
mod handle;
mod input;
mod inspect;
mod mailbox;
mod neighbours;
mod opening;
mod outputs;
mod peers;
mod rejoin;
mod release;
mod sessions;
mod shared;
mod status;
pub mod stepped;
mod storage;
pub mod surroundings;
mod thread;

pub use config::{ReplicaConfig, TimeoutProfile, TlsConfig};
pub use errors::StartError;
pub use events::{Refusal, ReplicaEvent, Role};
pub use handle::{COMMAND_BYTES_MAX, NotRunning, Replica, Started};
pub use headrace_model::Level;
pub use headrace_vsr::frame::Release;
pub use inspect::{
    CheckpointReport, DataDirectoryReport, JournalFileReport, RecordReport, SuperblockReport,
    inspect,
};
pub use peers::handshake;
pub use sessions::{RequestKind, SessionRequest};
pub use status::{ClockStatus, Counters, PeerStatus, ReplicaStatus, StorageStatus};
