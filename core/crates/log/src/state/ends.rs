//! Ends of the messages of a log: how far they are appended, written, synced and committed.

use headrace_model::{LogEnd, Offset};

/// Ends of the messages of a log, by how durable they are.
///
/// Invariant: `synced <= written <= next`.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Offset of the next message.
    pub(crate) next: Offset,
    /// End of the messages in the log file.
    pub(crate) written: Offset,
    /// End of the messages on the device.
    pub(crate) synced: Offset,
    /// End of the committed messages, if the log is replicated. Only its owner knows it, so that it starts at the first
    /// message. It never decreases in the life of a log, and the log may be opened with fewer messages.
    pub(crate) committed: Offset,
    /// Timestamp of the last message. Ascends within a segment.
    pub(crate) last_timestamp: u64,
}

impl Ends {
    pub(crate) fn at(&self, end: LogEnd) -> Offset {
        match end {
            LogEnd::Appended => self.next,
            LogEnd::Written => self.written,
            LogEnd::Synced => self.synced,
            LogEnd::Committed => self.committed.min(self.next),
        }
    }

    /// Note that the messages before this offset are committed, as far as the log has them.
    pub(crate) fn commit(&mut self, end: Offset) {
        self.committed = self.committed.max(end.min(self.next));
    }

    /// Begin an empty log at this offset: those before were used.
    pub(crate) fn begin_at(&mut self, offset: Offset) {
        self.next = offset;
        self.written = offset;
        self.synced = offset;
    }
}
