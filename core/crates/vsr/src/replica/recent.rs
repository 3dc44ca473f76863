//! Recent inputs, kept to analyse an invariant violation.

use alloc::collections::VecDeque;

use crate::api::Event;
use crate::frame::Command;

const KEPT: usize = 64;

/// One input of a replica, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// Monotonic time of the step.
    pub monotonic_ns: u64,
    /// Kind of the input.
    pub kind: InputKind,
}

/// Kind of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A frame of a replica.
    Frame {
        /// Command of the frame.
        command: Command,
        /// Author of the frame.
        replica: u8,
        /// View of the frame.
        view: u32,
    },
    /// Client request, local proposal, or fact reported by the host.
    Request,
    /// The journal finished an append or a truncation.
    Journal {
        /// Token of the output.
        token: u64,
    },
    /// The superblock is durable.
    Superblock {
        /// Token of the output.
        token: u64,
    },
    /// A read or write of checkpoint bytes finished.
    Bytes {
        /// Token of the output.
        token: u64,
    },
    /// The state machine finished an operation, a checkpoint or an installation.
    State {
        /// Operation, or token of an installation.
        number: u64,
    },
    /// Storage failed.
    StorageError,
}

impl InputKind {
    fn of(event: &Event) -> Self {
        match event {
            Event::Frame(frame) => Self::Frame {
                command: frame.header.command(),
                replica: frame.header.replica,
                view: frame.header.view,
            },
            Event::Request(_)
            | Event::Propose(_)
            | Event::CommonRelease(_)
            | Event::PeerConnected => Self::Request,
            Event::Appended { token } | Event::LogTruncated { token } => {
                Self::Journal { token: *token }
            }
            Event::SuperblockWritten { token } => Self::Superblock { token: *token },
            Event::ReadDone { token, .. }
            | Event::ChunkRead { token, .. }
            | Event::ChunkWritten { token } => Self::Bytes { token: *token },
            Event::Applied { op, .. } | Event::CheckpointDone { op, .. } => {
                Self::State { number: *op }
            }
            Event::Installed { token, .. } => Self::State { number: *token },
            Event::StorageError(_) => Self::StorageError,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<Input>);

impl Recent {
    pub(crate) fn note(&mut self, monotonic_ns: u64, event: &Event) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Input {
            monotonic_ns,
            kind: InputKind::of(event),
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Input> {
        self.0.iter()
    }
}
