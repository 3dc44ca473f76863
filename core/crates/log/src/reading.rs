//! Read path: from a start position to messages, in memory or in files.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};

use crate::error::ReadError;
use crate::operations::pending::ReadId;
use crate::reading::cursor::Cursors;
use crate::reading::job::{Job, Messages};
use crate::reading::load::Load;
use crate::reading::plan::Plans;

pub(crate) mod cursor;
pub(crate) mod digest;
mod evict;
mod from_memory;
mod from_storage;
pub(crate) mod job;
mod load;
mod loading;
mod locate;
pub(crate) mod plan;
mod planning;
mod read;
pub(crate) mod verified;

/// Maximum number of reads of one log that wait for the storage.
const READS_MAX: usize = 1024;

/// Reads, loads of indexes and plans under way, and state that speeds up subsequent reads.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Reads under way, at most [`READS_MAX`].
    jobs: Vec<Job>,
    /// Results that were not taken yet.
    finished: Vec<(ReadId, Result<Messages, ReadError>)>,
    next_id: u64,
    cursors: Cursors,
    /// The load under way. Reads that need another index wait for its end.
    load: Option<Box<Load>>,
    plans: Plans,
    /// Time at which reads that lacked memory are repeated.
    repeat_at: Option<Timestamp>,
    /// Time of the last storage read.
    now: Timestamp,
    /// Number of index look-ups so far: identifies the least recently used index.
    clock: u64,
}

impl Reader {
    /// Return whether the index of a segment is being loaded.
    pub(crate) fn is_loading(&self) -> bool {
        self.load.is_some()
    }

    /// Time at which reads that lacked memory are repeated.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.repeat_at
    }

    /// Memory of the bytes that were read ahead.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.cursors.memory_bytes()
    }

    /// Forget the readers in a segment that is being removed.
    pub(crate) fn forget_segment(&mut self, segment: Offset) {
        self.cursors.retain(|place| place.segment != segment);
    }

    /// End all reads as empty after a purge, and drop the cursors.
    pub(crate) fn abort_all(&mut self) {
        for job in self.jobs.drain(..) {
            self.finished.push((job.id, Ok(Messages::default())));
        }
        self.plans.abort_all();
        self.repeat_at = None;
        self.cursors.clear();
        self.load = None;
    }

    fn is_full(&self) -> bool {
        self.jobs.len() >= READS_MAX
    }
}
