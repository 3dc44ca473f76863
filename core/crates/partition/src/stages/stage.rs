//! One stage: its messages, its file and the requests that wait for it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_log::Batch;
use headrace_log::storage::{StorageError, WRITE_BYTES_MAX};
use headrace_model::StageId;
use headrace_model::limits::WRITE_SLICES_MAX;

use super::file::{self, FOOTER_BYTES, Footer, HEADER_BYTES};
use crate::api::{RequestId, Response};

/// A stage: messages that are not visible yet.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) state: State,
    /// True while an operation that changes or syncs the file is under way.
    pub(super) is_busy: bool,
    pub(super) is_complete: bool,
    pub(super) fate: Fate,
    pub(super) chunks: u32,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Length of the file, including queued bytes and the footer.
    pub(super) length: u64,
    pub(super) written: u64,
    pub(super) queue: VecDeque<Slice>,
    pub(super) waiting: Vec<Waiting>,
}

/// Fate of a stage and its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// The file is removed.
    Dropped,
    /// The file is kept under another name.
    SetAside,
}

/// State of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Missing,
    Growing,
    /// Everything before the footer is on the device.
    Synced,
    /// The footer is written.
    Ended,
    /// The whole file is on the device.
    Sealed,
    /// The complete file was found when the partition was opened; it may not be on the device.
    Found,
    /// Found, and synced since then. The footer is read again, from the device: the sync of an earlier process may have
    /// failed, after which another one succeeds without having stored anything.
    Uncached,
    /// Found, but the footer is perhaps not on the device. An earlier process may have acknowledged the stage, and its
    /// transaction may be committed: whatever can be read of it is published.
    Unconfirmed(StorageError),
    /// Found without a valid footer; it may have been complete before it was damaged.
    Unreadable,
}

/// Request that waits until a position is written or the stage is sealed.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request_id: RequestId,
    pub(super) until: Until,
    pub(super) response: Response,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Written(u64),
    Sealed,
}

/// Submitted part of a stage.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) stage: Option<StageId>,
    pub(crate) lifetime_micros: u64,
    pub(crate) number: u32,
    pub(crate) is_last: bool,
    pub(crate) batch: Batch,
}

impl Stage {
    pub(super) fn new(incarnation: u64, id: StageId) -> Self {
        Self {
            state: State::Missing,
            is_busy: false,
            is_complete: false,
            fate: Fate::Stays,
            chunks: 0,
            messages: 0,
            bytes: 0,
            length: (HEADER_BYTES + FOOTER_BYTES) as u64,
            written: 0,
            queue: VecDeque::from([Slice::from_vec(file::header(incarnation, id))]),
            waiting: Vec::new(),
        }
    }

    pub(super) fn found(footer: Footer) -> Self {
        Self {
            state: State::Found,
            is_busy: false,
            is_complete: true,
            fate: Fate::Stays,
            chunks: footer.chunks,
            messages: footer.messages,
            bytes: footer.bytes,
            length: footer.length,
            written: footer.length,
            queue: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// Stage of which only the length of the file is known.
    pub(super) fn unreadable(length: u64) -> Self {
        Self {
            state: State::Unreadable,
            ..Self::found(Footer {
                messages: 0,
                bytes: 0,
                length,
                chunks: 0,
            })
        }
    }

    /// Return whether the stage is complete, so that it can be published.
    pub(super) fn is_whole(&self) -> bool {
        let is_complete = match self.state {
            State::Sealed | State::Found | State::Uncached | State::Unconfirmed(_) => true,
            State::Missing | State::Growing | State::Synced | State::Ended | State::Unreadable => {
                false
            }
        };
        is_complete && self.fate == Fate::Stays
    }

    pub(super) fn queued_bytes(&self) -> u64 {
        self.queue.iter().map(|slice| slice.len() as u64).sum()
    }

    pub(super) fn wait(&mut self, request_id: RequestId, id: StageId, is_last: bool) {
        let until = if is_last {
            Until::Sealed
        } else {
            Until::Written(self.length - FOOTER_BYTES as u64)
        };
        self.waiting.push(Waiting {
            request_id,
            until,
            response: Response::Staged {
                stage: id,
                messages: self.messages,
                bytes: self.bytes,
            },
        });
    }

    /// Gather queued bytes for the next write.
    pub(super) fn gather(&mut self) -> (Vec<Slice>, u64) {
        let (mut slices, mut bytes) = (Vec::new(), 0);
        while slices.len() < WRITE_SLICES_MAX
            && bytes < WRITE_BYTES_MAX
            && let Some(slice) = self.queue.pop_front()
        {
            let taken = slice.len().min(WRITE_BYTES_MAX - bytes);
            if taken < slice.len() {
                self.queue.push_front(slice.slice(taken..));
            }
            bytes += taken;
            slices.push(slice.slice(..taken));
        }
        (slices, bytes as u64)
    }
}
