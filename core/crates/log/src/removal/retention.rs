//! Bounds of retention, and requests to apply them (LOG-6).

use headrace_model::{Offset, Timestamp};

/// Retention bounds of a log at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionRule {
    /// Age at which the messages of sealed segments are removed; `u64::MAX` keeps messages of any age.
    pub expiry_micros: u64,
    /// Age of its first message at which the open segment is sealed; `u64::MAX` seals it at no age.
    pub roll_micros: u64,
    /// Size from which the open segment is sealed.
    pub roll_bytes: u64,
}

impl RetentionRule {
    /// Bounds at a time.
    pub fn at(&self, time: Timestamp) -> Retention {
        let before = |age: u64| Timestamp(time.0.saturating_sub(age));
        Retention {
            expired_before: before(self.expiry_micros),
            roll_before: before(self.roll_micros),
            roll_bytes: self.roll_bytes,
        }
    }
}

/// Retention bounds of a log at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Sealed segments whose messages are all older are removed; 0 keeps messages of any age.
    pub expired_before: Timestamp,
    /// Time before which the first message of the open segment must be for the segment to be sealed.
    pub roll_before: Timestamp,
    /// Size from which the open segment is sealed.
    pub roll_bytes: u64,
}

/// Request to apply the bounds in progress; timestamps may have to be read first.
#[derive(Debug)]
pub(crate) struct RetentionRequest {
    pub(crate) retention: Retention,
    /// Offset beyond which messages keep their segment.
    pub(crate) barrier: Option<Offset>,
    /// Segment whose index was requested. A load that yields no timestamp is not repeated before the next request.
    pub(crate) asked: Option<Offset>,
}

/// Number of segments removed by retention and their bytes, since the log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Segments.
    pub segments: u64,
    /// Bytes of messages.
    pub bytes: u64,
}

/// Result of a request to remove segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalProgress {
    /// Mark for [`Log::removals_done`](crate::Log::removals_done).
    pub sequence: u64,
    /// Number of further segments that may be removed once the oldest one, sealed just now, is on the device. Repeat
    /// the request then.
    pub remaining: u32,
}
