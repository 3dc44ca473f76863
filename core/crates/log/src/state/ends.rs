//! Ends of the messages of a log: how far they are appended, written and synced.

use headrace_model::{Durability, LogEnd, Offset};

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
    /// Timestamp of the last message. Ascends within a segment.
    pub(crate) last_timestamp: u64,
}

impl Ends {
    /// End of the messages that are as durable as promised.
    pub(crate) fn visible(&self, durability: Durability) -> Offset {
        match durability.acknowledged_end() {
            LogEnd::Appended => self.next,
            LogEnd::Written => self.written,
            LogEnd::Synced => self.synced,
        }
    }

    /// Begin an empty log at this offset: those before were used.
    pub(crate) fn begin_at(&mut self, offset: Offset) {
        self.next = offset;
        self.written = offset;
        self.synced = offset;
    }
}
