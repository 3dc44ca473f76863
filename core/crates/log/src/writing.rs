//! Append path: from a batch that arrives to bytes in the files of the log.
//!
//! A batch is admitted (`append`) and stamped in one pass (`stamp`), or verified if it is stamped already (`stamped`). It
//! waits in memory (`tail`), and is written (`write`) and synced (`sync`) together with others.

use fastrand::Rng;
use headrace_model::{Offset, Timestamp};

pub(crate) mod append;
pub(crate) mod stamp;
mod stamped;
mod sync;
pub(crate) mod tail;
pub(crate) mod write;

/// Messages on their way into the files.
///
/// Invariant: `ends.written <= issued_end <= ends.next`, except while a write that failed is to be repeated.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Source of message ids if the client sent none.
    random: Rng,
    /// Messages are being written; at most one write is under way.
    write: bool,
    /// A log file is being synced; at most one sync is under way.
    sync: bool,
    /// An index file is being created or written to; at most one at a time.
    save: bool,
    /// End of the messages handed to a write.
    issued_end: Offset,
    /// End of the messages to be written without waiting for more.
    flush_target: Offset,
    /// End of the messages to be synced without waiting for more.
    sync_target: Offset,
    flush_deadline: Option<Timestamp>,
    sync_deadline: Option<Timestamp>,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            write: false,
            sync: false,
            save: false,
            issued_end: Offset(0),
            flush_target: Offset(0),
            sync_target: Offset(0),
            flush_deadline: None,
            sync_deadline: None,
        }
    }

    /// Continue behind what recovery found, which ends at this offset.
    pub(crate) fn begin_at(&mut self, end: Offset) {
        self.issued_end = end;
        self.flush_target = end;
    }

    /// Forget all work: the messages are dropped, and the outcome of operations under way makes no difference.
    pub(crate) fn clear(&mut self) {
        let random = core::mem::replace(&mut self.random, Rng::with_seed(0));
        *self = Self {
            random,
            ..Self::new(0)
        };
    }

    /// Write all messages without waiting for more, and sync them if `fsync`.
    pub(crate) fn flush(&mut self, fsync: bool, end: Offset) {
        self.flush_target = end;
        if fsync {
            self.sync_target = end;
        }
    }

    /// Time at which a write or a sync is due.
    pub(crate) fn deadlines(&self) -> [Option<Timestamp>; 2] {
        [self.flush_deadline, self.sync_deadline]
    }
}
