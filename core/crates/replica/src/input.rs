//! Inputs of a replica's thread from other threads.

use headrace_buffer::Slice;
use headrace_model::Level;
use headrace_vsr::{api::Event, frame::Release};

use crate::peers::{DialResult, Tls};
use crate::sessions::SessionRequest;

#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most of them are the large one, which is moved once"
)]
pub(crate) enum Input {
    Propose {
        ticket: u64,
        since: Release,
        command: Slice,
    },
    Request {
        ticket: u64,
        request: SessionRequest,
    },
    ReadIndex {
        ticket: u64,
    },
    Applied {
        op: u64,
        replies: Vec<Slice>,
    },
    Checkpoint {
        op: u64,
        state: Slice,
    },
    Restored {
        op: u64,
    },
    Abdicate,
    Stop,
    /// Completion of an output of the core.
    Done(Event),
    /// The image of a peer is in place: the state machine must restore it before the core receives the event.
    Installed {
        token: u64,
        op: u64,
        clients: Slice,
        state: Slice,
    },
    Dialled(DialResult),
    /// The certificate files have changed.
    Renewed(Tls),
    /// The disk has become full, or has space again.
    DiskChanged,
    Log(Level, String),
}
