//! What reaches a replica's thread from the others.

use headrace_buffer::Slice;
use headrace_model::Level;
use headrace_vsr::{api::Event, frame::Release};

use crate::peers::{Dialled, Tls};
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
    /// Something is done that the core has asked for.
    Done(Event),
    /// A peer's image is in place: the state machine has to take it over before the core hears of it.
    Installed {
        token: u64,
        op: u64,
        clients: Slice,
        state: Slice,
    },
    Dialled(Dialled),
    /// The files have other certificates.
    Renewed(Tls),
    /// The disk is full, or is not any more.
    DiskChanged,
    Log(Level, String),
}
